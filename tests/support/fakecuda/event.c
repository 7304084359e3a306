/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.c: the fake driver's events. Recording and waiting in a stream are in stream_calls.c.
 */
#include "fake.h"

bool fake_event_is_pending(struct fake_event *event)
{
    if (!fake_waits_are_over(&event->waits))
        return true;
    fake_waits_clear(&event->waits);
    return false;
}

FAKE_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct fake_event *made;

    if (error)
        return error;
    if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_VALUE;
    made = calloc(1, sizeof *made);
    made->context = context;
    made->flags = flags;
    *event = (CUevent)made;
    return CUDA_SUCCESS;
}

/* Takes the lock if there is no error. */
static CUresult begin(const char *function, CUevent handle, struct fake_event **event_out)
{
    CUresult error = fake_enter(function);

    *event_out = (struct fake_event *)handle;
    if (error)
        return error;
    if (!handle || (*event_out)->is_destroyed)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    return CUDA_SUCCESS;
}

/* Destroyed events: their memory stays, because operations may be under way, and stale handles must be noticed. */
static struct fake_event *destroyed;

FAKE_EXPORT CUresult cuEventDestroy(CUevent handle)
{
    struct fake_event *event;
    CUresult error = begin(__func__, handle, &event);

    if (error)
        return error;
    event->is_destroyed = true;
    event->next = destroyed;
    destroyed = event;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* The same of calls that ask whether an event is over, or wait for it. */
static CUresult begin_wait(const char *function, CUevent handle, struct fake_event **event_out)
{
    CUresult error = begin(function, handle, event_out);
    struct fake_capture *capture;

    if (error)
        return error;
    if ((*event_out)->capture_id) {
        error = CUDA_ERROR_CAPTURED_EVENT;
        capture = fake_capture_find((*event_out)->capture_id);
        if (capture)
            capture->is_invalid = true;
    } else {
        error = fake_capture_check_unsafe();
    }
    if (error)
        pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuEventQuery(CUevent handle)
{
    struct fake_event *event;
    CUresult error = begin_wait(__func__, handle, &event);

    if (error)
        return error;
    error = fake_event_is_pending(event) ? CUDA_ERROR_NOT_READY : event->context->broken;
    pthread_mutex_unlock(&fake_lock);
    fake_lend_core(error);
    return error;
}

FAKE_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    struct fake_event *event;
    CUresult error = begin_wait(__func__, handle, &event);
    struct fake_waits waits = {NULL, 0};

    if (error)
        return error;
    fake_waits_add_all(&waits, &event->waits); /* it may be recorded again meanwhile */
    fake_wait_for(&waits);
    fake_waits_clear(&waits);
    error = event->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from_handle, CUevent to_handle)
{
    CUresult error = fake_enter(__func__);
    struct fake_event *from = (struct fake_event *)from_handle, *to = (struct fake_event *)to_handle;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    if (!from->is_recorded || !to->is_recorded || (from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
        error = CUDA_ERROR_INVALID_HANDLE;
    else if (fake_event_is_pending(from) || fake_event_is_pending(to))
        error = CUDA_ERROR_NOT_READY;
    else
        *ms = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
              (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Events of contexts: behind all that its streams have, in front of all that comes ---- */

FAKE_EXPORT CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle)
{
    struct fake_context *context = (struct fake_context *)handle;
    struct fake_event *event;
    CUresult error = begin(__func__, event_handle, &event);

    if (error)
        return error;
    context = context ? context : fake_current();
    error = !context || event->context != context ? CUDA_ERROR_INVALID_HANDLE
                                                  : fake_capture_check_context(context);
    if (!error) {
        fake_waits_clear(&event->waits);
        for (struct fake_context *each = fake_contexts; each; each = each->next)
            for (struct fake_stream *i = each->streams; i && fake_is_of_context(each, context); i = i->next)
                fake_waits_add(&event->waits, i, i->n_queued);
        event->is_recorded = true;
        event->capture_id = 0;
        clock_gettime(CLOCK_MONOTONIC, &event->when);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle)
{
    struct fake_context *context = (struct fake_context *)handle;
    struct fake_event *event;
    CUresult error = begin(__func__, event_handle, &event);

    if (error)
        return error;
    context = context ? context : fake_current();
    error = context ? fake_capture_check_context(context) : CUDA_ERROR_INVALID_CONTEXT;
    if (!error)
        fake_waits_add_all(&context->gate, &event->waits);
    pthread_mutex_unlock(&fake_lock);
    return error;
}
