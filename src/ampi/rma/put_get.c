/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put_get.c: the work of MPI_Put, MPI_Get and their request forms (MPI 5.0, sections 12.3.1, 12.3.2 and 12.3.5).
 */
#include "ampi/rma/rma_remote.h"
#include "ampi/rma/rma.h"

#include <string.h>

int ampi_rma_copy_device(struct ampi_win *win, const struct ampi_rma_side *dst,
                         const struct ampi_rma_side *src)
{
    struct gpu_data to = ampi_type_gpu_data(dst->buf, dst->count, dst->type);
    struct gpu_data from = ampi_type_gpu_data(src->buf, src->count, src->type);
    int error = gpu_move_wait(&to, &from, from.size_bytes);

    return error ? ampi_win_raise(win, ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error))
                 : MPI_SUCCESS;
}

/* Copies data in memory of this process. */
static inline int copy(struct ampi_win *win, const struct ampi_rma_side *dst, const struct ampi_rma_side *src)
{
    if (gpu_is_used() && (ampi_device_has(dst->buf, dst->count, dst->type) ||
                          ampi_device_has(src->buf, src->count, src->type)))
        return ampi_rma_copy_device(win, dst, src);
    ampi_type_copy(dst->buf, dst->count, dst->type, src->buf, src->count, src->type);
    return MPI_SUCCESS;
}

/* Common checks of put and get; from and to are sides of the operation. */
static inline int check(struct ampi_rma *rma, MPI_Win handle, const struct ampi_rma_side *from,
                        const struct ampi_rma_side *to)
{
    int error = ampi_rma_open(rma, handle);

    if (BASE_UNLIKELY(error || rma->rank == MPI_PROC_NULL))
        return error;
    if ((error = ampi_rma_check_side(rma->win, "the origin's", &rma->origin, true)) ||
        (error = ampi_rma_locate(rma)))
        return error;
    if (BASE_UNLIKELY(ampi_rma_bytes(from) > ampi_rma_bytes(to)))
        return ampi_rma_raise_truncated(rma->win, ampi_rma_bytes(from), ampi_rma_bytes(to));
    if (ampi_win_is_watched(rma->win))
        ampi_win_report_operation(rma->win, rma->rank, ampi_rma_bytes(from));
    return MPI_SUCCESS;
}

BASE_NOINLINE int ampi_rma_put_or_get(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                                      int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                                      MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request,
                                      bool is_put)
{
    struct ampi_rma rma = {.rank = target_rank,
                           .disp = target_disp,
                           .request = request,
                           .origin = {origin_addr, origin_count, origin_datatype, NULL},
                           .target = {NULL, target_count, target_datatype, NULL}};
    const struct ampi_rma_side *from = is_put ? &rma.origin : &rma.target;
    const struct ampi_rma_side *to = is_put ? &rma.target : &rma.origin;
    int error = check(&rma, win, from, to);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_LIKELY(rma.rank != MPI_PROC_NULL)) {
        if (!rma.at)
            return ampi_rma_end(&rma, is_put ? ampi_rma_remote_put(&rma) : ampi_rma_remote_get(&rma));
        error = copy(rma.win, to, from);
    }
    if (request && BASE_LIKELY(!error))
        *request = (MPI_Request)&ampi_request_done;
    return ampi_rma_end(&rma, error);
}
