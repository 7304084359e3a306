/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bare.c: the reference for messages between GPUs: a driver copy from GPU to GPU (or within one) and the wait
 * for it, without MPI. Prints microseconds (median) and, for large ones, GB/s.
 *
 *      bare FROM TO
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void check(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}
#define CHECK(call) check(call, #call)

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int ordinals[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 0};
    CUcontext contexts[2];
    CUdeviceptr buffers[2];
    CUstream stream;
    size_t most = (size_t)64 << 20;

    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        CUdevice device;
        CHECK(cuDeviceGet(&device, ordinals[i]));
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], device));
        CHECK(cuCtxSetCurrent(contexts[i]));
        CHECK(cuMemAlloc(&buffers[i], most));
    }
    CHECK(cuCtxSetCurrent(contexts[0]));
    if (ordinals[0] != ordinals[1])
        CHECK(cuCtxEnablePeerAccess(contexts[1], 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    printf("bare copies, GPU %d to GPU %d\n%12s %10s %10s\n", ordinals[0], ordinals[1], "bytes", "us",
           "GB/s");
    for (size_t n = 8; n <= most; n *= 8) {
        double times[400];
        int n_times = n > (1 << 20) ? 60 : 400;
        for (int i = -20; i < n_times; i++) {
            double begin = now_us();
            CHECK(cuMemcpyAsync(buffers[1], buffers[0], n, stream));
            CHECK(cuStreamSynchronize(stream));
            if (i >= 0)
                times[i] = now_us() - begin;
        }
        qsort(times, (size_t)n_times, sizeof *times, ascending);
        printf("%12zu %10.2f %10.2f\n", n, times[n_times / 2], (double)n / times[n_times / 2] * 1e-3);
        if (n == (size_t)2 << 20)
            n = most / 8;
    }
    return 0;
}
