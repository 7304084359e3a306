/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ipc.c: cudaIpc between ranks of a process. The driver refuses to open a handle of memory in the same process; ranks share
 * the process, so the opened memory is the memory itself. A rank that opens a handle of its own gets the driver's error, as
 * a process does.
 *
 * The process remembers the handles that its ranks got, until the memory is freed.
 */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"

#define real gpu_stream_real

/* A handle that a rank of the process got. */
struct handle {
    struct handle *next;
    CUipcMemHandle bits;
    CUdeviceptr base; /* of the allocation */
    uint64_t buffer;  /* the driver's id of the allocation */
    int world_rank;   /* whose memory it is; -1: unknown */
    int n_open;       /* by other ranks */
};

static struct handle *handles;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int rank_of_self(void)
{
    const struct ult *u = gpu_rank_of_self();

    return u ? u->world_rank : -1;
}

static bool is_alive(const struct handle *handle)
{
    return gpu_query_buffer(handle->base) == handle->buffer;
}

/* Drops those of freed memory. Lock held. */
static void sweep(void)
{
    for (struct handle **link = &handles; *link;) {
        struct handle *handle = *link;
        if (is_alive(handle) || handle->n_open > 0) {
            link = &handle->next;
            continue;
        }
        *link = handle->next;
        free(handle);
    }
}

/* Lock held. */
static struct handle *find(const CUipcMemHandle *bits)
{
    struct handle *found = handles;

    while (found && (memcmp(&found->bits, bits, sizeof *bits) != 0 || !is_alive(found)))
        found = found->next;
    return found;
}

static void remember(const CUipcMemHandle *bits, CUdeviceptr address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    CUdeviceptr base = 0;
    void *answer = &base;
    struct handle *made;

    if (gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, address) != CUDA_SUCCESS || !base)
        return;
    pthread_mutex_lock(&lock);
    sweep();
    if (!find(bits)) {
        made = base_malloc(sizeof *made, "a handle of a GPU's memory");
        *made = (struct handle){handles, *bits, base, gpu_query_buffer(base), rank_of_self(), 0};
        handles = made;
    }
    pthread_mutex_unlock(&lock);
}

CUresult CUDAAPI gpu_ipc_get(CUipcMemHandle *handle_out, CUdeviceptr address)
{
    CUresult result;

    gpu_guard_prepare();
    result = real.r_cuIpcGetMemHandle(handle_out, address);
    if (result == CUDA_SUCCESS && gpu_streams_n_ranks > 1)
        remember(handle_out, address);
    return result;
}

/* Lets the current device use the memory. */
static CUresult enable(CUdeviceptr address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    int owner = -1;
    void *answer = &owner;
    CUdevice device;
    CUresult result = gpu_driver.cuCtxGetDevice(&device);

    if (result == CUDA_SUCCESS)
        result = gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, address);
    if (result != CUDA_SUCCESS)
        return result;
    return gpu_peer_enable(device, owner) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* False: the handle is not that of another rank of this process. */
static bool open_here(CUdeviceptr *address_out, const CUipcMemHandle *bits, unsigned flags,
                      CUresult *result_out)
{
    struct handle *handle;
    bool is_ours;

    pthread_mutex_lock(&lock);
    handle = find(bits);
    is_ours = handle && handle->world_rank != rank_of_self();
    if (is_ours) {
        *result_out = flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS && address_out ? enable(handle->base)
                                                                                 : CUDA_ERROR_INVALID_VALUE;
        if (*result_out == CUDA_SUCCESS) {
            *address_out = handle->base;
            handle->n_open++;
        }
    }
    pthread_mutex_unlock(&lock);
    return is_ours;
}

CUresult CUDAAPI gpu_ipc_open(CUdeviceptr *address_out, CUipcMemHandle handle, unsigned flags)
{
    CUresult result;

    gpu_guard_prepare();
    return open_here(address_out, &handle, flags, &result)
               ? result
               : real.r_cuIpcOpenMemHandle_v2(address_out, handle, flags);
}

CUresult CUDAAPI gpu_ipc_open_v1(CUdeviceptr *address_out, CUipcMemHandle handle, unsigned flags)
{
    CUresult result;

    gpu_guard_prepare();
    return open_here(address_out, &handle, flags, &result)
               ? result
               : real.r_cuIpcOpenMemHandle(address_out, handle, flags);
}

CUresult CUDAAPI gpu_ipc_close(CUdeviceptr address)
{
    struct handle *handle;

    gpu_guard_prepare();
    gpu_repeats_forget();
    pthread_mutex_lock(&lock);
    for (handle = handles; handle && (handle->base != address || handle->n_open == 0);)
        handle = handle->next;
    if (handle)
        handle->n_open--;
    pthread_mutex_unlock(&lock);
    return handle ? CUDA_SUCCESS : real.r_cuIpcCloseMemHandle(address);
}
