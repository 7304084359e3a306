/* SPDX-License-Identifier: BSD-3-Clause
 *
 * visible_calls.c: the driver's functions that take or give the number of a device, as the program calls them; see visible.h.
 * Functions that are replaced for other reasons, too, translate in their own files (rank_context.c, stream_calls.h,
 * thread_streams.c, guard.c).
 *
 * CUDA's runtime 13.0 calls one such function that cuda.h does not have: the second of a table of cuGetExportTable gives the
 * primary context of a device. (Seen on an H200 with a driver that prints the calls.) Ranks with numbers of their own get a
 * copy of the table. Not translated: places in nodes of graphs that allocate memory, and in batches of prefetches.
 */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/visible.h"
#include "gpu/rank/waits.h"

/* In the arguments of a call: a device, a place, and pointers to structs that begin with a place or contain one. */
#define DEVICE(device) gpu_visible_to_driver(seen, device)
#define PLACE(location) gpu_visible_place(seen, location)
#define PLACE_AT(location) place_at(seen, location, &(CUmemLocation){.id = 0})
#define PROPERTIES(properties) properties_of(seen, properties, &(CUmemAllocationProp){.type = 0})

/* X(member, name in libcuda, first version of CUDA whose cuGetProcAddress has it, parameters, arguments) */
#define TAKING(X)                                                                                            \
    X(name, "cuDeviceGetName", 2000, (char *name, int length, CUdevice device),                              \
      (name, length, DEVICE(device)))                                                                        \
    X(uuid, "cuDeviceGetUuid", 9020, (CUuuid * uuid, CUdevice device), (uuid, DEVICE(device)))               \
    X(uuid_v2, "cuDeviceGetUuid_v2", 11040, (CUuuid * uuid, CUdevice device), (uuid, DEVICE(device)))        \
    X(luid, "cuDeviceGetLuid", 10000, (char *luid, unsigned *mask, CUdevice device),                         \
      (luid, mask, DEVICE(device)))                                                                          \
    X(bytes_v1, "cuDeviceTotalMem", 2000, (unsigned *n_bytes, CUdevice device), (n_bytes, DEVICE(device)))   \
    X(bytes, "cuDeviceTotalMem_v2", 3020, (size_t * n_bytes, CUdevice device), (n_bytes, DEVICE(device)))    \
    X(line, "cuDeviceGetTexture1DLinearMaxWidth", 11010,                                                     \
      (size_t * width, CUarray_format format, unsigned n, CUdevice device),                                  \
      (width, format, n, DEVICE(device)))                                                                    \
    X(attribute, "cuDeviceGetAttribute", 2000, (int *value, CUdevice_attribute attribute, CUdevice device),  \
      (value, attribute, DEVICE(device)))                                                                    \
    X(atomics, "cuDeviceGetHostAtomicCapabilities", 13000,                                                   \
      (unsigned *values, const void *operations, unsigned n, CUdevice device),                               \
      (values, operations, n, DEVICE(device)))                                                               \
    X(sync, "cuDeviceGetNvSciSyncAttributes", 10020, (void *list, CUdevice device, int flags),               \
      (list, DEVICE(device), flags))                                                                         \
    X(set_pool, "cuDeviceSetMemPool", 11020, (CUdevice device, CUmemoryPool pool), (DEVICE(device), pool))   \
    X(get_pool, "cuDeviceGetMemPool", 11020, (CUmemoryPool * pool, CUdevice device), (pool, DEVICE(device))) \
    X(default_pool, "cuDeviceGetDefaultMemPool", 11020, (CUmemoryPool * pool, CUdevice device),              \
      (pool, DEVICE(device)))                                                                                \
    X(affinity, "cuDeviceGetExecAffinitySupport", 11040,                                                     \
      (int *value, CUexecAffinityType type, CUdevice device), (value, type, DEVICE(device)))                 \
    X(properties, "cuDeviceGetProperties", 2000, (CUdevprop * value, CUdevice device),                       \
      (value, DEVICE(device)))                                                                               \
    X(capability, "cuDeviceComputeCapability", 2000, (int *major, int *minor, CUdevice device),              \
      (major, minor, DEVICE(device)))                                                                        \
    X(state, "cuDevicePrimaryCtxGetState", 7000, (CUdevice device, unsigned *flags, int *is_active),         \
      (DEVICE(device), flags, is_active))                                                                    \
    X(kernel_get, "cuKernelGetAttribute", 12000,                                                             \
      (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),                        \
      (value, attribute, kernel, DEVICE(device)))                                                            \
    X(kernel_set, "cuKernelSetAttribute", 12000,                                                             \
      (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),                         \
      (attribute, value, kernel, DEVICE(device)))                                                            \
    X(kernel_cache, "cuKernelSetCacheConfig", 12000,                                                         \
      (CUkernel kernel, CUfunc_cache wanted, CUdevice device), (kernel, wanted, DEVICE(device)))             \
    X(notices, "cuDeviceRegisterAsyncNotification", 12040,                                                   \
      (CUdevice device, void (*function)(void), void *data, void **handle),                                  \
      (DEVICE(device), function, data, handle))                                                              \
    X(no_notices, "cuDeviceUnregisterAsyncNotification", 12040, (CUdevice device, void *handle),             \
      (DEVICE(device), handle))                                                                              \
    X(bus, "cuDeviceGetPCIBusId", 4010, (char *name, int length, CUdevice device),                           \
      (name, length, DEVICE(device)))                                                                        \
    X(array, "cuArrayGetMemoryRequirements", 11060, (void *needs, CUarray array, CUdevice device),           \
      (needs, array, DEVICE(device)))                                                                        \
    X(mipmaps, "cuMipmappedArrayGetMemoryRequirements", 11060,                                               \
      (void *needs, CUmipmappedArray array, CUdevice device), (needs, array, DEVICE(device)))                \
    X(multicast, "cuMulticastAddDevice", 12010, (CUmemGenericAllocationHandle handle, CUdevice device),      \
      (handle, DEVICE(device)))                                                                              \
    X(unbind, "cuMulticastUnbind", 12010,                                                                    \
      (CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t n_bytes),                 \
      (handle, DEVICE(device), offset, n_bytes))                                                             \
    X(graph_get, "cuDeviceGetGraphMemAttribute", 11040,                                                      \
      (CUdevice device, CUgraphMem_attribute attribute, void *value), (DEVICE(device), attribute, value))    \
    X(graph_set, "cuDeviceSetGraphMemAttribute", 11040,                                                      \
      (CUdevice device, CUgraphMem_attribute attribute, void *value), (DEVICE(device), attribute, value))    \
    X(can_access, "cuDeviceCanAccessPeer", 4000, (int *can, CUdevice device, CUdevice peer),                 \
      (can, DEVICE(device), DEVICE(peer)))                                                                   \
    X(peer_get, "cuDeviceGetP2PAttribute", 8000,                                                             \
      (int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer),                         \
      (value, attribute, DEVICE(device), DEVICE(peer)))                                                      \
    X(peer_atomics, "cuDeviceGetP2PAtomicCapabilities", 13000,                                               \
      (unsigned *values, const void *operations, unsigned n, CUdevice device, CUdevice peer),                \
      (values, operations, n, DEVICE(device), DEVICE(peer)))                                                 \
    X(resource, "cuDeviceGetDevResource", 12040, (CUdevice device, void *resource, int type),                \
      (DEVICE(device), resource, type))                                                                      \
    X(advise, "cuMemAdvise", 8000,                                                                           \
      (CUdeviceptr memory, size_t n_bytes, CUmem_advise advice, CUdevice device),                            \
      (memory, n_bytes, advice, DEVICE(device)))                                                             \
    X(advise_v2, "cuMemAdvise_v2", 12020,                                                                    \
      (CUdeviceptr memory, size_t n_bytes, CUmem_advise advice, CUmemLocation location),                     \
      (memory, n_bytes, advice, PLACE(location)))                                                            \
    X(granularity, "cuMemGetAllocationGranularity", 10020,                                                   \
      (size_t * n_bytes, const CUmemAllocationProp *wanted, CUmemAllocationGranularity_flags flags),         \
      (n_bytes, PROPERTIES(wanted), flags))                                                                  \
    X(get_access, "cuMemGetAccess", 10020,                                                                   \
      (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr memory),                        \
      (flags, PLACE_AT(location), memory))                                                                   \
    X(pool_access, "cuMemPoolGetAccess", 11020,                                                              \
      (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation * location),                              \
      (flags, pool, PLACE_AT(location)))                                                                     \
    X(default_pool_of, "cuMemGetDefaultMemPool", 13000,                                                      \
      (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type),                             \
      (pool, PLACE_AT(location), type))                                                                      \
    X(get_pool_of, "cuMemGetMemPool", 13000,                                                                 \
      (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type),                             \
      (pool, PLACE_AT(location), type))                                                                      \
    X(set_pool_of, "cuMemSetMemPool", 13000,                                                                 \
      (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),                               \
      (PLACE_AT(location), type, pool))

/* X(member, name, version, parameters, function here) */
#define OTHERS(X)                                                                                          \
    X(init, "cuInit", 2000, (unsigned), call_init)                                                         \
    X(count, "cuDeviceGetCount", 2000, (int *), call_count)                                                \
    X(get, "cuDeviceGet", 2000, (CUdevice *, int), call_get)                                               \
    X(by_bus, "cuDeviceGetByPCIBusId", 4010, (CUdevice *, const char *), call_by_bus)                      \
    X(of_context, "cuCtxGetDevice", 2000, (CUdevice *), call_of_context)                                   \
    X(of_context_v2, "cuCtxGetDevice_v2", 13000, (CUdevice *, CUcontext), call_of_context_v2)              \
    X(of_stream, "cuStreamGetDevice", 12080, (CUstream, CUdevice *), call_of_stream)                       \
    X(of_stream_ptsz, "cuStreamGetDevice_ptsz", 12080, (CUstream, CUdevice *), call_of_stream_ptsz)        \
    X(pointer, "cuPointerGetAttribute", 4000, (void *, CUpointer_attribute, CUdeviceptr), call_pointer)    \
    X(pointers, "cuPointerGetAttributes", 7000, (unsigned, CUpointer_attribute *, void **, CUdeviceptr),   \
      call_pointers)                                                                                       \
    X(range, "cuMemRangeGetAttribute", 8000, (void *, size_t, CUmem_range_attribute, CUdeviceptr, size_t), \
      call_range)                                                                                          \
    X(ranges, "cuMemRangeGetAttributes", 8000,                                                             \
      (void **, size_t *, CUmem_range_attribute *, size_t, CUdeviceptr, size_t), call_ranges)              \
    X(properties_of, "cuMemGetAllocationPropertiesFromHandle", 10020,                                      \
      (CUmemAllocationProp *, CUmemGenericAllocationHandle), call_properties_of)                           \
    X(set_access, "cuMemSetAccess", 10020, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t),         \
      call_set_access)                                                                                     \
    X(pool_set_access, "cuMemPoolSetAccess", 11020, (CUmemoryPool, const CUmemAccessDesc *, size_t),       \
      call_pool_set_access)                                                                                \
    X(table, "cuGetExportTable", 3000, (const void **, const CUuuid *), call_table)

/* The driver's functions. */
static struct {
#define MEMBER(member, name, version, parameters, ...) CUresult(CUDAAPI *member) parameters;
    TAKING(MEMBER) OTHERS(MEMBER)
#undef MEMBER
} real;

/* ---- Functions that take a number ---- */

static CUmemLocation *place_at(const struct gpu_visible *seen, const CUmemLocation *location,
                               CUmemLocation *copy)
{
    if (!seen || !location)
        return (CUmemLocation *)location;
    *copy = PLACE(*location);
    return copy;
}

static const CUmemAllocationProp *properties_of(const struct gpu_visible *seen,
                                                const CUmemAllocationProp *properties,
                                                CUmemAllocationProp *copy)
{
    if (!seen || !properties)
        return properties;
    *copy = *properties;
    copy->location = PLACE(copy->location);
    return copy;
}

#define FUNCTION(member, symbol, version, parameters, arguments)  \
    static CUresult CUDAAPI take_##member parameters              \
    {                                                             \
        const struct gpu_visible *seen = gpu_visible(GPU_CALLER); \
        return real.member arguments;                             \
    }
TAKING(FUNCTION)
#undef FUNCTION

/* One place after the other. */
static CUresult CUDAAPI call_set_access(CUdeviceptr memory, size_t n_bytes, const CUmemAccessDesc *wanted,
                                        size_t n)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = CUDA_SUCCESS;

    if (!seen || !wanted || n == 0)
        return real.set_access(memory, n_bytes, wanted, n);
    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
        result = real.set_access(memory, n_bytes,
                                 &(CUmemAccessDesc){PLACE(wanted[i].location), wanted[i].flags}, 1);
    return result;
}

static CUresult CUDAAPI call_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t n)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = CUDA_SUCCESS;

    if (!seen || !wanted || n == 0)
        return real.pool_set_access(pool, wanted, n);
    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
        result =
            real.pool_set_access(pool, &(CUmemAccessDesc){PLACE(wanted[i].location), wanted[i].flags}, 1);
    return result;
}

/* ---- Functions that give one ---- */

/* Translates a result. */
static CUresult give(const struct gpu_visible *seen, CUresult result, int *number)
{
    if (result == CUDA_SUCCESS && number)
        *number = gpu_visible_to_rank(seen, *number);
    return result;
}

static CUresult CUDAAPI call_init(unsigned flags)
{
    const struct gpu_visible *seen;
    CUresult result;

    gpu_guard_find();
    result = real.init(flags);
    seen = result == CUDA_SUCCESS ? gpu_visible(GPU_CALLER) : NULL;
    return seen && seen->n == 0 ? seen->error : result;
}

static CUresult CUDAAPI call_count(int *n_out)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.count(n_out);

    if (seen && result == CUDA_SUCCESS)
        *n_out = seen->n;
    return result;
}

static CUresult CUDAAPI call_get(CUdevice *device_out, int number)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return give(seen, real.get(device_out, DEVICE(number)), device_out);
}

static CUresult CUDAAPI call_by_bus(CUdevice *device_out, const char *bus)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = give(seen, real.by_bus(device_out, bus), device_out);

    return result == CUDA_SUCCESS && *device_out == CU_DEVICE_INVALID ? CUDA_ERROR_INVALID_DEVICE : result;
}

static CUresult CUDAAPI call_of_context(CUdevice *device_out)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return give(seen, real.of_context(device_out), device_out);
}

static CUresult CUDAAPI call_of_context_v2(CUdevice *device_out, CUcontext context)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return give(seen, real.of_context_v2(device_out, context), device_out);
}

/* The default streams of a rank and the driver's are of the current context alike. */
static CUresult CUDAAPI call_of_stream(CUstream stream, CUdevice *device_out)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return give(seen, real.of_stream(stream, device_out), device_out);
}

static CUresult CUDAAPI call_of_stream_ptsz(CUstream stream, CUdevice *device_out)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return give(seen, real.of_stream_ptsz(stream, device_out), device_out);
}

static CUresult CUDAAPI call_pointer(void *value, CUpointer_attribute attribute, CUdeviceptr memory)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.pointer(value, attribute, memory);

    return attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? give(seen, result, value) : result;
}

static CUresult CUDAAPI call_pointers(unsigned n, CUpointer_attribute *attributes, void **values,
                                      CUdeviceptr memory)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.pointers(n, attributes, values, memory);

    for (unsigned i = 0; seen && i < n; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            (void)give(seen, result, values[i]);
    return result;
}

/* The attributes of managed memory that are numbers of devices, one or several. */
static void give_range(const struct gpu_visible *seen, CUresult result, int *numbers, size_t n_bytes,
                       CUmem_range_attribute attribute)
{
    if (seen && (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
                 attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ||
                 attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
                 attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID ||
                 attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID))
        for (size_t i = 0; i < n_bytes / sizeof *numbers; i++)
            (void)give(seen, result, &numbers[i]);
}

static CUresult CUDAAPI call_range(void *data, size_t data_bytes, CUmem_range_attribute attribute,
                                   CUdeviceptr memory, size_t n_bytes)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.range(data, data_bytes, attribute, memory, n_bytes);

    give_range(seen, result, data, data_bytes, attribute);
    return result;
}

static CUresult CUDAAPI call_ranges(void **data, size_t *data_bytes, CUmem_range_attribute *attributes,
                                    size_t n, CUdeviceptr memory, size_t n_bytes)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.ranges(data, data_bytes, attributes, n, memory, n_bytes);

    for (size_t i = 0; seen && i < n; i++)
        give_range(seen, result, data[i], data_bytes[i], attributes[i]);
    return result;
}

static CUresult CUDAAPI call_properties_of(CUmemAllocationProp *properties_out,
                                           CUmemGenericAllocationHandle handle)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.properties_of(properties_out, handle);

    return result == CUDA_SUCCESS && properties_out->location.type == CU_MEM_LOCATION_TYPE_DEVICE
               ? give(seen, result, &properties_out->location.id)
               : result;
}

/* ---- The runtime's table ---- */

typedef CUresult(CUDAAPI *primary_fn)(CUcontext *context, CUdevice device);
enum { PRIMARY = 2, TABLE_MAX = 64 };
static union {
    size_t n_bytes; /* of the table, in its first entry */
    void *entries[TABLE_MAX];
} copied;
static primary_fn real_primary;

static CUresult CUDAAPI call_primary(CUcontext *context, CUdevice device)
{
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);

    return real_primary(context, DEVICE(device));
}

static CUresult CUDAAPI call_table(const void **table_out, const CUuuid *id)
{
    static const unsigned char runtimes[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                               0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct gpu_visible *seen = gpu_visible(GPU_CALLER);
    CUresult result = real.table(table_out, id);
    size_t n_bytes;

    if (!seen || result != CUDA_SUCCESS || memcmp(id, runtimes, sizeof runtimes) != 0)
        return result;
    memcpy(&n_bytes, *table_out, sizeof n_bytes);
    if (n_bytes <= PRIMARY * sizeof(void *) || n_bytes > sizeof copied)
        return result;
    pthread_mutex_lock(&lock);
    if (!real_primary) {
        memcpy(&copied, *table_out, n_bytes);
        memcpy(&real_primary, &copied.entries[PRIMARY], sizeof real_primary);
        copied.entries[PRIMARY] = (void *)call_primary;
    }
    pthread_mutex_unlock(&lock);
    *table_out = &copied;
    return result;
}

/* ---- The list ---- */

const struct gpu_guarded gpu_visible_functions[] = {
#define ROW(member, name, version, parameters, arguments) \
    {name, (void *)take_##member, version, "takes a device", (void **)&real.member},
    TAKING(ROW)
#undef ROW
#define ROW(member, name, version, parameters, ours) \
    {name, (void *)ours, version, "gives a device", (void **)&real.member},
        OTHERS(ROW)
#undef ROW
};
const size_t gpu_n_visible_functions = BASE_COUNT(gpu_visible_functions);
