/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI sends what cudaMemset writes behind a graph of kernels that takes its time, also in a program that captures operations of
 * MPI in other graphs.
 */
#include <pthread.h>
#include <time.h>

#include "enqueue.h"

#define N 1000
#define KERNEL_MS 300

static struct etest test;

static CUgraphExec end_capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
    return exec;
}

/* Collective. */
static void launch_barrier(void)
{
    CUgraphExec exec;

    GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    MTEST_OK(MPIX_Barrier_enqueue(test.comm));
    exec = end_capture(test.cuda);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphLaunch(exec, test.cuda));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuGraphExecDestroy(exec));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void *end_kernel(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = KERNEL_MS * 1000000}, NULL); /* so long the kernel takes */
    *test.flag = 1;
    return NULL;
}

static void send_behind_kernel(void)
{
    CUstream blocking;
    CUgraphExec spin;
    CUdeviceptr fresh;
    pthread_t thread;

    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    GTEST_CU(cuMemAlloc(&fresh, N * sizeof(unsigned)));
    *test.flag = 0;
    GTEST_CU(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    gtest_launch_spin((CUdeviceptr)test.flag, blocking);
    spin = end_capture(blocking);
    GTEST_CU(cuGraphLaunch(spin, blocking));
    GTEST_CU(cuMemsetD32(fresh, 42, N)); /* in the default stream, which waits for the launch */
    MTEST_CHECK(pthread_create(&thread, NULL, end_kernel, NULL) == 0, "no thread");
    MTEST_OK(MPI_Send((void *)fresh, N, MPI_UNSIGNED, 1, 0, MPI_COMM_WORLD));
    pthread_join(thread, NULL);
    GTEST_CU(cuStreamSynchronize(blocking));
    GTEST_CU(cuGraphExecDestroy(spin));
    GTEST_CU(cuMemFree(fresh));
    GTEST_CU(cuStreamDestroy(blocking));
}

static void recv(void)
{
    unsigned got[N];

    MTEST_OK(MPI_Recv(got, N, MPI_UNSIGNED, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CHECK(got[0] == 42 && got[N - 1] == 42, "%u and %u instead of 42", got[0], got[N - 1]);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    test = etest_begin(0, 0);
    launch_barrier();
    if (mtest_rank == 0)
        send_behind_kernel();
    else if (mtest_rank == 1)
        recv();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_end(&test);
    return mtest_end();
}
