/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of work_md: a block for each patch, and Heddle runs the patches of many ranks at once. */
#include <mpi-ext-work.cuh>

#include "work_md.h"

static __device__ void do_patch(const struct plane *plane, const struct AMPI_GPU_Work_block *at)
{
    do_atoms(plane, at->buffers, (int)threadIdx.x, (int)blockDim.x);
}

int register_patches(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    return AMPI_GPU_Work_register<struct plane, do_patch>("work_md", ATOMS_MAX, cpu, work);
}
