/* SPDX-License-Identifier: BSD-3-Clause */
/* The signal of a rank's timer is that rank's: it may block it and wait for it while other ranks, on other threads, have the default
 * action; with the argument "default", it is the one that has the default action, and the job ends. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "mtest.h"

static void arm(int way)
{
    const struct itimerval moment = {.it_value = {.tv_usec = 1000}};

    if (way == 0)
        ualarm(1000, 0);
    else
        setitimer(ITIMER_REAL, &moment, NULL);
}

static void wait_for_timers(const sigset_t *set)
{
    MTEST_CHECK(sigprocmask(SIG_BLOCK, set, NULL) == 0, "the mask was not set");
    for (int way = 0; way < 2; way++) {
        int number = 0;
        arm(way);
        MTEST_CHECK(sigwait(set, &number) == 0 && number == SIGALRM, "sigwait gave signal %d", number);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action;
    sigset_t set;

    mtest_init(&argc, &argv, 2);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    if (argc > 1 && strcmp(argv[1], "default") == 0) {
        if (mtest_rank > 0)
            MTEST_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "the mask was not set");
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 0)
            arm(0);
        for (;;) /* the signal ends it */
            usleep(1000);
    }
    if (mtest_rank == 0)
        wait_for_timers(&set);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank > 0) /* once more after the default action was set */
        MTEST_CHECK(sigaction(SIGALRM, NULL, &action) == 0 && action.sa_handler == SIG_DFL &&
                        signal(SIGALRM, SIG_DFL) == SIG_DFL,
                    "another action");
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        wait_for_timers(&set);
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
