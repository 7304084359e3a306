/* SPDX-License-Identifier: BSD-3-Clause
 *
 * extensions.c: the functions of mpi-ext.h, and of heddle_mpi_gpu.h, which it includes.
 */
#include "ampi/comm/comm_stream.h"
#include "ampi/job/job.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/object/rank.h"
#include "gpu/gpu.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

BASE_FLATTEN int AMPI_Yield(void)
{
    struct ult *u = ult_self();

    if (u) {
        ult_enter(u);
        u->resume_at = __builtin_return_address(0);
        ult_yield();
        ult_leave(u);
    }
    return MPI_SUCCESS;
}

int MPIX_Stream_progress(MPIX_Stream stream)
{
    static const char call[] = "MPIX_Stream_progress";
    struct ult *gate = ampi_gate_pass(call, __builtin_return_address(0));
    struct ampi_stream *object;
    int error;

    ampi_enter(call);
    error = ampi_stream_find(stream, &object);
    if (!error) {
        ult_progress();
        ult_yield();
    }
    ampi_gate_leave(gate);
    return error;
}

int AMPI_World_rank(void)
{
    const struct ampi_rank *rank = ampi_rank_of_thread(__builtin_return_address(0));

    return rank ? ampi_rank_number(rank) : -1;
}

int MPIX_Query_cuda_support(void)
{
    return gpu_is_built();
}

int MPIX_Query_hip_support(void)
{
    return 0;
}

int MPIX_Query_rocm_support(void)
{
    return 0;
}

int MPIX_Query_ze_support(void)
{
    return 0;
}

int MPIX_GPU_query_support(int gpu_type, int *is_supported)
{
    ampi_enter_any_time("MPIX_GPU_query_support");
    if (!is_supported)
        return ampi_raise_self(MPI_ERR_ARG, "is_supported is NULL");
    if (gpu_type != MPIX_GPU_SUPPORT_CUDA && gpu_type != MPIX_GPU_SUPPORT_ZE &&
        gpu_type != MPIX_GPU_SUPPORT_HIP)
        return ampi_raise_self(
            MPI_ERR_ARG, "gpu_type is %d, which is not one of MPIX_GPU_SUPPORT_CUDA, _ZE and _HIP", gpu_type);
    *is_supported = gpu_type == MPIX_GPU_SUPPORT_CUDA && gpu_is_built();
    return MPI_SUCCESS;
}
