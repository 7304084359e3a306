/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that blocks no signal neither sees nor changes what other ranks of the OS thread block; its threads get the signal. */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

static volatile sig_atomic_t n_handled, has_begun;

static void count(int number)
{
    (void)number;
    n_handled++;
}

static void *wait_for_handler(void *nothing)
{
    has_begun = 1;
    while (n_handled < 2)
        usleep(1000);
    return nothing;
}

/* Of the last rank, while the others block the signal. */
static void use_mask(const sigset_t *set)
{
    pthread_t thread;
    sigset_t found;

    MTEST_CHECK(pthread_sigmask(SIG_BLOCK, NULL, &found) == 0 && !sigismember(&found, SIGUSR2),
                "the signal is blocked");
    MTEST_CHECK(pthread_sigmask(SIG_SETMASK, &found, NULL) == 0, "the mask was not set");
    MTEST_CHECK(pthread_sigmask(SIG_UNBLOCK, set, NULL) == 0, "the mask was not set");
    MTEST_CHECK(signal(SIGUSR2, count) != SIG_ERR && raise(SIGUSR2) == 0 && n_handled == 1,
                "the handler ran %d times", (int)n_handled);
    MTEST_CHECK(pthread_create(&thread, NULL, wait_for_handler, NULL) == 0, "no thread");
    while (!has_begun)
        usleep(1000);
    MTEST_CHECK(pthread_kill(thread, SIGUSR2) == 0, "the signal was not sent");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const struct timespec limit = {1000, 0};
    sigset_t set;

    mtest_init(&argc, &argv, 2);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (mtest_rank < mtest_size - 1)
        MTEST_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "the mask was not set");
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == mtest_size - 1)
        use_mask(&set);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank < mtest_size - 1) {
        MTEST_CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0, "the signal was not sent");
        MTEST_CHECK(sigtimedwait(&set, NULL, &limit) == SIGUSR2, "the signal did not come");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
