/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.c: a cache of what the driver says of addresses. See gpu_detect.h.
 *
 * One per thread: a table by page, whose entries point to a range. An entry is forgotten when the driver has
 * changed the address space since it was made (gpu_map_count): memory of the host becomes a device's, or the
 * other way round, in no other way. How an entry dies, then:
 *
 *      cudaFree, cudaFreeHost of large memory, cudaMallocManaged,         the count rises
 *      pools and reservations that end, new memory at an address
 *      that was the host's
 *      cudaFree and cudaMalloc of small memory, cudaFreeAsync,            the kind stays, the buffer's id
 *      cuMemUnmap and cuMemMap, cudaHostRegister and Unregister           differs: gpu_resolve asks
 */
#include "gpu_detect.h"

#include "base/log.h"

#define SETS 512u /* of the table; power of two */
#define WAYS 2
#define RANGES 128
#define PAGE_SHIFT 12

static void *const nothing = NULL;
void *const *_Atomic gpu_hint BASE_CACHE_ALIGNED = &nothing;
_Atomic uint64_t gpu_map_count BASE_CACHE_ALIGNED;
const struct gpu_detect_source *gpu_detect_source;
atomic_bool gpu_is_active;

/* A range of the driver's, and when it was asked for. */
struct known {
    struct gpu_range range;
    uint64_t map_count;
};

struct slot {
    uintptr_t page;
    uint64_t map_count;
    const struct gpu_range *range; /* one of `ranges`, or `host` */
};

struct cache {
    struct slot slots[SETS][WAYS];
    struct known ranges[RANGES]; /* overwritten in turn */
    unsigned next_range;
    struct known *last; /* the range that was found last */
    struct gpu_counts counts;
};

/* What all addresses are in that the driver does not know, and what those are in that the CPU cannot read,
 * either. */
static const struct gpu_range host = {0, UINTPTR_MAX, 0, GPU_MEMORY_HOST, -1};
static const struct gpu_range nowhere = {0, UINTPTR_MAX, 0, GPU_MEMORY_NOWHERE, -1};

static __thread struct cache *cache_of_thread __attribute__((tls_model("initial-exec")));

static BASE_COLD struct cache *make_cache(void)
{
    struct cache *cache = base_calloc_aligned(1, sizeof *cache, "the cache of device addresses");

    cache->last = &cache->ranges[0];
    for (unsigned i = 0; i < SETS * WAYS; i++)
        cache->slots[i / WAYS][i % WAYS].page = UINTPTR_MAX;
    cache_of_thread = cache;
    return cache;
}

static inline struct cache *cache_self(void)
{
    return BASE_LIKELY(cache_of_thread != NULL) ? cache_of_thread : make_cache();
}

/* The set of a page. Ranks' stacks and copies lie at equal distances, so more than the lowest bits count. */
static inline struct slot *slots_of(struct cache *cache, uintptr_t page)
{
    return cache->slots[(page ^ page >> 9 ^ page >> 18) & (SETS - 1)];
}

/* Remembers which range a page's addresses are in, in place of what its set remembered first. */
static void remember(struct cache *cache, uintptr_t page, uint64_t map_count, const struct gpu_range *range)
{
    struct slot *slots = slots_of(cache, page);

    if (slots[0].page != page)
        slots[1] = slots[0];
    slots[0] = (struct slot){page, map_count, range};
}

static inline bool is_inside(const struct gpu_range *range, uintptr_t at)
{
    return at >= range->from && at < range->to;
}

/* Asks the driver and remembers the answer. map_count was read before. */
static const struct gpu_range *ask(struct cache *cache, uintptr_t at, uint64_t map_count)
{
    struct known answer = {.map_count = map_count};
    struct known *known;

    cache->counts.queries++;
    gpu_detect_source->query(at, &answer.range);
    if (answer.range.buffer == 0) {
        enum gpu_owner owner = gpu_detect_source->owner(at);
        if (owner == GPU_OWNER_HOST)
            remember(cache, at >> PAGE_SHIFT, map_count, &host);
        return owner == GPU_OWNER_NOBODY ? &nowhere : &host;
    }
    known = &cache->ranges[cache->next_range++ % RANGES];
    *known = answer;
    cache->last = known;
    remember(cache, at >> PAGE_SHIFT, map_count, &known->range);
    return &known->range;
}

static BASE_NOINLINE const struct gpu_range *find_slowly(struct cache *cache, uintptr_t at,
                                                         uint64_t map_count)
{
    cache->counts.misses++;
    if (cache->last->map_count == map_count && is_inside(&cache->last->range, at)) {
        remember(cache, at >> PAGE_SHIFT, map_count, &cache->last->range);
        return &cache->last->range;
    }
    return ask(cache, at, map_count);
}

const struct gpu_range *gpu_find(const void *addr)
{
    struct cache *cache = cache_self();
    uintptr_t at = (uintptr_t)addr;
    uint64_t map_count = atomic_load_explicit(&gpu_map_count, memory_order_acquire);
    const struct slot *slot = slots_of(cache, at >> PAGE_SHIFT);

    if (slot->page != at >> PAGE_SHIFT)
        slot++;
    if (BASE_LIKELY(slot->page == at >> PAGE_SHIFT && slot->map_count == map_count &&
                    is_inside(slot->range, at))) {
        cache->counts.hits++;
        return slot->range;
    }
    return find_slowly(cache, at, map_count);
}

const struct gpu_range *gpu_resolve(const void *addr)
{
    const struct gpu_range *range = gpu_find(addr);
    uintptr_t at = (uintptr_t)addr;

    if (range->buffer && gpu_detect_source->query_buffer(at) == range->buffer)
        return range;
    return ask(cache_self(), at, atomic_load_explicit(&gpu_map_count, memory_order_acquire));
}

void gpu_detect_init(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&is_done))
        return;
    gpu_detect_source->watch();
    gpu_detect_source->begin();
}

void gpu_detect_counts(struct gpu_counts *counts_out)
{
    *counts_out = cache_of_thread ? cache_of_thread->counts : (struct gpu_counts){0};
}
