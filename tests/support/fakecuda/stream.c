/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream.c: the fake driver's streams. Each has a thread, which executes one operation after the other. The
 * calls are in stream_calls.c.
 */
#include "fake.h"

#include <sched.h>
#include <unistd.h>

__thread struct fake_context *fake_running;
__thread bool fake_is_host_function;

/* ---- What is waited for ---- */

void fake_waits_add(struct fake_waits *waits, struct fake_stream *stream, uint64_t number)
{
    if (stream->n_done >= number)
        return;
    waits->list = realloc(waits->list, (size_t)(waits->n + 1) * sizeof *waits->list);
    waits->list[waits->n++] = (struct fake_wait){stream, number};
}

void fake_waits_add_all(struct fake_waits *waits, const struct fake_waits *added)
{
    for (int i = 0; i < added->n; i++)
        fake_waits_add(waits, added->list[i].stream, added->list[i].number);
}

bool fake_waits_are_over(const struct fake_waits *waits)
{
    for (int i = 0; i < waits->n; i++)
        if (waits->list[i].stream->n_done < waits->list[i].number)
            return false;
    return true;
}

void fake_waits_clear(struct fake_waits *waits)
{
    free(waits->list);
    *waits = (struct fake_waits){NULL, 0};
}

/* ---- The thread of a stream ---- */

/* A stream has a connection while it has work: the one with the fewest such streams. */
static void choose_connection(struct fake_stream *stream)
{
    int n_streams[FAKE_CONNECTIONS_MAX] = {0}, best = 0;

    for (const struct fake_context *context = fake_contexts; context; context = context->next)
        for (const struct fake_stream *i = context->streams; i; i = i->next)
            if (i->first && context->device == stream->context->device)
                n_streams[i->connection]++;
    for (int i = 1; i < fake.n_connections; i++)
        if (n_streams[i] < n_streams[best])
            best = i;
    stream->connection = best;
}

/* True if the operation is behind another one in the connection that its stream shares. */
static bool is_kept_back(const struct fake_stream *stream, const struct fake_op *op)
{
    for (const struct fake_context *context = fake_contexts; context; context = context->next)
        for (const struct fake_stream *i = context->streams; i; i = i->next) {
            const struct fake_op *first = i->first;
            if (context->device != stream->context->device || i->connection != stream->connection)
                continue;
            if (first && first->has_begun)
                first = first->next;
            if (first && first->number < op->number)
                return true;
        }
    return false;
}

static bool must_wait(const struct fake_stream *stream, struct fake_op *op)
{
    return fake.is_held || (fake.n_connections > 0 && is_kept_back(stream, op)) ||
           !fake_waits_are_over(&op->waits) || (op->is_ready && !op->is_ready(op));
}

void fake_op_free(struct fake_op *op)
{
    fake_range_unref(op->to_range);
    fake_range_unref(op->from_range);
    free(op->captured);
    fake_waits_clear(&op->waits);
    free(op);
}

static void finish(struct fake_stream *stream, struct fake_op *op, CUresult error)
{
    if (error && !stream->context->broken)
        stream->context->broken = error;
    if (op->is_over)
        op->is_over(op);
    fake_op_free(op);
    stream->n_done++;
    pthread_cond_broadcast(&fake_changed);
}

/* Some operations wait for what the CPU stores: they are looked at again and again. */
void fake_pause(bool is_polling)
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

/* A GPU needs no core. Its threads may use any, also those that the process is not bound to. */
static void use_all_cores(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
}

static useconds_t delay_of(const struct fake_op *op)
{
    bool is_pageable = op->type == CU_GRAPH_NODE_TYPE_MEMCPY && op->captured;

    return (useconds_t)(fake.delay_us + (is_pageable ? fake.pageable_us : 0));
}

static void *run_stream(void *arg)
{
    struct fake_stream *stream = arg;

    use_all_cores();
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        struct fake_op *op = stream->first;
        CUresult error;
        if (!op && stream->is_destroyed)
            break;
        if (!op) {
            pthread_cond_wait(&stream->has_work, &fake_lock);
            continue;
        }
        if (must_wait(stream, op)) {
            fake_pause(op->is_polled);
            continue;
        }
        op->has_begun = true;
        if (fake.n_connections > 0)
            pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
        if (delay_of(op) > 0)
            usleep(delay_of(op));
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
    op->type = CU_GRAPH_NODE_TYPE_EMPTY;
    return op;
}

CUresult fake_do_nothing(struct fake_op *op)
{
    return CUDA_SUCCESS;
}

static bool is_ordered_with_legacy(const struct fake_stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The stream NULL and those that are not non-blocking wait for each other. */
static void add_legacy_waits(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_context *context = stream->context;

    if (!is_ordered_with_legacy(stream))
        return;
    fake_waits_add_all(&op->waits, &context->peers);
    if (stream != context->legacy) {
        if (context->legacy)
            fake_waits_add(&op->waits, context->legacy, context->legacy->n_queued);
        return;
    }
    for (struct fake_stream *i = context->streams; i; i = i->next)
        if (i != stream && is_ordered_with_legacy(i))
            fake_waits_add(&op->waits, i, i->n_queued);
}

void fake_join_peer(struct fake_op *op, struct fake_context *peer)
{
    for (struct fake_stream *i = peer->streams; i; i = i->next)
        if (is_ordered_with_legacy(i))
            fake_waits_add(&op->waits, i, i->n_queued);
}

void fake_hold_peer(struct fake_stream *stream, struct fake_context *peer)
{
    if (fake_waits_are_over(&peer->peers))
        fake_waits_clear(&peer->peers);
    fake_waits_add(&peer->peers, stream, stream->n_queued);
}

static void pass_gate(struct fake_context *context, struct fake_op *op)
{
    if (fake_waits_are_over(&context->gate))
        fake_waits_clear(&context->gate);
    fake_waits_add_all(&op->waits, &context->gate);
}

static int n_works[FAKECUDA_STREAMS];

void fake_queue(struct fake_stream *stream, struct fake_op *op)
{
    static uint64_t n_queued;
    pthread_t thread;

    op->number = ++n_queued;
    op->context = stream->context;
    op->next = NULL;
    if (stream->capture) {
        fake_capture_op(stream, op);
        return;
    }
    n_works[stream->kind]++;
    add_legacy_waits(stream, op);
    pass_gate(stream->context, op);
    if (!stream->first)
        choose_connection(stream);
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
    pthread_cond_signal(&stream->has_work);
}

FAKE_EXPORT int fakecuda_works(enum fakecuda_stream kind)
{
    int n;

    pthread_mutex_lock(&fake_lock);
    n = n_works[kind];
    pthread_mutex_unlock(&fake_lock);
    return n;
}

/* ---- Waiting ---- */

static __thread int n_blocked_waits;

FAKE_EXPORT int fakecuda_blocked_waits(void)
{
    return n_blocked_waits;
}

static __thread struct {
    void (*notice)(void *arg);
    void *arg;
} on_wait;

FAKE_EXPORT void fakecuda_on_wait(void (*notice)(void *arg), void *arg)
{
    on_wait.notice = notice;
    on_wait.arg = arg;
}

void fake_wait_for(const struct fake_waits *waits)
{
    if (fake_waits_are_over(waits))
        return;
    n_blocked_waits++;
    if (on_wait.notice)
        on_wait.notice(on_wait.arg);
    while (!fake_waits_are_over(waits))
        pthread_cond_wait(&fake_changed, &fake_lock);
}

void fake_wait_stream(struct fake_stream *stream)
{
    struct fake_wait wait = {stream, stream->n_queued};

    fake_wait_for(&(struct fake_waits){&wait, 1});
}

bool fake_is_of_context(const struct fake_context *context, const struct fake_context *whole)
{
    return context == whole || context->parent == whole;
}

/* device < 0: all. */
static void wait_contexts(const struct fake_context *only, int device)
{
    struct fake_waits waits = {NULL, 0};

    for (struct fake_context *context = fake_contexts; context; context = context->next)
        for (struct fake_stream *i = context->streams; i; i = i->next)
            if (only ? fake_is_of_context(context, only) : device < 0 || context->device == device)
                fake_waits_add(&waits, i, i->n_queued);
    fake_wait_for(&waits);
    fake_waits_clear(&waits);
}

void fake_wait_context(struct fake_context *context)
{
    wait_contexts(context, 0);
}

void fake_wait_all(void)
{
    wait_contexts(NULL, -1);
}

/* Lock held; it is released meanwhile. */
static void take_time(void)
{
    if (fake.call_us == 0)
        return;
    pthread_mutex_unlock(&fake_lock);
    usleep(fake.call_us);
    pthread_mutex_lock(&fake_lock);
}

void fake_wait_contexts_of(int device)
{
    take_time();
    wait_contexts(NULL, device);
}

static int n_lock_holders;

void fake_wait_for_lock(void)
{
    while (n_lock_holders > 0)
        pthread_cond_wait(&fake_changed, &fake_lock);
}

void fake_wait_device(int device)
{
    take_time();
    fake_wait_for_lock();
    n_lock_holders += fake.has_locks;
    wait_contexts(NULL, device);
    n_lock_holders -= fake.has_locks;
    pthread_cond_broadcast(&fake_changed);
}

void fake_lend_core(CUresult answer)
{
    if (answer == CUDA_ERROR_NOT_READY)
        sched_yield();
}

/* ---- Streams ---- */

struct fake_stream *fake_stream_create(struct fake_context *context, enum fakecuda_stream kind, int priority)
{
    static unsigned long long last_id;
    struct fake_stream *stream = calloc(1, sizeof *stream);

    stream->context = context;
    stream->kind = kind;
    stream->flags = kind == FAKECUDA_NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    stream->priority = priority;
    stream->id = ++last_id;
    pthread_cond_init(&stream->has_work, NULL);
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static __thread uint64_t thread_number;
static pthread_key_t thread_end;

/* Its thread ends when it has done its work. */
void fake_stream_destroy(struct fake_stream *stream)
{
    stream->is_destroyed = true;
    pthread_cond_signal(&stream->has_work);
}

/* The streams of a thread end with it. */
static void forget_thread(void *arg)
{
    pthread_mutex_lock(&fake_lock);
    for (struct fake_context *context = fake_contexts; context; context = context->next)
        for (struct fake_stream *i = context->streams; i; i = i->next)
            if (i->kind == FAKECUDA_PER_THREAD && i->thread == thread_number)
                fake_stream_destroy(i);
    pthread_mutex_unlock(&fake_lock);
}

static void make_thread_end(void)
{
    pthread_key_create(&thread_end, forget_thread);
}

uint64_t fake_thread_number(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static uint64_t last;

    if (!thread_number) {
        thread_number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        pthread_once(&once, make_thread_end);
        pthread_setspecific(thread_end, &thread_end);
    }
    return thread_number;
}

static struct fake_stream *stream_of_thread(struct fake_context *context)
{
    uint64_t thread = fake_thread_number();
    struct fake_stream *stream = context->streams;

    while (stream && (stream->kind != FAKECUDA_PER_THREAD || stream->thread != thread))
        stream = stream->next;
    if (!stream) {
        stream = fake_stream_create(context, FAKECUDA_PER_THREAD, 0);
        stream->thread = thread;
    }
    return stream;
}

struct fake_stream *fake_stream_of(CUstream handle, struct fake_context *context)
{
    struct fake_stream *stream = (struct fake_stream *)handle;

    if (handle == CU_STREAM_PER_THREAD)
        return stream_of_thread(context);
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (!context->legacy)
            context->legacy = fake_stream_create(context, FAKECUDA_LEGACY, 0);
        return context->legacy;
    }
    return stream->is_destroyed ? NULL : stream;
}

/* On an H200 the creation of one stream among few returned at once, and that of 40 waited. */
#define STREAMS_AT_ONCE 32

void fake_wait_for_stream_room(const struct fake_context *context)
{
    int n = 0;

    for (const struct fake_stream *i = context->streams; i; i = i->next)
        n += !i->is_destroyed;
    if (fake.has_all_locks || (fake.has_locks && n >= STREAMS_AT_ONCE))
        fake_wait_device(context->device);
}

static CUresult create(const char *function, CUstream *stream, unsigned flags, int priority)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < FAKE_GREATEST_PRIORITY ? FAKE_GREATEST_PRIORITY : priority;
    pthread_mutex_lock(&fake_lock);
    fake_wait_for_stream_room(context);
    *stream = (CUstream)fake_stream_create(
        context, flags & CU_STREAM_NON_BLOCKING ? FAKECUDA_NON_BLOCKING : FAKECUDA_BLOCKING, priority);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    return create(__func__, stream, flags, priority);
}

FAKE_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return create(__func__, stream, flags, 0);
}

/* It does what was queued. Its memory stays: handles may be used after it. */
FAKE_EXPORT CUresult cuStreamDestroy(CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, handle, &stream);

    if (error)
        return error;
    if (stream->kind == FAKECUDA_LEGACY || stream->kind == FAKECUDA_PER_THREAD) {
        error = CUDA_ERROR_INVALID_HANDLE;
    } else {
        fake_capture_drop(stream);
        fake_stream_destroy(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- The beginning of calls ---- */

CUresult fake_begin(const char *function, CUstream handle, struct fake_stream **stream_out)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_of(handle, context);
    error = stream ? stream->context->broken : CUDA_ERROR_INVALID_HANDLE;
    if (stream)
        fake_count_stream(function, stream->kind);
    if (error)
        pthread_mutex_unlock(&fake_lock);
    *stream_out = stream;
    return error;
}

CUresult fake_begin_work(const char *function, CUstream handle, struct fake_stream **stream_out)
{
    CUresult error = fake_begin(function, handle, stream_out);
    struct fake_stream *stream = *stream_out;
    struct fake_wait room;

    if (error)
        return error;
    fake_wait_for_lock();
    error = stream->capture && stream->capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                           : fake_capture_check_legacy(stream, false);
    if (error)
        pthread_mutex_unlock(&fake_lock);
    if (error || stream->capture || stream->n_queued < stream->n_done + FAKE_QUEUE_MAX)
        return error;
    room = (struct fake_wait){stream, stream->n_queued + 1 - FAKE_QUEUE_MAX};
    fake_wait_for(&(struct fake_waits){&room, 1});
    return CUDA_SUCCESS;
}

CUresult fake_begin_wait(const char *function, CUstream handle, struct fake_stream **stream_out)
{
    CUresult error = fake_begin(function, handle, stream_out);

    if (error)
        return error;
    if ((*stream_out)->capture)
        error = fake_capture_refuse(*stream_out, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else
        error = fake_capture_check_legacy(*stream_out, false);
    if (!error)
        error = fake_capture_check_unsafe();
    if (error)
        pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Functions of tests ---- */

static CUresult call_test(struct fake_op *op)
{
    ((void (*)(void *))(uintptr_t)op->object)(op->to);
    return CUDA_SUCCESS;
}

FAKE_EXPORT int fakecuda_launch(void *handle, void (*run)(void *data), void *data)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, handle, &stream);
    struct fake_op *op;

    if (error)
        return (int)error;
    op = fake_op_create(call_test);
    op->object = (void *)(uintptr_t)run;
    op->to = data;
    fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
