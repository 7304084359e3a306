/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ipc_events.c: cudaIpc's handles of events between ranks of a process, as ipc.c does for memory: the opened event is the event
 * itself. A rank that has opened it ends its use by destroying it, which must not destroy the event of the other rank.
 */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"

#define real gpu_stream_real

/* A handle that a rank of the process got, until the rank destroys the event. */
struct handle {
    struct handle *next;
    CUipcEventHandle bits;
    CUevent event;
    const struct ult *owner;
    int n_open; /* by other ranks */
};

static struct handle *handles;
static _Atomic int n_handles; /* most processes have none, and need no lock to destroy events */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUresult CUDAAPI gpu_ipc_get_event(CUipcEventHandle *handle_out, CUevent event)
{
    CUresult result;
    struct handle *found;

    gpu_guard_prepare();
    result = real.r_cuIpcGetEventHandle(handle_out, event);
    if (result != CUDA_SUCCESS || gpu_streams_n_ranks <= 1)
        return result;
    pthread_mutex_lock(&lock);
    for (found = handles; found && found->event != event;)
        found = found->next;
    if (!found) {
        found = base_malloc(sizeof *found, "a handle of an event");
        *found = (struct handle){.next = handles, .event = event, .owner = gpu_rank_of_self()};
        handles = found;
        atomic_fetch_add(&n_handles, 1);
    }
    found->bits = *handle_out;
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult CUDAAPI gpu_ipc_open_event(CUevent *event_out, CUipcEventHandle bits)
{
    const struct ult *self = gpu_rank_of_self();
    struct handle *found;

    gpu_guard_prepare();
    pthread_mutex_lock(&lock);
    for (found = handles; found && memcmp(&found->bits, &bits, sizeof bits) != 0;)
        found = found->next;
    if (found && (found->owner == self || !event_out))
        found = NULL; /* the driver returns the error */
    if (found) {
        *event_out = found->event;
        found->n_open++;
    }
    pthread_mutex_unlock(&lock);
    return found ? CUDA_SUCCESS : real.r_cuIpcOpenEventHandle(event_out, bits);
}

/* True if the event belongs to another rank, which keeps it. */
static bool close_event(CUevent event)
{
    struct handle **link, *found;
    bool is_others = false;

    pthread_mutex_lock(&lock);
    for (link = &handles; *link && (*link)->event != event;)
        link = &(*link)->next;
    found = *link;
    if (found && found->owner != gpu_rank_of_self() && found->n_open > 0) {
        found->n_open--;
        is_others = true;
    } else if (found) {
        *link = found->next;
        free(found);
        atomic_fetch_sub(&n_handles, 1);
    }
    pthread_mutex_unlock(&lock);
    return is_others;
}

CUresult CUDAAPI gpu_ipc_destroy_event(CUevent event)
{
    gpu_guard_find();
    return atomic_load(&n_handles) > 0 && close_event(event) ? CUDA_SUCCESS : real.r_cuEventDestroy_v2(event);
}

CUresult CUDAAPI gpu_ipc_destroy_event_v1(CUevent event)
{
    gpu_guard_find();
    return atomic_load(&n_handles) > 0 && close_event(event) ? CUDA_SUCCESS : real.r_cuEventDestroy(event);
}
