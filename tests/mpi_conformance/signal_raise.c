/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that calls raise may interrupt another rank of the thread in malloc: raise allocates nothing then (it hung). */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "mtest.h"

enum { PIECES = 64, ROUNDS = 1000, MS = 20 };

static volatile sig_atomic_t n_raised;

static void on_raised(int number)
{
    (void)number;
    n_raised++;
}

static void on_alarm(int number)
{
    (void)number;
    raise(SIGUSR1);
}

static void set_timer(int interval_us)
{
    struct itimerval timer = {{0, interval_us}, {0, interval_us}};

    MTEST_CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer has failed");
}

/* Holds malloc's lock most of the time: the pieces are too large for the cache of the thread. */
static void allocate_for_a_while(unsigned seed)
{
    void *pieces[PIECES] = {NULL};
    double end = MPI_Wtime() + MS / 1e3;

    while (MPI_Wtime() < end)
        for (int i = 0; i < ROUNDS; i++) {
            unsigned at = (seed = seed * 1103515245u + 12345u) >> 20;
            free(pieces[at % PIECES]);
            pieces[at % PIECES] = malloc(1500 + (seed >> 8) % 60000);
        }
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    if (mtest_rank == 0) {
        signal(SIGUSR1, on_raised);
        signal(SIGALRM, on_alarm);
        set_timer(3000);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank > 0)
        allocate_for_a_while((unsigned)mtest_rank);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        set_timer(0);
        MTEST_CHECK(n_raised > 0, "no signal has come");
    }
    return mtest_end();
}
