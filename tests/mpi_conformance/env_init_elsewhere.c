/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that calls MPI_Init becomes the main thread, also if another thread has called MPI before. */
#include <pthread.h>

#include "mtest.h"

static int n_wrong;

static void check(int condition, const char *what)
{
    if (!condition)
        fprintf(stderr, "FAIL: %s\n", what);
    n_wrong += !condition;
}

static void *run(void *arg)
{
    int flag = -1, provided = -1, in = 0, out = 5;

    (void)arg;
    MPI_Initialized(&flag);
    check(flag == 0, "initialized before MPI_Init");
    check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS, "MPI_Init_thread");
    mtest_learn_world(1);
    MPI_Is_thread_main(&flag);
    check(flag == 1, "not the main thread");
    MPI_Sendrecv(&out, 1, MPI_INT, mtest_rank, 0, &in, 1, MPI_INT, mtest_rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(in == 5, "the message");
    MPI_Finalize();
    return NULL;
}

int main(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int flag = -1, len;
    pthread_t thread;
    MPI_Info info;

    MPI_Get_library_version(version, &len);
    MPI_Info_create(&info);
    MPI_Info_free(&info);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    MPI_Initialized(&flag);
    check(flag == 1, "not initialized after MPI_Init in another thread");
    MPI_Finalized(&flag);
    check(flag == 1, "not finalized after MPI_Finalize in another thread");
    return n_wrong != 0;
}
