/* SPDX-License-Identifier: BSD-3-Clause
 *
 * registrations.h: host memory that several ranks of the process register with CUDA. For the files of src/gpu alone.
 *
 * The driver registers memory once per process. In a process of its own each rank could register memory that ranks share
 * (MPI_Win_allocate_shared). So the driver registers it for the first rank. Another rank may register all of this memory or a
 * part of it, which is only noted. The driver unregisters it when the last rank has done so. A rank that registers memory twice
 * gets the driver's error, and so does one whose memory is registered only in part: the driver cannot extend it.
 */
#ifndef GPU_REGISTRATIONS_H
#define GPU_REGISTRATIONS_H

#include <cuda.h>
#include <stdbool.h>

/* cuMemHostRegister and cuMemHostUnregister for the rank whose call this is (gpu_offload_rank). The driver's functions are
 * called with a lock held: other ranks wait for it on threads of the library, too. */
CUresult gpu_registration_begin(CUresult(CUDAAPI *driver)(void *, size_t, unsigned), void *memory,
                                size_t n_bytes, unsigned flags);
CUresult gpu_registration_end(CUresult(CUDAAPI *driver)(void *), void *memory);

/* False if gpu_registration_end will not call the driver, which waits for the GPU: another rank has registered the memory.
 * Never switches. */
bool gpu_registration_is_last(void *memory);

/* Memory that the calling rank has registered, and the context then; NULL: none is left. Never switches. */
void *gpu_registration_left(CUcontext *context_out);

#endif
