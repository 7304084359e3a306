/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cuda_runtime.h: a replacement of CUDA's for programs of bench/gpu whose kernels wait for each other: they run on the fake driver
 * (tests/support/fakecuda). A block is a thread of the CPU, and has one thread; so there are no warps, and __syncthreads does nothing. All
 * memory is pinned, which the host and kernels can use. host_launch stands for <<<>>> (see tests/gpu/papers_test.sh).
 */
#ifndef FAKE_CUDA_RUNTIME_H
#define FAKE_CUDA_RUNTIME_H

#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "fakecuda.h"

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __launch_bounds__(...)
#define HEDDLE_PREQUEST_ALIAS(address, n_bytes) ((char *)fakecuda_alias((uintptr_t)(address), (n_bytes)))

typedef int cudaError_t;
typedef CUstream cudaStream_t;
enum { cudaSuccess = 0, cudaStreamNonBlocking = CU_STREAM_NON_BLOCKING, cudaDevAttrMultiProcessorCount = 16 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
struct cudaFuncAttributes {
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

/* ---- In kernels ---- */

static inline void __syncthreads() {}
static inline void __syncwarp(unsigned) {}

static inline int __shfl_sync(unsigned, int value, int)
{
    return value;
}

static inline void __threadfence()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

static inline void __threadfence_system()
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

template <class T>
T atomicAdd(T *place, T value)
{
    return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
}

static inline unsigned atomicAdd(unsigned *place, int value)
{
    return atomicAdd(place, (unsigned)value);
}

template <class T>
T atomicMax(T *place, T value)
{
    T old = __atomic_load_n(place, __ATOMIC_SEQ_CST);

    while (old < value &&
           !__atomic_compare_exchange_n(place, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

/* Kernels that wait ask for the time: the threads that they wait for need the processor. */
static inline unsigned long long host_ns()
{
    timespec now;

    sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

/* ---- Launches ---- */

struct host_grid {
    std::function<void()> kernel;
    unsigned n_blocks;
};

struct host_block {
    const host_grid *grid;
    unsigned number;
    pthread_t thread;
};

static void *host_run_block(void *arg)
{
    const host_block *block = (const host_block *)arg;

    gridDim = dim3(block->grid->n_blocks);
    blockIdx = dim3(block->number, 0, 0);
    threadIdx = dim3(0, 0, 0);
    block->grid->kernel();
    return NULL;
}

static void host_run(void *arg)
{
    host_grid *grid = (host_grid *)arg;
    std::vector<host_block> blocks(grid->n_blocks);
    pthread_attr_t small;

    /* The C library keeps stacks of 40 MiB in all: with its usual ones, each block would map and unmap its own. */
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    for (unsigned i = 0; i < grid->n_blocks; i++) {
        blocks[i].grid = grid;
        blocks[i].number = i;
        if (pthread_create(&blocks[i].thread, &small, host_run_block, &blocks[i]) != 0)
            abort();
    }
    for (host_block &block : blocks)
        pthread_join(block.thread, NULL);
    pthread_attr_destroy(&small);
    delete grid;
}

template <class Kernel, class... Arguments>
void host_launch(Kernel kernel, dim3 grid, dim3, cudaStream_t stream, Arguments... arguments)
{
    if (fakecuda_launch(stream, host_run, new host_grid{[=] { kernel(arguments...); }, grid.x}) != 0)
        abort();
}

template <class Kernel>
int cudaFuncGetAttributes(cudaFuncAttributes *, Kernel)
{
    return 0;
}

/* ---- Devices, memory, streams ---- */

static inline const char *cudaGetErrorString(int)
{
    return "an error of the fake driver";
}

static inline int cudaGetLastError()
{
    return 0;
}

static inline int cudaGetDeviceCount(int *count)
{
    cuInit(0);
    return cuDeviceGetCount(count);
}

static inline int cudaSetDevice(int device)
{
    CUcontext context;

    return cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context);
}

static inline int cudaDeviceGetAttribute(int *value, int, int)
{
    *value = 3;
    return 0;
}

static inline int cudaDeviceSynchronize()
{
    return cuCtxSynchronize();
}

template <class T>
int cudaMallocHost(T **place, size_t len_bytes)
{
    return cuMemHostAlloc((void **)place, len_bytes, 0);
}

template <class T>
int cudaMalloc(T **place, size_t len_bytes)
{
    return cudaMallocHost(place, len_bytes);
}

static inline int cudaFreeHost(void *memory)
{
    return cuMemFreeHost(memory);
}

static inline int cudaFree(void *memory)
{
    return cuMemFreeHost(memory);
}

static inline int cudaMemcpy(void *to, const void *from, size_t len_bytes, cudaMemcpyKind)
{
    memcpy(to, from, len_bytes);
    return 0;
}

static inline int cudaMemcpyAsync(void *to, const void *from, size_t len_bytes, cudaMemcpyKind,
                                  cudaStream_t stream)
{
    return cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, len_bytes, stream);
}

static inline int cudaMemset(void *memory, int value, size_t len_bytes)
{
    memset(memory, value, len_bytes);
    return 0;
}

static inline int cudaMemsetAsync(void *memory, int value, size_t len_bytes, cudaStream_t stream)
{
    return cuMemsetD8Async((CUdeviceptr)memory, (unsigned char)value, len_bytes, stream);
}

static inline int cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cuStreamCreate(stream, flags);
}

static inline int cudaStreamDestroy(cudaStream_t stream)
{
    return cuStreamDestroy(stream);
}

static inline int cudaStreamSynchronize(cudaStream_t stream)
{
    return cuStreamSynchronize(stream);
}

#endif
