/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy.c: the fake driver's copies and fills.
 *
 * As in the real one, pageable host memory is read before the call returns, and has been written when it
 * returns; all else happens when the stream comes to it. An address that the driver does not know counts as
 * pageable.
 */
#include "fake.h"

static CUresult copy_rows(struct fake_op *op)
{
    const char *from = op->captured ? op->captured : op->from;

    for (size_t row = 0; row < op->n_rows; row++)
        memmove(op->to + row * op->to_pitch, from + row * op->from_pitch, op->n_bytes);
    return CUDA_SUCCESS;
}

static CUresult fill_rows(struct fake_op *op)
{
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

/* Copies rows; the lock is held. is_sync: done when this returns. */
static CUresult queue_copy(struct fake_stream *stream, CUdeviceptr to, size_t to_pitch, CUdeviceptr from,
                           size_t from_pitch, size_t n_bytes, size_t n_rows, bool is_sync)
{
    struct fake_op *op;
    char *from_bytes;
    size_t to_span = (n_rows - 1) * to_pitch + n_bytes, from_span = (n_rows - 1) * from_pitch + n_bytes;

    if (n_bytes == 0 || n_rows == 0)
        return CUDA_SUCCESS;
    op = fake_op_create(copy_rows);
    if (!resolve(stream->context->device, to, to_span, &op->to_range, &op->to) ||
        !resolve(stream->context->device, from, from_span, &op->from_range, &from_bytes)) {
        fake_range_unref(op->to_range);
        free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op->from = from_bytes;
    op->n_bytes = n_bytes;
    op->n_rows = n_rows;
    op->to_pitch = to_pitch;
    op->from_pitch = from_pitch;
    if (!op->from_range) {
        op->captured = malloc(from_span);
        memcpy(op->captured, from_bytes, from_span);
    }
    is_sync |= !op->to_range;
    fake_queue(stream, op);
    if (is_sync)
        fake_wait_stream(stream);
    return is_sync ? stream->context->broken : CUDA_SUCCESS;
}

static CUresult copy(const char *function, CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream handle,
                     bool is_sync)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_of(handle, context);
    error = !stream                   ? CUDA_ERROR_INVALID_HANDLE
            : stream->context->broken ? stream->context->broken
                                      : queue_copy(stream, to, 0, from, 0, n_bytes, 1, is_sync);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, from, n_bytes, stream, false);
}

FAKE_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n_bytes)
{
    return copy(__func__, to, (CUdeviceptr)from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, (CUdeviceptr)to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, (CUdeviceptr)from, n_bytes, stream, false);
}

FAKE_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, (CUdeviceptr)to, from, n_bytes, stream, false);
}

/* Takes no address that the driver does not know, where the functions that copy anything read it as the
 * host's; nor memory that is closed to the current context's device, whatever the stream's. */
FAKE_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream)
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
    return are_known ? copy(__func__, to, from, n_bytes, stream, false) : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                       CUcontext from_context, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, from, n_bytes, stream, false);
}

/* The address of one side of a 2D copy, with its offset. */
static CUdeviceptr corner(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
                          size_t pitch)
{
    return (type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)host : device) + y * pitch + x;
}

static CUresult copy_2d(const char *function, const CUDA_MEMCPY2D *what, CUstream handle, bool is_sync)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    if (what->srcMemoryType == CU_MEMORYTYPE_ARRAY || what->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_of(handle, context);
    error = !stream ? CUDA_ERROR_INVALID_HANDLE
                    : queue_copy(stream,
                                 corner(what->dstMemoryType, what->dstHost, what->dstDevice,
                                        what->dstXInBytes, what->dstY, what->dstPitch),
                                 what->dstPitch,
                                 corner(what->srcMemoryType, what->srcHost, what->srcDevice,
                                        what->srcXInBytes, what->srcY, what->srcPitch),
                                 what->srcPitch, what->WidthInBytes, what->Height, is_sync);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D *what)
{
    return copy_2d(__func__, what, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *what, CUstream stream)
{
    return copy_2d(__func__, what, stream, false);
}

/* ---- Fills ---- */

static CUresult fill(const char *function, CUdeviceptr to, unsigned value, unsigned value_bytes, size_t n,
                     CUstream handle, bool is_sync)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult error = fake_enter_context(function, &context);
    struct fake_op *op;

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_of(handle, context);
    op = fake_op_create(fill_rows);
    if (!stream || !fake_range_at(to) ||
        !resolve(stream->context->device, to, n * value_bytes, &op->to_range, &op->to)) {
        free(op);
        error = CUDA_ERROR_INVALID_VALUE;
    } else {
        op->value = value;
        op->value_bytes = value_bytes;
        op->n_bytes = n * value_bytes;
        op->n_rows = 1;
        fake_queue(stream, op);
        if (is_sync)
            fake_wait_stream(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n)
{
    return fill(__func__, to, value, 1, n, NULL, true);
}

FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    return fill(__func__, to, value, 1, n, stream, false);
}

FAKE_EXPORT CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t n)
{
    return fill(__func__, to, value, 4, n, NULL, true);
}

FAKE_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
    return fill(__func__, to, value, 4, n, stream, false);
}
