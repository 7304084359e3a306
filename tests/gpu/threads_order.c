/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two threads of a rank: while a submission of one waits inside the call, the other uses a stream that is ordered with
 * it. Later work of the first thread follows its own submission all the same.
 */
#include <pthread.h>

#include "kernels.h"

#define N (1 << 20)

static CUcontext context;
static CUdeviceptr from, to, other;
static CUstream blocking, unrelated;
static volatile unsigned *flag;

/* What the second thread does while the first one is in its call. */
struct intrusion {
    CUstream stream;          /* where it submits */
    const char *functions[2]; /* of the driver: the call is inside if one of these has been called */
    int n_before;             /* calls before */
};

static int count(const struct intrusion *intrusion)
{
    return fakecuda_calls(intrusion->functions[0]) + fakecuda_calls(intrusion->functions[1]);
}

/* On a real GPU nothing shows where the other thread is: it comes in time nearly always. */
static void *intrude(void *arg)
{
    const struct intrusion *intrusion = arg;

    GTEST_CU(cuCtxSetCurrent(context));
    do
        usleep(1000);
    while (fakecuda_is_here() && count(intrusion) == intrusion->n_before);
    GTEST_CU(cuMemsetD32Async(other, 0, 16, intrusion->stream));
    *flag = 1;
    return NULL;
}

static pthread_t begin(struct intrusion *intrusion, CUstream held)
{
    pthread_t thread;

    GTEST_CU(cuMemsetD32(from, 1, N));
    GTEST_CU(cuMemsetD32(to, 2, N));
    GTEST_CU(cuCtxSynchronize());
    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, held);
    intrusion->n_before = fakecuda_is_here() ? count(intrusion) : 0;
    MTEST_CHECK(pthread_create(&thread, NULL, intrude, intrusion) == 0, "no thread");
    return thread;
}

static void end(pthread_t thread, unsigned expected, const char *what)
{
    unsigned got = 0;

    pthread_join(thread, NULL);
    GTEST_CU(cuMemcpyDtoH(&got, to + 4 * (N - 1), sizeof got));
    MTEST_CHECK(got == expected, "%s: %u instead of %u", what, got, expected);
}

/* A copy from pageable memory waits for its stream first. */
static void copy_pageable(void)
{
    struct intrusion intrusion = {.functions = {"cuStreamQuery", "cuStreamSynchronize"}};
    unsigned *host = mtest_alloc(N * sizeof *host);
    pthread_t thread = begin(&intrusion, blocking);

    for (int i = 0; i < N; i++)
        host[i] = 3;
    GTEST_CU(cuMemcpyHtoDAsync(from, host, N * sizeof *host, blocking));
    GTEST_CU(cuMemcpyDtoDAsync(to, from, N * sizeof *host, NULL));
    end(thread, 3, "default stream after a copy from pageable memory");
    free(host);
}

/* The first launch of a kernel waits for the GPU. */
static void launch_first(CUstream first, CUstream second)
{
    struct intrusion intrusion = {second, {"cuCtxRecordEvent", "cuLaunchKernel"}, 0};
    CUfunction loaded = gtest_mix;
    CUmodule module;
    pthread_t thread;

    GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
    GTEST_CU(cuModuleGetFunction(&gtest_mix, module, "gtest_mix"));
    thread = begin(&intrusion, unrelated);
    gtest_launch_mix(from, to, N, first); /* 5 * 1 + 2 */
    GTEST_CU(cuMemcpyDtoDAsync(to, from, N * sizeof(unsigned), second));
    end(thread, 7, first ? "default stream after a first launch" : "blocking stream after a first launch");
    GTEST_CU(cuModuleUnload(module));
    gtest_mix = loaded;
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    GTEST_CU(cuMemAlloc(&from, N * sizeof(unsigned)));
    GTEST_CU(cuMemAlloc(&to, N * sizeof(unsigned)));
    GTEST_CU(cuMemAlloc(&other, 64));
    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&unrelated, CU_STREAM_NON_BLOCKING));
    flag = gtest_flag();
    copy_pageable();
    launch_first(blocking, NULL);
    launch_first(NULL, blocking);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
