/* SPDX-License-Identifier: BSD-3-Clause
 *
 * vmm.c: the fake driver's virtual memory management (cuMemMap).
 */
#include "fake.h"

#include <sys/mman.h>

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
