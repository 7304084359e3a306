/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank has timers of its own (timer_create, setitimer, alarm), whose signals come to this rank alone, and which end with it: with
 * the name of a timer as argument, they expire while ranks end. Handlers may switch between contexts. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "mtest.h"

static volatile sig_atomic_t n_signals, n_wrong;
static volatile uintptr_t value;

static void count(int number, siginfo_t *info, void *context)
{
    (void)context;
    n_signals++;
    if (number == SIGALRM && info->si_code != SI_KERNEL && info->si_code != SI_TIMER)
        n_wrong++;
    if (info->si_code == SI_TIMER)
        value = (uintptr_t)info->si_value.sival_ptr;
}

static void handle(int number)
{
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigaction(number, &action, NULL);
}

static timer_t create(void *own)
{
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM, .sigev_value.sival_ptr = own};
    timer_t timer = NULL;

    MTEST_CHECK(timer_create(CLOCK_MONOTONIC, own ? &event : NULL, &timer) == 0, "timer_create");
    return timer;
}

static void start(timer_t timer)
{
    const struct itimerspec often = {{0, 1000000}, {0, 1000000}};

    MTEST_CHECK(timer_settime(timer, 0, &often, NULL) == 0, "timer_settime");
}

/* Only the first rank has the timer. */
static void check_own(const char *what)
{
    while (mtest_rank == 0 && n_signals < 3)
        usleep(1000);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(n_wrong == 0 && (mtest_rank == 0 || n_signals == 0), "%s: %d signals, %d wrong", what,
                (int)n_signals, (int)n_wrong);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_timer_create(void)
{
    static char own;
    timer_t timer = NULL;

    for (int is_plain = 0; is_plain < 2; is_plain++) {
        n_signals = 0;
        if (mtest_rank == 0)
            start(timer = create(is_plain ? NULL : &own));
        check_own("timer_create");
        if (mtest_rank == 0)
            MTEST_CHECK(value == (is_plain ? 0 : (uintptr_t)&own), "another value than the timer's");
        if (mtest_rank == 0)
            MTEST_CHECK(timer_delete(timer) == 0, "timer_delete");
    }
}

static void check_itimer(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    struct itimerval found;

    n_signals = 0;
    if (mtest_rank == 0)
        MTEST_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    check_own("setitimer");
    MTEST_CHECK(getitimer(ITIMER_REAL, &found) == 0 &&
                    found.it_interval.tv_usec == (mtest_rank == 0 ? 1000 : 0),
                "getitimer: %d us", (int)found.it_interval.tv_usec);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0, "setitimer");
    MTEST_CHECK(alarm(1000) == 0, "an alarm was set");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        MTEST_CHECK(alarm(0) > 900, "another alarm than the rank's");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank > 0)
        MTEST_CHECK(alarm(0) > 900, "the alarm of another rank has ended this one's");
}

/* The signal interrupts a rank that computes, whichever thread the kernel chooses: not the first one, whose only rank blocks it. */
static void check_busy(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    n_signals = 0;
    if (mtest_rank == 0)
        sigprocmask(SIG_BLOCK, &set, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank > 0)
        setitimer(ITIMER_REAL, &often, NULL);
    while (mtest_rank > 0 && n_signals < 20)
        ;
    setitimer(ITIMER_REAL, &none, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- A scheduler of contexts ---- */

enum { CONTEXTS = 3, TURNS = 8 };

static ucontext_t contexts[CONTEXTS + 1];
static char stacks[CONTEXTS][64 << 10];
static volatile int current, is_over;
static volatile sig_atomic_t n_turns, n_runs[CONTEXTS];

static void switch_context(int number)
{
    int from = current;

    (void)number;
    if (is_over)
        return;
    current = (from + 1) % (CONTEXTS + 1);
    n_turns++;
    swapcontext(&contexts[from], &contexts[current]);
}

/* swapcontext sets the mask before it changes the stack: the signal is blocked until then. */
static void run(int i)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    for (;;)
        n_runs[i]++;
}

static void check_contexts(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    pthread_t self = pthread_self();

    current = CONTEXTS;
    for (int i = 0; i < CONTEXTS; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof stacks[i];
        sigaddset(&contexts[i].uc_sigmask, SIGALRM);
        makecontext(&contexts[i], (void (*)(void))run, 1, i);
    }
    signal(SIGALRM, switch_context);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 5; i++) {
        int before = n_turns;
        while (n_turns < before + TURNS)
            ;
    }
    is_over = 1;
    MTEST_CHECK(pthread_equal(self, pthread_self()), "another thread");
    for (int i = 0; i < CONTEXTS; i++)
        MTEST_CHECK(n_runs[i] > 0, "context %d has not run", i);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static int end_with(const char *timer)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};

    handle(SIGALRM);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(timer, "timer_create") == 0)
        start(create(NULL));
    else if (strcmp(timer, "setitimer") == 0)
        setitimer(ITIMER_REAL, &often, NULL);
    else
        ualarm(1000, 1000);
    return mtest_end();
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    if (argc > 1 && strcmp(argv[1], "busy") != 0)
        return end_with(argv[1]);
    handle(SIGALRM);
    if (argc > 1) {
        check_busy();
        return mtest_end();
    }
    check_timer_create();
    check_itimer();
#ifndef __SANITIZE_ADDRESS__
    check_contexts();
#endif
    return mtest_end();
}
