/* SPDX-License-Identifier: BSD-3-Clause
 *
 * value_calls.c: the fake driver's values in memory that streams store and wait for. It is compiled twice:
 * the second time for the functions *_ptsz.
 */
#include "fake.h"

static CUresult store_value(struct fake_op *op)
{
    if (fake_write_late(op))
        return CUDA_SUCCESS;
    if (op->value_bytes == 4)
        __atomic_store_n((uint32_t *)op->to, (uint32_t)op->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)op->to, op->value, __ATOMIC_SEQ_CST);
    return CUDA_SUCCESS;
}

static bool has_value(struct fake_op *op)
{
    bool is_32 = op->value_bytes == 4, is_late = fake_is_written_late(op->to);
    uint64_t there = is_32 ? __atomic_load_n((uint32_t *)op->to, __ATOMIC_SEQ_CST)
                           : __atomic_load_n((uint64_t *)op->to, __ATOMIC_SEQ_CST);
    uint64_t mask = is_32 ? UINT32_MAX : UINT64_MAX;

    if (is_late)
        return false;
    switch (op->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return is_32 ? (int32_t)((uint32_t)there - (uint32_t)op->value) >= 0
                     : (int64_t)(there - op->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return there == (op->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (there & op->value & mask) != 0;
    default:
        return (~(there | op->value) & mask) != 0;
    }
}

/* Lock held. */
static CUresult queue_value(struct fake_stream *stream, CUdeviceptr address, uint64_t value, unsigned bytes,
                            unsigned flags, bool is_wait)
{
    struct fake_range *range = fake_range_at(address);
    struct fake_op *op;

    if (!fake.has_write_value || !range)
        return range ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (is_wait && flags & CU_STREAM_WAIT_VALUE_FLUSH) {
        if (fake.rdma_flush != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS)
            return CUDA_ERROR_NOT_SUPPORTED;
        fake.n_flushes++;
    }
    op = fake_op_create(is_wait ? fake_do_nothing : store_value);
    op->is_ready = is_wait ? has_value : NULL;
    op->is_polled = is_wait;
    op->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    op->to_range = range;
    range->n_refs++;
    op->to = range->alias + (address - range->at);
    op->value = value;
    op->value_bytes = bytes;
    op->flags = flags;
    fake_queue(stream, op);
    return CUDA_SUCCESS;
}

static CUresult one_value(const char *function, CUstream handle, CUdeviceptr address, uint64_t value,
                          unsigned bytes, unsigned flags, bool is_wait)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(function, handle, &stream);

    if (error)
        return error;
    error = queue_value(stream, address, value, bytes, flags, is_wait);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                          unsigned flags)
{
    return one_value(__func__, FAKE_MEANT(stream), address, value, 4, flags, false);
}

FAKE_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                          unsigned flags)
{
    return one_value(__func__, FAKE_MEANT(stream), address, value, 8, flags, false);
}

FAKE_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                         unsigned flags)
{
    return one_value(__func__, FAKE_MEANT(stream), address, value, 4, flags, true);
}

FAKE_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                         unsigned flags)
{
    return one_value(__func__, FAKE_MEANT(stream), address, value, 8, flags, true);
}

static CUresult queue_mem_op(struct fake_stream *stream, const CUstreamBatchMemOpParams *what)
{
    switch (what->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return queue_value(stream, what->waitValue.address, what->waitValue.value, 4, what->waitValue.flags,
                           true);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return queue_value(stream, what->waitValue.address, what->waitValue.value64, 8, what->waitValue.flags,
                           true);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return queue_value(stream, what->writeValue.address, what->writeValue.value, 4,
                           what->writeValue.flags, false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return queue_value(stream, what->writeValue.address, what->writeValue.value64, 8,
                           what->writeValue.flags, false);
    case CU_STREAM_MEM_OP_BARRIER:
        fake_queue(stream, fake_op_create(fake_do_nothing));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

FAKE_EXPORT CUresult cuStreamBatchMemOp(CUstream handle, unsigned n, CUstreamBatchMemOpParams *what,
                                        unsigned flags)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    if (flags || n > 256)
        error = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n && !error; i++)
        error = queue_mem_op(stream, &what[i]);
    pthread_mutex_unlock(&fake_lock);
    return error;
}
