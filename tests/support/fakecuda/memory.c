/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c: the fake driver's memory: its map, and the usual allocations.
 *
 * As in the real one: device memory of 1 MiB or more has a mapping of its own, which is unmapped when it is
 * freed, so that the host may get the address; smaller pieces are cut from mappings of 2 MiB, which stay. All
 * of it is mapped without access; the bytes are elsewhere.
 */
#include "fake.h"

#include <stdio.h>
#include <sys/mman.h>

#define UNIT 512                        /* what small allocations are rounded up to */
#define UNITS ((int)(FAKE_PAGE / UNIT)) /* of a chunk */
#define OWN_MAPPING_FROM ((size_t)1 << 20)

/* Small allocations of one context, or pinned ones, are cut from here. */
struct fake_chunk {
    struct fake_chunk *next;
    uintptr_t at;
    struct fake_context *context;
    enum fake_kind kind;
    unsigned char is_used[UNITS];
};
static struct fake_chunk *chunks;

/* ---- What is where: ranges by address ---- */

static struct fake_range **ranges;
static int n_ranges, ranges_room;

/* The number of ranges that begin at or below the address. */
static int ranges_up_to(uintptr_t address)
{
    int lo = 0, hi = n_ranges;

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (ranges[mid]->at <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct fake_range *fake_range_at(uintptr_t address)
{
    int i = ranges_up_to(address);

    return i > 0 && address - ranges[i - 1]->at < ranges[i - 1]->n_bytes ? ranges[i - 1] : NULL;
}

struct fake_range *fake_range_add(struct fake_range range)
{
    static unsigned long long last_id;
    struct fake_range *added = malloc(sizeof *added);
    int i = ranges_up_to(range.at);

    *added = range;
    added->id = ++last_id;
    added->n_refs = 1;
    if (!added->whole_at) {
        added->whole_at = range.at;
        added->whole_bytes = range.n_bytes;
    }
    if (n_ranges == ranges_room) {
        ranges_room = ranges_room ? 2 * ranges_room : 64;
        ranges = realloc(ranges, (size_t)ranges_room * sizeof *ranges);
    }
    memmove(ranges + i + 1, ranges + i, (size_t)(n_ranges - i) * sizeof *ranges);
    ranges[i] = added;
    n_ranges++;
    return added;
}

void fake_range_unref(struct fake_range *range)
{
    if (!range || --range->n_refs > 0)
        return;
    if (!range->is_alias_shared)
        free(range->alias);
    free(range);
}

unsigned fake_n_removed;

void fake_range_remove(struct fake_range *range)
{
    int i = ranges_up_to(range->at) - 1;

    __atomic_fetch_add(&fake_n_removed, 1, __ATOMIC_RELEASE);
    memmove(ranges + i, ranges + i + 1, (size_t)(n_ranges - i - 1) * sizeof *ranges);
    n_ranges--;
    fake_range_unref(range);
}

/* ---- Address space ---- */

uintptr_t fake_reserve(size_t n_bytes)
{
    size_t wanted = (n_bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
    uintptr_t place = fake.next_place, at, aligned;
    void *mapped;

    if (place) {
        fake.next_place = 0;
        mapped = mmap((void *)place, wanted, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        return mapped == (void *)place ? place : 0;
    }
    mapped = mmap(NULL, wanted + FAKE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return 0;
    at = (uintptr_t)mapped;
    aligned = (at + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
    if (aligned > at)
        munmap((void *)at, aligned - at);
    munmap((void *)(aligned + wanted), at + FAKE_PAGE - aligned);
    return aligned;
}

static void give_back(uintptr_t at, size_t n_bytes)
{
    munmap((void *)at, (n_bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE);
}

bool fake_account(int device, size_t n_bytes)
{
    if (fake.used_bytes[device] + n_bytes > fake.memory_bytes)
        return false;
    fake.used_bytes[device] += n_bytes;
    return true;
}

/* ---- Small pieces ---- */

static struct fake_chunk *new_chunk(struct fake_context *context, enum fake_kind kind)
{
    struct fake_chunk *chunk;
    uintptr_t at;

    if (kind == FAKE_DEVICE)
        at = fake_reserve(FAKE_PAGE);
    else {
        void *mapped = mmap(NULL, FAKE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        at = mapped == MAP_FAILED ? 0 : (uintptr_t)mapped;
    }
    if (!at)
        return NULL;
    chunk = calloc(1, sizeof *chunk);
    chunk->at = at;
    chunk->context = context;
    chunk->kind = kind;
    chunk->next = chunks;
    chunks = chunk;
    return chunk;
}

/* The first of n consecutive free units; -1: there are none. */
static int find_units(const struct fake_chunk *chunk, int n)
{
    int in_a_row = 0;

    for (int i = 0; i < UNITS; i++) {
        in_a_row = chunk->is_used[i] ? 0 : in_a_row + 1;
        if (in_a_row == n)
            return i - n + 1;
    }
    return -1;
}

static uintptr_t cut(struct fake_context *context, enum fake_kind kind, size_t n_bytes,
                     struct fake_chunk **chunk_out)
{
    int n = (int)((n_bytes + UNIT - 1) / UNIT), first = -1;
    struct fake_chunk *chunk;

    for (chunk = chunks; chunk; chunk = chunk->next)
        if (chunk->context == context && chunk->kind == kind && (first = find_units(chunk, n)) >= 0)
            break;
    if (!chunk) {
        chunk = new_chunk(context, kind);
        first = 0;
    }
    if (!chunk)
        return 0;
    memset(chunk->is_used + first, 1, (size_t)n);
    *chunk_out = chunk;
    return chunk->at + (uintptr_t)first * UNIT;
}

static void paste(const struct fake_range *range)
{
    size_t first = (range->at - range->chunk->at) / UNIT;

    memset(range->chunk->is_used + first, 0, (range->n_bytes + UNIT - 1) / UNIT);
}

/* ---- Device memory ---- */

/* Bytes with something in them that is not zero. */
static char *new_bytes(size_t n_bytes)
{
    char *bytes = aligned_alloc(512, (n_bytes + 511) / 512 * 512);

    memset(bytes, 0xa5, n_bytes);
    return bytes;
}

CUresult fake_allocate(struct fake_context *context, size_t n_bytes, CUdeviceptr *address)
{
    struct fake_range range = {
        .n_bytes = n_bytes, .kind = FAKE_DEVICE, .device = context->device, .context = context};

    if (!fake_account(context->device, n_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.at =
        n_bytes < OWN_MAPPING_FROM ? cut(context, FAKE_DEVICE, n_bytes, &range.chunk) : fake_reserve(n_bytes);
    if (!range.at) {
        fake.used_bytes[context->device] -= n_bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range.alias = new_bytes(n_bytes);
    *address = fake_range_add(range)->at;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t n_bytes)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);

    if (error)
        return error;
    if (n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    error = fake_allocate(context, n_bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t n_bytes, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range range = {.n_bytes = n_bytes, .kind = FAKE_MANAGED, .is_alias_shared = true};
    size_t mapped_bytes = (n_bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;

    if (error)
        return error;
    if (n_bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    range.at = fake_reserve(n_bytes);
    if (!range.at) {
        pthread_mutex_unlock(&fake_lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mmap((void *)range.at, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
    range.alias = (char *)range.at;
    range.context = context;
    range.device = context->device;
    *address = fake_range_add(range)->at;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

void fake_end_range(struct fake_range *range)
{
    if (range->kind == FAKE_DEVICE)
        fake.used_bytes[range->device] -= range->n_bytes;
    if (range->chunk)
        paste(range);
    else
        give_back(range->at, range->n_bytes);
    fake_range_remove(range);
}

static struct {
    void (*notice)(void *arg);
    void *arg;
} on_freed;

FAKE_EXPORT void fakecuda_on_freed(void (*notice)(void *arg), void *arg)
{
    on_freed.arg = arg;
    on_freed.notice = notice;
}

FAKE_EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range *range;

    if (error || address == 0)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->at == address && range->pool) {
        error = fake_pool_free_now(range);
        pthread_mutex_unlock(&fake_lock);
        return error;
    }
    if (!range || range->at != address || range->whole_at != range->at ||
        (range->kind != FAKE_DEVICE && range->kind != FAKE_MANAGED)) {
        pthread_mutex_unlock(&fake_lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_wait_device(range->device);
    if (context->broken) {
        error = context->broken;
        pthread_mutex_unlock(&fake_lock);
        return error;
    }
    fake_end_range(range);
    pthread_mutex_unlock(&fake_lock);
    if (on_freed.notice)
        on_freed.notice(on_freed.arg);
    return CUDA_SUCCESS;
}

void fake_drop_memory(struct fake_context *context)
{
    for (int i = n_ranges - 1; i >= 0; i--) {
        struct fake_range *range = ranges[i];
        if (range->context != context || range->pool || range->physical || range->kind == FAKE_REGISTERED)
            continue;
        fake_end_range(range);
    }
}

FAKE_EXPORT CUresult cuMemGetInfo(size_t *n_free, size_t *n_all)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error) {
        *n_all = fake.memory_bytes;
        *n_free = fake.memory_bytes - fake.used_bytes[context->device];
    }
    return error;
}

/* ---- Pinned memory ---- */

FAKE_EXPORT CUresult cuMemHostAlloc(void **address, size_t n_bytes, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range range = {.n_bytes = n_bytes, .kind = FAKE_HOST, .is_alias_shared = true};

    if (error)
        return error;
    if (n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (n_bytes < OWN_MAPPING_FROM) {
        range.at = cut(context, FAKE_HOST, n_bytes, &range.chunk);
    } else {
        void *mapped = mmap(NULL, (n_bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        range.at = mapped == MAP_FAILED ? 0 : (uintptr_t)mapped;
    }
    if (range.at) {
        range.alias = (char *)range.at;
        range.context = context;
        range.device = context->device;
        *address = (void *)fake_range_add(range)->at;
    } else {
        error = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemAllocHost(void **address, size_t n_bytes)
{
    return cuMemHostAlloc(address, n_bytes, 0);
}

FAKE_EXPORT CUresult cuMemFreeHost(void *address)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)address);
    if (range && range->kind == FAKE_HOST && range->at == (uintptr_t)address) {
        fake_wait_device(range->device);
        if (range->chunk)
            paste(range);
        else
            give_back(range->at, range->n_bytes);
        fake_range_remove(range);
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* True if the driver knows some of this memory. Lock held. */
static bool is_taken(uintptr_t at, size_t n_bytes)
{
    int i = ranges_up_to(at + n_bytes - 1);

    return i > 0 && ranges[i - 1]->at + ranges[i - 1]->n_bytes > at;
}

FAKE_EXPORT CUresult cuMemHostRegister(void *address, size_t n_bytes, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range range = {.at = (uintptr_t)address,
                               .n_bytes = n_bytes,
                               .alias = address,
                               .kind = FAKE_REGISTERED,
                               .is_alias_shared = true};

    if (error)
        return error;
    if (!address || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (is_taken(range.at, n_bytes)) {
        error = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else {
        range.context = context;
        range.device = context->device;
        fake_range_add(range);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemHostUnregister(void *address)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)address);
    if (range && range->kind == FAKE_REGISTERED && range->at == (uintptr_t)address) {
        fake_wait_device(range->device);
        fake_range_remove(range);
    } else {
        error = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *device_address, void *address, unsigned flags)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at((uintptr_t)address);
    if (range && (range->kind == FAKE_HOST || range->kind == FAKE_REGISTERED))
        *device_address = (CUdeviceptr)address;
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}
