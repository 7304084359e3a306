/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of several ranks send the same signal to their main threads at once: each handler runs, though the kernel merges equal
 * signals to one OS thread. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "mtest.h"

enum { ROUNDS = 200 };

static atomic_int n_handled;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&n_handled, 1);
}

/* Each signal is sent when the handler has run for the last one, so none of the rank's own are merged. */
static void *send_signals(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        MTEST_CHECK(pthread_kill(main_thread, SIGUSR1) == 0, "pthread_kill has failed");
        while (atomic_load(&n_handled) == i)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(pthread_create(&thread, NULL, send_signals, NULL) == 0, "no thread");
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    pthread_join(thread, NULL);
    MTEST_CHECK(n_handled == ROUNDS, "the handler ran %d times, not %d", (int)n_handled, ROUNDS);
    return mtest_end();
}
