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

/* Registers a __device__ function, which all threads of a block call:
 * AMPI_GPU_Work_register<struct args, function>("name", threads, cpu_function_or_NULL, &work). Without a GPU only the CPU's function is used. */
template <typename Args, void (*function)(const Args *, const struct AMPI_GPU_Work_block *)>
static int AMPI_GPU_Work_register(const char *name, int threads, AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    cudaFunction_t kernel = NULL;

    if (cudaGetFuncBySymbol(&kernel, (const void *)heddle_work_run<Args, function>) != cudaSuccess) {
        (void)cudaGetLastError();
        kernel = NULL;
    }
    return AMPI_GPU_Work_register(name, (void *)kernel, threads, sizeof(Args), cpu, work);
}

#endif /* HEDDLE_MPI_EXT_WORK_CUH */
