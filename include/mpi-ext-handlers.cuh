/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-ext-handlers.cuh: functions that run on the GPU of a rank when a message comes (CUDA C++). docs/gpu-extensions.md describes them.
 *
 * The resident kernel is part of the program's source file, so that it can call the program's functions: all handlers of a set are in one file. Nothing to
 * link, no relocatable device code.
 */
#ifndef HEDDLE_MPI_EXT_HANDLERS_CUH
#define HEDDLE_MPI_EXT_HANDLERS_CUH

#ifndef __CUDACC__
#error "mpi-ext-handlers.cuh is for CUDA C++ (nvcc)"
#endif

#include <cuda_runtime.h>
#include <mpi.h>

#include "heddle_handlers_device.h"
#include "heddle_mpi_handlers.h"

typedef struct HEDDLE_Handlers_message AMPI_GPU_Message;

/* A handler: a __device__ function, called by all threads of a block, or of all blocks. The message is in shared memory. */
typedef void (*AMPI_GPU_Handler_fn)(const AMPI_GPU_Message *message);

/* ---- Kernels ---- */

template <int unused>
static __global__ void __launch_bounds__(HEDDLE_HANDLERS_THREADS_MAX, HEDDLE_HANDLERS_BLOCKS_MAX)
    heddle_handlers_resident(struct HEDDLE_Handlers_launch launch)
{
    __shared__ struct heddle_handlers_block block;

    heddle_handlers_serve(&launch, blockIdx.x, threadIdx.x, blockDim.x, &block);
}

template <int unused> static __global__ void heddle_handlers_poster(const __grid_constant__ struct HEDDLE_Handlers_post post)
{
    if (threadIdx.x == 0)
        heddle_handlers_post(&post);
}

template <AMPI_GPU_Handler_fn handler> static __global__ void heddle_handlers_address(AMPI_GPU_Handler_fn *address)
{
    *address = handler;
}

/* ---- The host ---- */

/* Registers a handler for messages with this tag, 0 to 255, on the calling rank: AMPI_GPU_Register_handler<function>(tag, AMPI_GPU_BY_BLOCK, argument, handlers).
 * The GPU of the handlers is current. */
template <AMPI_GPU_Handler_fn handler>
static int AMPI_GPU_Register_handler(int tag, int by, void *argument, AMPI_GPU_Handlers handlers)
{
    AMPI_GPU_Handler_fn *at, address = NULL;
    cudaFunction_t kernel = NULL, post = NULL;
    cudaError_t error = cudaMalloc((void **)&at, sizeof *at);

    if (error == cudaSuccess) {
        void *arguments[] = {&at};
        error = cudaLaunchKernel((const void *)heddle_handlers_address<handler>, dim3(1), dim3(1), arguments, 0, 0);
        if (error == cudaSuccess)
            error = cudaMemcpy(&address, at, sizeof address, cudaMemcpyDeviceToHost);
        cudaFree(at);
    }
    if (error == cudaSuccess)
        error = cudaGetFuncBySymbol(&kernel, (const void *)heddle_handlers_resident<0>);
    if (error == cudaSuccess)
        error = cudaGetFuncBySymbol(&post, (const void *)heddle_handlers_poster<0>);
    return AMPI_GPU_Register_entry(tag, by, error == cudaSuccess ? (unsigned long long)address : 0, argument,
                                   (void *)kernel, (void *)post, handlers);
}

/* ---- Kernels of the program, and handlers ---- */

/* MPI's class of a wrong send. AMPI_GPU_Handlers_wait raises it as well, except for MPI_ERR_NO_SPACE: the queue is full, and the caller may try
 * again. A handler must not wait for space: it may be needed to make it. */
static __device__ __forceinline__ int heddle_handlers_class(enum HEDDLE_Handlers_fault fault)
{
    return fault == HEDDLE_HANDLERS_FINE         ? MPI_SUCCESS
           : fault == HEDDLE_HANDLERS_NO_RANK    ? MPI_ERR_RANK
           : fault == HEDDLE_HANDLERS_NO_HANDLER ? MPI_ERR_TAG
           : fault == HEDDLE_HANDLERS_TOO_LONG   ? MPI_ERR_COUNT
           : fault == HEDDLE_HANDLERS_NO_SLOT    ? MPI_ERR_NO_SPACE
                                                 : MPI_ERR_UNSUPPORTED_OPERATION;
}

/* Sends n_bytes to the handler with this tag of rank dest: by the one thread that has written the data, and all that the message tells of, or behind a
 * barrier by one of the threads that have. */
static __device__ __forceinline__ int AMPI_GPU_Send(const void *data, int n_bytes, int dest, int tag,
                                                    AMPI_GPU_Device device)
{
    return heddle_handlers_class(
        heddle_handlers_send(data, (uint32_t)n_bytes, (uint32_t)dest, (uint32_t)tag, device));
}

/* The same by all threads of a block, with the same arguments. No barrier of the program's is needed. */
static __device__ __forceinline__ int AMPI_GPU_Send_block(const void *data, int n_bytes, int dest, int tag,
                                                          AMPI_GPU_Device device)
{
    __shared__ struct heddle_handlers_place place;
    unsigned n_lanes = blockDim.x * blockDim.y * blockDim.z;
    unsigned lane = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    enum HEDDLE_Handlers_fault fault;

    __syncthreads();
    if (lane == 0)
        place = heddle_handlers_begin(device, (uint32_t)n_bytes, (uint32_t)dest, (uint32_t)tag);
    __syncthreads();
    heddle_handlers_write(&place, data, (uint32_t)n_bytes, lane, n_lanes);
    fault = place.fault;
    __syncthreads();
    if (lane == 0)
        heddle_handlers_publish(&place);
    return heddle_handlers_class(fault);
}

/* A barrier of all threads of all blocks that run this handler. */
static __device__ __forceinline__ void AMPI_GPU_Grid_sync(const AMPI_GPU_Message *message)
{
    __syncthreads();
    if (threadIdx.x == 0)
        heddle_handlers_grid_sync(message);
    __syncthreads();
}

#endif /* HEDDLE_MPI_EXT_HANDLERS_CUH */
