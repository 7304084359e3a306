/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-ext-work.cuh: the combined kernel of a device function, for work requests (CUDA C++). docs/gpu-extensions.md describes them.
 *
 * The kernel is part of the program's source file, so that it can call the program's function. Nothing to link, no relocatable device code.
 */
#ifndef HEDDLE_MPI_EXT_WORK_CUH
#define HEDDLE_MPI_EXT_WORK_CUH

#ifndef __CUDACC__
#error "mpi-ext-work.cuh is for CUDA C++ (nvcc)"
#endif

#include <cuda_runtime.h>

#include "heddle_mpi_work.h"
#include "heddle_work.h"

/* ---- A block that stays ---- */

static __device__ __forceinline__ unsigned long long heddle_work_now_ns(void)
{
    unsigned long long now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* By one thread, behind what it says. */
static __device__ __forceinline__ void heddle_work_say(struct HEDDLE_Work_stay *stay, unsigned launch, unsigned state)
{
    __threadfence_system();
    *(volatile uint32_t *)&stay->places[blockIdx.x].state = HEDDLE_WORK_SAYS(launch, state);
}

/* The number of the first order of the launch. By all threads. */
static __device__ __forceinline__ uint32_t heddle_work_begin(struct HEDDLE_Work_stay *stay, unsigned launch)
{
    uint32_t number = *(volatile uint32_t *)&stay->places[blockIdx.x].done + 1;

    if (threadIdx.x == 0) {
        *(volatile unsigned long long *)stay->last_ns = heddle_work_now_ns();
        heddle_work_say(stay, launch, HEDDLE_WORK_HERE);
    }
    return number;
}

/* Waits for an order, by all threads. The first warp reads all of it at a time. False: the block leaves. */
static __device__ __forceinline__ bool heddle_work_wait(struct HEDDLE_Work_stay *stay, uint32_t number, unsigned long long begin_ns,
                                                        uint32_t *order)
{
    __shared__ bool is_there;
    const unsigned lane = threadIdx.x, last = HEDDLE_WORK_WORDS / 2 - 1;

    if (threadIdx.x < HEDDLE_WORK_WORDS / 2) {
        const uint64_t *words = &stay->orders[blockIdx.x].words[2 * lane];
        unsigned long long first, second;
        bool has_come, leaves;
        do {
            asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(words));
            leaves = lane == last && second != 0;
            if (lane == 0) {
                long long now_ns = (long long)heddle_work_now_ns();
                long long last_ns = (long long)*(volatile unsigned long long *)stay->last_ns;
                leaves = now_ns - last_ns > stay->wait_ns || now_ns - (long long)begin_ns > stay->stay_ns;
            }
            has_come = __all_sync(0xffffffff, first >> 32 == number && (lane == last || second >> 32 == number));
            leaves = __any_sync(0xffffffff, leaves);
        } while (!has_come && !leaves);
        order[2 * lane] = (uint32_t)first;
        order[2 * lane + 1] = (uint32_t)second;
        if (lane == 0)
            is_there = has_come;
        __threadfence_system(); /* also: what others have written is not read from the multiprocessor's cache */
    }
    __syncthreads();
    return is_there;
}

/* By all threads. */
static __device__ __forceinline__ void heddle_work_end(struct HEDDLE_Work_stay *stay, uint32_t number)
{
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    __threadfence_system();
    *(volatile uint32_t *)&stay->places[blockIdx.x].done = number;
    *(volatile unsigned long long *)stay->last_ns = heddle_work_now_ns();
}

/* ---- The kernels ---- */

/* All threads of a block look for its request, a part of the table each: the loads are under way at the same time. */
template <typename Args, void (*function)(const Args *, const struct AMPI_GPU_Work_block *)>
static __global__ void heddle_work_run(struct HEDDLE_Work_launch launch)
{
    const struct HEDDLE_Work_entry *entries = (const struct HEDDLE_Work_entry *)launch.table;
    __shared__ struct HEDDLE_Work_entry found;
    struct AMPI_GPU_Work_block at;

    for (unsigned i = threadIdx.x; i < launch.n_requests; i += blockDim.x)
        if (blockIdx.x - entries[i].first_block < entries[i].n_blocks)
            found = entries[i];
    __syncthreads();
    at.buffers = (void *const *)(launch.table + found.buffers_at);
    at.block = blockIdx.x - found.first_block;
    at.n_blocks = found.n_blocks;
    function((const Args *)(launch.table + found.args_at), &at);
}

/* A kernel of its own: one for both would have more registers. */
template <typename Args, void (*function)(const Args *, const struct AMPI_GPU_Work_block *)>
static __global__ void heddle_work_stay(struct HEDDLE_Work_launch launch)
{
    struct HEDDLE_Work_stay *stay = (struct HEDDLE_Work_stay *)launch.table;
    const unsigned long long begin_ns = heddle_work_now_ns();
    __shared__ __align__(16) uint32_t order[HEDDLE_WORK_WORDS];

    for (uint32_t number = heddle_work_begin(stay, launch.n_blocks); heddle_work_wait(stay, number, begin_ns, order); number++) {
        struct AMPI_GPU_Work_block at;
        at.buffers = (void *const *)&order[order[2]];
        at.block = order[0];
        at.n_blocks = order[1];
        function((const Args *)(const void *)&order[HEDDLE_WORK_ARGS], &at);
        heddle_work_end(stay, number);
    }
    if (threadIdx.x == 0)
        heddle_work_say(stay, launch.n_blocks, HEDDLE_WORK_LEFT);
}

/* Registers a __device__ function, which all threads of a block call:
 * AMPI_GPU_Work_register<struct args, function>("name", threads, cpu_function_or_NULL, &work). Without a GPU only the CPU's function is used. */
template <typename Args, void (*function)(const Args *, const struct AMPI_GPU_Work_block *)>
static int AMPI_GPU_Work_register(const char *name, int threads, AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    cudaFunction_t run = NULL, stay = NULL;

    if (cudaGetFuncBySymbol(&run, (const void *)heddle_work_run<Args, function>) != cudaSuccess ||
        cudaGetFuncBySymbol(&stay, (const void *)heddle_work_stay<Args, function>) != cudaSuccess) {
        (void)cudaGetLastError();
        return AMPI_GPU_Work_register(name, NULL, threads, sizeof(Args), cpu, work);
    }
    void *kernels[] = {(void *)run, (void *)stay};
    return AMPI_GPU_Work_register(name, kernels, threads | AMPI_GPU_WORK_STAYS, sizeof(Args), cpu, work);
}

#endif /* HEDDLE_MPI_EXT_WORK_CUH */
