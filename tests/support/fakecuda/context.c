/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context.c: the fake driver's devices and contexts.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Devices ---- */

static CUresult check_device(const char *function, int device)
{
    CUresult error = fake_enter(function);

    return error ? error : device < 0 || device >= fake.n_devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetCount(int *count)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *count = fake.n_devices;
    return error;
}

FAKE_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult error = check_device(__func__, ordinal);

    if (!error)
        *device = ordinal;
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (!error)
        snprintf(name, (size_t)length, "fake GPU (test double)");
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetPCIBusId(char *name, int length, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (!error)
        snprintf(name, (size_t)length, "0000:%02X:00.0", (unsigned)fake.machine_devices[device] + 1);
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *name)
{
    CUresult error = check_device(__func__, 0);
    unsigned bus = 0;

    if (error || sscanf(name, "0000:%X:00.0", &bus) != 1)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < fake.n_devices; i++)
        if (fake.machine_devices[i] + 1 == (int)bus) {
            *device = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

FAKE_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (!error) {
        memset(uuid, 0xfa, sizeof *uuid);
        uuid->bytes[15] = (char)fake.machine_devices[device];
    }
    return error;
}

FAKE_EXPORT CUresult cuDeviceTotalMem(size_t *n_bytes, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (!error)
        *n_bytes = fake.memory_bytes;
    return error;
}

FAKE_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (error)
        return error;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 4;
        return error;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = 2048;
        return error;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return error;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        return error;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = 1;
        return error;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        *value = fake.rdma_flush < 0 ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                                     : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
        return error;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        *value = fake.rdma_flush < 0 ? 0 : fake.rdma_flush;
        return error;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        *value = 2;
        return error;
    default:
        *value = 0;
        return error;
    }
}

FAKE_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult error = check_device(__func__, device);

    if (!error && (peer < 0 || peer >= fake.n_devices))
        error = CUDA_ERROR_INVALID_DEVICE;
    if (!error)
        *can = fake.has_peers && device != peer;
    return error;
}

/* Devices that reach each other's memory have all that this can ask about. */
FAKE_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
                                             CUdevice peer)
{
    return cuDeviceCanAccessPeer(value, device, peer);
}

/* ---- Contexts of devices ---- */

static struct fake_context *primaries[FAKE_DEVICES_MAX];

struct fake_context *fake_contexts;

/* A destroyed context that had no streams: the next one gets its handle. */
static struct fake_context *find_unused(void)
{
    struct fake_context *i = fake_contexts;

    while (i && (i->is_alive || i->is_primary || i->parent || i->legacy || i->streams))
        i = i->next;
    return i;
}

struct fake_context *fake_context_create(int device, bool is_primary)
{
    struct fake_context *context = is_primary ? NULL : find_unused();

    if (context) {
        *context = (struct fake_context){.next = context->next};
    } else {
        context = calloc(1, sizeof *context);
        context->next = fake_contexts;
        fake_contexts = context;
    }
    context->device = device;
    context->is_primary = is_primary;
    context->is_alive = true;
    context->can_reach[device] = true;
    return context;
}

struct fake_context *fake_context_retain(int device)
{
    if (!primaries[device])
        primaries[device] = fake_context_create(device, true);
    primaries[device]->is_alive = true;
    primaries[device]->n_refs++;
    return primaries[device];
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    *context = (CUcontext)fake_context_retain(device);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* The table of CUDA's runtime 13.0, with the one function in it that is known here; the first entry is its size. */
FAKE_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const unsigned char known[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                            0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    static const void *entries[13];
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (memcmp(id->bytes, known, sizeof known) != 0)
        return CUDA_ERROR_NOT_FOUND;
    entries[0] = (const void *)sizeof entries;
    entries[2] = (const void *)cuDevicePrimaryCtxRetain;
    *table = entries;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (error)
        return error;
    if (!primaries[device] || primaries[device]->n_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    if (primaries[device]->n_refs == 1)
        fake_wait_context(primaries[device]);
    primaries[device]->is_alive = --primaries[device]->n_refs > 0;
    if (!primaries[device]->is_alive)
        fake_drop_memory(primaries[device]);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* Destroys the context's objects, pinned memory included; the context can be used again after another retain. */
FAKE_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (error || !primaries[device])
        return error;
    pthread_mutex_lock(&fake_lock);
    fake_wait_context(primaries[device]);
    fake_drop_memory(primaries[device]);
    primaries[device]->is_alive = false;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active)
{
    CUresult error = check_device(__func__, device);

    if (!error) {
        *flags = 0;
        *is_active = primaries[device] && primaries[device]->n_refs > 0;
    }
    return error;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return check_device(__func__, device);
}

/* ---- The current context: a stack per thread ---- */

#define STACK_MAX 32
static __thread struct fake_context *stack[STACK_MAX];
static __thread int depth;

struct fake_context *fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *context = (CUcontext)fake_current();
    return error;
}

/* The real driver may corrupt memory then. */
static void end_if_destroyed(CUcontext context)
{
    const struct fake_context *given = (const struct fake_context *)context;

    if (given && !given->is_alive && !given->is_primary) {
        fprintf(stderr, "fakecuda: a destroyed context is made current\n");
        abort();
    }
}

FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!context) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    end_if_destroyed(context);
    if (!((struct fake_context *)context)->is_alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    depth += depth == 0;
    stack[depth - 1] = (struct fake_context *)context;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!context || depth == STACK_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    end_if_destroyed(context);
    stack[depth++] = (struct fake_context *)context;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *params, unsigned flags,
                                 CUdevice device)
{
    CUresult error = check_device(__func__, device);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    *context = (CUcontext)fake_context_create(device, false);
    pthread_mutex_unlock(&fake_lock);
    return cuCtxPushCurrent(*context);
}

FAKE_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
    CUresult error = fake_enter(__func__);
    struct fake_context *destroyed = (struct fake_context *)context;

    if (error)
        return error;
    if (!destroyed || destroyed->is_primary || !destroyed->is_alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    fake_wait_contexts_of(destroyed->device); /* as on H200s */
    fake_drop_memory(destroyed);
    destroyed->is_alive = false; /* the struct stays: others may have the handle */
    pthread_mutex_unlock(&fake_lock);
    if (fake_current() == destroyed)
        depth--;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error)
        *device = context->device;
    return error;
}

static CUresult synchronize(const char *function, CUcontext handle)
{
    struct fake_context *context;
    CUresult error = handle ? fake_enter(function) : fake_enter_context(function, &context);

    if (error)
        return error;
    if (handle)
        context = (struct fake_context *)handle;
    if (!context->is_alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    pthread_mutex_lock(&fake_lock);
    error = fake_capture_check_context(context);
    if (!error)
        error = fake_capture_check_unsafe();
    if (!error) {
        fake_wait_context(context);
        error = context->broken;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuCtxSynchronize(void)
{
    return synchronize(__func__, NULL);
}

FAKE_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
    return synchronize(__func__, context);
}

FAKE_EXPORT CUresult cuCtxGetFlags(unsigned *flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error)
        *flags = context->flags;
    return error;
}

FAKE_EXPORT CUresult cuCtxSetFlags(unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error)
        context->flags = flags;
    return error;
}

/* Time for which new stacks of kernels are made. */
#define LIMIT_US 300

/* The stacks of kernels change: the driver waits until none runs. A kernel that another thread launches meanwhile fails (seen with
 * driver 580.159 on an H200: Xid 13, SKEDCHECK05_LOCAL_MEMORY_TOTAL_SIZE). */
FAKE_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_wait_device(context->device);
    if (limit == CU_LIMIT_STACK_SIZE && value != context->limits[limit]) {
        context->n_limit_changes++;
        pthread_mutex_unlock(&fake_lock);
        usleep(LIMIT_US);
        pthread_mutex_lock(&fake_lock);
        context->n_limit_changes--;
    }
    context->limits[limit] = value;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = context->limits[limit];
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error) {
        *least = 0;
        *greatest = FAKE_GREATEST_PRIORITY;
    }
    return error;
}

/* ---- Peers ---- */

FAKE_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct fake_context *other = (struct fake_context *)peer;

    if (error)
        return error;
    if (!other || other == context || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake.has_peers || other->device == context->device)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (context->can_reach[other->device])
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->can_reach[other->device] = true;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct fake_context *other = (struct fake_context *)peer;

    if (error)
        return error;
    if (!other || !context->can_reach[other->device])
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->can_reach[other->device] = false;
    return CUDA_SUCCESS;
}

/* ---- Writes of network cards: there are none, so flushes are only counted ---- */

FAKE_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                                CUflushGPUDirectRDMAWritesScope scope)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake.rdma_flush != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    fake.n_flushes++;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT int fakecuda_flushes(void)
{
    int n;

    pthread_mutex_lock(&fake_lock);
    n = fake.n_flushes;
    pthread_mutex_unlock(&fake_lock);
    return n;
}
