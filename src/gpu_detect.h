/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.h: the kind of memory at an address.
 *
 * The message path asks gpu_is_device of every buffer: a load and a branch as long as CUDA's driver is not in
 * this process. Whoever then handles the device's memory asks gpu_resolve once more, which is exact.
 *
 *      gpu_is_device   from the calling PE's cache, 10 ns. Host or device: always right. Which device, and
 *                      how far the allocation goes: as it was when it was cached
 *      gpu_resolve     the same, compared with the driver (0.1 us)
 */
#ifndef GPU_DETECT_H
#define GPU_DETECT_H

#include "base/base.h"

enum gpu_memory {
    GPU_MEMORY_HOST,    /* the CPU's */
    GPU_MEMORY_PINNED,  /* the CPU's, and the driver knows it: copies need no staging */
    GPU_MEMORY_MANAGED, /* moves between the two: handled like a device's */
    GPU_MEMORY_DEVICE,
    GPU_MEMORY_NOWHERE, /* the driver does not know it, and the CPU cannot read it: freed, or of a GPU that is
                           not visible. Handled like a device's, which fails with an error */
};

/* An allocation, or for host memory a part of one. */
struct gpu_range {
    uintptr_t from;
    uintptr_t to;    /* one past its end */
    uint64_t buffer; /* the driver's id, never used twice; 0: host */
    uint8_t memory;  /* enum gpu_memory */
    int8_t device;   /* ordinal; -1: none */
};

/* Whose an address is that the driver does not know. */
enum gpu_owner {
    GPU_OWNER_HOST,   /* the host's, as long as the driver does not change the address space */
    GPU_OWNER_DRIVER, /* the CPU can read it, but a device's may appear there without such a change */
    GPU_OWNER_NOBODY, /* the CPU cannot read it: it was a device's, is one's of which this process does not
                         know, or nothing is there */
};

/* What src/gpu tells this cache, which itself asks nobody; it sets the table before main. */
struct gpu_detect_source {
    /* Looks for the driver, which is used from then on. Returns whether it is here. Any thread. */
    bool (*watch)(void);
    /* Notes whether the driver is in use already. Before a rank runs. */
    void (*begin)(void);
    enum gpu_owner (*owner)(uintptr_t addr);
    /* What the driver says of an address: its range. Memory that it does not know is host memory, [addr, addr
     * + 1). */
    void (*query)(uintptr_t addr, struct gpu_range *range_out);
    /* The id of the buffer at an address; 0: none. No two buffers of a process ever have the same. */
    uint64_t (*query_buffer)(uintptr_t addr);
};
extern const struct gpu_detect_source *gpu_detect_source;

/* How often the driver has changed the address space. */
extern _Atomic uint64_t gpu_map_count;

/* *gpu_hint is not NULL once the driver is here, or may be here since a library was loaded. */
extern void *const *_Atomic gpu_hint;

/* Begins to look for CUDA's driver: once per process, before any of the others. */
void gpu_detect_init(void);

/* True once the driver is in this process and in use; stays so. */
extern atomic_bool gpu_is_active;

/* True if there may be device buffers: a load and a branch in processes without the driver. Looks for the
 * driver when a library was loaded, so it must be asked before data is touched. Any thread; never
 * switches. */
static inline bool gpu_is_used(void)
{
    return BASE_UNLIKELY(*atomic_load_explicit(&gpu_hint, memory_order_relaxed) != NULL) &&
           (BASE_LIKELY(atomic_load_explicit(&gpu_is_active, memory_order_acquire)) ||
            gpu_detect_source->watch());
}

/* What the address is in. Valid until the PE's next call. On a PE, and only if gpu_is_active. Never
 * switches. */
const struct gpu_range *gpu_find(const void *addr);
const struct gpu_range *gpu_resolve(const void *addr);

/* True if the CPU must leave the data at this address to src/gpu (a device's or managed memory, or nobody's).
 * On a PE; on other threads always false. Never switches. */
static inline bool gpu_is_device(const void *addr)
{
    return gpu_is_used() && gpu_find(addr)->memory >= GPU_MEMORY_MANAGED;
}

/* How the calling thread's cache has done so far. */
struct gpu_counts {
    uint64_t hits;    /* answers from the table */
    uint64_t misses;  /* others */
    uint64_t queries; /* questions to the driver */
};
void gpu_detect_counts(struct gpu_counts *counts_out);

#endif
