/* SPDX-License-Identifier: BSD-3-Clause
 *
 * query.h: what gpu_detect.c asks of the driver. Knows no CUDA type; null.c answers without one.
 */
#ifndef GPU_QUERY_H
#define GPU_QUERY_H

#include "gpu_detect.h"

/* Fills the table of the driver's functions from libcuda at this path; NULL: from where the loader finds it,
 * which loads it if it is not there yet. false: not to be had, or not one that can be used (logged). Any
 * thread; once true, always true. */
bool gpu_driver_open(const char *path) BASE_COLD;

/* True if somebody has called cuInit, as far as is known: the driver has been noticed. */
bool gpu_driver_is_initialized(void);

/* Asks the driver about an address: fills all fields of its range. Memory that it does not know
 * is host memory, [addr, addr + 1). */
void gpu_query(uintptr_t addr, struct gpu_range *range_out);

/* The id of the buffer at an address; 0: none. No two buffers of a process ever have the same. */
uint64_t gpu_query_buffer(uintptr_t addr);

/* The ways in which a device can access memory of a device (reach.c). */
enum gpu_reach {
    GPU_REACH_NONE,   /* nothing: only its owner can */
    GPU_REACH_COPY,   /* the driver's copies in its streams can use it, kernels cannot */
    GPU_REACH_KERNEL, /* both can */
};

/* Of the memory at an address, which is of the device owner (-1: pinned) and in the buffer with this id (0:
 * not known, which takes longer). Enables peer access. */
enum gpu_reach gpu_reach(int device, uintptr_t addr, int owner, uint64_t buffer);

/* True if kernels of the device can use the memory at this address, of which this is the range. */
bool gpu_reach_by_kernel(int device, const void *addr, const struct gpu_range *range);

/* True if the device's copies can use memory of another that is in this buffer, as far as this PE knows
 * already. */
bool gpu_reach_is_known(int device, int owner, uint64_t buffer);

/* Why an address is GPU_MEMORY_NOWHERE: an error that says so, or that the driver has failed; noted for
 * gpu_error_text, which names the address. */
int gpu_address_error(uintptr_t addr) BASE_COLD;

#endif
