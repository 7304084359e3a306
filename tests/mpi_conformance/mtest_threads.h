/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mtest_threads.h: threads of a rank that run one function, and count their wrong results.
 */
#ifndef MTEST_THREADS_H
#define MTEST_THREADS_H

#include "mtest.h"

#include <pthread.h>

#define MTEST_THREADS_MAX 16

static int mtest_n_wrong[MTEST_THREADS_MAX]; /* results, by thread */

static inline void mtest_thread_check(int thread, int is_right)
{
    mtest_n_wrong[thread] += !is_right;
}

/* Initializes MPI for programs whose threads call it. */
static inline void mtest_init_threads(int *argc, char ***argv, int min_ranks)
{
    int provided;

    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(min_ranks);
    if (provided < MPI_THREAD_MULTIPLE)
        mtest_skip("needs MPI_THREAD_MULTIPLE");
}

/* The argument of such a function is its number. */
static inline int mtest_thread_number(const void *arg)
{
    return (int)(intptr_t)arg;
}

/* Threads first .. n - 1 run the function, and the main thread does so as number 0 if first is 1. Reports wrong results. */
static inline void mtest_run_threads(int first, int n, void *(*run)(void *))
{
    pthread_t threads[MTEST_THREADS_MAX];

    for (int i = first; i < n; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i) != 0) {
            fprintf(stderr, "rank %d cannot start a thread\n", mtest_rank);
            mtest_give_up();
        }
    if (first == 1)
        run((void *)0);
    for (int i = first; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        MTEST_CHECK(mtest_n_wrong[i] == 0, "thread %d: %d wrong results", i, mtest_n_wrong[i]);
}

#endif
