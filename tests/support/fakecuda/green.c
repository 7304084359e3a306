/* SPDX-License-Identifier: BSD-3-Clause
 *
 * green.c: the fake driver's green contexts: parts of a device with streams of their own, for which their device's primary
 * context waits.
 */
#include "fake.h"

FAKE_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (device < 0 || device >= fake.n_devices || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->sm.smCount = 4;
    return CUDA_SUCCESS;
}

/* Each part has what was asked for. */
FAKE_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *parts, unsigned *n,
                                                 const CUdevResource *whole, CUdevResource *rest,
                                                 unsigned flags, unsigned min_count)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (min_count == 0 || min_count > whole->sm.smCount || flags)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *n = *n < whole->sm.smCount / min_count ? *n : whole->sm.smCount / min_count;
    for (unsigned i = 0; parts && i < *n; i++) {
        parts[i] = *whole;
        parts[i].sm.smCount = min_count;
    }
    if (rest) {
        *rest = *whole;
        rest->sm.smCount -= *n * min_count;
    }
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned n)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *desc = (CUdevResourceDesc)resources; /* nothing of it is looked at */
    return error;
}

FAKE_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device,
                                      unsigned flags)
{
    CUresult error = fake_enter(__func__);
    struct fake_context *made;

    if (error)
        return error;
    if (!desc || flags != CU_GREEN_CTX_DEFAULT_STREAM || device < 0 || device >= fake.n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_wait_contexts_of(device); /* as on H200s */
    made = fake_context_create(device, false);
    made->parent = fake_context_retain(device);
    pthread_mutex_unlock(&fake_lock);
    *green = (CUgreenCtx)made;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *context = (CUcontext)green;
    return error;
}

/* Its streams become unusable. */
FAKE_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    struct fake_context *destroyed = (struct fake_context *)green;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    for (struct fake_stream *i = destroyed->streams; i; i = i->next)
        fake_stream_destroy(i);
    destroyed->is_alive = false;
    pthread_mutex_unlock(&fake_lock);
    return cuDevicePrimaryCtxRelease(destroyed->device);
}

FAKE_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!green || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    *stream = (CUstream)fake_stream_create((struct fake_context *)green, FAKECUDA_NON_BLOCKING, priority);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
