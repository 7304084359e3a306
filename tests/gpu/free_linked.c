/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that is linked with the driver frees memory of each kind behind a stream that waits for an operation of MPI: the
 * operation goes on, also if it needs launches and the process has one rank. So it does behind a launch of a graph, on
 * another thread, and beside captures of all modes, which stay valid. Argument "registered": memory of the host is unregistered,
 * too, which waits for all ranks of the process.
 */
#include <pthread.h>
#include <string.h>

#include "enqueue.h"

#define N 3000
#define ROUNDS 3

static struct etest test;
static CUstream captured;
static CUdeviceptr from, to;
static CUgraphExec exec;
static CUcontext context;
static int step; /* number of sums that have been enqueued */

/* ---- Frees ---- */

static void free_device(void)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAlloc(&memory, 4096));
    GTEST_CU(cuMemFree(memory));
}

static void free_pinned(void)
{
    void *memory;

    GTEST_CU(cuMemAllocHost(&memory, 4096));
    GTEST_CU(cuMemFreeHost(memory));
}

static void end_registration(void)
{
    void *memory = mtest_alloc(4096);

    GTEST_CU(cuMemHostRegister(memory, 4096, 0));
    GTEST_CU(cuMemHostUnregister(memory));
    free(memory);
}

static void *free_in_thread(void *unused)
{
    GTEST_CU(cuCtxSetCurrent(context));
    free_device();
    return unused;
}

static void free_on_thread(void)
{
    pthread_t thread;

    MTEST_CHECK(pthread_create(&thread, NULL, free_in_thread, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
}

static void free_capturing(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(captured, mode));
    GTEST_CU(cuThreadExchangeStreamCaptureMode(&relaxed));
    free_device();
    GTEST_CU(cuThreadExchangeStreamCaptureMode(&relaxed));
    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuGraphDestroy(graph));
}

static void free_in_global(void)
{
    free_capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void free_in_thread_local(void)
{
    free_capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void free_in_relaxed(void)
{
    free_capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void (*const frees[])(void) = {free_device,          free_pinned,     free_on_thread,  free_in_global,
                                      free_in_thread_local, free_in_relaxed, end_registration};
#define FREES ((int)(sizeof frees / sizeof *frees))

/* ---- Work ---- */

static void enqueue_sum(void)
{
    MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, test.comm));
}

static void capture_sum(void)
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    enqueue_sum();
    GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
}

static void check_free(void (*free_memory)(void), int by_graph)
{
    unsigned value = (unsigned)++step;

    GTEST_CU(cuMemsetD32Async(from, value, N, test.cuda));
    if (by_graph)
        GTEST_CU(cuGraphLaunch(exec, test.cuda));
    else
        enqueue_sum();
    free_memory();
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(to, N, value * (unsigned)mtest_size, "the sum");
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? FREES : FREES - 1;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    from = etest_alloc(N);
    to = etest_alloc(N);
    GTEST_CU(cuCtxGetCurrent(&context));
    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    test = etest_begin(0, 0);
    capture_sum();
    for (int i = 0; i < 2 * n * ROUNDS; i++)
        check_free(frees[i % n], i / n % 2);
    GTEST_CU(cuGraphExecDestroy(exec));
    etest_end(&test);
    GTEST_CU(cuStreamDestroy(captured));
    GTEST_CU(cuMemFree(from));
    GTEST_CU(cuMemFree(to));
    return mtest_end();
}
