/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_launches.c: see graph_launches.h.
 */
#include "gpu/rank/graph_launches.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"

/* The latest launch in a stream. A later stream may have the same handle, and those of threads have. */
struct launch {
    struct launch *next;
    CUstream stream;
    pthread_t thread; /* whose stream it is; 0: it has a handle of its own */
    CUcontext context;
    int device;
    CUevent event;   /* after it */
    int n_recording; /* threads that are about to record the event */
    int n_in_row;    /* launches since its stream was last seen without one, at most */
    bool is_over;
};

/* The driver lets a call wait while its stream has this much work: a launch, with its event, is two. */
#define IN_ROW_MAX 256

_Atomic bool gpu_graphs_wait;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static struct launch *list;
static _Atomic bool is_any; /* the list has had an entry; read without the lock */

/* Lock held in these. */

static bool is_pending(struct launch *launch)
{
    if (!launch->is_over && launch->n_recording == 0)
        launch->is_over = gpu_driver.cuEventQuery(launch->event) != CUDA_ERROR_NOT_READY;
    return !launch->is_over;
}

static struct launch *find(CUstream stream, pthread_t thread, CUcontext context)
{
    struct launch *found = list;

    while (found && (found->stream != stream || found->thread != thread || found->context != context))
        found = found->next;
    return found;
}

/* The context is current. */
static struct launch *create(CUcontext context, int device)
{
    struct launch *made = list;
    CUevent event;

    while (made && (made->context != context || is_pending(made)))
        made = made->next;
    if (made || gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return made;
    made = base_calloc(1, sizeof *made, "a launch of a graph");
    made->context = context;
    made->device = device;
    made->event = event;
    made->next = list;
    list = made;
    atomic_store(&is_any, true);
    return made;
}

/* ---- Executable graphs ---- */

#define N_BUCKETS 256

/* One without operations of MPI. */
struct calm {
    struct calm *next;
    CUgraphExec exec;
};

static pthread_mutex_t calm_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */
static struct calm *calm[N_BUCKETS];

/* Lock held. */
static struct calm **calm_link(CUgraphExec exec)
{
    struct calm **link = &calm[base_hash_address(exec) % N_BUCKETS];

    while (*link && (*link)->exec != exec)
        link = &(*link)->next;
    return link;
}

void gpu_graph_exec_note(CUgraphExec exec, bool may_wait)
{
    struct calm **link, *other = NULL;

    pthread_mutex_lock(&calm_lock);
    link = calm_link(exec);
    if (*link && may_wait) {
        other = *link;
        *link = other->next;
    } else if (!*link && !may_wait) {
        *link = base_calloc(1, sizeof **link, "a graph");
        (*link)->exec = exec;
    }
    pthread_mutex_unlock(&calm_lock);
    free(other);
}

bool gpu_graph_exec_may_wait(CUgraphExec exec)
{
    bool may_wait = false;

    if (BASE_LIKELY(!atomic_load_explicit(&gpu_graphs_wait, memory_order_relaxed)))
        return false;
    pthread_mutex_lock(&calm_lock);
    may_wait = !*calm_link(exec);
    pthread_mutex_unlock(&calm_lock);
    return may_wait;
}

/* ---- Launches ---- */

static pthread_t thread_of(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ? pthread_self() : 0;
}

/* The context of the stream is current. */
static void note(CUstream stream, const struct gpu_graph_launch *made)
{
    pthread_t thread = thread_of(stream);
    struct launch *launch;

    pthread_mutex_lock(&lock);
    launch = find(stream, thread, made->context);
    if (!launch) {
        launch = create(made->context, made->device);
        if (launch)
            launch->n_in_row = 0;
    }
    if (launch) {
        launch->stream = stream;
        launch->thread = thread;
        launch->n_in_row++;
        launch->n_recording++;
        launch->is_over = false;
        pthread_mutex_unlock(&lock);
        (void)gpu_driver.cuEventRecord(launch->event, stream); /* may wait for room in the stream */
        pthread_mutex_lock(&lock);
        launch->n_recording--;
    }
    pthread_mutex_unlock(&lock);
}

void gpu_graph_launch_end(const struct gpu_graph_launch *launch, CUstream stream, bool is_launched)
{
    CUcontext before;

    if (is_launched && !gpu_context_enter(launch->context, &before)) {
        note(stream, launch);
        gpu_context_leave(launch->context, before);
    }
    gpu_gate_leave(launch->device);
}

/* True if the stream has no room for a launch. */
static bool is_full(CUstream stream, CUcontext context)
{
    struct launch *launch;
    bool is_so;

    pthread_mutex_lock(&lock);
    launch = find(stream, thread_of(stream), context);
    is_so = launch && launch->n_in_row >= IN_ROW_MAX;
    if (is_so && !is_pending(launch)) {
        launch->n_in_row = 0;
        is_so = false;
    }
    pthread_mutex_unlock(&lock);
    return is_so;
}

void gpu_graph_launch_begin(struct gpu_graph_launch *launch, CUstream stream, const void *caller)
{
    bool is_kept_out = false;

    launch->context = gpu_stream_is_captured(stream, NULL) ? NULL : gpu_stream_context(stream);
    if (!launch->context)
        return;
    launch->device = gpu_gate_device_of(launch->context);
    if (gpu_waits_are_of_all_code && gpu_wait_may_lend_pe(caller))
        while (is_full(stream, launch->context))
            gpu_wait_before_asking_again(caller);
    while (!gpu_gate_enter(launch->device, &is_kept_out))
        gpu_gate_pause(caller);
}

void gpu_graph_wait_begin(struct gpu_graph_launch *launch, CUstream stream, const void *caller)
{
    if (BASE_UNLIKELY(gpu_streams_n_ranks == 1 && (atomic_load(&gpu_streams_n_waiting) > 0 ||
                                                   gpu_graph_launches_are_pending(GPU_DEVICES_ALL))))
        gpu_graph_launch_begin(launch, stream, caller);
}

bool gpu_graph_launches_are_pending(int device)
{
    struct launch *launch;

    if (BASE_LIKELY(!atomic_load_explicit(&is_any, memory_order_relaxed)))
        return false;
    pthread_mutex_lock(&lock);
    launch = list;
    while (launch && ((device >= 0 && launch->device != device) || !is_pending(launch)))
        launch = launch->next;
    pthread_mutex_unlock(&lock);
    return launch != NULL;
}

void gpu_graph_launches_forget(CUcontext context)
{
    struct launch **link = &list, *launch;

    pthread_mutex_lock(&lock);
    while ((launch = *link)) {
        if (launch->context != context || launch->n_recording > 0) {
            link = &launch->next;
            continue;
        }
        *link = launch->next;
        free(launch);
    }
    pthread_mutex_unlock(&lock);
}
