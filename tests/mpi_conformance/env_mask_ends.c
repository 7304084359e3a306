/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank blocks, and the signal of the handler in which it ends, are not blocked for the ranks that stay; what is pending then
 * ends no job, and comes to those that wait for it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

static volatile sig_atomic_t n_handled;

static void count(int number)
{
    (void)number;
    n_handled++;
}

static void end(int number)
{
    (void)number;
    exit(0);
}

/* No rank sets an action for SIGHUP and SIGPIPE. */
static void block(sigset_t *set_out)
{
    sigemptyset(set_out);
    sigaddset(set_out, SIGHUP);
    if (mtest_rank > 0) {
        sigaddset(set_out, SIGUSR2);
        sigaddset(set_out, SIGPIPE);
    }
    sigprocmask(SIG_BLOCK, set_out, NULL);
}

static void break_pipe(void)
{
    int fds[2];

    if (pipe(fds) != 0 || close(fds[0]) != 0 || write(fds[1], "x", 1) != -1)
        exit(1);
}

static void end_with_pending(int fd)
{
    break_pipe();
    signal(SIGUSR1, end);
    if (write(fd, "x", 1) != 1)
        exit(1);
    raise(SIGUSR1);
    exit(1);
}

int main(int argc, char **argv)
{
    int fds[2] = {-1, -1};
    sigset_t set;
    char byte;

    mtest_init(&argc, &argv, 2);
    block(&set);
    if (mtest_rank == 0)
        MTEST_CHECK(pipe(fds) == 0, "no pipe");
    MTEST_OK(MPI_Bcast(fds, 2, MPI_INT, 0, MPI_COMM_WORLD));
    MPI_Barrier(MPI_COMM_WORLD); /* all block SIGHUP */
    if (mtest_rank == 0)
        syscall(SYS_kill, syscall(SYS_getpid), SIGHUP);
    if (mtest_end() != 0)
        return 1;
    if (mtest_rank > 0)
        end_with_pending(fds[1]);
    signal(SIGUSR1, count);
    signal(SIGUSR2, count);
    for (int i = 1; i < mtest_size; i++)
        if (read(fds[0], &byte, 1) != 1)
            return 1;
    raise(SIGUSR1);
    raise(SIGUSR2);
    if (sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 60}) != SIGHUP)
        return 1;
    return n_handled == 2 ? 0 : 1;
}
