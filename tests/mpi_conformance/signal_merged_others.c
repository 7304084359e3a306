/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal to all ranks comes to each, though the kernel merges it with an equal one that a thread has sent to the main thread of
 * another rank. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtest.h"

static struct state {
    atomic_int is_handling; /* the last rank's handler runs: its OS thread blocks the signal */
    atomic_int is_sent;     /* and another is pending for the rank before it */
    atomic_int is_over;     /* the handler ends */
} * state;                  /* of all ranks */

static atomic_int n_handled;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    if (atomic_fetch_add(&n_handled, 1) > 0 || mtest_rank < mtest_size - 1)
        return;
    atomic_store(&state->is_handling, 1);
    while (!atomic_load(&state->is_over))
        ;
}

static void *send_one(void *nothing)
{
    while (!atomic_load(&state->is_handling))
        sched_yield();
    MTEST_CHECK(pthread_kill(main_thread, SIGUSR1) == 0, "pthread_kill has failed");
    atomic_store(&state->is_sent, 1);
    return nothing;
}

/* A signal to the process, from another one. */
static void signal_all(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        union sigval none = {.sival_int = 0};
        _exit(sigqueue(getppid(), SIGUSR1, none) != 0);
    }
    MTEST_CHECK(waitpid(pid, NULL, 0) == pid, "no child");
    while (!atomic_load(&n_handled))
        ;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(6);
    if (mtest_rank == 0)
        state = calloc(1, sizeof *state);
    MTEST_OK(MPI_Bcast(&state, sizeof state, MPI_BYTE, 0, MPI_COMM_WORLD));
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == mtest_size - 2)
        MTEST_CHECK(pthread_create(&thread, NULL, send_one, NULL) == 0, "no thread");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* the last rank's handler lets no rank of its PE run */
    if (mtest_rank == mtest_size - 1)
        MTEST_CHECK(pthread_kill(main_thread, SIGUSR1) == 0, "pthread_kill has failed");
    if (mtest_rank == 0) {
        while (!atomic_load(&state->is_sent))
            sched_yield();
        signal_all();
        atomic_store(&state->is_over, 1);
    }
    if (mtest_rank == mtest_size - 2)
        pthread_join(thread, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    while (!atomic_load(&n_handled)) /* until the test's limit, if it is lost */
        sched_yield();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        free(state);
    return mtest_end();
}
