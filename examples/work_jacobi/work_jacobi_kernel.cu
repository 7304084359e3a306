/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of work_jacobi: Heddle runs it for the tiles of many ranks at once. */
#include <mpi-ext-work.cuh>

#include "work_jacobi.h"

static __device__ void do_tile(const struct tile *tile, const struct AMPI_GPU_Work_block *at)
{
    do_points(tile, at->buffers, (long)at->block * blockDim.x + threadIdx.x, (long)at->n_blocks * blockDim.x);
}

int register_tiles(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    return AMPI_GPU_Work_register<struct tile, do_tile>("work_jacobi", 256, cpu, work);
}
