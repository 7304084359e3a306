/* SPDX-License-Identifier: BSD-3-Clause
 *
 * While a rank loads a module, which waits inside CUDA for all work of the GPU, a rank that has not waited for CUDA yet launches a
 * kernel on its own PE. The load does not wait for that kernel, which ends only when another thread of its rank has submitted work,
 * too. FAKECUDA_CALL_US makes the load begin before the kernel.
 */
#include <pthread.h>

#include "kernels.h"

#define BEFORE_MS 10 /* the load is inside CUDA then */

static CUcontext context;
static CUdeviceptr memory;
static volatile unsigned *flag;
static pthread_barrier_t barrier;

static void *submit_and_let_go(void *unused)
{
    (void)unused;
    GTEST_CU(cuCtxSetCurrent(context));
    pthread_barrier_wait(&barrier);
    GTEST_CU(cuMemsetD32Async(memory, 42, 1, NULL));
    *flag = 1;
    return NULL;
}

static void launch_beside_load(CUstream stream)
{
    pthread_t thread;
    unsigned got;

    nanosleep(&(struct timespec){.tv_nsec = BEFORE_MS * 1000000}, NULL);
    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, stream);
    pthread_barrier_init(&barrier, NULL, 2);
    MTEST_CHECK(pthread_create(&thread, NULL, submit_and_let_go, NULL) == 0, "no thread");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    GTEST_CU(cuMemcpyDtoH(&got, memory, sizeof got));
    MTEST_CHECK(got == 42, "%u instead of 42", got);
}

int main(int argc, char **argv)
{
    CUmodule module;
    CUstream stream;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    GTEST_CU(cuMemAlloc(&memory, sizeof(unsigned)));
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    flag = gtest_flag();
    *flag = 1;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
        GTEST_CU(cuModuleUnload(module));
    } else if (mtest_rank == 1) {
        launch_beside_load(stream);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
