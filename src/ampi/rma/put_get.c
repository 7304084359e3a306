/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put_get.c: MPI_Put, MPI_Get and their request forms (MPI 5.0, sections 12.3.1, 12.3.2 and 12.3.5).
 */
#include "ampi/rma/rma_remote.h"
#include "ampi/rma/rma.h"

int ampi_rma_copy_device(struct ampi_win *win, const struct ampi_rma_side *dst,
                         const struct ampi_rma_side *src)
{
    struct gpu_data to = ampi_type_gpu_data(dst->buf, dst->count, dst->type);
    struct gpu_data from = ampi_type_gpu_data(src->buf, src->count, src->type);
    int error = gpu_move_wait(&to, &from, from.size_bytes);

    return error ? ampi_win_raise(win, ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error))
                 : MPI_SUCCESS;
}

/* Copies what lies in memory of this process. */
static inline int copy(struct ampi_win *win, const struct ampi_rma_side *dst, const struct ampi_rma_side *src)
{
    if (gpu_is_used() && (ampi_device_has(dst->buf, dst->count, dst->type) ||
                          ampi_device_has(src->buf, src->count, src->type)))
        return ampi_rma_copy_device(win, dst, src);
    ampi_type_copy(dst->buf, dst->count, dst->type, src->buf, src->count, src->type);
    return MPI_SUCCESS;
}

/* Put and get share this; from and to are sides of the operation. */
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

/* The operation is over. */
static inline int done(const struct ampi_rma *rma)
{
    if (rma->request)
        *rma->request = (MPI_Request)&ampi_request_done;
    return MPI_SUCCESS;
}

static inline int put(struct ampi_rma *rma, MPI_Win handle)
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

static inline int get(struct ampi_rma *rma, MPI_Win handle)
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

static int check_request(MPI_Win handle, const MPI_Request *request)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (BASE_LIKELY(request || !win))
        return MPI_SUCCESS;
    return ampi_win_raise(win, MPI_ERR_ARG, "the address of the request is NULL");
}

/* The arguments of both, as the standard names them. */
#define ORIGIN_AND_TARGET(request_address)                                               \
    {                                                                                    \
        .rank = target_rank, .disp = target_disp, .request = (request_address),          \
        .origin = {(void *)(uintptr_t)origin_addr, origin_count, origin_datatype, NULL}, \
        .target = {NULL, target_count, target_datatype, NULL},                           \
    }

AMPI_EXPORT(Put);
int PMPI_Put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(NULL);

    ampi_enter("MPI_Put");
    return put(&rma, win);
}

AMPI_EXPORT(Put_c);
int PMPI_Put_c(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(NULL);

    ampi_enter("MPI_Put_c");
    return put(&rma, win);
}

AMPI_EXPORT(Rput);
int PMPI_Rput(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
              MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
              MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(request);
    int error;

    ampi_enter("MPI_Rput");
    error = check_request(win, request);
    return error ? error : put(&rma, win);
}

AMPI_EXPORT(Rput_c);
int PMPI_Rput_c(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                int target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype,
                MPI_Win win, MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(request);
    int error;

    ampi_enter("MPI_Rput_c");
    error = check_request(win, request);
    return error ? error : put(&rma, win);
}

AMPI_EXPORT(Get);
int PMPI_Get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(NULL);

    ampi_enter("MPI_Get");
    return get(&rma, win);
}

AMPI_EXPORT(Get_c);
int PMPI_Get_c(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
               MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(NULL);

    ampi_enter("MPI_Get_c");
    return get(&rma, win);
}

AMPI_EXPORT(Rget);
int PMPI_Rget(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
              MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
              MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(request);
    int error;

    ampi_enter("MPI_Rget");
    error = check_request(win, request);
    return error ? error : get(&rma, win);
}

AMPI_EXPORT(Rget_c);
int PMPI_Rget_c(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
                MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
                MPI_Request *request)
{
    struct ampi_rma rma = ORIGIN_AND_TARGET(request);
    int error;

    ampi_enter("MPI_Rget_c");
    error = check_request(win, request);
    return error ? error : get(&rma, win);
}
