/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of spawned ranks: their exit code, error, MPI_Abort and deadlock are the job's, after their parents have
 * disconnected; ranks that are still connected at their end do not hinder others; spawned ranks spawn ranks; a timer of one
 * ends with it, and a signal of the timer that has not been delivered by then ends nobody; nor does a signal
 * that a spawned rank has handled and its parent ignores, or that a thread of an ended rank sends to its main thread. */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "mtest.h"

static const struct itimerval an_hour = {.it_value.tv_sec = 3600};

static void handle(int number)
{
    (void)number;
}

static void block_alarms(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(how, &set, NULL);
}

/* Starts a timer whose signal is then pending. */
static void start_timer(void)
{
    static const struct itimerval often = {.it_value.tv_usec = 1000, .it_interval.tv_usec = 1000};
    struct sigaction action = {.sa_handler = handle};
    sigset_t pending;

    sigaction(SIGALRM, &action, NULL);
    block_alarms(SIG_BLOCK);
    setitimer(ITIMER_REAL, &often, NULL);
    do {
        usleep(1000);
        sigpending(&pending);
    } while (!sigismember(&pending, SIGALRM));
}

static int pipe_end; /* to the parent */

static void await_timer(void);

/* Sends signals to the main thread, whose rank has ended, and then a byte to the parent. */
static void *signal_main(void *arg)
{
    await_timer();
    for (int i = 0; i < 100; i++)
        pthread_kill(*(pthread_t *)arg, SIGUSR1);
    if (write(pipe_end, "", 1) != 1)
        abort();
    return NULL;
}

/* Leaves such a thread behind if the parent, which waits for the byte, is in the same process. */
static void start_signals(MPI_Comm parent)
{
    static pthread_t self, thread;
    long pid = syscall(SYS_getpid), parent_pid;

    MPI_Sendrecv(&pid, 1, MPI_LONG, 0, 0, &parent_pid, 1, MPI_LONG, 0, 0, parent, MPI_STATUS_IGNORE);
    if (pid != parent_pid)
        return;
    self = pthread_self();
    signal(SIGUSR1, handle);
    setitimer(ITIMER_REAL, &an_hour, NULL);
    pthread_create(&thread, NULL, signal_main, &self);
}

static void await_signals(MPI_Comm children, int fd)
{
    long pid = syscall(SYS_getpid), child_pid = 0;
    char byte;

    if (mtest_rank == 0)
        MPI_Sendrecv(&pid, 1, MPI_LONG, 1, 0, &child_pid, 1, MPI_LONG, 1, 0, children, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Comm_disconnect(&children));
    if (pid == child_pid)
        MTEST_CHECK(read(fd, &byte, 1) == 1, "the thread says nothing");
}

static int be_child(MPI_Comm parent, const char *mode, const char *program)
{
    char *args[] = {(char *)"last", NULL};
    MPI_Comm inter;
    int value;

    if (strcmp(mode, "last") == 0) { /* ends without MPI_Comm_disconnect */
        MPI_Finalize();
        return 0;
    }
    MTEST_OK(MPI_Barrier(parent));
    if (strcmp(mode, "deadlock") == 0)
        MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    if (strcmp(mode, "timer") == 0 && mtest_rank == 1)
        setitimer(ITIMER_REAL, &an_hour, NULL);
    if (strcmp(mode, "pending") == 0 && mtest_rank == 1)
        start_timer();
    if (strcmp(mode, "thread") == 0 && mtest_rank == 1)
        start_signals(parent);
    if (strcmp(mode, "ignored") == 0 && mtest_rank == 1) {
        signal(SIGUSR1, handle);
        setitimer(ITIMER_REAL, &an_hour, NULL);
    }
    MTEST_OK(MPI_Comm_disconnect(&parent));
    if (strcmp(mode, "abort") == 0 && mtest_rank == 1)
        MPI_Abort(MPI_COMM_SELF, 5);
    if (strcmp(mode, "error") == 0 && mtest_rank == 1)
        MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (strcmp(mode, "spawn") == 0)
        MTEST_OK(
            MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MPI_Finalize();
    return strcmp(mode, "code") == 0 && mtest_rank == 1 ? 9 : 0;
}

/* Waits until the timer of the children, who may have ended already, is not set. */
static void await_timer(void)
{
    struct itimerval left;

    while (getitimer(ITIMER_REAL, &left) == 0 && (left.it_value.tv_sec > 0 || left.it_value.tv_usec > 0))
        usleep(1000);
}

static void check_own_timer(void)
{
    struct itimerval left;

    getitimer(ITIMER_VIRTUAL, &left);
    MTEST_CHECK(left.it_value.tv_sec > 0, "the parent's own timer has ended");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "spawn";
    char *args[] = {(char *)mode, NULL, NULL}, fd[16];
    MPI_Comm parent, inter;
    int ends[2] = {-1, -1};

    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    pipe_end = argc > 2 ? atoi(argv[2]) : -1;
    if (parent != MPI_COMM_NULL)
        return be_child(parent, mode, argv[0]);
    if (strcmp(mode, "ignored") == 0)
        signal(SIGUSR1, SIG_IGN);
    if (strcmp(mode, "thread") == 0 && pipe(ends) == 0) {
        snprintf(fd, sizeof fd, "%d", ends[1]);
        args[1] = fd;
    }
    MTEST_OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MTEST_OK(MPI_Barrier(inter));
    if (strcmp(mode, "timer") == 0 && mtest_rank == 0)
        setitimer(ITIMER_VIRTUAL, &an_hour, NULL); /* not the children's */
    if (strcmp(mode, "thread") == 0)
        await_signals(inter, ends[0]);
    else
        MTEST_OK(MPI_Comm_disconnect(&inter));
    if (strcmp(mode, "timer") == 0 && mtest_rank == 0) {
        await_timer();
        check_own_timer();
    }
    if (strcmp(mode, "pending") == 0) {
        await_timer();
        block_alarms(SIG_UNBLOCK);
    }
    if (strcmp(mode, "ignored") == 0) {
        await_timer();
        syscall(SYS_kill, getpid(), SIGUSR1); /* as another process would: for all ranks */
    }
    return mtest_end();
}
