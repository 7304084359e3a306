/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of spawned ranks: their exit code, error, MPI_Abort and deadlock are the job's, after their parents have
 * disconnected; ranks that are still connected at their end do not hinder others; spawned ranks spawn ranks; a timer of one
 * ends with it, and a signal of the timer that has not been delivered by then ends nobody; nor does a signal
 * that a spawned rank has handled and its parent ignores. */
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
    char *args[] = {(char *)mode, NULL};
    MPI_Comm parent, inter;

    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return be_child(parent, mode, argv[0]);
    signal(SIGUSR1, SIG_IGN);
    MTEST_OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MTEST_OK(MPI_Barrier(inter));
    if (strcmp(mode, "timer") == 0 && mtest_rank == 0)
        setitimer(ITIMER_VIRTUAL, &an_hour, NULL); /* not the children's */
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
