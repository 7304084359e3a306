/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a process with one rank, linked with the driver: a thread frees memory while the rank adds operations to a stream, each
 * after the last is done or without end; both go on. Frees that CUDA answers without a wait (of NULL, of a pool's memory, and in
 * a host function) return while a stream waits for a message that is sent later. With "found", cuMemFree comes from dlsym, as a
 * runtime finds it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "enqueue.h"

#define N 3000
#define FREES 300
#define IN_FLIGHT 8

static struct etest test;
static CUdeviceptr from, to;
static CUcontext context;
static atomic_bool is_done;
static atomic_int refused_with;
static CUresult(CUDAAPI *found_free)(CUdeviceptr);

static void *free_often(void *unused)
{
    CUdeviceptr memory;

    GTEST_CU(cuCtxSetCurrent(context));
    for (int i = 0; i < FREES; i++) {
        GTEST_CU(cuMemAlloc(&memory, 4096));
        GTEST_CU(found_free ? found_free(memory) : cuMemFree(memory));
    }
    is_done = true;
    return unused;
}

static void enqueue_sum(void)
{
    MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, test.comm));
}

/* depth: operations in the stream at a time. */
static void check_beside(int depth)
{
    CUevent events[IN_FLIGHT];
    pthread_t thread;

    for (int i = 0; i < depth; i++)
        GTEST_CU(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    is_done = false;
    MTEST_CHECK(pthread_create(&thread, NULL, free_often, NULL) == 0, "a thread");
    for (int i = 0; !is_done; i = (i + 1) % depth) {
        GTEST_CU(cuEventSynchronize(events[i]));
        enqueue_sum();
        GTEST_CU(cuEventRecord(events[i], test.cuda));
    }
    pthread_join(thread, NULL);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    for (int i = 0; i < depth; i++)
        GTEST_CU(cuEventDestroy(events[i]));
}

static void CUDA_CB free_in_function(void *memory)
{
    refused_with = (int)cuMemFree(*(CUdeviceptr *)memory);
}

static void check_refused(void)
{
    CUdeviceptr memory = etest_alloc(N), pooled;
    CUstream other;
    unsigned data[N] = {0};

    GTEST_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
    GTEST_CU(cuMemFree(0));
    GTEST_CU(cuMemAllocAsync(&pooled, N, other));
    GTEST_CU(cuStreamSynchronize(other));
    GTEST_CU(found_free ? found_free(pooled) : cuMemFree(pooled));
    GTEST_CU(cuLaunchHostFunc(other, free_in_function, &memory));
    GTEST_CU(cuStreamSynchronize(other));
    MTEST_CHECK(refused_with == CUDA_ERROR_NOT_PERMITTED, "a free in a host function: %d", refused_with);
    MTEST_OK(MPI_Send(data, N, MPI_UNSIGNED, 0, 0, test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuStreamDestroy(other));
    GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    if (argc > 1 && strcmp(argv[1], "found") == 0) {
        *(void **)&found_free = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
        MTEST_CHECK(found_free != NULL, "no cuMemFree");
    }
    from = etest_alloc(N);
    to = etest_alloc(N);
    GTEST_CU(cuCtxGetCurrent(&context));
    test = etest_begin(0, 0);
    enqueue_sum();
    GTEST_CU(cuStreamSynchronize(test.cuda));
    check_refused();
    check_beside(1);
    check_beside(IN_FLIGHT);
    etest_end(&test);
    GTEST_CU(cuMemFree(from));
    GTEST_CU(cuMemFree(to));
    return mtest_end();
}
