/* SPDX-License-Identifier: BSD-3-Clause
 *
 * query.c: the fake driver's queries about addresses.
 */
#include "fake.h"

/* One attribute of a range; NULL: of an address that the driver does not know. */
static CUresult answer(const struct fake_range *range, uintptr_t address, CUpointer_attribute attribute,
                       void *to)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)to = range && !range->pool && !range->physical ? (CUcontext)range->context : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)to = range ? (CUmemoryPool)range->pool : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)to = range && range->kind == FAKE_DEVICE && !range->pool && !range->physical;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)to = !range                                                      ? 0
                          : range->kind == FAKE_DEVICE || range->kind == FAKE_MANAGED ? CU_MEMORYTYPE_DEVICE
                                                                                      : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)to = range ? address : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)to = range && range->kind != FAKE_DEVICE ? (void *)address : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)to = range ? range->id : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)to = range && range->kind == FAKE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)to = range ? range->device : -2;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(uintptr_t *)to = range ? range->whole_at : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)to = range ? range->whole_bytes : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)to = range != NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)to = range && range->is_sync_memops;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

FAKE_EXPORT CUresult cuPointerGetAttribute(void *to, CUpointer_attribute attribute, CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    error = range ? answer(range, address, attribute, to) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* The calls on the range that were to be synchronous are over when it returns, as CUDA guarantees. A pool's memory takes the
 * attribute, but its later calls do not wait (CUDA 13.0 on an H200). */
static void set_sync_memops(struct fake_range *range, bool is_sync)
{
    struct fake_wait pending = {range->sync_stream, range->sync_number};

    range->is_sync_memops = is_sync;
    range->sync_stream = NULL;
    if (is_sync && pending.stream)
        fake_wait_for(&(struct fake_waits){&pending, 1});
}

FAKE_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                           CUdeviceptr address)
{
    struct fake_context *context;
    CUresult error = fake_enter_unsafe(__func__, &context);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && range->physical)
        error = CUDA_ERROR_NOT_SUPPORTED;
    else if (range && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        set_sync_memops(range, *(const unsigned *)value != 0);
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* Unlike the above, this one has an answer for addresses that it does not know. */
FAKE_EXPORT CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **to,
                                            CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < n && !error; i++)
        error = answer(fake_range_at(address), address, attributes[i], to[i]);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *n_bytes, CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range) {
        if (base)
            *base = range->at;
        if (n_bytes)
            *n_bytes = range->n_bytes;
    } else {
        error = CUDA_ERROR_NOT_FOUND;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}
