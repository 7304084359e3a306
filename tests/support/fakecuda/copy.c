/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy.c: the fake driver's copies and fills; the functions that request them are in copy_calls.c.
 *
 * They wait where the real driver's may, by "API synchronization behavior" in its manual:
 *
 * Pageable host memory is read before the call returns, but not before the stream has done what it had, so
 * the call waits for that; the bytes may still be on their way when it returns. Up to 64 KiB in a row are
 * taken along at once. An address that the driver does not know counts as pageable.
 *
 * Pageable host memory has been written when the call returns, and so has any host memory from host memory.
 *
 * Calls without Async also wait where pinned or managed memory is on one side, but not between devices'
 * memory, unless it has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS or the context has CU_CTX_SYNC_MEMOPS. All else happens when the
 * stream comes to it.
 */
#include "fake.h"

/* Memory of a pool is used only behind its allocation. */
static bool is_there(const struct fake_range *range)
{
    return !range || !range->is_unborn;
}

static CUresult copy_rows(struct fake_op *op)
{
    const char *from = op->captured ? op->captured : op->from;

    if (!is_there(op->to_range) || !is_there(op->from_range))
        return CUDA_ERROR_ILLEGAL_ADDRESS;

    for (size_t slice = 0; slice < op->n_slices; slice++)
        for (size_t row = 0; row < op->n_rows; row++)
            memmove(op->to + slice * op->to_slice + row * op->to_pitch,
                    from + slice * op->from_slice + row * op->from_pitch, op->n_bytes);
    return CUDA_SUCCESS;
}

static CUresult fill_rows(struct fake_op *op)
{
    if (!is_there(op->to_range))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < op->n_rows; row++) {
        char *to = op->to + row * op->to_pitch;
        for (size_t i = 0; i < op->n_bytes; i += op->value_bytes)
            memcpy(to + i, &op->value, op->value_bytes);
    }
    return CUDA_SUCCESS;
}

/* Finds where the bytes of one side are, and keeps them. false: the allocation ends before them, or is not
 * open to the device. */
static bool resolve(int device, CUdeviceptr address, size_t span_bytes, struct fake_range **range_out,
                    char **bytes_out)
{
    struct fake_range *range = fake_range_at(address);

    *range_out = NULL;
    *bytes_out = (char *)address;
    if (!range)
        return true;
    if (span_bytes > range->n_bytes - (address - range->at) || !fake_is_open_to(range, device))
        return false;
    range->n_refs++;
    *range_out = range;
    *bytes_out = range->alias + (address - range->at);
    return true;
}

static size_t span(const struct fake_copy *what, size_t slice, size_t pitch)
{
    return (what->n_slices - 1) * slice + (what->n_rows - 1) * pitch + what->n_bytes;
}

/* Calls without Async are forbidden where calls that wait are. */
static CUresult begin(const char *function, CUstream handle, bool is_sync, struct fake_stream **stream_out)
{
    CUresult error = fake_begin_work(function, handle, stream_out);

    if (error || !is_sync)
        return error;
    error = (*stream_out)->capture ? fake_capture_refuse(*stream_out, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                                   : fake_capture_check_unsafe();
    if (error)
        pthread_mutex_unlock(&fake_lock);
    return error;
}

static struct fake_op *make_copy(const struct fake_copy *what, int device)
{
    struct fake_op *op = fake_op_create(copy_rows);
    char *from = NULL;

    if (!resolve(device, what->to, span(what, what->to_slice, what->to_pitch), &op->to_range, &op->to) ||
        !resolve(device, what->from, span(what, what->from_slice, what->from_pitch), &op->from_range,
                 &from)) {
        fake_range_unref(op->to_range);
        free(op);
        return NULL;
    }
    op->type = CU_GRAPH_NODE_TYPE_MEMCPY;
    op->from = from;
    op->n_bytes = what->n_bytes;
    op->n_rows = what->n_rows;
    op->n_slices = what->n_slices;
    op->to_pitch = what->to_pitch;
    op->from_pitch = what->from_pitch;
    op->to_slice = what->to_slice;
    op->from_slice = what->from_slice;
    return op;
}

static void capture_source(struct fake_op *op, const struct fake_copy *what)
{
    size_t n_bytes = span(what, what->from_slice, what->from_pitch);

    op->captured = malloc(n_bytes);
    memcpy(op->captured, op->from, n_bytes);
}

static bool is_host(const struct fake_range *range)
{
    return !range || range->kind == FAKE_HOST || range->kind == FAKE_REGISTERED;
}

static bool is_on_device(const struct fake_range *range)
{
    return range && range->kind == FAKE_DEVICE;
}

static bool is_sync_memops(const struct fake_range *range)
{
    return range && range->is_sync_memops && !range->pool;
}

/* Whether the call returns after the copy only. */
static bool is_waited_for(const struct fake_stream *stream, const struct fake_op *op, bool is_sync)
{
    if (is_sync && (stream->context->flags & CU_CTX_SYNC_MEMOPS || is_sync_memops(op->to_range) ||
                    is_sync_memops(op->from_range)))
        return true;
    if (!op->to_range || (is_host(op->to_range) && is_host(op->from_range)))
        return true;
    return is_sync && op->from_range && !(is_on_device(op->to_range) && is_on_device(op->from_range));
}

/* A synchronous call on the range returns before the last operation of the stream is done. */
static void note_pending(struct fake_range *range, struct fake_stream *stream)
{
    range->sync_stream = stream;
    range->sync_number = stream->n_queued;
}

#define TAKEN_ALONG ((size_t)64 << 10)

static bool waits_before(const struct fake_copy *what)
{
    bool is_row = what->n_rows == 1 && what->n_slices == 1;

    if (fake_range_at(what->from) && fake_range_at(what->to))
        return false;
    return !(is_row && what->n_bytes <= TAKEN_ALONG && fake_range_at(what->to));
}

/* The other device's context whose memory a copy in the stream NULL uses; NULL: none. */
static struct fake_context *peer_of(const struct fake_stream *stream, const struct fake_range *range)
{
    return stream->kind == FAKECUDA_LEGACY && is_on_device(range) && range->device != stream->context->device
               ? range->context
               : NULL;
}

/* CUDA orders it with both devices. */
static void queue_ordered(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_context *peers[] = {peer_of(stream, op->to_range), peer_of(stream, op->from_range)};

    for (int i = 0; i < 2; i++)
        if (peers[i])
            fake_join_peer(op, peers[i]);
    fake_queue(stream, op);
    for (int i = 0; i < 2; i++)
        if (peers[i])
            fake_hold_peer(stream, peers[i]);
}

static CUresult queue_copy(struct fake_stream *stream, const struct fake_copy *what, bool is_sync)
{
    struct fake_op *op;
    bool is_waited;

    if (what->n_bytes == 0 || what->n_rows == 0 || what->n_slices == 0)
        return CUDA_SUCCESS;
    if (!stream->capture && waits_before(what))
        fake_wait_stream(stream);
    op = make_copy(what, stream->context->device);
    if (!op)
        return CUDA_ERROR_INVALID_VALUE;
    if (!op->from_range && !stream->capture)
        capture_source(op, what);
    is_waited = !stream->capture && is_waited_for(stream, op, is_sync);
    queue_ordered(stream, op);
    if (is_waited)
        fake_wait_stream(stream);
    else if (is_sync && fake_range_at(what->to))
        note_pending(fake_range_at(what->to), stream);
    return is_waited ? stream->context->broken : CUDA_SUCCESS;
}

CUresult fake_copy(const char *function, const struct fake_copy *what, CUstream handle, bool is_sync)
{
    struct fake_stream *stream;
    CUresult error = begin(function, handle, is_sync, &stream);

    if (error)
        return error;
    error = queue_copy(stream, what, is_sync);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

bool fake_can_copy_on_device(CUdeviceptr to, CUdeviceptr from)
{
    const struct fake_context *current = fake_current();
    const struct fake_range *to_range, *from_range;
    bool are_known;

    pthread_mutex_lock(&fake_lock);
    to_range = fake_range_at(to);
    from_range = fake_range_at(from);
    are_known = to_range && from_range &&
                (!current || (fake_is_open_to(to_range, current->device) &&
                              fake_is_open_to(from_range, current->device)));
    pthread_mutex_unlock(&fake_lock);
    return are_known;
}

/* ---- Fills ---- */

static CUresult queue_fill(struct fake_stream *stream, const struct fake_fill *what, bool is_sync)
{
    size_t row_bytes = what->n * what->value_bytes;
    struct fake_op *op;
    bool is_waited;

    if (!fake_range_at(what->to))
        return CUDA_ERROR_INVALID_VALUE;
    if (what->n == 0 || what->n_rows == 0)
        return CUDA_SUCCESS;
    op = fake_op_create(fill_rows);
    if (!resolve(stream->context->device, what->to, (what->n_rows - 1) * what->pitch + row_bytes,
                 &op->to_range, &op->to)) {
        free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    is_waited = is_sync && (op->to_range->kind != FAKE_DEVICE || is_sync_memops(op->to_range) ||
                            stream->context->flags & CU_CTX_SYNC_MEMOPS);
    op->type = CU_GRAPH_NODE_TYPE_MEMSET;
    op->value = what->value;
    op->value_bytes = what->value_bytes;
    op->n_bytes = row_bytes;
    op->n_rows = what->n_rows;
    op->to_pitch = what->pitch;
    fake_queue(stream, op);
    if (is_waited)
        fake_wait_stream(stream);
    else if (is_sync)
        note_pending(fake_range_at(what->to), stream);
    return is_waited ? stream->context->broken : CUDA_SUCCESS;
}

CUresult fake_fill(const char *function, const struct fake_fill *what, CUstream handle, bool is_sync)
{
    struct fake_stream *stream;
    CUresult error = begin(function, handle, is_sync, &stream);

    if (error)
        return error;
    error = queue_fill(stream, what, is_sync);
    pthread_mutex_unlock(&fake_lock);
    return error;
}
