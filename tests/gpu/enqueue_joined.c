/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a process with one rank that finds all functions of the driver by dlsym, as a runtime does: the rank's main thread joins a
 * thread, or waits for it by a semaphore, while that waits in CUDA for operations of MPI, which it or the main thread has added;
 * they end. Argument: "early": the thread begins before the first stream of MPI.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "found.h"

#define N 3000
#define ROUNDS 20

static CUcontext context;
static CUstream cuda;
static CUdeviceptr from, to;
static MPI_Comm comm;
static sem_t begins, ended;

static void add(void)
{
    MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, comm));
}

static void *wait_often(void *unused)
{
    FIND(cuCtxSetCurrent);
    FIND(cuStreamSynchronize);

    while (sem_wait(&begins) != 0)
        ;
    CU(call_cuCtxSetCurrent(context));
    CU(call_cuStreamSynchronize(cuda)); /* what the main thread has added */
    for (int i = 0; i < ROUNDS; i++) {
        add();
        CU(call_cuStreamSynchronize(cuda));
    }
    sem_post(&ended);
    add();
    CU(call_cuStreamSynchronize(cuda));
    return unused;
}

static void begin(pthread_t *thread)
{
    MTEST_CHECK(pthread_create(thread, NULL, wait_often, NULL) == 0, "a thread");
}

int main(int argc, char **argv)
{
    bool is_early = argc > 1;
    int provided;

    MTEST_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    mtest_learn_world(1);
    found_open();
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuStreamCreate);
    FIND(cuStreamSynchronize);
    FIND(cuMemAlloc);
    MPIX_Stream stream;
    pthread_t thread;

    if (call_cuInit(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
    CU(call_cuDevicePrimaryCtxRetain(&context, 0));
    CU(call_cuCtxSetCurrent(context));
    CU(call_cuStreamCreate(&cuda, CU_STREAM_NON_BLOCKING));
    CU(call_cuMemAlloc(&from, N * 4));
    CU(call_cuMemAlloc(&to, N * 4));
    sem_init(&begins, 0, 0);
    sem_init(&ended, 0, 0);
    if (is_early)
        begin(&thread);
    found_make_stream(&cuda, &stream, &comm);
    add();
    CU(call_cuStreamSynchronize(cuda));
    if (!is_early)
        begin(&thread);
    add();
    sem_post(&begins);
    while (sem_wait(&ended) != 0)
        ;
    MTEST_CHECK(pthread_join(thread, NULL) == 0, "the thread's end");
    add();
    CU(call_cuStreamSynchronize(cuda));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    return mtest_end();
}
