/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread of a rank frees memory beside the kernel of another rank, once streams may wait for messages: the memory is given
 * back later, and only once.
 */
#include <pthread.h>

#include "enqueue.h"

#define N_BYTES 4096

static CUdeviceptr memory;

static void *free_and_reuse(void *unused)
{
    CUdeviceptr first, second;

    (void)unused;
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    GTEST_CU(cuMemFree(memory));
    MTEST_CHECK(cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE, "memory is freed twice");
    GTEST_CU(cuMemAlloc(&first, N_BYTES));
    GTEST_CU(cuMemAlloc(&second, N_BYTES));
    MTEST_CHECK(first != second, "the same memory twice");
    GTEST_CU(cuMemsetD32Async(first, 1, N_BYTES / 4, CU_STREAM_PER_THREAD));
    GTEST_CU(cuMemFree(first));
    GTEST_CU(cuMemFree(second));
    return NULL;
}

int main(int argc, char **argv)
{
    struct etest test;
    pthread_t thread;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    gtest_load_kernels();
    test = etest_begin(0, 0);
    GTEST_CU(cuMemAlloc(&memory, N_BYTES));
    if (mtest_rank == 0)
        etest_hold(&test);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        etest_release(&test);
    } else if (mtest_rank == 1) {
        MTEST_CHECK(pthread_create(&thread, NULL, free_and_reuse, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_end(&test);
    return mtest_end();
}
