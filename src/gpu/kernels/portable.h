/* SPDX-License-Identifier: BSD-3-Clause
 *
 * portable.h: the environment of the kernels' common source on a GPU (nvcc), and its replacement on a CPU
 * (the C++ compiler, for the fake driver of the tests).
 *
 * A kernel's body is a function of its argument, the thread number and the number of threads. On a CPU all
 * threads of a launch are sequential calls, so bodies have no barriers between more than GPU_LANES threads; data
 * that a block prepares together is in GPU_BLOCK_WORDS.
 */
#ifndef GPU_KERNELS_PORTABLE_H
#define GPU_KERNELS_PORTABLE_H

#include "gpu/kernels/kernels.h"

#ifdef __CUDACC__

#define GPU_FN static __device__ __forceinline__
#define GPU_PRAGMA(text) _Pragma(#text)
#define GPU_UNROLL _Pragma("unroll")
#define GPU_UNROLL_BY(n) GPU_PRAGMA(unroll n)

/* The memory at an address. */
#define GPU_AT(T, addr) ((T *)(addr))

#define GPU_KERNEL(name, type, body)                                                                  \
    extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ type args)         \
    {                                                                                                 \
        body(args, (uint64_t)blockIdx.x *blockDim.x + threadIdx.x, (uint64_t)gridDim.x * blockDim.x); \
    }

/* A table of the argument as a pointer that is fast to read at different positions in different threads. */
#define GPU_BLOCK_WORDS(pointer, from, n, max)                                  \
    __shared__ int64_t block_words[max];                                        \
    for (unsigned word = threadIdx.x; word < (unsigned)(n); word += blockDim.x) \
        block_words[word] = (from)[word];                                       \
    __syncthreads();                                                            \
    const int64_t *pointer = block_words

GPU_FN uint32_t high_word(uint32_t a, uint32_t b)
{
    return __umulhi(a, b);
}

#define GPU_RESIDENT_KERNEL(name, type, body)                                                 \
    extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ type args) \
    {                                                                                         \
        body(args, threadIdx.x, blockDim.x);                                                  \
    }
#define GPU_SHARED __shared__
#define GPU_LANES 32 /* threads that can wait for each other with GPU_WARP_BARRIER */
#define GPU_ODD_BUFFERS GPU_ODD_WARPS
#define GPU_BARRIER() __syncthreads()
#define GPU_WARP_BARRIER() __syncwarp()

/* Makes this thread's writes, and writes that it has observed, visible to all, including the CPU, before
 * its next actions. */
#define GPU_FENCE() __threadfence_system()

/* Words that the CPU or other threads write meanwhile. */
template <typename T>
GPU_FN T gpu_read_now(uint64_t addr)
{
    return *(volatile const T *)addr;
}
template <typename T>
GPU_FN void gpu_write_now(uint64_t addr, T value)
{
    *(volatile T *)addr = value;
}

/* Reads data that others have written since this kernel began: bypasses the multiprocessor's own cache. */
#define GPU_READ_FRESH(T, addr) __ldcg((const T *)(addr))

/* Nanoseconds since some time in the past. */
GPU_FN uint64_t gpu_now_ns()
{
    uint64_t now;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

#else

#include <cstring>
#include <ctime>
#include <type_traits>
#include <unistd.h>

#include "fakecuda.h"

#define GPU_FN static inline
#define GPU_UNROLL
#define GPU_UNROLL_BY(n)

/* The location of an address's bytes in the fake driver. If the address is wrong, the driver records the
 * error and the kernel continues with other memory. */
template <typename T>
GPU_FN T *gpu_at(uint64_t addr)
{
    static thread_local typename std::remove_const<T>::type nowhere;
    void *bytes = fakecuda_alias(addr, sizeof(T));

    return bytes ? (T *)bytes : &nowhere;
}
#define GPU_AT(T, addr) gpu_at<T>(addr)

/* Few, so that each has many units to iterate over. */
#define GPU_FAKE_THREADS 96

#define GPU_KERNEL(name, type, body)                                              \
    extern "C" __attribute__((visibility("default"))) void name(const void *args) \
    {                                                                             \
        for (uint64_t thread = 0; thread < GPU_FAKE_THREADS; thread++)            \
            body(*(const type *)args, thread, GPU_FAKE_THREADS);                  \
    }

#define GPU_BLOCK_WORDS(pointer, from, n, max) const int64_t *pointer = (from)

#define GPU_RESIDENT_KERNEL(name, type, body)                                     \
    extern "C" __attribute__((visibility("default"))) void name(const void *args) \
    {                                                                             \
        body(*(const type *)args, 0, 1);                                          \
    }
#define GPU_SHARED
#define GPU_LANES 1
#define GPU_ODD_BUFFERS 1
#define GPU_BARRIER() (void)0
#define GPU_WARP_BARRIER() (void)0
#define GPU_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define GPU_READ_FRESH(T, addr) (*GPU_AT(const T, addr))

template <typename T>
GPU_FN T gpu_read_now(uint64_t addr)
{
    return __atomic_load_n(GPU_AT(T, addr), __ATOMIC_SEQ_CST);
}
template <typename T>
GPU_FN void gpu_write_now(uint64_t addr, T value)
{
    __atomic_store_n(GPU_AT(T, addr), value, __ATOMIC_SEQ_CST);
}

GPU_FN uint64_t gpu_now_ns()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

GPU_FN uint32_t high_word(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

#endif

#endif
