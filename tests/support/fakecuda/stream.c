/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream.c: the fake driver's streams and events. Each stream has a thread, which does one operation after
 * the other.
 */
#include "fake.h"

#include <time.h>
#include <unistd.h>

__thread struct fake_context *fake_running;

/* ---- The thread of a stream ---- */

static bool must_wait(struct fake_op *op)
{
    if (fake.is_held || (op->is_ready && !op->is_ready(op)))
        return true;
    for (int i = 0; i < op->n_waits; i++)
        if (op->waits[i].stream->n_done < op->waits[i].number)
            return true;
    return false;
}

static void finish(struct fake_stream *stream, struct fake_op *op, CUresult error)
{
    if (error && !stream->context->broken)
        stream->context->broken = error;
    fake_range_unref(op->to_range);
    fake_range_unref(op->from_range);
    free(op->captured);
    free(op->waits);
    free(op);
    stream->n_done++;
    pthread_cond_broadcast(&fake_changed);
}

/* Some operations wait for what the CPU stores: they are looked at again and again. */
static void wait_a_little(bool is_polling)
{
    struct timespec until;

    if (!is_polling) {
        pthread_cond_wait(&fake_changed, &fake_lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
}

static void *run_stream(void *arg)
{
    struct fake_stream *stream = arg;

    pthread_mutex_lock(&fake_lock);
    for (;;) {
        struct fake_op *op = stream->first;
        CUresult error;
        if (!op && stream->is_destroyed)
            break;
        if (!op || must_wait(op)) {
            wait_a_little(op && op->is_ready);
            continue;
        }
        pthread_mutex_unlock(&fake_lock);
        if (fake.delay_us > 0)
            usleep((useconds_t)fake.delay_us);
        error = stream->context->broken ? stream->context->broken : op->run(op);
        pthread_mutex_lock(&fake_lock);
        stream->first = op->next;
        finish(stream, op, error);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

/* ---- Queuing ---- */

struct fake_op *fake_op_create(CUresult (*run)(struct fake_op *op))
{
    struct fake_op *op = calloc(1, sizeof *op);

    op->run = run;
    return op;
}

static void add_wait(struct fake_op *op, struct fake_stream *stream, uint64_t number)
{
    if (stream->n_done >= number)
        return;
    op->waits = realloc(op->waits, (size_t)(op->n_waits + 1) * sizeof *op->waits);
    op->waits[op->n_waits++] = (struct fake_wait){stream, number};
}

/* The stream NULL and those that are not non-blocking wait for each other. */
static void add_legacy_waits(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_context *context = stream->context;

    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (stream != context->legacy) {
        if (context->legacy)
            add_wait(op, context->legacy, context->legacy->n_queued);
        return;
    }
    for (struct fake_stream *i = context->streams; i; i = i->next)
        if (i != stream && !(i->flags & CU_STREAM_NON_BLOCKING))
            add_wait(op, i, i->n_queued);
}

void fake_queue(struct fake_stream *stream, struct fake_op *op)
{
    pthread_t thread;

    op->context = stream->context;
    op->next = NULL;
    add_legacy_waits(stream, op);
    if (stream->first)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    stream->n_queued++;
    if (!stream->has_thread) {
        stream->has_thread = true;
        pthread_create(&thread, NULL, run_stream, stream);
        pthread_detach(thread);
    }
    pthread_cond_broadcast(&fake_changed);
}

void fake_wait_stream(struct fake_stream *stream)
{
    uint64_t number = stream->n_queued;

    while (stream->n_done < number)
        pthread_cond_wait(&fake_changed, &fake_lock);
}

void fake_wait_context(struct fake_context *context)
{
    for (struct fake_stream *i = context->streams; i; i = i->next)
        fake_wait_stream(i);
}

/* ---- Streams ---- */

static struct fake_stream *create(struct fake_context *context, unsigned flags, int priority)
{
    struct fake_stream *stream = calloc(1, sizeof *stream);

    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

struct fake_stream *fake_stream_of(CUstream handle, struct fake_context *context)
{
    struct fake_stream *stream = (struct fake_stream *)handle;

    if (handle == CU_STREAM_PER_THREAD)
        return NULL;
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (!context->legacy)
            context->legacy = create(context, 0, 0);
        return context->legacy;
    }
    return stream->is_destroyed ? NULL : stream;
}

FAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    *stream = (CUstream)create(context, flags, priority);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

FAKE_EXPORT CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *priority = ((struct fake_stream *)stream)->priority;
    return error;
}

/* Finds the stream of a call, with the lock held if there is one. */
static CUresult begin(const char *function, CUstream handle, struct fake_stream **stream_out)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    *stream_out = fake_stream_of(handle, context);
    if (!*stream_out) {
        pthread_mutex_unlock(&fake_lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if ((*stream_out)->context->broken) {
        pthread_mutex_unlock(&fake_lock);
        return (*stream_out)->context->broken;
    }
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamDestroy(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = begin(__func__, handle, &stream);

    if (error)
        return error;
    stream->is_destroyed = true; /* it does what was queued; its memory stays: handles may be used after it */
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamQuery(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = begin(__func__, handle, &stream);

    if (error)
        return error;
    error = stream->n_done < stream->n_queued ? CUDA_ERROR_NOT_READY : stream->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = begin(__func__, handle, &stream);

    if (error)
        return error;
    fake_wait_stream(stream);
    error = stream->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Values in memory ---- */

static CUresult store_value(struct fake_op *op)
{
    if (op->value_bytes == 4)
        __atomic_store_n((uint32_t *)op->to, (uint32_t)op->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)op->to, op->value, __ATOMIC_SEQ_CST);
    return CUDA_SUCCESS;
}

static CUresult do_nothing(struct fake_op *op)
{
    return CUDA_SUCCESS;
}

static bool has_value(struct fake_op *op)
{
    uint32_t there = __atomic_load_n((uint32_t *)op->to, __ATOMIC_SEQ_CST);

    switch (op->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return (int32_t)(there - (uint32_t)op->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return there == (uint32_t)op->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return there & (uint32_t)op->value;
    default:
        return ~(there | (uint32_t)op->value);
    }
}

static CUresult queue_value(const char *function, CUstream handle, CUdeviceptr address, uint64_t value,
                            unsigned bytes, unsigned flags, bool is_wait)
{
    struct fake_stream *stream;
    CUresult error = begin(function, handle, &stream);
    struct fake_range *range;
    struct fake_op *op;

    if (error)
        return error;
    range = fake_range_at(address);
    if (!fake.has_write_value || !range) {
        pthread_mutex_unlock(&fake_lock);
        return range ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    op = fake_op_create(is_wait ? do_nothing : store_value);
    op->is_ready = is_wait ? has_value : NULL;
    op->to_range = range;
    range->n_refs++;
    op->to = range->alias + (address - range->at);
    op->value = value;
    op->value_bytes = bytes;
    op->flags = flags;
    fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                          unsigned flags)
{
    return queue_value(__func__, stream, address, value, 4, flags, false);
}

FAKE_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                          unsigned flags)
{
    return queue_value(__func__, stream, address, value, 8, flags, false);
}

FAKE_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                         unsigned flags)
{
    return queue_value(__func__, stream, address, value, 4, flags, true);
}

/* ---- Events ---- */

struct event {
    struct fake_context *context;
    struct fake_stream *stream; /* where it was recorded last; NULL: nowhere */
    uint64_t number;
    struct timespec when;
};

FAKE_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error) {
        struct event *made = calloc(1, sizeof *made);
        made->context = context;
        *event = (CUevent)made;
    }
    return error;
}

FAKE_EXPORT CUresult cuEventDestroy(CUevent event)
{
    return fake_enter(__func__); /* its memory stays: operations may be under way */
}

static CUresult note_time(struct fake_op *op)
{
    clock_gettime(CLOCK_MONOTONIC, &((struct event *)op->object)->when);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream_handle)
{
    struct fake_stream *stream;
    struct event *event = (struct event *)handle;
    CUresult error = begin(__func__, stream_handle, &stream);
    struct fake_op *op;

    if (error)
        return error;
    if (event->context != stream->context) {
        pthread_mutex_unlock(&fake_lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    op = fake_op_create(note_time);
    op->object = event;
    fake_queue(stream, op);
    event->stream = stream;
    event->number = stream->n_queued;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventQuery(CUevent handle)
{
    CUresult error = fake_enter(__func__);
    struct event *event = (struct event *)handle;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    if (event->stream && event->stream->n_done < event->number)
        error = CUDA_ERROR_NOT_READY;
    else
        error = event->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    CUresult error = fake_enter(__func__);
    struct event *event = (struct event *)handle;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    while (event->stream && event->stream->n_done < event->number)
        pthread_cond_wait(&fake_changed, &fake_lock);
    error = event->context->broken;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from_handle, CUevent to_handle)
{
    CUresult error = fake_enter(__func__);
    struct event *from = (struct event *)from_handle, *to = (struct event *)to_handle;

    if (!error)
        *ms = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
              (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
    return error;
}

FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags)
{
    struct fake_stream *stream;
    struct event *event = (struct event *)handle;
    CUresult error = begin(__func__, stream_handle, &stream);
    struct fake_op *op;

    if (error)
        return error;
    if (event->stream) {
        op = fake_op_create(do_nothing);
        add_wait(op, event->stream, event->number);
        fake_queue(stream, op);
    }
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Functions of the host in a stream ---- */

static CUresult call_host(struct fake_op *op)
{
    ((CUhostFn)(uintptr_t)op->object)(op->to);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream_handle, CUhostFn function, void *data)
{
    struct fake_stream *stream;
    CUresult error = begin(__func__, stream_handle, &stream);
    struct fake_op *op;

    if (error)
        return error;
    op = fake_op_create(call_host);
    op->object = (void *)(uintptr_t)function;
    op->to = data;
    fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
