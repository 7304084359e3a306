/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cuda_runtime.h: a replacement of CUDA's that runs the GPU examples on the CPU: memory is host memory, a
 * kernel is a loop over its threads, and all work is complete when a call returns. It tests the logic of the
 * examples, not their use of CUDA. Kernels may use atomics, but neither shared memory nor __syncthreads.
 * host_launch stands for <<<>>> (see tests/programs/cuda_examples_test.sh).
 */
#ifndef HOST_CUDA_RUNTIME_H
#define HOST_CUDA_RUNTIME_H

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using std::max;
using std::min;

#define __global__ static
#define __device__
#define __host__

enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaStreamNonBlocking = 1 };
typedef struct host_stream *cudaStream_t;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;

struct double3 {
    double x, y, z;
};

static inline double3 make_double3(double x, double y, double z)
{
    return {x, y, z};
}

template <class Kernel, class... Arguments>
void host_launch(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments)
{
    gridDim = grid;
    blockDim = block;
    for (unsigned i = 0; i < grid.x * grid.y * grid.z; i++) {
        blockIdx = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
        for (unsigned t = 0; t < block.x * block.y * block.z; t++) {
            threadIdx = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
            kernel(arguments...);
        }
    }
}

template <class T>
T atomicAdd(T *place, T value)
{
    T old = *place;
    *place += value;
    return old;
}

static inline int atomicOr(int *place, int value)
{
    int old = *place;
    *place |= value;
    return old;
}

/* Memory begins with a pattern: what is read before it is written shows. */
template <class T>
cudaError_t cudaMalloc(T **place, size_t len_bytes)
{
    *place = (T *)malloc(len_bytes);
    memset((void *)*place, 0x7f, len_bytes);
    return cudaSuccess;
}

template <class T>
cudaError_t cudaMallocHost(T **place, size_t len_bytes)
{
    return cudaMalloc(place, len_bytes);
}

static inline cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

static inline cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t len_bytes, cudaMemcpyKind)
{
    memcpy(to, from, len_bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t len_bytes, cudaMemcpyKind,
                                          cudaStream_t = NULL)
{
    memcpy(to, from, len_bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemset(void *memory, int value, size_t len_bytes)
{
    memset(memory, value, len_bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemsetAsync(void *memory, int value, size_t len_bytes, cudaStream_t = NULL)
{
    return cudaMemset(memory, value, len_bytes);
}

static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = (cudaStream_t)malloc(1);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaFree(stream);
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

static inline cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

static inline cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 2;
    return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int device)
{
    return device < 2 ? cudaSuccess : (cudaError_t)1;
}

static inline const char *cudaGetErrorString(cudaError_t)
{
    return "an error of cuda_runtime.h's stand-in";
}

#endif
