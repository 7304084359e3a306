/* SPDX-License-Identifier: BSD-3-Clause
 *
 * capture.c: captures of the fake driver's streams, and the calls that they forbid. The functions are in
 * capture_calls.c, graphs in graph.c.
 *
 * A capture has a graph. Each of its streams has the set of nodes that its next node will wait for; events
 * take such a set from stream to stream. A forbidden call invalidates the capture until its end.
 */
#include "fake.h"

static struct fake_capture *captures; /* those that were begun and not ended */

/* ---- Sets of nodes ---- */

void fake_nodes_add(struct fake_nodes *nodes, struct fake_node *node)
{
    for (size_t i = 0; i < nodes->n; i++)
        if (nodes->list[i] == node)
            return;
    nodes->list = realloc(nodes->list, (nodes->n + 1) * sizeof(struct fake_node *));
    nodes->list[nodes->n++] = node;
}

void fake_nodes_add_all(struct fake_nodes *nodes, const struct fake_nodes *added)
{
    for (size_t i = 0; i < added->n; i++)
        fake_nodes_add(nodes, added->list[i]);
}

void fake_nodes_clear(struct fake_nodes *nodes)
{
    free(nodes->list);
    *nodes = (struct fake_nodes){NULL, 0};
}

/* ---- Captures ---- */

struct fake_capture *fake_capture_find(unsigned long long id)
{
    struct fake_capture *i = captures;

    while (i && i->id != id)
        i = i->next;
    return i;
}

void fake_capture_begin(struct fake_stream *stream, struct fake_graph *graph, CUstreamCaptureMode mode)
{
    static unsigned long long last_id;
    struct fake_capture *capture = calloc(1, sizeof *capture);

    capture->id = ++last_id;
    capture->graph = graph;
    capture->mode = mode;
    capture->thread = fake_thread_number();
    capture->origin = stream;
    capture->next = captures;
    captures = capture;
    stream->capture = capture;
}

/* Takes all its streams out of it. */
static void forget(struct fake_capture *capture)
{
    struct fake_capture **link = &captures;

    for (struct fake_context *context = fake_contexts; context; context = context->next)
        for (struct fake_stream *i = context->streams; i; i = i->next)
            if (i->capture == capture) {
                i->capture = NULL;
                fake_nodes_clear(&i->captured);
            }
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

static void mark(struct fake_node *node)
{
    if (node->is_marked)
        return;
    node->is_marked = true;
    for (size_t i = 0; i < node->after.n; i++)
        mark(node->after.list[i]);
}

/* True if the last nodes of all streams lead to the last nodes of the stream where the capture began. */
static bool are_joined(const struct fake_capture *capture)
{
    bool are_all = true;

    for (size_t i = 0; i < capture->graph->nodes.n; i++)
        capture->graph->nodes.list[i]->is_marked = false;
    for (size_t i = 0; i < capture->origin->captured.n; i++)
        mark(capture->origin->captured.list[i]);
    for (struct fake_context *context = fake_contexts; context; context = context->next)
        for (struct fake_stream *stream = context->streams; stream; stream = stream->next)
            for (size_t i = 0; stream->capture == capture && i < stream->captured.n; i++)
                are_all &= stream->captured.list[i]->is_marked;
    return are_all;
}

CUresult fake_capture_end(struct fake_stream *stream, struct fake_graph **graph_out)
{
    struct fake_capture *capture = stream->capture;
    CUresult error = CUDA_SUCCESS;

    *graph_out = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != fake_thread_number())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->is_invalid)
        error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!are_joined(capture))
        error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (!error)
        *graph_out = capture->graph;
    else if (!capture->is_graph_given)
        fake_graph_free(capture->graph);
    forget(capture);
    return error;
}

void fake_capture_drop(struct fake_stream *stream)
{
    struct fake_capture *capture = stream->capture;

    if (!capture)
        return;
    if (capture->origin == stream) {
        if (!capture->is_graph_given)
            fake_graph_free(capture->graph);
        forget(capture);
        return;
    }
    capture->is_invalid = true;
    stream->capture = NULL;
    fake_nodes_clear(&stream->captured);
}

void fake_capture_op(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_node *node = fake_graph_add(stream->capture->graph, op);

    fake_nodes_add_all(&node->after, &stream->captured);
    fake_nodes_clear(&stream->captured);
    fake_nodes_add(&stream->captured, node);
}

CUresult fake_capture_refuse(struct fake_stream *stream, CUresult error)
{
    if (stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture->is_invalid = true;
    return error;
}

/* ---- Events ---- */

void fake_capture_record(struct fake_stream *stream, struct fake_event *event)
{
    event->capture_id = stream->capture->id;
    fake_nodes_clear(&event->captured);
    fake_nodes_add_all(&event->captured, &stream->captured);
}

CUresult fake_capture_wait(struct fake_stream *stream, struct fake_event *event)
{
    struct fake_capture *capture = event->capture_id ? fake_capture_find(event->capture_id) : NULL;

    if (event->capture_id && !capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!capture)
        return fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->kind == FAKECUDA_LEGACY) {
        capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != capture) {
        capture->is_invalid = true;
        return fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    stream->capture = capture;
    fake_nodes_add_all(&stream->captured, &event->captured);
    return CUDA_SUCCESS;
}

/* ---- What is forbidden meanwhile ---- */

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult error = fake_enter(__func__);
    CUstreamCaptureMode before = thread_mode;

    if (error)
        return error;
    if ((unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static bool is_in_the_way(const struct fake_capture *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == fake_thread_number())
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult fake_capture_check_unsafe(void)
{
    CUresult error = CUDA_SUCCESS;

    for (struct fake_capture *i = captures; i; i = i->next)
        if (is_in_the_way(i)) {
            i->is_invalid = true;
            error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return error;
}

CUresult fake_enter_unsafe(const char *function, struct fake_context **context_out)
{
    CUresult error = fake_enter_context(function, context_out);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    error = fake_capture_check_unsafe();
    pthread_mutex_unlock(&fake_lock);
    return error;
}

CUresult fake_capture_check_context(struct fake_context *context)
{
    CUresult error = CUDA_SUCCESS;

    for (struct fake_stream *i = context->streams; i; i = i->next)
        if (i->capture)
            error = fake_capture_refuse(i, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return error;
}

CUresult fake_capture_check_legacy(struct fake_stream *stream, bool is_question)
{
    CUresult error = CUDA_SUCCESS;

    if (stream->kind != FAKECUDA_LEGACY)
        return CUDA_SUCCESS;
    for (struct fake_stream *i = stream->context->streams; i; i = i->next)
        if (i->capture && i->kind != FAKECUDA_NON_BLOCKING) {
            i->capture->is_invalid |= !is_question;
            error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return error;
}
