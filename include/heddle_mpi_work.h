/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_work.h: work requests: small tasks of many ranks that the library combines into few launches, whose data stays on the GPU. mpi-ext.h includes
 * it; mpi-ext-work.cuh makes the kernel of a device function. docs/gpu-extensions.md describes them.
 */
#ifndef HEDDLE_MPI_WORK_H
#define HEDDLE_MPI_WORK_H

#include <stddef.h>

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kind of work. */
typedef struct HEDDLE_Work *AMPI_GPU_Work;
#define AMPI_GPU_WORK_NULL ((AMPI_GPU_Work)0)

/* How a request uses a buffer. WRITE: it writes all of the buffer, so that no data goes to the GPU. */
#define AMPI_GPU_WORK_READ 1
#define AMPI_GPU_WORK_WRITE 2
#define AMPI_GPU_WORK_READWRITE 3

/* Limits of a request. */
#define AMPI_GPU_WORK_BUFFERS_MAX 32
#define AMPI_GPU_WORK_ARGS_MAX 1024

/* A buffer: host memory, or memory of the kind's GPU. The datatype is a block, or rows of equal size at equal distances.
 * Without bytes (count 0): the function gets NULL. */
struct AMPI_GPU_Work_buffer {
    void *address;
    MPI_Count count;
    MPI_Datatype datatype;
    int access;
};

/* The place of a block in its request. */
struct AMPI_GPU_Work_block {
    void *const *buffers; /* where the buffers are now, in the order of the submission */
    unsigned block;       /* 0 to n_blocks - 1 */
    unsigned n_blocks;
};

/* The function for the CPU does the work of all blocks of a request (at->block is 0). It calls neither MPI nor CUDA. */
typedef void AMPI_GPU_Work_cpu_fn(const void *args, const struct AMPI_GPU_Work_block *at);

/* Added to the number of threads: `kernel` is an array of two, the second of which stays on the GPU and takes requests without launches. */
#define AMPI_GPU_WORK_STAYS (1 << 16)

/* Registers a kind. Ranks that give the same name, sizes and GPU mean the same function, whose requests are combined. kernel: a CUfunction from
 * mpi-ext-work.cuh, for the current GPU; NULL: only the CPU can do it. cpu: NULL: only the GPU can do it. */
int AMPI_GPU_Work_register(const char *name, void *kernel, int threads, size_t args_bytes,
                           AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work);

/* The requests of the kind that are pending go on. */
int AMPI_GPU_Work_free(AMPI_GPU_Work *work);

/* Submits a request of so many blocks; copies the arguments and the array. Until it is complete, nobody else may use the buffers, but for other requests:
 * those of all ranks of the process that use the same bytes run in the order of their submission. */
int AMPI_GPU_Work_submit(AMPI_GPU_Work work, int blocks, const void *args, int n_buffers,
                         const struct AMPI_GPU_Work_buffer buffers[], MPI_Request *request);

/* Waits until all requests of the calling rank are done. Each must still be waited for, which returns at once. May switch. */
int AMPI_GPU_Work_wait_all(void);

/* Makes the host's memory current, after all earlier requests that write to it. MPI's messages and collectives do it by themselves. May switch. */
int AMPI_GPU_Work_sync(const void *address, MPI_Count bytes);

/* Before the host writes to this memory or frees it: drops the data on the GPU, which could otherwise overwrite the host's at any time. May switch. */
int AMPI_GPU_Work_invalidate(const void *address, MPI_Count bytes);

/* Copies of this memory on GPUs stay there, however full they are, until unpin. Pins do not count: one unpin ends all pins of a byte. May switch. */
int AMPI_GPU_Work_pin(const void *address, MPI_Count bytes);
int AMPI_GPU_Work_unpin(const void *address, MPI_Count bytes);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_WORK_H */
