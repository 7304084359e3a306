/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launch_calls.c: the fake driver's launches of kernels. It is compiled twice: the second time for the
 * functions *_ptsz.
 */
#include "fake.h"

/* Lock held. */
static CUresult queue_launch(struct fake_stream *stream, const struct fake_launch *launch)
{
    struct fake_op *op;
    CUresult error = !fake_is_of_context(stream->context, fake_current()) ? CUDA_ERROR_INVALID_HANDLE
                                                                          : fake_launch_op(launch, &op);

    if (!error && stream->context->n_limit_changes > 0)
        stream->context->broken = CUDA_ERROR_LAUNCH_FAILED;
    if (!error)
        fake_queue(stream, op);
    return error;
}

static CUresult run(const char *function, CUstream handle, const struct fake_launch *launch)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(function, handle, &stream);

    if (error)
        return error;
    error = queue_launch(stream, launch);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
    struct fake_launch launch = {function, (uint64_t)grid_x * grid_y * grid_z,
                                 (uint64_t)block_x * block_y * block_z, params, extra};

    return run(__func__, FAKE_MEANT(stream), &launch);
}

FAKE_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                      void **extra)
{
    struct fake_launch launch = {function, (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ,
                                 (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ, params,
                                 extra};

    return run(__func__, FAKE_MEANT(config->hStream), &launch);
}

FAKE_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                               unsigned grid_z, unsigned block_x, unsigned block_y,
                                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                                               void **params)
{
    struct fake_launch launch = {function, (uint64_t)grid_x * grid_y * grid_z,
                                 (uint64_t)block_x * block_y * block_z, params, NULL};

    return run(__func__, FAKE_MEANT(stream), &launch);
}
