/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool_calls.c: the fake driver's functions that allocate and free memory in a stream. It is compiled twice:
 * the second time for the functions *_ptsz.
 */
#include "fake.h"

static CUresult allocate(const char *function, CUdeviceptr *address, size_t n_bytes, struct fake_pool *pool,
                         CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(function, handle, &stream);

    if (error)
        return error;
    error = fake_pool_allocate(pool, stream, n_bytes, address);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t n_bytes, CUstream stream)
{
    return allocate(__func__, address, n_bytes, NULL, FAKE_MEANT(stream));
}

FAKE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t n_bytes, CUmemoryPool pool,
                                             CUstream stream)
{
    return pool ? allocate(__func__, address, n_bytes, (struct fake_pool *)pool, FAKE_MEANT(stream))
                : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    error = fake_pool_free(stream, address);
    pthread_mutex_unlock(&fake_lock);
    return error;
}
