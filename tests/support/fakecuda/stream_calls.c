/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_calls.c: the fake driver's functions that take a stream, except copies, kernels and captures. It is
 * compiled twice: the second time for the functions *_ptsz, whose stream NULL is the thread's.
 */
#include "fake.h"

/* ---- State ---- */

FAKE_EXPORT CUresult cuStreamQuery(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_wait(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    error = stream->n_done < stream->n_queued ? CUDA_ERROR_NOT_READY : stream->context->broken;
    pthread_mutex_unlock(&fake_lock);
    fake_lend_core(error);
    return error;
}

FAKE_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_wait(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    fake_wait_stream(stream);
    error = stream->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* A function that tells something of its stream. refuses: as other uses of the stream NULL beside a captured blocking one. */
#define TELL(name, type, expression, refuses)                                      \
    FAKE_EXPORT CUresult name(CUstream handle, type *told)                         \
    {                                                                              \
        struct fake_stream *stream;                                                \
        CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);        \
                                                                                   \
        if (error)                                                                 \
            return error;                                                          \
        error = refuses ? fake_capture_check_legacy(stream, false) : CUDA_SUCCESS; \
        if (!error)                                                                \
            *told = (expression);                                                  \
        pthread_mutex_unlock(&fake_lock);                                          \
        return error;                                                              \
    }

TELL(cuStreamGetPriority, int, stream->priority, true)
TELL(cuStreamGetFlags, unsigned, stream->flags, true)
TELL(cuStreamGetId, unsigned long long, stream->id, true)
TELL(cuStreamGetDevice, CUdevice, stream->context->device, false)
TELL(cuStreamGetCtx, CUcontext, (CUcontext)stream->context, false)

FAKE_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    *context = (CUcontext)(stream->context->parent ? stream->context->parent : stream->context);
    *green = stream->context->parent ? (CUgreenCtx)stream->context : NULL;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Attributes ---- */

/* Where an attribute is kept; NULL: streams do not have it. */
static CUstreamAttrValue *attribute_of(struct fake_stream *stream, CUstreamAttrID attribute)
{
    switch ((int)attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return &stream->attributes[0];
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return &stream->attributes[1];
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return &stream->attributes[2];
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return &stream->attributes[3];
    default:
        return NULL;
    }
}

FAKE_EXPORT CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = stream->priority;
    else if (attribute_of(stream, attribute))
        *value = *attribute_of(stream, attribute);
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                          const CUstreamAttrValue *value)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        stream->priority = value->priority;
    else if (attribute_of(stream, attribute))
        *attribute_of(stream, attribute) = *value;
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle)
{
    struct fake_stream *to, *from;
    CUresult error = fake_begin(__func__, FAKE_MEANT(to_handle), &to);

    if (error)
        return error;
    from = fake_stream_of(FAKE_MEANT(from_handle), to->context);
    if (from)
        memcpy(to->attributes, from->attributes, sizeof to->attributes);
    else
        error = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Events ---- */

static CUresult note_time(struct fake_op *op)
{
    clock_gettime(CLOCK_MONOTONIC, &((struct fake_event *)op->object)->when);
    return CUDA_SUCCESS;
}

static CUresult record(const char *function, CUevent handle, CUstream stream_handle, unsigned flags)
{
    struct fake_stream *stream;
    struct fake_event *event = (struct fake_event *)handle;
    CUresult error = fake_begin_work(function, stream_handle, &stream);
    struct fake_op *op;

    if (error)
        return error;
    if (!event || event->is_destroyed || event->context != stream->context) {
        error = CUDA_ERROR_INVALID_HANDLE;
    } else if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) {
        error = CUDA_ERROR_INVALID_VALUE;
    } else if (stream->capture && flags) {
        error = CUDA_ERROR_NOT_SUPPORTED; /* nodes that record events are not there */
    } else if (stream->capture) {
        fake_capture_record(stream, event);
    } else {
        op = fake_op_create(note_time);
        op->object = event;
        fake_queue(stream, op);
        event->is_recorded = true;
        event->capture_id = 0;
        fake_waits_clear(&event->waits);
        fake_waits_add(&event->waits, stream, stream->n_queued);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(__func__, event, FAKE_MEANT(stream), CU_EVENT_RECORD_DEFAULT);
}

FAKE_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return record(__func__, event, FAKE_MEANT(stream), flags);
}

FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags)
{
    struct fake_stream *stream;
    struct fake_event *event = (struct fake_event *)handle;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(stream_handle), &stream);
    struct fake_op *op;

    if (error)
        return error;
    if (!event || event->is_destroyed) {
        error = CUDA_ERROR_INVALID_HANDLE;
    } else if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) {
        error = CUDA_ERROR_INVALID_VALUE;
    } else if (stream->capture && flags) {
        error = CUDA_ERROR_NOT_SUPPORTED; /* nodes that wait for events are not there */
    } else if (stream->capture || event->capture_id) {
        error = fake_capture_wait(stream, event);
    } else if (fake_event_is_pending(event)) {
        op = fake_op_create(fake_do_nothing);
        fake_waits_add_all(&op->waits, &event->waits);
        fake_queue(stream, op);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Functions of the host in a stream: one at a time in a context ---- */

static bool may_call_host(struct fake_op *op)
{
    if (op->context->runs_host_function)
        return false;
    op->context->runs_host_function = true;
    return true;
}

static void host_is_over(struct fake_op *op)
{
    op->context->runs_host_function = false;
}

static CUresult call_host(struct fake_op *op)
{
    fake_is_host_function = true;
    ((CUhostFn)(uintptr_t)op->object)(op->to);
    fake_is_host_function = false;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream_handle, CUhostFn function, void *data)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(stream_handle), &stream);
    struct fake_op *op;

    if (error)
        return error;
    op = fake_op_create(call_host);
    op->is_ready = may_call_host;
    op->is_over = host_is_over;
    op->object = (void *)(uintptr_t)function;
    op->type = CU_GRAPH_NODE_TYPE_HOST;
    op->to = data;
    fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* What a callback is told. */
struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static CUresult call_back(struct fake_op *op)
{
    struct callback *callback = (struct callback *)op->captured;

    fake_is_host_function = true;
    callback->function(callback->stream, CUDA_SUCCESS, callback->data);
    fake_is_host_function = false;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *data,
                                         unsigned flags)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(handle), &stream);
    struct fake_op *op;

    if (error)
        return error;
    if (flags || !function)
        error = CUDA_ERROR_INVALID_VALUE;
    else if (stream->capture)
        error = fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (error) {
        pthread_mutex_unlock(&fake_lock);
        return error;
    }
    op = fake_op_create(call_back);
    op->is_ready = may_call_host;
    op->is_over = host_is_over;
    op->captured = malloc(sizeof(struct callback));
    *(struct callback *)op->captured = (struct callback){function, handle, data};
    fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Managed memory: it is everybody's here whatever it is attached to ---- */

FAKE_EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t n_bytes,
                                            unsigned flags)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(handle), &stream);
    struct fake_range *range;

    if (error)
        return error;
    range = fake_range_at(address);
    if (!range || range->kind != FAKE_MANAGED || (n_bytes != 0 && n_bytes != range->n_bytes) ||
        (flags == CU_MEM_ATTACH_SINGLE && stream->kind == FAKECUDA_LEGACY))
        error = CUDA_ERROR_INVALID_VALUE;
    else if (stream->capture)
        error = fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else
        fake_queue(stream, fake_op_create(fake_do_nothing));
    pthread_mutex_unlock(&fake_lock);
    return error;
}
