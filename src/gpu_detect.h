/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.h: the kind of memory at an address.
 *
 * The message path calls gpu_is_device for every buffer: a load and a branch while CUDA's driver is not in
 * this process. Code that then handles device memory calls gpu_resolve, which is exact.
 *
 *      gpu_is_device   from the calling PE's cache, 10 ns. Host or device: always right. Which device, and
 *                      how far the allocation goes: as it was when it was cached
 *      gpu_resolve     the same, and the driver confirms it (0.1 us) if memory was freed or mapped since it
 *                      last did, or if that may go unnoticed
 *      gpu_facts       the exact answer, remembered for an address that is used again and again: a load and a
 *                      comparison while nothing has been freed or mapped
 */
#ifndef GPU_DETECT_H
#define GPU_DETECT_H

#include "base/base.h"

enum gpu_memory {
    GPU_MEMORY_HOST,    /* the CPU's */
    GPU_MEMORY_PINNED,  /* host memory that the driver knows: copies need no staging */
    GPU_MEMORY_MANAGED, /* migrates between the two: handled like device memory */
    GPU_MEMORY_DEVICE,
    GPU_MEMORY_NOWHERE, /* unknown to the driver and unreadable for the CPU: freed, or on a GPU that is not
                         * visible. Handled like device memory, which fails with an error */
};

/* An allocation, or a part of one for host memory. */
struct gpu_range {
    uintptr_t from;
    uintptr_t to;    /* one past its end */
    uint64_t buffer; /* the driver's id, never reused; 0: host */
    uint8_t memory;  /* enum gpu_memory */
    int8_t device;   /* ordinal; -1: none */
};

/* A remembered range, initially all 0. */
struct gpu_facts {
    struct gpu_range range; /* of an address */
    uint64_t changes;       /* gpu_change_count when the driver was asked; 0: ask again */
};

/* Facts that always hold: about memory that the library itself got from malloc. */
extern const struct gpu_facts gpu_facts_of_malloc;

/* Owner of an address unknown to the driver. */
enum gpu_owner {
    GPU_OWNER_HOST,   /* the host, until the driver changes the address space */
    GPU_OWNER_DRIVER, /* the CPU can read it, but device memory may appear there without such a change */
    GPU_OWNER_NOBODY, /* the CPU cannot read it: former device memory, memory of a device unknown to this
                       * process, or unmapped */
};

/* Functions by which src/gpu serves this cache, which calls no higher layer; set before main. */
struct gpu_detect_source {
    /* Looks for the driver and uses it from then on. Returns whether it is present. Any thread. */
    bool (*watch)(void);
    /* Records whether the driver is in use already. Called before a rank runs. */
    void (*begin)(void);
    enum gpu_owner (*owner)(uintptr_t addr);
    /* Queries the driver for the range of an address. Memory unknown to the driver is host memory, [addr,
     * addr + 1). */
    void (*query)(uintptr_t addr, struct gpu_range *range_out);
    /* The id of the buffer at an address; 0: none. Ids are unique within a process for its lifetime. */
    uint64_t (*query_buffer)(uintptr_t addr);
    /* True if gpu_change_count rises whenever the program's ranks free memory. */
    bool (*notices_frees)(void);
};
extern const struct gpu_detect_source *gpu_detect_source;

/* Number of changes of the address space by the driver. */
extern _Atomic uint64_t gpu_map_count;

/* The same, and number of calls that ended or allocated memory without such a change; from 1. */
extern _Atomic uint64_t gpu_change_count;

/* *gpu_hint is non-NULL once the driver is, or since a library was loaded may be, present. */
extern void *const *_Atomic gpu_hint;

/* Starts looking for CUDA's driver: once per process, before any other function of this header. */
void gpu_detect_init(void);

/* True once the driver is in this process and in use; never reset. */
extern atomic_bool gpu_is_active;

/* True if there may be device buffers: a load and a branch in processes without the driver. Looks for the
 * driver after a library was loaded, so call it before touching data. Any thread; never switches. */
static inline bool gpu_is_used(void)
{
    return BASE_UNLIKELY(*atomic_load_explicit(&gpu_hint, memory_order_relaxed) != NULL) &&
           (BASE_LIKELY(atomic_load_explicit(&gpu_is_active, memory_order_acquire)) ||
            gpu_detect_source->watch());
}

/* The range that contains the address. Valid until the PE's next call. On a PE, and only if gpu_is_active.
 * Never switches. */
const struct gpu_range *gpu_find(const void *addr);
const struct gpu_range *gpu_resolve(const void *addr);

/* True if only src/gpu may access the data at this address (device or managed memory, or memory of no
 * owner). On a PE; always false on other threads. Never switches. */
static inline bool gpu_is_device(const void *addr)
{
    return gpu_is_used() && gpu_find(addr)->memory >= GPU_MEMORY_MANAGED;
}

/* The GPU that owns the memory; -1: none. */
static inline int gpu_range_device(struct gpu_range range)
{
    return range.memory == GPU_MEMORY_MANAGED && range.device < 0 ? 0 : range.device;
}

/* Counts that memory was freed, allocated or mapped. Any thread. */
static inline void gpu_count_change(void)
{
    atomic_fetch_add_explicit(&gpu_change_count, 1, memory_order_seq_cst);
}

/* True if the facts are still right. Any thread. */
static inline bool gpu_facts_hold(const struct gpu_facts *facts)
{
    return facts->changes == atomic_load_explicit(&gpu_change_count, memory_order_acquire) ||
           facts == &gpu_facts_of_malloc;
}

/* The range of an address, if the facts are about it and still right; else NULL. facts may be NULL. */
static inline const struct gpu_range *gpu_facts_range(const struct gpu_facts *facts, const void *addr)
{
    return facts && (uintptr_t)addr >= facts->range.from && (uintptr_t)addr < facts->range.to &&
                   gpu_facts_hold(facts)
               ? &facts->range
               : NULL;
}

/* Collects the facts about an address. If the memory there can change unnoticed, gpu_facts_hold is false
 * from the start. On a PE, and only if gpu_is_active. Never switches. */
void gpu_facts_collect(struct gpu_facts *facts, const void *addr);

/* Counters of the calling thread's cache. */
struct gpu_counts {
    uint64_t hits;    /* answers from the table */
    uint64_t misses;  /* answers from the driver or the resolved range */
    uint64_t queries; /* queries to the driver */
};
void gpu_detect_counts(struct gpu_counts *counts_out);

/* Called when the calling thread ends: another thread may reuse its cache. */
void gpu_detect_end_thread(void);

#endif
