/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank frees memory while it captures a stream: work in its other streams is done when the call returns, as without the
 * capture. "thread": another thread of the rank captures.
 */
#include <pthread.h>

#include "enqueue.h"

#define N 1000

static struct etest test;
static CUstream busy, captured;

static void *release_later(void *arg)
{
    usleep(100000);
    *test.flag = 1;
    return arg;
}

static void begin_capture(void)
{
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void *begin_capture_elsewhere(void *arg)
{
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    begin_capture();
    return arg;
}

static void end_capture(void)
{
    CUgraph graph;

    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuGraphDestroy(graph));
}

static void free_behind_kernel(CUdeviceptr data)
{
    unsigned *got;
    CUdeviceptr memory;
    pthread_t thread;

    GTEST_CU(cuMemAlloc(&memory, 4096));
    GTEST_CU(cuMemAllocHost((void **)&got, N * sizeof *got));
    memset(got, 0, N * sizeof *got);
    *test.flag = 0;
    gtest_launch_spin((CUdeviceptr)test.flag, busy);
    gtest_launch_update(data, N, 1, 7, busy);
    GTEST_CU(cuMemcpyDtoHAsync(got, data, N * sizeof *got, busy));
    MTEST_CHECK(pthread_create(&thread, NULL, release_later, NULL) == 0, "no thread");
    GTEST_CU(cuMemFree(memory));
    MTEST_CHECK(got[0] == 7 && got[N - 1] == 7, "the free returned before the copy was done: %u", got[0]);
    pthread_join(thread, NULL);
    GTEST_CU(cuStreamSynchronize(busy));
    GTEST_CU(cuMemFreeHost(got));
}

int main(int argc, char **argv)
{
    CUdeviceptr data;
    pthread_t thread;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    test = etest_begin(0, 0);
    data = etest_alloc(N);
    GTEST_CU(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    if (argc > 1) {
        MTEST_CHECK(pthread_create(&thread, NULL, begin_capture_elsewhere, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    } else {
        begin_capture();
    }
    free_behind_kernel(data);
    end_capture();
    GTEST_CU(cuStreamDestroy(busy));
    GTEST_CU(cuStreamDestroy(captured));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
    return mtest_end();
}
