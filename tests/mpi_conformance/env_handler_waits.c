/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler may wait, also if it interrupts a wait of its rank or of another one, and may jump; meanwhile no other rank has its signal
 * blocked. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

enum { CALLS = 20 };

static const struct timespec moment = {.tv_nsec = 2000000};
static volatile sig_atomic_t n_handled, n_waited;
static volatile pid_t child; /* to wait for; 0: none */
static sigjmp_buf before;

static void wait_in_handler(int number)
{
    int status;

    (void)number;
    nanosleep(&moment, NULL);
    poll(NULL, 0, 1);
    if (child && waitpid(child, &status, 0) == child) {
        n_waited += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        child = 0;
    }
    n_handled++;
}

static void wait_and_jump(int number)
{
    (void)number;
    nanosleep(&moment, NULL);
    siglongjmp(before, 1);
}

/* Ranks of an OS thread raise the signal in turn. */
static void check_raise(void)
{
    signal(SIGUSR1, wait_in_handler);
    n_handled = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(raise(SIGUSR1) == 0 && n_handled == 1, "the handler has run %d times", (int)n_handled);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int lowest(int number)
{
    int result = 0;

    MTEST_OK(MPI_Allreduce(&number, &result, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return result;
}

/* The timer's signals interrupt sleeps and calls of MPI. */
static void check_timer(void)
{
    int n_children = 0;

    signal(SIGALRM, wait_in_handler);
    n_handled = n_waited = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    while (lowest(n_handled) < CALLS) {
        if (!child) {
            pid_t pid = fork();
            if (pid == 0) {
                nanosleep(&moment, NULL);
                _exit(3);
            }
            child = pid;
            n_children++;
        }
        ualarm(1000, 0); /* in each process */
        nanosleep(&moment, NULL);
    }
    ualarm(0, 0);
    while (child) {
        ualarm(1000, 0);
        nanosleep(&moment, NULL);
    }
    MTEST_CHECK(n_waited == n_children, "%d of %d children were found", (int)n_waited, n_children);
    MPI_Barrier(MPI_COMM_WORLD);
    signal(SIGALRM, SIG_IGN);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* After the jump the rank waits as before: rank 0 runs while others read from a pipe that it will fill. */
static void check_jump(void)
{
    int fds[2] = {-1, -1};
    char byte = 0;

    if (mtest_rank == 0)
        MTEST_CHECK(pipe(fds) == 0, "no pipe");
    MTEST_OK(MPI_Bcast(fds, 2, MPI_INT, 0, MPI_COMM_WORLD));
    signal(SIGUSR1, wait_and_jump);
    if (sigsetjmp(before, 1) == 0)
        raise(SIGUSR1);
    if (mtest_rank > 0) {
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        MTEST_CHECK(read(fds[0], &byte, 1) == 1 && byte == 'x', "nothing was read");
    }
    for (int i = 1; mtest_rank == 0 && i < mtest_size; i++)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 1; mtest_rank == 0 && i < mtest_size; i++)
        MTEST_CHECK(write(fds[1], "x", 1) == 1, "nothing was written");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    check_raise();
    check_timer();
    check_jump();
    return mtest_end();
}
