/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.h: what memory is this address in?
 *
 * The message path asks this of every buffer once the process has CUDA's driver loaded, and pays one load
 * before that. Answers come from a cache per PE, a table of ranges that is found by page; a miss asks the driver.
 *
 * How an entry dies:
 *      host     the driver mapped address space (its mmap is watched): all host entries of all PEs
 *      device   it is verified where it is used (gpu_verify, 0.05 us before a copy that takes 6): the driver's
 *               id of the buffer must be the one that was cached
 */
#ifndef GPU_DETECT_H
#define GPU_DETECT_H

#include "base/base.h"

enum gpu_memory {
    GPU_MEMORY_HOST,    /* the CPU's; also what nobody knows */
    GPU_MEMORY_PINNED,  /* the CPU's, and the driver knows it: copies need no staging */
    GPU_MEMORY_MANAGED, /* moves between the two: handled like a device's */
    GPU_MEMORY_DEVICE,
};

/* An allocation, or for host memory a part of one. */
struct gpu_range {
    uintptr_t from;
    uintptr_t to;     /* one past its end */
    uint64_t buffer;  /* the driver's id; 0: host */
    uint8_t memory;   /* enum gpu_memory */
    int8_t device;    /* ordinal; -1: none */
};

/* True once CUDA's driver is in this process; stays so. */
extern bool gpu_is_active;

/* True if a library was loaded since the driver was last looked for; then gpu_watch looks again. */
bool gpu_watch_is_due(void);
void gpu_watch(void) BASE_COLD;

/* What the address is in, from the calling PE's cache or the driver. Valid until the PE's next call. Never
 * switches. Call it only if gpu_is_active. */
const struct gpu_range *gpu_find(const void *addr);

/* True if the CPU must leave the data at this address to the GPU. 1 ns without CUDA, <= 10 ns on a hit. */
static inline bool gpu_is_device(const void *addr);

/* True if a range of a device is still what it was when it was cached. false: it is forgotten; ask again. */
bool gpu_verify(const struct gpu_range *range);

#endif
