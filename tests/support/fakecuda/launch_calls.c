/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launch_calls.c: the fake driver's launches of kernels. It is compiled twice: the second time for the
 * functions *_ptsz.
 */
#include "fake.h"

static bool may_run(struct fake_op *op)
{
    return !fake.are_kernels_held;
}

/* What a launch says but for the stream. */
struct launch {
    CUfunction function;
    uint64_t blocks, threads;
    void **params, **extra;
};

/* The arguments: in one piece (CU_LAUNCH_PARAM_BUFFER_POINTER), or as the one parameter of a kernel whose
 * size is known. NULL: neither. */
static const void *arguments_of(const struct launch *launch, size_t *n_bytes_out)
{
    const struct fake_function *function = (const struct fake_function *)launch->function;
    const void *args = NULL;

    *n_bytes_out = 0;
    if (launch->params) {
        *n_bytes_out = function->args_bytes;
        return function->args_bytes && !launch->extra ? launch->params[0] : NULL;
    }
    for (void **extra = launch->extra; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            args = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *n_bytes_out = *(size_t *)extra[1];
    return args;
}

/* Lock held. */
static CUresult queue_launch(struct fake_stream *stream, const struct launch *launch)
{
    struct fake_function *function = (struct fake_function *)launch->function;
    size_t args_bytes;
    const void *args = function ? arguments_of(launch, &args_bytes) : NULL;
    struct fake_op *op;

    if (!function || stream->context != fake_current() ||
        (function->context && function->context != stream->context))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!args || args_bytes > 32764 || launch->blocks == 0 || launch->threads == 0 || launch->threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    fake_load(function);
    op = fake_op_create(fake_run_kernel);
    op->is_ready = may_run;
    op->type = CU_GRAPH_NODE_TYPE_KERNEL;
    op->object = function;
    op->captured = malloc(args_bytes);
    memcpy(op->captured, args, args_bytes);
    fake_queue(stream, op);
    return CUDA_SUCCESS;
}

static CUresult run(const char *function, CUstream handle, const struct launch *launch)
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
    struct launch launch = {function, (uint64_t)grid_x * grid_y * grid_z,
                            (uint64_t)block_x * block_y * block_z, params, extra};

    return run(__func__, FAKE_MEANT(stream), &launch);
}

FAKE_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                      void **extra)
{
    struct launch launch = {function, (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ,
                            (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ, params,
                            extra};

    return run(__func__, FAKE_MEANT(config->hStream), &launch);
}

FAKE_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                               unsigned grid_z, unsigned block_x, unsigned block_y,
                                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                                               void **params)
{
    struct launch launch = {function, (uint64_t)grid_x * grid_y * grid_z,
                            (uint64_t)block_x * block_y * block_z, params, NULL};

    return run(__func__, FAKE_MEANT(stream), &launch);
}
