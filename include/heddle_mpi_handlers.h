/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_handlers.h: messages that run functions on the receiver's GPU: the host's functions. mpi-ext.h includes it; those of kernels, and
 * AMPI_GPU_Register_handler, are in mpi-ext-handlers.cuh. docs/gpu-extensions.md describes them.
 */
#ifndef HEDDLE_MPI_HANDLERS_H
#define HEDDLE_MPI_HANDLERS_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The handlers of a communicator's ranks. */
typedef struct HEDDLE_Handlers *AMPI_GPU_Handlers;
#define AMPI_GPU_HANDLERS_NULL ((AMPI_GPU_Handlers)0)

/* The same for kernels. */
typedef struct HEDDLE_Handlers_device *AMPI_GPU_Device;

/* How a handler runs: by one block of the resident kernel, or by all of them together. */
#define AMPI_GPU_BY_BLOCK 1
#define AMPI_GPU_BY_GRID 2

/* Collective. The handlers run on the current GPU. Keys of info, with their defaults: blocks (the GPU's multiprocessors divided by the ranks of the
 * communicator that use it), threads of a block (256), slots of the queue (1024), slot_bytes (256), idle_us (100). */
int AMPI_GPU_Handlers_create(MPI_Comm comm, MPI_Info info, AMPI_GPU_Handlers *handlers);

/* For AMPI_GPU_Register_handler, which finds the function's address on the GPU and the two kernels (CUfunction). */
int AMPI_GPU_Register_entry(int tag, int by, unsigned long long function, void *argument, void *kernel,
                            void *post_kernel, AMPI_GPU_Handlers handlers);

/* Collective. From now on handlers run, and none can be registered. */
int AMPI_GPU_Handlers_start(AMPI_GPU_Handlers handlers);

/* For kernels of the calling rank that send. */
int AMPI_GPU_Handlers_device(AMPI_GPU_Handlers handlers, AMPI_GPU_Device *device);

/* Sends bytes of host memory to the handler with this tag of rank dest, and returns when they have been copied. May switch. */
int AMPI_GPU_Send(const void *data, int n_bytes, int dest, int tag, AMPI_GPU_Handlers handlers);

/* Collective. Returns when no rank has messages left. May switch. */
int AMPI_GPU_Handlers_wait(AMPI_GPU_Handlers handlers);

/* Collective. Does the same, and frees the handlers. */
int AMPI_GPU_Handlers_free(AMPI_GPU_Handlers *handlers);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_HANDLERS_H */
