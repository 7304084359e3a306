/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put_get.c: MPI_Put, MPI_Get and the work of their request forms (MPI 5.0, sections 12.3.1, 12.3.2 and 12.3.5).
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
    return MPI_SUCCESS;
}

/* Completes the operation. */
static inline int done(const struct ampi_rma *rma)
{
    if (rma->request)
        *rma->request = (MPI_Request)&ampi_request_done;
    return MPI_SUCCESS;
}

static int run_put(struct ampi_rma *rma, MPI_Win handle)
{
    int error = check(rma, handle, &rma->origin, &rma->target);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(rma->rank == MPI_PROC_NULL))
        return done(rma);
    if (BASE_UNLIKELY(!rma->at))
        return ampi_rma_remote_put(rma);
    error = copy(rma->win, &rma->target, &rma->origin);
    return BASE_UNLIKELY(error) ? error : done(rma);
}

static int run_get(struct ampi_rma *rma, MPI_Win handle)
{
    int error = check(rma, handle, &rma->target, &rma->origin);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(rma->rank == MPI_PROC_NULL))
        return done(rma);
    if (BASE_UNLIKELY(!rma->at))
        return ampi_rma_remote_get(rma);
    error = copy(rma->win, &rma->origin, &rma->target);
    return BASE_UNLIKELY(error) ? error : done(rma);
}

/* The arguments of both, with the standard's names. */
#define ORIGIN_AND_TARGET                                                                \
    {                                                                                    \
        .rank = target_rank, .disp = target_disp, .request = request,                    \
        .origin = {(void *)(uintptr_t)origin_addr, origin_count, origin_datatype, NULL}, \
        .target = {NULL, target_count, target_datatype, NULL},                           \
    }

BASE_NOINLINE int ampi_rma_put(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                               MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET;

    return ampi_rma_end(&rma, run_put(&rma, win));
}

BASE_NOINLINE int ampi_rma_get(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                               MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET;

    return ampi_rma_end(&rma, run_get(&rma, win));
}

/* The usual case of both: returns true if it applies; then the operation is complete. */
static inline __attribute__((always_inline)) bool
move_at_once(void *origin, MPI_Count count, MPI_Datatype handle, int rank, MPI_Aint disp,
             MPI_Count target_count, MPI_Datatype target_handle, MPI_Win win, bool is_put)
{
    const struct ampi_type *type = ampi_type_of(handle);
    struct ampi_rma_spot spot;
    size_t n_bytes;

    if (BASE_UNLIKELY(handle != target_handle || count != target_count || !ampi_rma_is_buffer(origin)))
        return false;
    spot = ampi_rma_usual(win, rank, disp, count, type);
    if (BASE_UNLIKELY(!spot.data))
        return false;
    n_bytes = (size_t)(count * type->size_bytes);
    if (BASE_LIKELY(n_bytes == sizeof(uint64_t)))
        memcpy(is_put ? spot.data : origin, is_put ? origin : spot.data, sizeof(uint64_t));
    else
        memcpy(is_put ? spot.data : origin, is_put ? origin : spot.data, n_bytes);
    return true;
}

AMPI_EXPORT(Put);
int PMPI_Put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    ampi_enter("MPI_Put");
    if (BASE_LIKELY(move_at_once((void *)(uintptr_t)origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype, win, true)))
        return MPI_SUCCESS;
    return ampi_rma_put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                        target_datatype, win, NULL);
}

AMPI_EXPORT(Put_c);
int PMPI_Put_c(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    ampi_enter("MPI_Put_c");
    if (BASE_LIKELY(move_at_once((void *)(uintptr_t)origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype, win, true)))
        return MPI_SUCCESS;
    return ampi_rma_put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                        target_datatype, win, NULL);
}

AMPI_EXPORT(Get);
int PMPI_Get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    ampi_enter("MPI_Get");
    if (BASE_LIKELY(move_at_once(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                 target_count, target_datatype, win, false)))
        return MPI_SUCCESS;
    return ampi_rma_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                        target_datatype, win, NULL);
}

AMPI_EXPORT(Get_c);
int PMPI_Get_c(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    ampi_enter("MPI_Get_c");
    if (BASE_LIKELY(move_at_once(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                 target_count, target_datatype, win, false)))
        return MPI_SUCCESS;
    return ampi_rma_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                        target_datatype, win, NULL);
}
