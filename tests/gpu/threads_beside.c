/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 1 waits for a thread of its own, as a barrier of OpenMP does, and so blocks its PE. The thread launches a kernel that runs
 * until the rank goes on, and another one behind it, while rank 0 frees pinned memory: CUDA waits for the whole GPU there, and
 * then the thread must not wait for CUDA.
 */
#include <pthread.h>

#include "kernels.h"
#include "mpi-ext.h"

#define TIMES 300

static CUcontext context;
static CUdeviceptr memory;
static volatile unsigned *flag;
static CUstream stream;
static pthread_barrier_t barrier;

static void *launch(void *unused)
{
    (void)unused;
    GTEST_CU(cuCtxSetCurrent(context));
    for (int i = 0; i < TIMES; i++) {
        pthread_barrier_wait(&barrier);
        *flag = 0;
        gtest_launch_spin((CUdeviceptr)flag, stream);
        gtest_launch_update(memory, 1, 1, 1, stream);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void wait_for_thread(void)
{
    pthread_t thread;
    unsigned sum;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&barrier, NULL, 2);
    MTEST_CHECK(pthread_create(&thread, NULL, launch, NULL) == 0, "no thread");
    for (int i = 0; i < TIMES; i++) {
        MTEST_OK(AMPI_Yield());
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        *flag = 1;
        GTEST_CU(cuStreamSynchronize(stream));
    }
    pthread_join(thread, NULL);
    GTEST_CU(cuMemcpyDtoH(&sum, memory, sizeof sum));
    MTEST_CHECK(sum == TIMES, "%u launches instead of %d", sum, TIMES);
}

static void free_memory(void)
{
    void *freed;

    for (int i = 0; i < TIMES; i++) {
        GTEST_CU(cuMemAllocHost(&freed, 4096));
        GTEST_CU(cuMemFreeHost(freed));
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    GTEST_CU(cuMemAlloc(&memory, sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(memory, 0, 1));
    flag = gtest_flag();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1)
        wait_for_thread();
    else
        free_memory();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
