/* SPDX-License-Identifier: BSD-3-Clause
 *
 * vmm.c: the fake driver's memory pools (cuMemAllocAsync) and virtual memory management (cuMemMap).
 */
#include "fake.h"

#include <sys/mman.h>

/* ---- Pools: a reservation of addresses that are used again and again ---- */

#define POOL_BYTES ((size_t)16 << 30)

struct fake_pool {
    int device;
    uintptr_t at;
    bool is_destroyed;
    bool is_open[FAKE_DEVICES_MAX]; /* to other devices */
};

static struct fake_pool *default_pools[FAKE_DEVICES_MAX];

static struct fake_pool *make_pool(int device)
{
    uintptr_t at = fake_reserve(POOL_BYTES);
    struct fake_pool *pool = at ? calloc(1, sizeof *pool) : NULL;

    if (pool) {
        pool->device = device;
        pool->at = at;
    }
    return pool;
}

static struct fake_pool *default_pool(int device)
{
    if (!default_pools[device])
        default_pools[device] = make_pool(device);
    return default_pools[device];
}

bool fake_is_open_to(const struct fake_range *range, int device)
{
    if (range->pool)
        return device == range->pool->device || range->pool->is_open[device];
    return !range->physical || range->is_open[device];
}

/* The lowest address of a pool where n_bytes are free. */
static uintptr_t place_in_pool(const struct fake_pool *pool, size_t n_bytes)
{
    uintptr_t at = pool->at;

    while (at + n_bytes <= pool->at + POOL_BYTES) {
        struct fake_range *in_the_way = NULL;
        for (uintptr_t i = at; i < at + n_bytes && !in_the_way; i += 512)
            in_the_way = fake_range_at(i);
        if (!in_the_way)
            return at;
        at = (in_the_way->at + in_the_way->n_bytes + 511) / 512 * 512;
    }
    return 0;
}

static CUresult allocate_from(struct fake_pool *pool, struct fake_context *context, size_t n_bytes,
                              CUdeviceptr *address)
{
    struct fake_range range = {.n_bytes = n_bytes, .kind = FAKE_DEVICE, .pool = pool, .context = context};

    if (!pool || pool->is_destroyed)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_account(pool->device, n_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.device = pool->device;
    range.at = place_in_pool(pool, n_bytes);
    range.alias = aligned_alloc(512, (n_bytes + 511) / 512 * 512);
    memset(range.alias, 0xa5, n_bytes);
    *address = fake_range_add(range)->at;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t n_bytes, CUmemoryPool pool,
                                             CUstream stream)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if (n_bytes == 0 || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    error = allocate_from((struct fake_pool *)pool, context, n_bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t n_bytes, CUstream stream)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if (n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    error = allocate_from(default_pool(context->device), context, n_bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* The address is nobody's at once; the bytes stay until the operations that use them are over. */
FAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->at == address && range->pool) {
        fake.used_bytes[range->device] -= range->n_bytes;
        fake_range_remove(range);
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (device < 0 || device >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    *pool = (CUmemoryPool)default_pool(device);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id >= fake.n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    *pool = (CUmemoryPool)make_pool(properties->location.id);
    pthread_mutex_unlock(&fake_lock);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What was not freed dies with it. */
FAKE_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *access, size_t count)
{
    struct fake_pool *pool = (struct fake_pool *)handle;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < count; i++)
        pool->is_open[access[i].location.id] = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                                        CUmemLocation *location)
{
    struct fake_pool *pool = (struct fake_pool *)handle;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    *flags = location->id == pool->device || pool->is_open[location->id] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult error = fake_enter(__func__);
    struct fake_pool *pool = (struct fake_pool *)handle;

    if (error)
        return error;
    if (!pool || pool->is_destroyed || pool == default_pools[pool->device])
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    for (uintptr_t at = pool->at; at < pool->at + fake.memory_bytes; at += 512) {
        struct fake_range *range = fake_range_at(at);
        if (range)
            fake_range_remove(range);
    }
    munmap((void *)pool->at, POOL_BYTES);
    pool->is_destroyed = true;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Reservations, physical memory, and mappings of one onto the other ---- */

struct reservation {
    struct reservation *next;
    uintptr_t at;
    size_t n_bytes;
};
static struct reservation *reservations;

struct physical {
    int device;
    size_t n_bytes;
    char *bytes;
    int n_refs; /* the handle, and mappings */
};

static void unref_physical(struct physical *physical)
{
    if (--physical->n_refs > 0)
        return;
    fake.used_bytes[physical->device] -= physical->n_bytes;
    free(physical->bytes);
    free(physical);
}

FAKE_EXPORT CUresult cuMemGetAllocationGranularity(size_t *n_bytes, const CUmemAllocationProp *properties,
                                                   CUmemAllocationGranularity_flags flags)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *n_bytes = FAKE_PAGE;
    return error;
}

FAKE_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t n_bytes, size_t alignment,
                                         CUdeviceptr wanted, unsigned long long flags)
{
    CUresult error = fake_enter(__func__);
    struct reservation *made;
    uintptr_t at;

    if (error)
        return error;
    if (n_bytes == 0 || n_bytes % FAKE_PAGE || flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    at = fake_reserve(n_bytes);
    if (at) {
        made = malloc(sizeof *made);
        *made = (struct reservation){reservations, at, n_bytes};
        reservations = made;
        *address = at;
    } else {
        error = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t n_bytes)
{
    CUresult error = fake_enter(__func__);
    struct reservation **link = &reservations, *freed;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    while (*link && (*link)->at != address)
        link = &(*link)->next;
    freed = *link;
    if (freed && freed->n_bytes == n_bytes) {
        munmap((void *)freed->at, freed->n_bytes);
        *link = freed->next;
        free(freed);
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t n_bytes,
                                 const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult error = fake_enter(__func__);
    struct physical *made;
    int device = properties->location.id;

    if (error)
        return error;
    if (n_bytes == 0 || n_bytes % FAKE_PAGE || device < 0 || device >= fake.n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (fake_account(device, n_bytes)) {
        made = malloc(sizeof *made);
        *made = (struct physical){device, n_bytes, aligned_alloc(512, n_bytes), 1};
        memset(made->bytes, 0xa5, n_bytes);
        *handle = (CUmemGenericAllocationHandle)made;
    } else {
        error = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    unref_physical((struct physical *)handle);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

static const struct reservation *reservation_of(uintptr_t at, size_t n_bytes)
{
    for (const struct reservation *i = reservations; i; i = i->next)
        if (at >= i->at && at + n_bytes <= i->at + i->n_bytes)
            return i;
    return NULL;
}

FAKE_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t n_bytes, size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult error = fake_enter(__func__);
    struct physical *physical = (struct physical *)handle;
    const struct reservation *reservation;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    reservation = reservation_of(address, n_bytes);
    if (!reservation || offset != 0 || n_bytes != physical->n_bytes || fake_range_at(address)) {
        error = CUDA_ERROR_INVALID_VALUE;
    } else {
        physical->n_refs++;
        fake_range_add((struct fake_range){.at = address,
                                           .n_bytes = n_bytes,
                                           .alias = physical->bytes,
                                           .kind = FAKE_DEVICE,
                                           .device = physical->device,
                                           .context = fake_current(),
                                           .whole_at = reservation->at,
                                           .whole_bytes = reservation->n_bytes,
                                           .physical = physical,
                                           .is_alias_shared = true});
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t n_bytes, const CUmemAccessDesc *access,
                                    size_t count)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->physical)
        for (size_t i = 0; i < count; i++)
            range->is_open[access[i].location.id] = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                    CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->physical)
        *flags =
            range->is_open[location->id] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t n_bytes)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->physical && range->at == address && range->n_bytes == n_bytes) {
        struct physical *physical = range->physical;
        if (range->context)
            fake_wait_context(range->context);
        fake_range_remove(range);
        unref_physical(physical);
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}
