/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that waits for a signal lets others run; a signal to the process ends the wait of each rank that waits for it, in its main
 * thread or another, or that will; a mask is a rank's own; a handler runs on the main thread.
 */
#define _GNU_SOURCE
#include "mtest.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t n_signals;
static pthread_t handler_thread;

static void count(int number)
{
    (void)number;
    handler_thread = pthread_self();
    n_signals++;
}

static void barrier(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The processes of the job. */
static int *processes, n_processes;

static void find_processes(void)
{
    int own = (int)syscall(SYS_getpid), *all = calloc((size_t)mtest_size, sizeof *all);

    processes = calloc((size_t)mtest_size, sizeof *processes);
    MTEST_OK(MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++) {
        int j = 0;
        while (j < n_processes && processes[j] != all[i])
            j++;
        if (j == n_processes)
            processes[n_processes++] = all[i];
    }
    free(all);
}

/* The last rank sends the signal to each process; the others may wait already. */
static void send_to_all(int number)
{
    for (int i = 0; mtest_rank == mtest_size - 1 && i < n_processes; i++)
        MTEST_CHECK(syscall(SYS_kill, processes[i], number) == 0, "kill: %s", strerror(errno));
}

static sigset_t set_of(int number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

static int take_now(int number)
{
    static const struct timespec at_once;
    sigset_t set = set_of(number);

    return sigtimedwait(&set, NULL, &at_once);
}

static bool is_pending(int number)
{
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, number) == 1;
}

static void check_sigwait(void)
{
    sigset_t set = set_of(SIGUSR2);
    siginfo_t info = {.si_signo = 0};
    int number = 0;

    barrier();
    send_to_all(SIGUSR2);
    MTEST_CHECK(sigwait(&set, &number) == 0 && number == SIGUSR2, "sigwait gave signal %d", number);
    barrier();
    MTEST_CHECK(take_now(SIGUSR2) == -1 && errno == EAGAIN, "the signal came twice");
    barrier();
    send_to_all(SIGUSR2);
    number = sigwaitinfo(&set, &info);
    MTEST_CHECK(number == SIGUSR2 && info.si_signo == SIGUSR2, "sigwaitinfo gave signal %d", number);
    barrier();
    send_to_all(SIGUSR2);
    barrier(); /* the signal comes before the wait */
    number = sigtimedwait(&set, &info, &(struct timespec){1000, 0});
    MTEST_CHECK(number == SIGUSR2, "sigtimedwait gave signal %d", number);
    MTEST_CHECK(sigtimedwait(&set, NULL, &(struct timespec){0, 1000000}) == -1 && errno == EAGAIN,
                "the signal came twice to sigtimedwait");
    barrier();
}

static void check_sigsuspend(void)
{
    sigset_t set = set_of(SIGUSR1);

    signal(SIGUSR1, count);
    n_signals = 0;
    barrier();
    send_to_all(SIGUSR1);
    barrier();
    MTEST_CHECK(n_signals == 0, "the handler of a blocked signal has run");
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    sigdelset(&set, SIGUSR1);
    MTEST_CHECK(sigsuspend(&set) == -1 && errno == EINTR && n_signals == 1,
                "after sigsuspend the handler has run %d times", (int)n_signals);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    MTEST_CHECK(sigismember(&set, SIGUSR1) == 1, "sigsuspend has changed the mask");
    barrier();
    send_to_all(SIGUSR1);
    sigdelset(&set, SIGUSR1);
    MTEST_CHECK(sigsuspend(&set) == -1 && n_signals == 2, "a second sigsuspend: %d", (int)n_signals);
    barrier();
}

/* Ranks 0 and 1 may have one OS thread: what one blocks is not blocked for the other. */
static void check_own_mask(void)
{
    sigset_t set = set_of(SIGUSR1);

    n_signals = 0;
    if (mtest_rank == 0)
        raise(SIGUSR1);
    barrier();
    MTEST_CHECK(is_pending(SIGUSR1) == (mtest_rank == 0), "a signal that rank 0 has raised, and blocks");
    barrier();
    if (mtest_rank == 1)
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    barrier();
    MTEST_CHECK(n_signals == 0, "rank 0's signal has run a handler");
    if (mtest_rank == 0)
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    MTEST_CHECK(n_signals == (mtest_rank == 0), "the handler has run %d times", (int)n_signals);
    barrier();
    sigprocmask(SIG_BLOCK, &set, NULL);
    MTEST_CHECK(!is_pending(SIGUSR1), "a signal that was handled is pending");
    barrier();
}

/* The last rank sends until all others have left pause: the signal may come before they are in it. */
static void check_pause(void)
{
    sigset_t set = set_of(SIGUSR1);

    sigprocmask(SIG_UNBLOCK, &set, NULL);
    n_signals = 0;
    barrier();
    if (mtest_rank < mtest_size - 1) {
        MTEST_CHECK(pause() == -1 && errno == EINTR && n_signals > 0, "pause has returned");
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, mtest_size - 1, 0, MPI_COMM_WORLD));
    }
    for (int n_left = 0; mtest_rank == mtest_size - 1 && n_left < mtest_size - 1;) {
        int is_there;
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE));
        if (is_there)
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else
            send_to_all(SIGUSR1);
        n_left += is_there;
        usleep(1000);
    }
    barrier();
}

/* A handler that compares pthread_self with that of main, as Python's does, has to find it. */
static void check_handler_thread(void)
{
    n_signals = 0;
    barrier();
    send_to_all(SIGUSR1);
    while (n_signals == 0)
        sched_yield();
    MTEST_CHECK(pthread_equal(handler_thread, pthread_self()), "the handler has run on another thread");
    barrier();
}

enum { THREAD_SIGNALS = 3 };
static _Atomic int n_taken;

static void *take_signals(void *unused)
{
    sigset_t set = set_of(SIGRTMIN);
    int number = 0;

    for (int i = 0; i < THREAD_SIGNALS; i++)
        if (sigwait(&set, &number) == 0 && number == SIGRTMIN)
            n_taken++;
    return unused;
}

static void check_thread(void)
{
    pthread_t thread;

    MTEST_CHECK(pthread_create(&thread, NULL, take_signals, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREAD_SIGNALS; i++) {
        barrier();
        send_to_all(SIGRTMIN);
        while (n_taken == i)
            usleep(1000);
    }
    pthread_join(thread, NULL);
    MTEST_CHECK(n_taken == THREAD_SIGNALS, "the thread has got %d signals", n_taken);
    barrier();
}

/* SIGUSR1, which the rank blocks otherwise, ends these waits. */
static void check_masked_waits(void)
{
    static const struct timespec longest = {1000, 0};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), result;
    struct epoll_event event;
    sigset_t set, none;

    sigemptyset(&none);
    set = set_of(SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    n_signals = 0;
    for (int i = 0; i < 3; i++) {
        barrier();
        send_to_all(SIGUSR1);
        if (i == 0)
            result = pselect(0, NULL, NULL, NULL, &longest, &none);
        else if (i == 1)
            result = ppoll(NULL, 0, &longest, &none);
        else
            result = epoll_pwait(epoll_fd, &event, 1, 1000000, &none);
        MTEST_CHECK(result == -1 && errno == EINTR && n_signals == i + 1,
                    "wait %d with a mask: result %d, the handler has run %d times", i, result,
                    (int)n_signals);
        sigprocmask(SIG_SETMASK, NULL, &set);
        MTEST_CHECK(sigismember(&set, SIGUSR1) == 1, "the wait has changed the mask");
    }
    barrier();
    close(epoll_fd);
}

/* The handler gets signals that the rank has waited for earlier. */
static void check_unblocked(void)
{
    sigset_t set = set_of(SIGUSR1);

    take_now(SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    n_signals = 0;
    barrier();
    send_to_all(SIGUSR1);
    while (n_signals == 0)
        usleep(1000);
    barrier();
}

/* siglongjmp restores a mask in which the rank does not block the signal. */
static void check_jump(void)
{
    sigset_t set = set_of(SIGUSR1);
    static sigjmp_buf before;

    n_signals = 0;
    if (sigsetjmp(before, 1) == 0) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        siglongjmp(before, 1);
    }
    barrier();
    send_to_all(SIGUSR1);
    while (n_signals == 0)
        usleep(1000);
    barrier();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Rank 0 blocks the signal, perhaps on the OS thread of others, which send it to themselves. */
static void check_others_mask(void)
{
    sigset_t set = set_of(SIGUSR1);

    n_signals = 0;
    if (mtest_rank > 0)
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    barrier();
    if (mtest_rank > 0) {
        raise(SIGUSR1);
        kill(getpid(), SIGUSR1);
        pthread_kill(pthread_self(), SIGUSR1);
    }
    barrier();
    MTEST_CHECK(n_signals == (mtest_rank > 0 ? 3 : 0), "signals to itself have run the handler %d times",
                (int)n_signals);
    barrier();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    barrier();
}

/* A signal that one rank sends to a thread in sigwait is no other rank's. */
static void check_thread_signal(void)
{
    pthread_t thread;

    barrier();
    if (mtest_rank == 0) {
        MTEST_CHECK(pthread_create(&thread, NULL, take_signals, NULL) == 0, "pthread_create");
        for (int i = n_taken; n_taken < 2 * THREAD_SIGNALS; i++) {
            pthread_kill(thread, SIGRTMIN);
            while (n_taken == i)
                usleep(1000);
        }
        pthread_join(thread, NULL);
    }
    barrier();
    MTEST_CHECK(mtest_rank == 0 || !is_pending(SIGRTMIN), "the signal has come to another rank");
    barrier();
}

/* More threads than a rank's record has places for. */
enum { WAITERS = 6 };
static _Atomic int taken_by[WAITERS];

static void *take_own_signal(void *index)
{
    int number = 0, i = (int)(intptr_t)index;
    sigset_t set = set_of(SIGRTMIN + i);

    if (sigwait(&set, &number) == 0)
        taken_by[i] = number;
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[WAITERS];
    sigset_t set;

    for (int i = 0; i < WAITERS; i++) {
        set = set_of(SIGRTMIN + i);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    for (int i = 0; i < WAITERS; i++)
        MTEST_CHECK(pthread_create(&threads[i], NULL, take_own_signal, (void *)(intptr_t)i) == 0,
                    "pthread_create");
    for (int i = 0; i < WAITERS; i++) {
        barrier();
        send_to_all(SIGRTMIN + i);
        while (taken_by[i] == 0)
            usleep(1000);
        MTEST_CHECK(taken_by[i] == SIGRTMIN + i, "thread %d has got signal %d", i, taken_by[i]);
        pthread_join(threads[i], NULL);
    }
    barrier();
}

int main(int argc, char **argv)
{
    sigset_t set = set_of(SIGUSR1);

    /* Threads of MPI inherit this. */
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    mtest_init(&argc, &argv, 2);
    find_processes();
    check_sigwait();
    check_sigsuspend();
    check_own_mask();
    check_thread();
    check_thread_signal();
    check_pause();
    check_handler_thread();
    check_masked_waits();
    check_unblocked();
    check_jump();
    check_others_mask();
    check_threads();
    free(processes);
    return mtest_end();
}
