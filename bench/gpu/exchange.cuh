/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange.cuh: parts of exchange_methods.cu: GPUs, threads that submit to them, and kernels that copy and
 * combine.
 */
#ifndef EXCHANGE_CUH
#define EXCHANGE_CUH

#include <algorithm>
#include <vector>

#include "combine.cuh"
#include "measure.cuh"

#define GPUS_MAX 8
#define STREAMS 4 /* of an owner on a GPU */
#define EVENTS 256

/* ---- GPUs, and the submitting threads ---- */

static int n_gpus; /* that take part */
static char *in[GPUS_MAX], *out[GPUS_MAX], *scratch[GPUS_MAX];

/* A submitting thread, or its share of the one thread's work: it has streams of its own on all GPUs. */
struct owner {
    cudaStream_t streams[GPUS_MAX][STREAMS];
    bool is_used[GPUS_MAX][STREAMS];
    cudaEvent_t events[GPUS_MAX][EVENTS];
    int n_events[GPUS_MAX];
};
static owner owners[GPUS_MAX];

static cudaStream_t stream(int o, int gpu, int k)
{
    cudaStream_t *s = &owners[o].streams[gpu][k];

    CHECK(cudaSetDevice(gpu));
    if (!*s)
        CHECK(cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, -5));
    owners[o].is_used[gpu][k] = true;
    return *s;
}
/* Later work of `to` waits for the work that is now in `from`, a stream of this GPU. */
static cudaEvent_t mark(int o, int gpu, cudaStream_t from)
{
    int i = owners[o].n_events[gpu]++;
    cudaEvent_t *event = &owners[o].events[gpu][i];

    CHECK(i >= EVENTS ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    CHECK(cudaSetDevice(gpu));
    if (!*event)
        CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(*event, from));
    return *event;
}
static void after(cudaStream_t to, cudaEvent_t event)
{
    CHECK(cudaStreamWaitEvent(to, event, 0));
}
static void wait_owner(int o)
{
    for (int g = 0; g < n_gpus; g++) {
        for (int k = 0; k < STREAMS; k++)
            if (owners[o].is_used[g][k]) {
                cudaError_t error;
                while ((error = cudaStreamQuery(owners[o].streams[g][k])) == cudaErrorNotReady)
                    ;
                CHECK(error);
                owners[o].is_used[g][k] = false;
            }
        owners[o].n_events[g] = 0;
    }
}
static void check_launch()
{
    cudaError_t error = cudaGetLastError();

    CHECK(error == cudaErrorNotReady ? cudaSuccess : error);
}
static int next_of(int g, int k) /* k places on */
{
    return (g + k) % n_gpus;
}

/* ---- Kernels ---- */

struct copy_list {
    int n;
    int is_split; /* the blocks are dealt out to the copies; else all blocks do one copy after the other */
    uint64_t n_vectors;
    uint64_t to[GPUS_MAX], from[GPUS_MAX];
};
template <int flight>
__device__ void copy_vectors(uint4 *to, const uint4 *from, uint64_t n, uint64_t thread, uint64_t n_threads)
{
    uint64_t i = thread;
    for (; i + (flight - 1) * n_threads < n; i += flight * n_threads) {
        uint4 v[flight];
#pragma unroll
        for (int f = 0; f < flight; f++)
            v[f] = from[i + f * n_threads];
#pragma unroll
        for (int f = 0; f < flight; f++)
            to[i + f * n_threads] = v[f];
    }
    for (; i < n; i += n_threads)
        to[i] = from[i];
}
template <int flight>
__global__ void __launch_bounds__(512) copy_kernel(const __grid_constant__ copy_list a)
{
    if (a.is_split) {
        int which = blockIdx.x % a.n;
        copy_vectors<flight>((uint4 *)a.to[which], (const uint4 *)a.from[which], a.n_vectors,
                             (uint64_t)(blockIdx.x / a.n) * blockDim.x + threadIdx.x, (uint64_t)(gridDim.x / a.n) * blockDim.x);
        return;
    }
    for (int which = 0; which < a.n; which++)
        copy_vectors<flight>((uint4 *)a.to[which], (const uint4 *)a.from[which], a.n_vectors,
                             (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, (uint64_t)gridDim.x * blockDim.x);
}

/* All inputs are loaded before anything is combined, the `first` one first. */
template <int n, int first, int flight>
__device__ void combine_rotated(const struct gpu_kernel_combine &a, uint64_t i, uint64_t step)
{
    float4s v[n][flight];
#pragma unroll
    for (int k = 0; k < n; k++)
#pragma unroll
        for (int f = 0; f < flight; f++)
            v[(first + k) % n][f] = *((const float4s *)a.addrs[(first + k) % n] + i + f * step);
#pragma unroll
    for (int k = 1; k < n; k++)
#pragma unroll
        for (int f = 0; f < flight; f++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[0][f].elems[j] = v[k][f].elems[j] + v[0][f].elems[j];
    for (int k = n; k < n + a.n_outs; k++)
#pragma unroll
        for (int f = 0; f < flight; f++)
            *((float4s *)a.addrs[k] + i + f * step) = v[0][f];
}
template <int n, int first, int flight>
__global__ void __launch_bounds__(512) rotated_kernel(const __grid_constant__ struct gpu_kernel_combine a)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, n_threads = (uint64_t)gridDim.x * blockDim.x;
    uint64_t n_vectors = (uint64_t)a.count / 4;

    for (; i + (flight - 1) * n_threads < n_vectors; i += flight * n_threads)
        combine_rotated<n, first, flight>(a, i, n_threads);
    for (; i < n_vectors; i += n_threads)
        combine_rotated<n, first, 1>(a, i, n_threads);
}
/* Blocks of threads take tiles of consecutive vectors, beginning with one that is the GPU's own choice. */
template <int n, int flight>
__global__ void __launch_bounds__(512) tiled_kernel(const __grid_constant__ struct gpu_kernel_combine a, int skip)
{
    uint64_t n_vectors = (uint64_t)a.count / 4, tile = (uint64_t)blockDim.x * flight, n_tiles = n_vectors / tile;

    for (uint64_t t = blockIdx.x; t < n_tiles; t += gridDim.x) {
        uint64_t at = t + n_tiles * skip / n;
        combine_rotated<n, 0, flight>(a, (at < n_tiles ? at : at - n_tiles) * tile + threadIdx.x, blockDim.x);
    }
    for (uint64_t i = n_tiles * tile + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n_vectors; i += (uint64_t)gridDim.x * blockDim.x)
        combine_rotated<n, 0, 1>(a, i, 1);
}

typedef void (*combine_fn)(struct gpu_kernel_combine);
template <int flight>
static combine_fn rotated_of(int n, int first)
{
    static const combine_fn three[] = {rotated_kernel<3, 0, flight>, rotated_kernel<3, 1, flight>, rotated_kernel<3, 2, flight>};
    static const combine_fn four[] = {rotated_kernel<4, 0, flight>, rotated_kernel<4, 1, flight>, rotated_kernel<4, 2, flight>,
                                      rotated_kernel<4, 3, flight>};
    return n == 3 ? three[first] : n == 4 ? four[first] : nullptr;
}
static combine_fn combine_of(int flight)
{
    return flight == 1 ? combine_kernel<1, 512> : flight == 2 ? combine_kernel<2, 512> : flight == 4 ? combine_kernel<4, 512> : combine_kernel<8, 512>;
}

enum shape { PLAIN, ROTATED, TILED };
struct variant {
    shape kind;
    int flight, blocks;
};
static void launch(int gpu, cudaStream_t s, variant v, const std::vector<char *> &from, const std::vector<char *> &to, size_t n_bytes)
{
    struct gpu_kernel_combine a = {};
    int n = (int)from.size();
    size_t per_block = (size_t)512 * v.flight * 16;
    unsigned blocks = (unsigned)std::min((n_bytes + per_block - 1) / per_block, (size_t)v.blocks);

    a.count = (int64_t)(n_bytes / 4);
    for (char *p : from)
        a.addrs[a.n_inputs++] = (uint64_t)p;
    for (char *p : to)
        a.addrs[a.n_inputs + a.n_outs++] = (uint64_t)p;
    if (n_bytes == 0)
        return;
    CHECK(cudaSetDevice(gpu));
    if (v.kind == ROTATED && (n == 3 || n == 4))
        (v.flight == 1 ? rotated_of<1>(n, gpu % n) : v.flight == 2 ? rotated_of<2>(n, gpu % n) : rotated_of<4>(n, gpu % n))<<<blocks, 512, 0, s>>>(a);
    else if (v.kind == TILED && n == 3)
        tiled_kernel<3, 2><<<blocks, 512, 0, s>>>(a, gpu % n);
    else if (v.kind == TILED && n == 4)
        tiled_kernel<4, 2><<<blocks, 512, 0, s>>>(a, gpu % n);
    else
        combine_of(v.flight)<<<blocks, 512, 0, s>>>(a);
    check_launch();
}

#endif
