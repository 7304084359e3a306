/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank blocks, and the signal of the handler in which it ends, are not blocked for the ranks that stay. */
#include <signal.h>
#include <stdlib.h>
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

static void block_and_end(int fd)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, end);
    if (write(fd, "x", 1) != 1)
        exit(1);
    raise(SIGUSR1);
    exit(1);
}

int main(int argc, char **argv)
{
    int fds[2] = {-1, -1};
    char byte;

    mtest_init(&argc, &argv, 2);
    if (mtest_rank == 0)
        MTEST_CHECK(pipe(fds) == 0, "no pipe");
    MTEST_OK(MPI_Bcast(fds, 2, MPI_INT, 0, MPI_COMM_WORLD));
    if (mtest_end() != 0)
        return 1;
    if (mtest_rank > 0)
        block_and_end(fds[1]);
    signal(SIGUSR1, count);
    signal(SIGUSR2, count);
    for (int i = 1; i < mtest_size; i++)
        if (read(fds[0], &byte, 1) != 1)
            return 1;
    raise(SIGUSR1);
    raise(SIGUSR2);
    return n_handled == 2 ? 0 : 1;
}
