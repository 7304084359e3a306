/* SPDX-License-Identifier: BSD-3-Clause
 *
 * query.h: queries of gpu_detect.c to the driver. Uses no CUDA type; null.c implements it without CUDA.
 */
#ifndef GPU_QUERY_H
#define GPU_QUERY_H

#include "gpu_detect.h"

/* Fills the table of the driver's functions from libcuda at this path; NULL: from the loader's search path,
 * which loads it if necessary. Returns false if it is unavailable or unusable (logged). Any thread; once
 * true, always true. */
bool gpu_driver_open(const char *path) BASE_COLD;

/* True if cuInit is known to have been called: the driver has been detected. */
bool gpu_driver_is_initialized(void);

/* Queries the driver about an address: fills all fields of its range. Memory unknown to the driver is host
 * memory, [addr, addr + 1). */
void gpu_query(uintptr_t addr, struct gpu_range *range_out);

/* The id of the buffer at an address; 0: none. Ids are unique within a process for its lifetime. */
uint64_t gpu_query_buffer(uintptr_t addr);

/* The ways in which a device can access memory of a device (peer_access.c). */
enum gpu_peer_access {
    GPU_PEER_ACCESS_NONE,   /* only its owner can access it */
    GPU_PEER_ACCESS_COPY,   /* the driver's copies in the device's streams can use it, kernels cannot */
    GPU_PEER_ACCESS_KERNEL, /* both can */
};

/* The access of `device` to the memory at an address, which belongs to the device `owner` (-1: pinned) and
 * to the buffer with this id (0: unknown, which takes longer). Enables peer access. */
enum gpu_peer_access gpu_peer_access(int device, uintptr_t addr, int owner, uint64_t buffer);

/* True if kernels of the device can use the memory at this address, which is in this range. */
bool gpu_peer_access_by_kernel(int device, const void *addr, const struct gpu_range *range);

/* True if this PE already knows that the device's copies can use another device's memory in this buffer. */
bool gpu_peer_access_is_known(int device, int owner, uint64_t buffer);

/* Lets kernels and copies of one device access the memory of another; queried once per pair (device.c). false: the
 * hardware cannot (copies go through the host, kernels may not access it). */
bool gpu_peer_enable(int from_device, int to_device);

/* The reason why an address is GPU_MEMORY_NOWHERE: an error that says so, or that the driver has failed;
 * recorded for gpu_error_text, which prints the address. */
int gpu_address_error(uintptr_t addr) BASE_COLD;

#endif
