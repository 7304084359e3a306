/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.c: a cache of the driver's answers about addresses. See gpu_detect.h.
 *
 * One cache per thread: a table by page, or by 512 bytes where a range begins or ends within the page. Its
 * entries point to a range. An entry becomes invalid when the driver has changed the address space since its
 * creation (gpu_map_count); host memory becomes device memory, or the reverse, in no other way. Events that
 * invalidate an entry:
 *
 *      cudaFree, cudaFreeHost of large memory, cudaMallocManaged,         the count rises
 *      pools and reservations that end, new memory at an address
 *      that was the host's
 *      cudaFree and cudaMalloc of small memory, cudaFreeAsync,            the kind stays, the buffer's id
 *      cuMemUnmap and cuMemMap, cudaHostRegister and Unregister,          differs: gpu_resolve asks if
 *      variables of modules and libraries                                 gpu_change_count has risen
 *
 * An address that the driver does not know is host memory in the cache only if the CPU can read it and it
 * is not in a mapping of the driver: within its mappings, allocations come and go unnoticed. The driver
 * takes an unknown address for one of the host, and reads it: SIGSEGV. So an address that neither the
 * driver knows nor the CPU can read is GPU_MEMORY_NOWHERE, which a move refuses with MPI_ERR_BUFFER. A
 * driver that does not import mmap and munmap is asked every time.
 *
 * Measured on an H100 (driver 580): 1 ns without CUDA, 5 ns from the cache, 67 ns for gpu_resolve of a
 * device address, 0.5 us for a miss on a host address. cuPointerGetAttribute takes 84 ns for a device
 * address and 835 ns for a malloc'ed one. No buffer id was seen twice.
 */
#include "gpu_detect.h"

#include <pthread.h>

#include "base/log.h"

/* Room for the buffers of 16 ranks with 30 each, which a PE may serve: 210 KiB. Four times as many ranges, because each
 * miss overwrites one, which causes another miss if it is in use. */
#define SET_BITS 10
#define SETS (1u << SET_BITS)
#define WAYS 4
#define RANGES 2048
#define PAGE_SHIFT 12
#define GRAIN_SHIFT 9 /* cuMemAlloc aligns to 512 bytes */

static void *const nothing = NULL;
void *const *_Atomic gpu_hint BASE_CACHE_ALIGNED = &nothing;
_Atomic uint64_t gpu_map_count BASE_CACHE_ALIGNED;
_Atomic uint64_t gpu_change_count BASE_CACHE_ALIGNED = 1;
const struct gpu_detect_source *gpu_detect_source;
atomic_bool gpu_is_active;

/* A range from the driver, and when it was queried. */
struct known {
    struct gpu_range range;
    uint64_t map_count;
    uint64_t changes; /* gpu_change_count when the driver last confirmed the buffer; 0: ask again */
};

struct entry {
    uintptr_t key; /* page_key or grain_key of the addresses that it is for */
    uint64_t map_count;
    const struct gpu_range *range; /* one of `ranges`, or `host` */
};

struct cache {
    struct entry entries[SETS][WAYS];
    struct known ranges[RANGES]; /* overwritten round-robin */
    unsigned next_range;
    struct known *last; /* the range found last */
    struct gpu_counts counts;
    struct cache *next_unused; /* link of `unused` */
};

/* The range of all addresses unknown to the driver; of those where it may allocate memory unnoticed; and of those that the
 * CPU cannot read, either. */
static const struct gpu_range host = {0, UINTPTR_MAX, 0, GPU_MEMORY_HOST, -1};
static const struct gpu_range host_for_now = {0, UINTPTR_MAX, 0, GPU_MEMORY_HOST, -1};
const struct gpu_facts gpu_facts_of_malloc = {{0, UINTPTR_MAX, 0, GPU_MEMORY_HOST, -1}, 0};
static const struct gpu_range nowhere = {0, UINTPTR_MAX, 0, GPU_MEMORY_NOWHERE, -1};

static __thread struct cache *cache_of_thread __attribute__((tls_model("initial-exec")));

/* Of threads that have ended. They are not freed: an unfinished operation may still read a range. */
static struct cache *unused;
static pthread_mutex_t unused_lock = PTHREAD_MUTEX_INITIALIZER;

static struct cache *take_unused(void)
{
    struct cache *cache;

    pthread_mutex_lock(&unused_lock);
    cache = unused;
    if (cache)
        unused = cache->next_unused;
    pthread_mutex_unlock(&unused_lock);
    return cache;
}

static BASE_COLD struct cache *make_cache(void)
{
    struct cache *cache = take_unused();

    if (cache)
        return cache_of_thread = cache;
    cache = base_calloc_aligned(1, sizeof *cache, "the cache of device addresses");

    cache->last = &cache->ranges[0];
    for (unsigned i = 0; i < SETS * WAYS; i++)
        cache->entries[i / WAYS][i % WAYS].key = UINTPTR_MAX;
    cache_of_thread = cache;
    return cache;
}

static inline struct cache *cache_self(void)
{
    return BASE_LIKELY(cache_of_thread != NULL) ? cache_of_thread : make_cache();
}

static inline uintptr_t page_key(uintptr_t at)
{
    return at >> PAGE_SHIFT;
}

/* Of small buffers several lie in a page. */
static inline uintptr_t grain_key(uintptr_t at)
{
    return at >> GRAIN_SHIFT | (uintptr_t)1 << 63;
}

/* Ranks' stacks and copies are at equal distances, so all bits of the key count. */
static inline struct entry *set_of(struct cache *cache, uintptr_t key)
{
    return cache->entries[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SET_BITS)];
}

/* True if all addresses of the page are in the range. */
static inline bool is_whole_page(const struct gpu_range *range, uintptr_t at)
{
    uintptr_t page = at >> PAGE_SHIFT << PAGE_SHIFT;

    return range->from <= page && range->to - page >= (uintptr_t)1 << PAGE_SHIFT;
}

/* The place of a key in its set: where it is, or the last one. */
static inline int place_of(const struct entry *entries, uintptr_t key)
{
    int i = 0;

    while (i < WAYS - 1 && entries[i].key != key)
        i++;
    return i;
}

/* Stores the range of the addresses near this one, in place of its set's oldest entry. */
static void remember(struct cache *cache, uintptr_t at, uint64_t map_count, const struct gpu_range *range)
{
    uintptr_t page = page_key(at), key = is_whole_page(range, at) ? page : grain_key(at);
    struct entry *entries = set_of(cache, page);
    int i = place_of(entries, page);

    if (key != page && entries[i].key == page) /* it was in a range that has ended */
        entries[i].key = UINTPTR_MAX;
    entries = set_of(cache, key);
    for (i = place_of(entries, key); i > 0; i--)
        entries[i] = entries[i - 1];
    entries[0] = (struct entry){key, map_count, range};
}

static inline bool is_inside(const struct gpu_range *range, uintptr_t at)
{
    return at >= range->from && at < range->to;
}

/* The entry for an address; NULL: none, or it is out of date. */
static inline const struct entry *look_up(struct cache *cache, uintptr_t at, uintptr_t key,
                                          uint64_t map_count)
{
    const struct entry *entries = set_of(cache, key);
    const struct entry *entry = &entries[place_of(entries, key)];

    return BASE_LIKELY(entry->key == key && entry->map_count == map_count && is_inside(entry->range, at))
               ? entry
               : NULL;
}

/* gpu_change_count, if it shows that a buffer has ended; else 0. */
static uint64_t changes_now(void)
{
    uint64_t changes = atomic_load_explicit(&gpu_change_count, memory_order_acquire);

    return gpu_detect_source->notices_frees() ? changes : 0;
}

/* Queries the driver and stores the answer. The caller read map_count before. */
static const struct gpu_range *ask(struct cache *cache, uintptr_t at, uint64_t map_count)
{
    struct known answer = {.map_count = map_count, .changes = changes_now()};
    struct known *known;

    cache->counts.queries++;
    gpu_detect_source->query(at, &answer.range);
    if (answer.range.buffer == 0) {
        enum gpu_owner owner = gpu_detect_source->owner(at);
        if (owner == GPU_OWNER_HOST)
            remember(cache, at, map_count, &host);
        return owner == GPU_OWNER_HOST ? &host : owner == GPU_OWNER_NOBODY ? &nowhere : &host_for_now;
    }
    known = &cache->ranges[cache->next_range++ % RANGES];
    *known = answer;
    cache->last = known;
    remember(cache, at, map_count, &known->range);
    return &known->range;
}

static BASE_NOINLINE const struct gpu_range *find_slowly(struct cache *cache, uintptr_t at,
                                                         uint64_t map_count)
{
    const struct entry *entry = look_up(cache, at, grain_key(at), map_count);

    if (entry) {
        cache->counts.hits++;
        return entry->range;
    }
    cache->counts.misses++;
    if (cache->last->map_count == map_count && is_inside(&cache->last->range, at)) {
        remember(cache, at, map_count, &cache->last->range);
        return &cache->last->range;
    }
    return ask(cache, at, map_count);
}

const struct gpu_range *gpu_find(const void *addr)
{
    struct cache *cache = cache_self();
    uintptr_t at = (uintptr_t)addr;
    uint64_t map_count = atomic_load_explicit(&gpu_map_count, memory_order_acquire);
    const struct entry *entry = look_up(cache, at, page_key(at), map_count);

    if (BASE_LIKELY(entry != NULL)) {
        cache->counts.hits++;
        return entry->range;
    }
    return find_slowly(cache, at, map_count);
}

/* The cache's struct of a range that has a buffer. */
static struct known *known_of(const struct gpu_range *range)
{
    return BASE_CONTAINER((struct gpu_range *)(uintptr_t)range, struct known, range);
}

/* The driver confirms the buffer, unless it has since memory was last freed, allocated or mapped. Allocations count
 * because a free counts only after the driver's call, when another rank may have got the address. */
static bool is_confirmed(struct known *known, uintptr_t at)
{
    uint64_t changes = atomic_load_explicit(&gpu_change_count, memory_order_acquire);

    if (known->changes == changes)
        return true;
    changes = changes_now();
    if (gpu_detect_source->query_buffer(at) != known->range.buffer)
        return false;
    known->changes = changes;
    return true;
}

const struct gpu_range *gpu_resolve(const void *addr)
{
    const struct gpu_range *range = gpu_find(addr);
    uintptr_t at = (uintptr_t)addr;

    if (range->buffer && is_confirmed(known_of(range), at))
        return range;
    return ask(cache_self(), at, atomic_load_explicit(&gpu_map_count, memory_order_acquire));
}

void gpu_facts_collect(struct gpu_facts *facts, const void *addr)
{
    uint64_t changes = changes_now();
    const struct gpu_range *range = gpu_find(addr);

    if (range->buffer)
        range = gpu_resolve(addr);
    facts->range = *range;
    facts->changes = range->buffer || range == &host ? changes : 0;
}

void gpu_detect_init(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&is_done))
        return;
    gpu_detect_source->watch();
    gpu_detect_source->begin();
}

void gpu_detect_end_thread(void)
{
    struct cache *cache = cache_of_thread;

    cache_of_thread = NULL;
    if (!cache)
        return;
    pthread_mutex_lock(&unused_lock);
    cache->next_unused = unused;
    unused = cache;
    pthread_mutex_unlock(&unused_lock);
}

void gpu_detect_counts(struct gpu_counts *counts_out)
{
    *counts_out = cache_of_thread ? cache_of_thread->counts : (struct gpu_counts){0};
}
