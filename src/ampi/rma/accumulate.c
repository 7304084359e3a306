/* SPDX-License-Identifier: BSD-3-Clause
 *
 * accumulate.c: MPI_Fetch_and_op, MPI_Compare_and_swap, and the work of MPI_Accumulate, MPI_Get_accumulate and
 * their request forms (MPI 5.0, sections 12.3.3 to 12.3.5). All accumulates on a target are atomic for each element, and
 * those of one origin happen in the order of the calls.
 */
#include "ampi/rma/rma_remote.h"
#include "ampi/rma/rma.h"

#include <string.h>

static int raise_op(const struct ampi_rma *rma)
{
    struct ampi_op *op = ampi_op_of(rma->op_handle);

    if (!op)
        return ampi_win_raise(rma->win, MPI_ERR_OP, "%p is not a valid operation", (void *)rma->op_handle);
    if (!op->is_predefined)
        return ampi_win_raise(rma->win, MPI_ERR_OP, "only predefined operations are allowed");
    return ampi_win_raise(rma->win, MPI_ERR_OP, "%s is not allowed on this datatype", op->name);
}

/* Sets rma->op. MPI_NO_OP is only valid for fetching operations. */
static inline int check_op(struct ampi_rma *rma, bool is_fetching)
{
    rma->op = ampi_op_of(rma->op_handle);
    if (BASE_UNLIKELY(!rma->op || !rma->op->is_predefined ||
                      (rma->op->predefined == MPI_NO_OP && !is_fetching)))
        return raise_op(rma);
    return MPI_SUCCESS;
}

/* Requires elements of one basic type, equal on both sides; data that is only copied may have any type. */
static inline int check_types(struct ampi_rma *rma)
{
    const struct ampi_type *to = rma->target.type, *from = rma->origin.type;

    if (rma->op->predefined == MPI_REPLACE || rma->op->predefined == MPI_NO_OP)
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(ampi_rma_bytes(&rma->target) == 0 && ampi_rma_bytes(&rma->origin) == 0))
        return MPI_SUCCESS; /* no elements: programs use this to test whether a function works */
    if (BASE_UNLIKELY(to->size_bytes == 0 || from->size_bytes == 0))
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(
            to->basic == AMPI_BASIC_NONE || from->basic != to->basic ||
            (rma->result.type && rma->result.type->basic != to->basic && rma->result.type->size_bytes > 0)))
        return ampi_win_raise(rma->win, MPI_ERR_TYPE,
                              "the datatypes must consist of one predefined type, the same on both sides");
    if (BASE_UNLIKELY(!rma->op->kernels[to->basic] || to->predefined == MPI_PACKED))
        return raise_op(rma);
    return MPI_SUCCESS;
}

static inline int check_sizes(const struct ampi_rma *rma)
{
    MPI_Count room = ampi_rma_bytes(&rma->target);

    if (BASE_UNLIKELY(rma->op->predefined != MPI_NO_OP && ampi_rma_bytes(&rma->origin) > room))
        return ampi_rma_raise_truncated(rma->win, ampi_rma_bytes(&rma->origin), room);
    if (BASE_UNLIKELY(rma->result.type && ampi_rma_bytes(&rma->result) < room))
        return ampi_rma_raise_truncated(rma->win, room, ampi_rma_bytes(&rma->result));
    return MPI_SUCCESS;
}

/* is_fetching: the operation returns a result. */
static inline int check(struct ampi_rma *rma, MPI_Win handle, bool is_fetching)
{
    int error = ampi_rma_open(rma, handle);

    if (BASE_UNLIKELY(error || rma->rank == MPI_PROC_NULL))
        return error;
    if ((error = check_op(rma, is_fetching)))
        return error;
    if (rma->op->predefined != MPI_NO_OP &&
        (error = ampi_rma_check_side(rma->win, "the origin's", &rma->origin, true)))
        return error;
    if (is_fetching && (error = ampi_rma_check_side(rma->win, "the result's", &rma->result, true)))
        return error;
    if ((error = ampi_rma_locate(rma)) || (error = check_types(rma)) || (error = check_sizes(rma)))
        return error;
    if (ampi_win_is_watched(rma->win))
        ampi_win_report_operation(rma->win, rma->rank, ampi_rma_bytes(&rma->target));
    return MPI_SUCCESS;
}

static int raise_device(const struct ampi_rma *rma, int error)
{
    return ampi_win_raise(rma->win, ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error));
}

static inline int accumulate(struct ampi_rma *rma, MPI_Win handle, bool is_fetching)
{
    int error = check(rma, handle, is_fetching);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_LIKELY(rma->rank != MPI_PROC_NULL)) {
        if (BASE_UNLIKELY(!rma->at))
            return ampi_rma_remote_accumulate(rma);
        error = ampi_rma_combine(rma);
        if (BASE_UNLIKELY(error))
            return raise_device(rma, error);
    }
    if (rma->request)
        *rma->request = (MPI_Request)&ampi_request_done;
    return MPI_SUCCESS;
}

BASE_NOINLINE int ampi_rma_accumulate(struct ampi_rma *rma, MPI_Win handle, bool is_fetching)
{
    return ampi_rma_end(rma, accumulate(rma, handle, is_fetching));
}

/* ---- One element ---- */

static inline int check_one(struct ampi_rma *rma)
{
    if (BASE_LIKELY(rma->target.type->is_predefined))
        return MPI_SUCCESS;
    return ampi_win_raise(rma->win, MPI_ERR_TYPE, "the datatype must be a predefined one");
}

static BASE_NOINLINE int fetch_and_op(struct ampi_rma *rma, MPI_Win handle)
{
    int error = check(rma, handle, true);

    if (BASE_UNLIKELY(error || rma->rank == MPI_PROC_NULL || (error = check_one(rma))))
        return error;
    if (BASE_UNLIKELY(!rma->at))
        return ampi_rma_remote_accumulate(rma);
    error = ampi_rma_combine(rma);
    return BASE_UNLIKELY(error) ? raise_device(rma, error) : MPI_SUCCESS;
}

/* Integers, logicals and bytes; not characters. */
static bool can_compare(const struct ampi_type *type)
{
    enum ampi_basic basic = type->basic;

    if (type->predefined == MPI_PACKED || type->predefined == MPI_CHAR)
        return false;
    return basic == AMPI_BASIC_BYTE || (basic >= AMPI_BASIC_INT8 && basic <= AMPI_BASIC_UINT64) ||
           (basic >= AMPI_BASIC_BOOL && basic <= AMPI_BASIC_LOGICAL128);
}

/* Copies the operand to host memory, wherever it is. */
static int fetch_operand(struct ampi_win *win, void *out, const struct ampi_rma_side *side)
{
    struct ampi_rma_side host = *side;

    host.buf = out;
    if (BASE_LIKELY(!ampi_device_has(side->buf, 1, side->type))) {
        memcpy(out, side->buf, (size_t)side->type->size_bytes);
        return MPI_SUCCESS;
    }
    return ampi_rma_copy_device(win, &host, side);
}

static int compare_and_swap_here(struct ampi_rma *rma, const char *expected, const char *desired)
{
    struct ampi_rma_side old = rma->result;
    size_t n_bytes = (size_t)rma->target.type->size_bytes;
    char result[16];
    int error = ampi_rma_compare_and_swap(rma->at, rma->target.buf, expected, desired, result, n_bytes);

    if (error)
        return raise_device(rma, error);
    if (BASE_UNLIKELY(ampi_device_has(rma->result.buf, 1, rma->result.type))) {
        old.buf = result;
        return ampi_rma_copy_device(rma->win, &rma->result, &old);
    }
    memcpy(rma->result.buf, result, n_bytes);
    return MPI_SUCCESS;
}

static BASE_NOINLINE int compare_and_swap(struct ampi_rma *rma, MPI_Win handle,
                                          struct ampi_rma_side *expected_side)
{
    char expected[16], desired[16];
    int error = ampi_rma_open(rma, handle);

    if (BASE_UNLIKELY(error || rma->rank == MPI_PROC_NULL))
        return error;
    if ((error = ampi_rma_check_side(rma->win, "the origin's", &rma->origin, true)) ||
        (error = ampi_rma_check_side(rma->win, "the compare", expected_side, true)) ||
        (error = ampi_rma_check_side(rma->win, "the result's", &rma->result, true)) ||
        (error = ampi_rma_locate(rma)) || (error = check_one(rma)))
        return error;
    if (!can_compare(rma->target.type) || rma->target.type->size_bytes > (MPI_Count)sizeof expected)
        return ampi_win_raise(rma->win, MPI_ERR_TYPE, "only integers, logicals and bytes can be compared");
    if (ampi_win_is_watched(rma->win))
        ampi_win_report_operation(rma->win, rma->rank, ampi_rma_bytes(&rma->target));
    if (rma->at && gpu_is_device(rma->target.buf) &&
        ampi_rma_swap_by_kernel(rma->at,
                                &(struct gpu_swap){rma->target.buf, expected_side->buf, rma->origin.buf,
                                                   rma->result.buf, (size_t)rma->target.type->size_bytes},
                                &error))
        return error ? raise_device(rma, error) : MPI_SUCCESS;
    if ((error = fetch_operand(rma->win, expected, expected_side)) ||
        (error = fetch_operand(rma->win, desired, &rma->origin)))
        return error;
    return rma->at ? compare_and_swap_here(rma, expected, desired)
                   : ampi_rma_remote_compare_and_swap(rma, expected, desired);
}

/* ---- The usual case ---- */

/* MPI_Compare_and_swap of a predefined type. Returns true if this was the usual case; then it is complete. */
static inline bool compare_at_once(const void *desired, const void *expected, void *result,
                                   MPI_Datatype handle, int rank, MPI_Aint disp, MPI_Win win)
{
    const struct ampi_type *type = ampi_type_of(handle);
    struct ampi_rma_spot to;

    if (BASE_UNLIKELY(!type || !can_compare(type)))
        return false;
    to = ampi_rma_usual(win, rank, disp, 1, type);
    if (BASE_UNLIKELY(!to.data))
        return false;
    ampi_win_combine_begin(to.at);
    ampi_rma_copy_block(result, to.data, (size_t)type->size_bytes);
    if (memcmp(result, expected, (size_t)type->size_bytes) == 0)
        ampi_rma_copy_block(to.data, desired, (size_t)type->size_bytes);
    ampi_win_combine_end(to.at);
    return true;
}

AMPI_EXPORT(Fetch_and_op);
int PMPI_Fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank,
                      MPI_Aint target_disp, MPI_Op op, MPI_Win win)
{
    ampi_enter("MPI_Fetch_and_op");
    if (BASE_LIKELY(ampi_rma_is_buffer(result_addr) && ampi_handle_is_predefined(datatype) &&
                    ampi_rma_combine_at_once(origin_addr, result_addr, 1, datatype, target_rank, target_disp,
                                             op, win)))
        return MPI_SUCCESS;
    return fetch_and_op(&(struct ampi_rma){.rank = target_rank,
                                           .disp = target_disp,
                                           .op_handle = op,
                                           .origin = AMPI_RMA_SIDE(origin_addr, 1, datatype),
                                           .result = AMPI_RMA_SIDE(result_addr, 1, datatype),
                                           .target = AMPI_RMA_SIDE(NULL, 1, datatype)},
                        win);
}

AMPI_EXPORT(Compare_and_swap);
int PMPI_Compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr,
                          MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win)
{
    struct ampi_rma_side expected = AMPI_RMA_SIDE(compare_addr, 1, datatype);

    ampi_enter("MPI_Compare_and_swap");
    if (BASE_LIKELY(
            ampi_rma_is_buffer(origin_addr) && ampi_rma_is_buffer(compare_addr) &&
            ampi_rma_is_buffer(result_addr) && ampi_handle_is_predefined(datatype) &&
            compare_at_once(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win)))
        return MPI_SUCCESS;
    return compare_and_swap(&(struct ampi_rma){.rank = target_rank,
                                               .disp = target_disp,
                                               .origin = AMPI_RMA_SIDE(origin_addr, 1, datatype),
                                               .result = AMPI_RMA_SIDE(result_addr, 1, datatype),
                                               .target = AMPI_RMA_SIDE(NULL, 1, datatype)},
                            win, &expected);
}
