/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler of a signal to the process may end its rank by exit or _exit (argument "_exit"), though another rank of the OS thread runs
 * or waits, and may leave a wait of its rank by siglongjmp: each rank has its own handler, stack and functions of atexit. */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mtest.h"

enum { SLEEPS, READS, PAUSES, WAYS };

static volatile int is_back;
static volatile sig_atomic_t n_ended;
static int to_last = -1; /* a pipe to the last rank */
static bool ends_at_once;
static sigjmp_buf before;

static void jump(int number)
{
    (void)number;
    siglongjmp(before, 1);
}

/* The rank waits in this way until the signal of its own timer. */
static void check_jump(int way, int fd)
{
    char byte;
    int sum = 0;

    is_back = 0;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (sigsetjmp(before, 1) == 0) {
        ualarm(2000, 0);
        while (way == SLEEPS)
            sleep(1000);
        while (way == PAUSES)
            pause();
        MTEST_CHECK(read(fd, &byte, 1) == 2, "a read without data has ended");
    }
    is_back++;
    MTEST_OK(MPI_Allreduce((const void *)&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(is_back == 1 && sum == mtest_size * (mtest_size - 1) / 2, "way %d: %d, the sum is %d", way,
                is_back, sum);
}

static void note(void)
{
    if (write(to_last, "x", 1) != 1)
        _exit(1);
}

static void end(int number)
{
    (void)number;
    if (!ends_at_once)
        exit(0);
    note();
    _exit(0);
}

static void count(int number)
{
    (void)number;
    n_ended++;
}

/* Waits until all other ranks have written a byte. */
static bool read_notes(int fd)
{
    char byte;

    for (int i = 0; i < mtest_size - 1; i++)
        if (read(fd, &byte, 1) != 1)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    int fds[2] = {-1, -1};

    mtest_init(&argc, &argv, 2);
    ends_at_once = argc > 1 && strcmp(argv[1], "_exit") == 0;
    if (mtest_rank == mtest_size - 1)
        MTEST_CHECK(pipe(fds) == 0, "no pipe");
    MTEST_OK(MPI_Bcast(fds, 2, MPI_INT, mtest_size - 1, MPI_COMM_WORLD));
    signal(SIGALRM, jump);
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < 5; i++)
            check_jump(way, fds[0]);
    to_last = fds[1];
    signal(SIGUSR1, mtest_rank == mtest_size - 1 ? count : end);
    if (!ends_at_once && mtest_rank < mtest_size - 1)
        atexit(note);
    if (mtest_end() != 0)
        return 1;
    if (mtest_rank < mtest_size - 1)
        note(); /* MPI_Finalize has returned */
    while (mtest_rank < mtest_size - 1)
        pause();
    if (!read_notes(fds[0]))
        return 1;
    syscall(SYS_kill, syscall(SYS_getpid), SIGUSR1);
    return read_notes(fds[0]) && n_ended == 1 ? 0 : 1;
}
