/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peer_access.c: determines which devices may use which memory. A kernel that touches inaccessible memory
 * destroys its context, and such a copy fails, so this is checked before either is queued. Seen on H200s,
 * driver 580:
 *
 * - Variables of a module: its own device; others by copies only (a kernel of another one fails).
 * - cuMemAlloc: its own device; others once peer access is enabled; else the driver copies through the
 *   host.
 * - Other contexts of the device: copies only.
 * - Pools: its own device; others only if cuMemPoolSetAccess said so, peers or not.
 * - cuMemMap: the devices that cuMemSetAccess named.
 *
 * CU_POINTER_ATTRIBUTE_ACCESS_FLAGS does not help: it reports read-write for pools that are closed to the
 * device. So the pool or the mapping is asked, unless the buffer is known to belong to a context.
 */
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"

static bool is_known_plain(const struct gpu_pe *pe, uint64_t buffer)
{
    return buffer && pe->plain_buffers[buffer % GPU_PLAIN_BUFFERS] == buffer;
}

static enum gpu_peer_access access_of_plain(int device, int owner)
{
    return device == owner || gpu_peer_enable(device, owner) ? GPU_PEER_ACCESS_KERNEL : GPU_PEER_ACCESS_COPY;
}

static enum gpu_peer_access access_of_pool(CUmemoryPool pool, int device, int owner)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

    if (device == owner)
        return GPU_PEER_ACCESS_KERNEL;
    if (gpu_call(cuMemPoolGetAccess, (&flags, pool, &location)))
        return GPU_PEER_ACCESS_NONE;
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? GPU_PEER_ACCESS_KERNEL : GPU_PEER_ACCESS_NONE;
}

static enum gpu_peer_access access_of_mapped(uintptr_t addr, int device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 0;

    if (gpu_driver.cuMemGetAccess(&flags, &location, addr) != CUDA_SUCCESS)
        return GPU_PEER_ACCESS_COPY; /* another kind of memory: leave it to the driver */
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? GPU_PEER_ACCESS_KERNEL : GPU_PEER_ACCESS_NONE;
}

enum gpu_peer_access gpu_peer_access(int device, uintptr_t addr, int owner, uint64_t buffer)
{
    struct gpu_pe *pe = gpu_pe_self();
    CUcontext context = NULL;
    CUmemoryPool pool = NULL;
    unsigned is_exportable = 0; /* memory that is not exportable is a variable of a module */
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    void *answers[] = {&context, &pool, &is_exportable};

    if (owner < 0)
        return GPU_PEER_ACCESS_KERNEL;
    if (BASE_LIKELY(is_known_plain(pe, buffer)))
        return access_of_plain(device, owner);
    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, addr) != CUDA_SUCCESS)
        return GPU_PEER_ACCESS_COPY;
    if (pool)
        return access_of_pool(pool, device, owner);
    if (!context)
        return access_of_mapped(addr, device);
    if (context != gpu_context_of(owner))
        return GPU_PEER_ACCESS_COPY;
    if (!is_exportable)
        return device == owner ? GPU_PEER_ACCESS_KERNEL : GPU_PEER_ACCESS_COPY;
    if (buffer)
        pe->plain_buffers[buffer % GPU_PLAIN_BUFFERS] = buffer;
    return access_of_plain(device, owner);
}

bool gpu_peer_access_by_kernel(int device, const void *addr, const struct gpu_range *range)
{
    if (range->memory == GPU_MEMORY_HOST || range->memory == GPU_MEMORY_NOWHERE)
        return false;
    return range->memory != GPU_MEMORY_DEVICE ||
           gpu_peer_access(device, (uintptr_t)addr, range->device, range->buffer) == GPU_PEER_ACCESS_KERNEL;
}

bool gpu_peer_access_is_known(int device, int owner, uint64_t buffer)
{
    return is_known_plain(gpu_pe_self(), buffer) && gpu_peer_enable(device, owner);
}
