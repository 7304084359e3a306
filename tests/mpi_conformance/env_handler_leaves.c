/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that has left its handler by setcontext, swapcontext or __builtin_longjmp waits as before: others run meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "mtest.h"

enum { SET_CONTEXT, LONGJMP, SWAP_CONTEXT, WAYS };

static char stack[64 << 10];
static ucontext_t before, coroutine, interrupted;
static void *buffer[5];
static volatile int way, has_left;

static void leave(int number)
{
    (void)number;
    has_left = 1;
    if (way == SET_CONTEXT)
        setcontext(&before);
    if (way == LONGJMP)
        __builtin_longjmp(buffer, 1);
    swapcontext(&interrupted, &before);
}

static void raise_there(void)
{
    raise(SIGUSR1);
}

static void raise_and_leave(void)
{
    has_left = 0;
    if (way == LONGJMP) {
        if (__builtin_setjmp(buffer) == 0)
            raise(SIGUSR1);
        return;
    }
    getcontext(&before);
    if (!has_left && way == SET_CONTEXT)
        raise(SIGUSR1);
    if (has_left || way == SET_CONTEXT)
        return;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = sizeof stack;
    makecontext(&coroutine, raise_there, 0);
    setcontext(&coroutine);
}

/* Rank 0 runs while others read from a pipe that it will fill. */
static void check_wait(void)
{
    int fds[2] = {-1, -1};
    char byte = 0;

    if (mtest_rank == 0)
        MTEST_CHECK(pipe(fds) == 0, "no pipe");
    MTEST_OK(MPI_Bcast(fds, 2, MPI_INT, 0, MPI_COMM_WORLD));
    raise_and_leave();
    MTEST_CHECK(has_left, "no handler has run");
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
    struct sigaction action = {.sa_handler = leave, .sa_flags = SA_NODEFER};
    pthread_t self;

    mtest_init(&argc, &argv, 1);
#ifdef __SANITIZE_ADDRESS__
    mtest_skip("frames that are left so stay poisoned");
#endif
    self = pthread_self();
    sigaction(SIGUSR1, &action, NULL);
    for (way = SET_CONTEXT; way < WAYS; way++) {
        check_wait();
        MTEST_CHECK(pthread_equal(self, pthread_self()), "pthread_self has changed after way %d", way);
    }
    return mtest_end();
}
