/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A signal to the process reaches the handlers of all ranks, a signal of a rank to itself only its own; each rank sees the action
 * that it has set, and a child has its rank's actions and changes none of them. Handlers may set actions at any time.
 */
#define _GNU_SOURCE
#include "mtest.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t n_signals;

static void count(int number)
{
    (void)number;
    n_signals++;
}

static void check_count(int wanted, const char *what)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(n_signals == wanted, "%s: the handler ran %d times, not %d", what, (int)n_signals, wanted);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The last rank has the default action. */
static void check_own_actions(void)
{
    struct sigaction now;

    MTEST_CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_DFL,
                "the first action is not SIG_DFL");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank < mtest_size - 1)
        MTEST_CHECK(signal(SIGUSR2, count) == SIG_DFL, "the action before was not SIG_DFL");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(sigaction(SIGUSR2, NULL, &now) == 0 &&
                    now.sa_handler == (mtest_rank < mtest_size - 1 ? count : SIG_DFL),
                "the action is another rank's");
    if (mtest_rank == 0 && mtest_size > 1) {
        raise(SIGUSR2);
        kill(getpid(), SIGUSR2);
    }
    check_count(mtest_rank == 0 && mtest_size > 1 ? 2 : 0, "a rank's own signals");
}

/* A signal that comes to the process of rank 0. */
static void check_process_signal(void)
{
    int process = (int)syscall(SYS_getpid), first = process, is_reached;

    n_signals = 0;
    signal(SIGUSR1, count);
    MTEST_OK(MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* all have a handler */
    is_reached = process == first;
    if (mtest_rank == 0)
        syscall(SYS_kill, process, SIGUSR1);
    while (is_reached && n_signals == 0)
        usleep(1000);
    check_count(is_reached, "a signal to the process");
}

static void count_value(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    MTEST_CHECK(info->si_value.sival_ptr == (void *)&n_signals && info->si_code == SI_QUEUE &&
                    info->si_errno == 0,
                "the information is another signal's");
    n_signals++;
}

/* Signals with a value to itself, and that of a write to a pipe that nobody reads. */
static void check_own_values(void)
{
    struct sigaction action = {.sa_sigaction = count_value, .sa_flags = SA_SIGINFO};
    union sigval value = {.sival_ptr = (void *)&n_signals};
    int ends[2];

    n_signals = 0;
    sigaction(SIGRTMIN, &action, NULL);
    signal(SIGPIPE, count);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    sigqueue(getpid(), SIGRTMIN, value);
    pthread_sigqueue(pthread_self(), SIGRTMIN, value);
    MTEST_CHECK(pipe(ends) == 0 && close(ends[0]) == 0 && write(ends[1], "", 1) < 0,
                "the write did not fail");
    close(ends[1]);
    check_count(3, "signals with values, and of a pipe");
}

static void set_again(int number)
{
    signal(number, set_again);
    n_signals++;
}

/* The signals come while actions are set, in most cases. */
static void check_set_in_handler(void)
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};

    n_signals = 0;
    signal(SIGALRM, set_again);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    setitimer(ITIMER_REAL, &often, NULL);
    while (n_signals < 20)
        signal(SIGUSR1, count);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    setitimer(ITIMER_REAL, &off, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_child(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGUSR2);
    if (mtest_rank == mtest_size - 1) {
        MTEST_CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2,
                    "SIGUSR2 does not end the child");
        return;
    }
    MTEST_CHECK(waitpid(child, &status, WNOHANG) == 0, "SIGUSR2 ends the child of a rank with a handler");
    kill(child, SIGKILL);
    MTEST_CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL,
                "the child has ended before");
}

static volatile sig_atomic_t has_sent;

static void send_others(int number)
{
    (void)number;
    raise(SIGUSR2);
    kill(getpid(), SIGUSR2);
    has_sent = 1;
}

/* The handler of rank 0 runs while the last rank does, if they share an OS thread. */
static void check_sent_in_handler(void)
{
    int process = (int)syscall(SYS_getpid), first = process, last = process;

    n_signals = 0;
    signal(SIGUSR1, mtest_rank == 0 ? send_others : SIG_IGN);
    signal(SIGUSR2, count);
    MTEST_OK(MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Bcast(&last, 1, MPI_INT, mtest_size - 1, MPI_COMM_WORLD));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* all have a handler */
    if (mtest_rank == (first == last ? mtest_size - 1 : 0))
        syscall(SYS_kill, process, SIGUSR1);
    while (mtest_rank == 0 && !has_sent)
        usleep(1000);
    check_count(mtest_rank == 0 ? 2 : 0, "what a handler sends to itself");
}

/* As Python's subprocess does it before exec. */
static void check_vfork(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, now = {.sa_handler = SIG_IGN};
    volatile bool was_ours = false, is_usual = false;
    pid_t child;

    signal(SIGUSR1, count);
    signal(SIGFPE, count);
    child = vfork();
    if (child == 0) {
        was_ours = sigaction(SIGUSR1, &usual, &now) == 0 && now.sa_handler == count &&
                   sigaction(SIGFPE, &usual, &now) == 0 && now.sa_handler == count;
        is_usual = sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
        _exit(0);
    }
    MTEST_CHECK(child > 0 && waitpid(child, NULL, 0) == child, "vfork");
    MTEST_CHECK(was_ours, "a child of vfork has another action than its parent");
    MTEST_CHECK(is_usual, "a child of vfork cannot set an action");
    MTEST_CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == count &&
                    sigaction(SIGFPE, NULL, &now) == 0 && now.sa_handler == count,
                "a child of vfork has changed its parent's actions");
    n_signals = 0;
    raise(SIGUSR1);
    check_count(1, "a signal after vfork");
    signal(SIGFPE, SIG_DFL);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    check_own_actions();
    check_process_signal();
    check_own_values();
    check_set_in_handler();
    check_child();
    check_vfork();
    check_sent_in_handler();
    return mtest_end();
}
