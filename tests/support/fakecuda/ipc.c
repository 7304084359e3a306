/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ipc.c: the fake driver's handles of memory and events for other processes. As in the real one, a process cannot open its own; those of
 * other processes cannot be opened here at all.
 */
#include "fake.h"

#include <unistd.h>

struct handle {
    int pid;
    unsigned long long id; /* of the range, or the event */
};

FAKE_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);
    struct fake_range *range;

    if (error)
        return error;
    memset(handle, 0, sizeof *handle);
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && range->kind == FAKE_DEVICE && !range->pool && !range->physical)
        memcpy(handle, &(struct handle){getpid(), range->id}, sizeof(struct handle));
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct handle opened;

    if (error)
        return error;
    memcpy(&opened, &handle, sizeof opened);
    return opened.pid == getpid() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUresult error = fake_enter(__func__);

    return error ? error : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CUresult error = fake_enter(__func__);
    unsigned wanted = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

    if (error)
        return error;
    if ((((struct fake_event *)event)->flags & wanted) != wanted)
        return CUDA_ERROR_INVALID_HANDLE;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &(struct handle){getpid(), (uintptr_t)event}, sizeof(struct handle));
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct handle opened;

    if (error)
        return error;
    memcpy(&opened, &handle, sizeof opened);
    return opened.pid == getpid() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_SUPPORTED;
}
