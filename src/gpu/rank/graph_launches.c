/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_launches.c: see graph_launches.h.
 */
#include "gpu/rank/graph_launches.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/stream_api.h"

/* The latest launch in a stream. A later stream may have the same handle, and those of threads have. */
struct launch {
    struct launch *next;
    CUstream stream;
    pthread_t thread; /* whose stream it is; 0: it has a handle of its own */
    CUcontext context;
    CUevent event;   /* after it */
    int n_recording; /* threads that are about to record the event */
    bool is_over;
};

_Atomic bool gpu_graphs_wait;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct launch *list;

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

static struct launch *create(CUcontext context)
{
    struct launch *made = list;
    CUevent event;

    while (made && (made->context != context || is_pending(made)))
        made = made->next;
    if (made || gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return made;
    made = base_calloc(1, sizeof *made, "a launch of a graph");
    made->context = context;
    made->event = event;
    made->next = list;
    list = made;
    return made;
}

/* ---- The functions ---- */

void gpu_graph_launch_note(CUstream stream)
{
    pthread_t thread = stream == CU_STREAM_PER_THREAD ? pthread_self() : 0;
    CUcontext context = gpu_context_current();
    struct launch *launch;

    if (!context || gpu_stream_is_captured(stream, NULL))
        return;
    pthread_mutex_lock(&lock);
    launch = find(stream, thread, context);
    if (!launch)
        launch = create(context);
    if (launch) {
        launch->stream = stream;
        launch->thread = thread;
        launch->n_recording++;
        launch->is_over = false;
        pthread_mutex_unlock(&lock);
        (void)gpu_driver.cuEventRecord(launch->event, stream); /* may wait for room in the stream */
        pthread_mutex_lock(&lock);
        launch->n_recording--;
    }
    pthread_mutex_unlock(&lock);
}

bool gpu_graph_launches_are_pending(void)
{
    struct launch *launch;

    if (BASE_LIKELY(!atomic_load_explicit(&gpu_graphs_wait, memory_order_relaxed)))
        return false;
    pthread_mutex_lock(&lock);
    launch = list;
    while (launch && !is_pending(launch))
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
