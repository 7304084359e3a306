/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank sends to itself is its own, though others of the OS thread block or ignore the signal: it is pending for this rank alone,
 * with its value; a wait in a handler gets it; and the default action ends the job. Arguments "default" and block or ignore, raise, kill
 * or pthread_kill: only the latter. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

static sigset_t usr1, usr2;
static volatile sig_atomic_t n_inner, n_outer, waits;
static volatile int way;

static void send_in_way(int number, int how)
{
    switch (how) {
    case 0:
        raise(number);
        break;
    case 1:
        kill(getpid(), number);
        break;
    case 2:
        pthread_kill(pthread_self(), number);
        break;
    default:
        sigqueue(getpid(), number, (union sigval){.sival_int = 5});
    }
}

static bool is_pending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, SIGUSR1) == 1;
}

static void check_pending(int how)
{
    static const struct timespec at_once;
    siginfo_t info = {.si_signo = 0};

    if (mtest_rank == 0)
        send_in_way(SIGUSR1, how);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(is_pending() == (mtest_rank == 0), "way %d: is the signal pending?", how);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank > 0)
        MTEST_CHECK(sigtimedwait(&usr1, &info, &at_once) == -1, "way %d: another rank has got the signal",
                    how);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        MTEST_CHECK(sigtimedwait(&usr1, &info, &at_once) == SIGUSR1 &&
                        (how != 3 || info.si_value.sival_int == 5),
                    "way %d: signal %d, value %d", how, info.si_signo, info.si_value.sival_int);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* ---- Waits in a handler ---- */

static void count_inner(int number)
{
    (void)number;
    n_inner++;
}

static void wait_in_handler(int number)
{
    sigset_t mask, after;
    int result;

    (void)number;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, SIGUSR2);
    n_inner = 0;
    waits = 1;
    switch (way) {
    case 0:
        result = sigsuspend(&mask);
        break;
    case 1:
        result = ppoll(NULL, 0, NULL, &mask);
        break;
    case 2:
        result = pselect(0, NULL, NULL, NULL, NULL, &mask);
        break;
    default:
        pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
        result = pause();
    }
    MTEST_CHECK(result == -1 && errno == EINTR && n_inner > 0, "way %d: the wait in the handler has ended",
                way);
    pthread_sigmask(SIG_BLOCK, &usr2, &after);
    MTEST_CHECK(sigismember(&after, SIGUSR1) == 1 && sigismember(&after, SIGUSR2) == (way < 3),
                "way %d: the mask in the handler has changed", way);
    waits = 0;
    n_outer++;
}

/* Sends to the process until the wait is over: some come before it. */
static void *send_often(void *nothing)
{
    while (n_outer == 0) {
        if (waits)
            syscall(SYS_kill, syscall(SYS_getpid), SIGUSR2);
        usleep(1000);
    }
    return nothing;
}

static void check_wait_in_handler(void)
{
    pthread_t thread;
    sigset_t set;

    n_outer = 0;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(pthread_create(&thread, NULL, send_often, NULL) == 0, "no thread");
    raise(SIGUSR1);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    MTEST_CHECK(n_outer == 1 && sigismember(&set, SIGUSR1) == 0 && sigismember(&set, SIGUSR2) == 1,
                "way %d: the handler ran %d times, or has changed the mask", way, (int)n_outer);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* ---- The default action ---- */

static void end_by_default(bool blocks, const char *how)
{
    if (mtest_rank > 0 && blocks)
        pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    else if (mtest_rank > 0)
        signal(SIGUSR1, SIG_IGN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank > 0)
        raise(SIGUSR1); /* nothing happens */
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        send_in_way(SIGUSR1, strcmp(how, "raise") == 0 ? 0 : strcmp(how, "kill") == 0 ? 1 : 2);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    sigemptyset(&usr1);
    sigemptyset(&usr2);
    sigaddset(&usr1, SIGUSR1);
    sigaddset(&usr2, SIGUSR2);
    if (argc > 3) {
        end_by_default(strcmp(argv[2], "block") == 0, argv[3]);
        return mtest_end();
    }
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    for (int how = 0; how < 4; how++)
        check_pending(how);
    signal(SIGUSR1, wait_in_handler);
    signal(SIGUSR2, count_inner);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    for (way = 0; way < 4; way++)
        check_wait_in_handler();
    return mtest_end();
}
