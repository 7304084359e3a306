/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which a rank's threads end it: pthread_exit or cancellation in main, exit() on another thread,
 * the end of the last thread. */
#include "mtest.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t never;

static void *call_exit(void *arg)
{
    (void)arg;
    exit(5);
    return NULL;
}

/* Starts the thread and does what argv[2] says. */
static void exit_on_thread(const char *meanwhile)
{
    pthread_t thread;

    pthread_create(&thread, NULL, call_exit, NULL);
    if (strcmp(meanwhile, "join") == 0)
        pthread_join(thread, NULL);
    while (strcmp(meanwhile, "sleep") == 0)
        sleep(1);
    while (strcmp(meanwhile, "yield") == 0)
        sched_yield();
    while (strcmp(meanwhile, "block") == 0)
        syscall(SYS_pause); /* pause lets other ranks run */
    pthread_barrier_init(&never, NULL, 2);
    pthread_barrier_wait(&never);
}

/* The thread that outlives main. */
static void *print_last(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    printf("the last thread of rank %d ends\n", mtest_rank);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit", *meanwhile = argc > 2 ? argv[2] : "";
    int last;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mtest_size);
    last = mtest_rank == mtest_size - 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "exit") == 0 && last)
        pthread_exit(NULL);
    if (strcmp(how, "cancel") == 0 && last) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    if (strcmp(how, "thread") == 0 && last)
        exit_on_thread(meanwhile);
    if (strcmp(how, "finalized") != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        printf("past the barrier\n"); /* never: the last rank does not come */
    }
    MPI_Finalize();
    if (strcmp(meanwhile, "outlive") == 0) {
        static pthread_t self;
        pthread_t thread;
        self = pthread_self();
        pthread_create(&thread, NULL, print_last, &self);
    }
    if (strcmp(meanwhile, "exit") == 0 || strcmp(meanwhile, "outlive") == 0)
        pthread_exit(NULL);
    if (last)
        exit_on_thread(meanwhile);
    printf("rank %d goes on\n", mtest_rank);
    return 0;
}
