/* SPDX-License-Identifier: BSD-3-Clause
 *
 * works.c: notifications of work of the program for which no rank waits in CUDA. See gpu.h.
 *
 * Each one is an event that the PE queries (waits.h). For the work of a stream the library records its own
 * event after it. Work behind a wait that is kept on the host (kept.h) gets its event when that wait is over, before the
 * rank can submit more.
 */
#include "base/log.h"
#include "gpu/rank/kept.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

/* done may begin other work, and free this one. */
static void answered(struct gpu_question *question)
{
    struct gpu_work *work = BASE_CONTAINER(question, struct gpu_work, question);

    if (work->is_own_event)
        gpu_driver.cuEventDestroy(question->event);
    work->done(work, gpu_driver_check((CUresult)question->result, "cuEventQuery"));
}

static void add(struct gpu_work *work, CUevent event)
{
    work->question = (struct gpu_question){.answered = answered, .event = event};
    gpu_wait_ask(&work->question);
}

/* The stream's context is current. */
static int record(struct gpu_work *work, CUstream stream)
{
    CUevent event = NULL;
    int error = gpu_call(cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING));

    if (error)
        return error;
    error = gpu_call(cuEventRecord, (event, stream));
    if (error)
        gpu_driver.cuEventDestroy(event);
    else
        add(work, event);
    return error;
}

static int record_in_context(struct gpu_work *work, CUstream stream)
{
    CUcontext context = gpu_stream_context(stream), before;
    int error;

    if (gpu_stream_is_captured(stream, NULL))
        return gpu_driver_record(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuEventRecord");
    work->is_own_event = true;
    if (!context)
        return record(work, stream);
    error = gpu_context_enter(context, &before);
    if (!error) {
        error = record(work, stream);
        gpu_context_leave(context, before);
    }
    return error;
}

/* ---- Work behind kept waits ---- */

struct gpu_late_work {
    struct gpu_late_work *next; /* of the PE's */
    struct gpu_work *work;
    struct gpu_rank_streams *rank; /* whose stream it is; NULL: the process has one rank */
    struct gpu_face *face;         /* the stream is the rank's default stream here; NULL: another one */
    CUcontext context;             /* the rank's current one at the call */
    CUstream handle;               /* the program's */
    CUstream stream;               /* the driver's */
    uint32_t last_kept; /* number of the latest kept wait at the call; it is not behind later ones */
};

/* The kept waits are not in the streams yet, so the default stream is joined with these later. */
static int add_late(struct gpu_work *work, CUstream handle)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_late_work *made;
    struct gpu_call call = {.stream = handle};
    int error = 0;

    if (gpu_streams_are_private)
        error = gpu_driver_check(gpu_streams_order(&call, false, GPU_CALL_ASK, NULL), "cuStreamQuery");
    if (error)
        return error;
    made = base_malloc(sizeof *made, "GPU work behind a message");
    *made = (struct gpu_late_work){.next = pe->late_works,
                                   .work = work,
                                   .rank = gpu_streams_of_self(),
                                   .face = handle == CU_STREAM_PER_THREAD ? NULL : call.face,
                                   .context = gpu_context_current(),
                                   .handle = handle,
                                   .stream = call.stream,
                                   .last_kept = gpu_kept_last()};
    pe->late_works = made;
    return 0;
}

/* The late work's context is current. */
static int record_late(const struct gpu_late_work *late)
{
    CUresult result = CUDA_SUCCESS;

    if (late->face) {
        pthread_mutex_lock(&late->rank->lock);
        result = gpu_streams_join(late->rank, late->face);
        pthread_mutex_unlock(&late->rank->lock);
    }
    return result != CUDA_SUCCESS ? gpu_driver_record((int)result, "cuStreamWaitEvent")
                                  : record_in_context(late->work, late->stream);
}

/* False: it still has a kept wait before it. */
static bool try_late(const struct gpu_late_work *late)
{
    CUcontext before;
    bool is_behind = false;
    int error = gpu_context_enter(late->context, &before);

    if (!error) {
        is_behind = gpu_kept_is_before(late->rank, late->handle, late->last_kept);
        error = is_behind ? 0 : record_late(late);
        gpu_context_leave(late->context, before);
    }
    if (error)
        late->work->done(late->work, error);
    return !is_behind;
}

void gpu_works_go_on(void)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_late_work **link = &pe->late_works, *late;

    while ((late = *link)) {
        if (!try_late(late)) {
            link = &late->next;
            continue;
        }
        *link = late->next;
        free(late);
    }
}

/* ---- The functions ---- */

int gpu_work_of_stream(struct gpu_work *work, void *handle)
{
    struct gpu_call call;
    int error;

    gpu_repeats_break();
    if (gpu_kept_is_behind(handle, false))
        return add_late(work, handle);
    error = gpu_driver_check(gpu_call_begin(&call, handle, false, GPU_CALL_JOIN, NULL), "cuStreamQuery");
    return error ? error : record_in_context(work, call.stream);
}

int gpu_work_of_event(struct gpu_work *work, void *event)
{
    CUresult result;

    gpu_repeats_break();
    result = gpu_driver.cuEventQuery(event);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        return gpu_driver_record((int)result, "cuEventQuery");
    gpu_batch_start_now();
    work->is_own_event = false;
    add(work, event);
    return 0;
}
