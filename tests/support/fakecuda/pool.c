/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool.c: the fake driver's memory pools; the functions that allocate and free in a stream are in
 * pool_calls.c.
 */
#include "fake.h"

#include <sys/mman.h>

/* ---- Pools: a reservation of addresses that are used again and again ---- */

#define POOL_BYTES ((size_t)16 << 30)

/* Those that are destroyed stay in memory, so that stale handles are noticed. */
struct fake_pool {
    struct fake_pool *next; /* link of the destroyed ones */
    int device;
    uintptr_t at;
    bool is_destroyed;
    bool is_open[FAKE_DEVICES_MAX]; /* to other devices */
};

static struct fake_pool *default_pools[FAKE_DEVICES_MAX], *current_pools[FAKE_DEVICES_MAX], *destroyed_pools;

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

/* The one that cuMemAllocAsync takes memory from. */
static struct fake_pool *current_pool(int device)
{
    return current_pools[device] ? current_pools[device] : default_pool(device);
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

/* ---- Allocating and freeing in a stream ---- */

/* What a stream frees later may be waited for where there is no more memory. */
static bool account(int device, size_t n_bytes)
{
    if (fake_account(device, n_bytes))
        return true;
    fake_wait_device(device);
    return fake_account(device, n_bytes);
}

/* The address is known at once; the memory is there when the stream comes to it. */
static CUresult come_to_be(struct fake_op *op)
{
    pthread_mutex_lock(&fake_lock);
    op->to_range->is_unborn = false;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_pool_allocate(struct fake_pool *pool, struct fake_stream *stream, size_t n_bytes,
                            CUdeviceptr *address)
{
    struct fake_range range = {.n_bytes = n_bytes, .kind = FAKE_DEVICE, .is_unborn = true};
    struct fake_op *op;

    pool = pool ? pool : current_pool(stream->context->device);
    if (!pool || pool->is_destroyed || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!account(pool->device, n_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.pool = pool;
    range.context = stream->context;
    range.device = pool->device;
    range.at = place_in_pool(pool, n_bytes);
    if (!range.at) {
        fake.used_bytes[pool->device] -= n_bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range.alias = aligned_alloc(512, (n_bytes + 511) / 512 * 512);
    memset(range.alias, 0xa5, n_bytes);
    op = fake_op_create(come_to_be);
    op->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    op->to_range = fake_range_add(range);
    op->to_range->n_refs++;
    *address = op->to_range->at;
    fake_queue(stream, op);
    return CUDA_SUCCESS;
}

static void give_back(struct fake_range *range)
{
    fake.used_bytes[range->device] -= range->n_bytes;
    fake_range_remove(range);
}

static CUresult cease_to_be(struct fake_op *op)
{
    pthread_mutex_lock(&fake_lock);
    give_back(op->to_range);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* The memory of a graph stays until the next launch, which has it again. */
static CUresult cease_in_graph(struct fake_op *op)
{
    pthread_mutex_lock(&fake_lock);
    op->to_range->is_unborn = true;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_pool_free(struct fake_stream *stream, CUdeviceptr address)
{
    struct fake_range *range = fake_range_at(address);
    struct fake_op *op;

    if (!range || range->at != address || !range->pool || range->is_freed)
        return CUDA_ERROR_INVALID_VALUE;
    range->is_freed = true;
    op = fake_op_create(stream->capture ? cease_in_graph : cease_to_be);
    op->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    op->to_range = range;
    range->n_refs++;
    fake_queue(stream, op);
    return CUDA_SUCCESS;
}

/* cuMemFree takes such memory, too, and does not wait then. */
CUresult fake_pool_free_now(struct fake_range *range)
{
    if (range->is_freed)
        return CUDA_ERROR_INVALID_VALUE;
    give_back(range);
    return CUDA_SUCCESS;
}

/* ---- The pools of a device ---- */

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

FAKE_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    struct fake_pool *pool = (struct fake_pool *)handle;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (device < 0 || device >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    if (!pool || pool->is_destroyed || pool->device != device)
        error = CUDA_ERROR_INVALID_VALUE;
    else
        current_pools[device] = pool;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (device < 0 || device >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    *pool = (CUmemoryPool)current_pool(device);
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

static bool is_empty(const struct fake_pool *pool)
{
    for (uintptr_t at = pool->at; at < pool->at + fake.memory_bytes; at += 512)
        if (fake_range_at(at))
            return false;
    return true;
}

/* Never waits: memory of the pool stays until it is freed. The device goes back to its default pool. */
FAKE_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult error = fake_enter(__func__);
    struct fake_pool *pool = (struct fake_pool *)handle;

    if (error)
        return error;
    if (!pool || pool->is_destroyed || pool == default_pools[pool->device])
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (current_pools[pool->device] == pool)
        current_pools[pool->device] = NULL;
    if (is_empty(pool))
        munmap((void *)pool->at, POOL_BYTES);
    pool->is_destroyed = true;
    pool->next = destroyed_pools;
    destroyed_pools = pool;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
