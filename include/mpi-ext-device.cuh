/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-ext-device.cuh: functions of MPI that kernels call (CUDA C++), by the names of the MPI Forum's hybrid working group:
 * MPIX_Pready marks a partition ready, MPIX_Parrived asks for one. The host creates the MPIX_Prequest of a partitioned
 * request (MPIX_Prequest_create), starts the request and calls MPIX_Pbuf_prepare before it launches the kernel. docs/gpu-extensions.md
 * describes them.
 *
 * All is in this file and in heddle_prequest.h: nothing to link, no relocatable device code.
 */
#ifndef HEDDLE_MPI_EXT_DEVICE_CUH
#define HEDDLE_MPI_EXT_DEVICE_CUH

#ifndef __CUDACC__
#error "mpi-ext-device.cuh is for CUDA C++ (nvcc)"
#endif

#include <mpi.h>

#include "heddle_mpi_prequest.h"
#include "heddle_prequest.h"

/* MPI's class of a wrong call. The host's MPI_Wait raises it as well, except for INVALID. */
static __device__ __forceinline__ int heddle_prequest_class(enum HEDDLE_Prequest_fault fault)
{
    return fault == HEDDLE_PREQUEST_FINE                                       ? MPI_SUCCESS
           : fault == HEDDLE_PREQUEST_RANGE || fault == HEDDLE_PREQUEST_TWICE ? MPI_ERR_ARG
                                                                               : MPI_ERR_REQUEST;
}

/* Marks a partition ready: by the one thread that has written its data, or behind a barrier by one of the threads that have. */
static __device__ __forceinline__ int MPIX_Pready(int partition, MPIX_Prequest prequest)
{
    return heddle_prequest_class(heddle_prequest_ready(prequest, partition));
}

/* Marks all partitions from the first to the last one ready. */
static __device__ __forceinline__ int MPIX_Pready_range(int partition_low, int partition_high,
                                                        MPIX_Prequest prequest)
{
    int error = MPI_SUCCESS;

    for (int i = partition_low; i <= partition_high && error == MPI_SUCCESS; i++)
        error = MPIX_Pready(i, prequest);
    return error;
}

/* The same as MPIX_Pready by all threads of a block or a warp together: all of them call it, with the same arguments, after they
 * have written the data. They copy it together. No barrier of the program's is needed. */
static __device__ __forceinline__ int MPIX_Pready_block(int partition, MPIX_Prequest prequest)
{
    __shared__ struct HEDDLE_Prequest view;
    __shared__ enum HEDDLE_Prequest_fault result;
    unsigned n_lanes = blockDim.x * blockDim.y * blockDim.z;
    unsigned lane = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    struct heddle_prequest_plan plan;
    uint32_t mark = 0;

    if (!prequest)
        return MPI_ERR_REQUEST;
    heddle_prequest_read(&view, prequest, partition, lane, n_lanes);
    __syncthreads();
    plan = heddle_prequest_plan_of(&view, partition, HEDDLE_PREQUEST_BLOCK_BYTES);
    if (lane == 0)
        mark = heddle_prequest_mark(&plan); /* it arrives during the copy */
    heddle_prequest_work(&plan, lane, n_lanes);
    __syncthreads(); /* after it, the next call may write view */
    if (lane == 0)
        result = heddle_prequest_end(prequest, partition, &plan, mark);
    __syncthreads();
    return heddle_prequest_class(result);
}

static __device__ __forceinline__ int MPIX_Pready_warp(int partition, MPIX_Prequest prequest)
{
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), lane = thread % 32;
    unsigned n_left = blockDim.x * blockDim.y * blockDim.z - (thread - lane), n_lanes = n_left < 32 ? n_left : 32;
    unsigned lanes = n_lanes == 32 ? 0xffffffffu : (1u << n_lanes) - 1;
    struct HEDDLE_Prequest view;
    struct heddle_prequest_plan plan;
    uint32_t mark = 0;
    int result = 0;

    if (!prequest)
        return MPI_ERR_REQUEST;
    heddle_prequest_read(&view, prequest, partition, 0, 1); /* all lanes the same addresses: one access of the warp */
    __syncwarp(lanes);
    plan = heddle_prequest_plan_of(&view, partition, HEDDLE_PREQUEST_BLOCK_BYTES);
    if (lane == 0)
        mark = heddle_prequest_mark(&plan);
    heddle_prequest_work(&plan, lane, n_lanes);
    __syncwarp(lanes);
    if (lane == 0)
        result = heddle_prequest_end(prequest, partition, &plan, mark);
    return heddle_prequest_class((enum HEDDLE_Prequest_fault)__shfl_sync(lanes, result, 0));
}

/* Sets *flag to 1 if the partition has arrived: this thread may read its data, and others behind a barrier. */
static __device__ __forceinline__ int MPIX_Parrived(MPIX_Prequest prequest, int partition, int *flag)
{
    return heddle_prequest_class(heddle_prequest_arrived(prequest, partition, flag));
}

#endif /* HEDDLE_MPI_EXT_DEVICE_CUH */
