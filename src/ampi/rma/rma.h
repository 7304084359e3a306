/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma.h: arguments of one-sided operations, and their checks.
 *
 * The life of an operation, MPI_Put for example:
 *      PMPI_Put             does the usual case itself (ampi_rma_usual)
 *      ampi_rma_put_or_get  puts the arguments into a struct ampi_rma, and opens it: checks the window, the epoch,
 *                           both sides, the range; copies directly from the origin's layout to the target's, if
 *                           that is in this process; else passes it to rma_remote.c
 */
#ifndef AMPI_RMA_H
#define AMPI_RMA_H

#include "ampi/datatype/buffer.h"
#include "ampi/op/op.h"
#include "ampi/rma/win.h"

#include <string.h>

/* count elements of a type. */
struct ampi_rma_side {
    void *buf;
    MPI_Count count;
    MPI_Datatype handle;    /* of the type, as passed by the program */
    struct ampi_type *type; /* set by the checks */
};

struct ampi_rma {
    int rank; /* of the target; may be MPI_PROC_NULL: then there is nothing to do */
    MPI_Aint disp;
    MPI_Op op_handle;
    MPI_Request *request; /* request forms: destination of the request; NULL: another form */
    struct ampi_rma_side origin;
    struct ampi_rma_side result; /* for fetching operations */
    struct ampi_rma_side target; /* the checks set buf: an address of the target's process */
    struct ampi_win *win;        /* set by the checks */
    struct ampi_win *at;         /* ... the target's memory; NULL: inaccessible */
    const struct ampi_op *op;    /* ... set by the checks of accumulate.c */
};

/* False: MPI_BOTTOM, which only derived types allow, or MPI_IN_PLACE, which nothing here allows. */
static inline bool ampi_rma_is_buffer(const void *buf)
{
    return (uintptr_t)buf > (uintptr_t)MPI_IN_PLACE;
}

static inline MPI_Count ampi_rma_bytes(const struct ampi_rma_side *side)
{
    return side->count * side->type->size_bytes;
}

/* ---- Checks (check.c) ---- */

int ampi_rma_raise_rank(struct ampi_win *win, int rank) BASE_COLD;
int ampi_rma_raise_epoch(struct ampi_win *win, int rank) BASE_COLD;
int ampi_rma_raise_form(struct ampi_win *win) BASE_COLD;
int ampi_rma_raise_side(struct ampi_win *win, const char *what, const struct ampi_rma_side *side) BASE_COLD;
int ampi_rma_raise_truncated(struct ampi_win *win, MPI_Count bytes, MPI_Count room) BASE_COLD;

/* Checks the address of a request form's request. The other checks report an invalid window. */
int ampi_rma_check_request(MPI_Win handle, const MPI_Request *request);

/* True if the owner's epoch allows operations on the target. */
static inline bool ampi_rma_is_open(struct ampi_win *win, int rank)
{
    if (win->access == AMPI_ACCESS_LOCK_ALL)
        return true;
    if (win->access == AMPI_ACCESS_FENCE) {
        win->has_accessed = true;
        return true;
    }
    return win->access != AMPI_ACCESS_NONE && ampi_win_bit(win->open_to, rank);
}

/* Checks the window, the rank, the epoch and the form of the call. */
static inline int ampi_rma_open(struct ampi_rma *rma, MPI_Win handle)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (BASE_UNLIKELY(!win))
        return ampi_win_raise_invalid(handle);
    rma->win = win;
    if (BASE_UNLIKELY((unsigned)rma->rank >= (unsigned)win->shared->n_ranks))
        return rma->rank == MPI_PROC_NULL ? MPI_SUCCESS : ampi_rma_raise_rank(win, rma->rank);
    if (BASE_UNLIKELY(!ampi_rma_is_open(win, rma->rank)))
        return ampi_rma_raise_epoch(win, rma->rank);
    if (BASE_UNLIKELY(rma->request && win->access < AMPI_ACCESS_LOCK))
        return ampi_rma_raise_form(win);
    rma->at = win->shared->targets[rma->rank].at;
    return MPI_SUCCESS;
}

/* Checks count and type of a side, and the address except the target's. */
static inline int ampi_rma_check_side(struct ampi_win *win, const char *what, struct ampi_rma_side *side,
                                      bool is_local)
{
    struct ampi_type *type = side->type = ampi_type_of(side->handle);

    if (BASE_UNLIKELY(side->count < 0 || !type || !type->is_committed ||
                      ampi_type_is_too_much(type, side->count) ||
                      (is_local && !ampi_rma_is_buffer(side->buf) && side->count > 0 && type->is_predefined &&
                       type->size_bytes > 0)))
        return ampi_rma_raise_side(win, what, side);
    return MPI_SUCCESS;
}

/* Checks the target's range outside the fast path: raises errors, and sets the address. */
int ampi_rma_locate_slowly(struct ampi_rma *rma);

/* Checks count, type and range of the target; sets its address. */
static inline int ampi_rma_locate(struct ampi_rma *rma)
{
    const struct ampi_win_target *target = &rma->win->shared->targets[rma->rank];
    struct ampi_rma_side *side = &rma->target;
    MPI_Aint at;
    int error = ampi_rma_check_side(rma->win, "the target's", side, false);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_LIKELY(side->type->is_dense && side->type->extent_bytes == side->type->size_bytes &&
                    side->type->true_lb_bytes == 0 && (uint64_t)rma->disp < (uint64_t)target->size_bytes &&
                    !__builtin_mul_overflow(rma->disp, target->disp_unit, &at) && at <= target->size_bytes &&
                    ampi_rma_bytes(side) <= target->size_bytes - at)) {
        side->buf = target->base + at;
        return MPI_SUCCESS;
    }
    return ampi_rma_locate_slowly(rma);
}

/* Bytes that are combined while the target's flag is held. */
#define AMPI_RMA_GUARDED_BYTES (16 << 10)

/* Ends a call. Programs repeat operations with requests until another rank has changed the target. If such an
 * operation is complete at once, this call lets that rank run. */
static inline int ampi_rma_end(const struct ampi_rma *rma, int error)
{
    if (rma->request && BASE_LIKELY(!error))
        ampi_win_take_turns(rma->win);
    return error;
}

/* ---- The usual case ---- */

/* The target's data of an operation. */
struct ampi_rma_spot {
    char *data; /* NULL: this is not the usual case, or there is an error */
    struct ampi_win *at;
};

/* The fast case: both sides have the same number of consecutive elements, in accessible host memory. Avoids a
 * struct ampi_rma, which takes longer to fill than such an operation. */
static inline struct ampi_rma_spot ampi_rma_usual(MPI_Win handle, int rank, MPI_Aint disp, MPI_Count count,
                                                  const struct ampi_type *type)
{
    struct ampi_win *win = ampi_win_of(handle);
    const struct ampi_win_target *target;
    MPI_Aint at, n_bytes;

    if (BASE_UNLIKELY(!win || !type || (unsigned)rank >= win->n_at_once || gpu_is_used()))
        return (struct ampi_rma_spot){NULL, NULL};
    target = &win->shared->targets[rank];
    if (BASE_UNLIKELY(!type->is_committed || !type->is_dense || type->extent_bytes != type->size_bytes ||
                      type->true_lb_bytes != 0 || (count | disp) < 0 ||
                      __builtin_mul_overflow(count, type->size_bytes, &n_bytes) ||
                      __builtin_mul_overflow(disp, target->disp_unit, &at) || at >= target->size_bytes ||
                      n_bytes > target->size_bytes - at || !target->at || !ampi_rma_is_open(win, rank)))
        return (struct ampi_rma_spot){NULL, NULL};
    return (struct ampi_rma_spot){target->base + at, target->at};
}

/* ---- Accumulates on memory of this process (rma_combine.c) ---- */

/* A range of the target's memory. */
struct ampi_rma_piece {
    uintptr_t address;
    size_t n_bytes;
};

/* Maximum number of bytes that are combined at a time if layouts differ. */
#define AMPI_RMA_PIECE_BYTES 1024

/* Number of ranges in an array on a rank's stack, which may be small. */
#define AMPI_RMA_PIECES 64

/* Iterates over the target's data: outputs the next ranges, at most n_max, of up to most_bytes, which is rounded down to a
 * multiple of elem_bytes. Returns their number, 0 at the end, and their bytes. */
int ampi_rma_next_pieces(struct ampi_cursor *cursor, size_t elem_bytes, size_t most_bytes,
                         struct ampi_rma_piece *pieces, int n_max, size_t *n_bytes_out);

/* Data bytes of one element of a basic type, pairs as a whole; 1: not a basic type. */
size_t ampi_rma_elem_bytes(enum ampi_basic basic);

/* Combines packed data with the pieces, under the target's lock (at NULL: without); fetched (NULL: not
 * needed) gets the old data, packed. in: not read for MPI_NO_OP. Returns CUDA's error. Never switches. */
int ampi_rma_combine_pieces(struct ampi_win *at, const struct ampi_op *op, enum ampi_basic basic,
                            const struct ampi_rma_piece *pieces, int n_pieces, const char *in, char *fetched);

/* The whole operation: combines origin into target, old data goes to result (type NULL: not needed). */
int ampi_rma_combine(const struct ampi_rma *rma);

/* Compares and swaps by a kernel, under the target's lock; false: there is none for this. Never switches. */
bool ampi_rma_swap_by_kernel(struct ampi_win *at, const struct gpu_swap *swap, int *error_out);

/* Replaces the memory if it has the expected value; result gets the old value. All have n_bytes; all but the address are
 * in host memory. Returns CUDA's error. */
int ampi_rma_compare_and_swap(struct ampi_win *at, void *address, const void *expected, const void *desired,
                              void *result, size_t n_bytes);

/* Copies between the sides of an operation, either of which may be in GPU memory; raises errors. May switch
 * then. */
int ampi_rma_copy_device(struct ampi_win *win, const struct ampi_rma_side *dst,
                         const struct ampi_rma_side *src);

/* ---- The functions behind the entry points (rma.bindings). All raise their errors and return them ---- */

/* MPI_Put and MPI_Get with a request, or (request is NULL) in all but the usual case (put_get.c). */
int ampi_rma_put_or_get(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                        int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                        MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request, bool is_put);

/* The usual case: returns true if it applies; then the operation is complete. */
static inline __attribute__((always_inline)) bool
ampi_rma_put_or_get_at_once(void *origin, MPI_Count count, MPI_Datatype handle, int rank, MPI_Aint disp,
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

/* The same for MPI_Accumulate and MPI_Get_accumulate; rma has the program's arguments (accumulate.c). */
int ampi_rma_accumulate(struct ampi_rma *rma, MPI_Win win, bool is_fetching);

static inline void ampi_rma_copy_block(void *to, const void *from, size_t n_bytes)
{
    if (BASE_LIKELY(n_bytes == sizeof(uint64_t)))
        memcpy(to, from, sizeof(uint64_t));
    else
        memcpy(to, from, n_bytes);
}

/* The fast case: count elements of one basic type that is not a pair, equal on all sides; result NULL: not needed.
 * Returns true if it applies; then the operation is complete. */
static inline __attribute__((always_inline)) bool
ampi_rma_combine_at_once(const void *origin, void *result, MPI_Count count, MPI_Datatype handle, int rank,
                         MPI_Aint disp, MPI_Op op_handle, MPI_Win win)
{
    const struct ampi_type *type = ampi_type_of(handle);
    const struct ampi_op *op = ampi_op_of(op_handle);
    ampi_op_kernel_fn kernel;
    struct ampi_rma_spot to;
    size_t n_bytes;

    if (BASE_UNLIKELY(!type || !op || !op->is_predefined || !ampi_rma_is_buffer(origin) ||
                      ampi_op_is_pair(type->basic) || handle == MPI_PACKED))
        return false;
    kernel = op->kernels[type->basic];
    if (BASE_UNLIKELY(!kernel && op->predefined != MPI_REPLACE && (op->predefined != MPI_NO_OP || !result)))
        return false;
    to = ampi_rma_usual(win, rank, disp, count, type);
    if (BASE_UNLIKELY(!to.data || count * type->size_bytes > AMPI_RMA_GUARDED_BYTES))
        return false;
    n_bytes = (size_t)(count * type->size_bytes);
    ampi_win_combine_begin(to.at);
    if (result)
        ampi_rma_copy_block(result, to.data, n_bytes);
    if (BASE_LIKELY(kernel != NULL))
        kernel(origin, to.data, (size_t)(count * type->n_basics));
    else if (op->predefined == MPI_REPLACE)
        ampi_rma_copy_block(to.data, origin, n_bytes);
    ampi_win_combine_end(to.at);
    return true;
}

/* Initializers from the standard's argument names: of a side, of an accumulate's struct ampi_rma, and of its result. */
#define AMPI_RMA_SIDE(address, count, datatype)                 \
    {                                                           \
        (void *)(uintptr_t)(address), (count), (datatype), NULL \
    }
#define AMPI_RMA_ARGUMENTS(...)                                                   \
    {                                                                             \
        .rank = target_rank, .disp = target_disp, .op_handle = op,                \
        .origin = AMPI_RMA_SIDE(origin_addr, origin_count, origin_datatype),      \
        .target = AMPI_RMA_SIDE(NULL, target_count, target_datatype), __VA_ARGS__ \
    }
#define AMPI_RMA_RESULT .result = AMPI_RMA_SIDE(result_addr, result_count, result_datatype)

/* ---- +check usage: functions of misuse/. None switches; NULL without the option ---- */

struct ampi_rma_checker {
    /* A claim about an operation has arrived (ampi_rma_remote_claim). On the target's PE. */
    void (*claimed)(struct ampi_win_shared *shared, int origin, int target, const void *message);
    /* All members of this process have freed the window. */
    void (*freed)(const struct ampi_win_shared *shared);
    /* The buffers of the window's operations are no longer used. On the owner's PE. */
    void (*settled)(struct ampi_win *win);
};
extern struct ampi_rma_checker ampi_rma_checker;

/* ---- Creating windows: collective, may switch (win_create.c) ---- */

int ampi_win_create(struct ampi_rank *self, void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                    MPI_Comm comm, MPI_Win *win);
int ampi_win_allocate(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                      void *baseptr, MPI_Win *win);
int ampi_win_allocate_shared(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                             MPI_Comm comm, void *baseptr, MPI_Win *win);

/* ---- Shared by rma_combine.c and rma_combine_device.c. Errors are CUDA's; none of these functions switches ---- */

/* ---- rma_combine.c ---- */

/* A predefined type of these elements; NULL: none. */
struct ampi_type *ampi_rma_type_of(enum ampi_basic basic);

/* True if the elements have the layout that the CPU's kernels require. */
bool ampi_rma_are_elements(const struct ampi_rma_side *side);

/* Combines layouts that may differ, origin and result in host memory. rma->at NULL: without the target's flag. */
int ampi_rma_combine_layouts(const struct ampi_rma *rma);

/* ---- rma_combine_device.c ---- */

/* True if the side's first byte is in GPU memory. */
static inline bool ampi_rma_is_device(const struct ampi_rma_side *side)
{
    return ampi_device_has(side->buf, side->count, side->type);
}

/* Copies pieces in a GPU's memory to consecutive host memory, or back, by one kernel. False: kernels cannot. */
bool ampi_rma_copy_by_kernel(const struct ampi_rma_piece *pieces, int n_pieces, void *host, bool is_scatter,
                             int *error_out);

/* Combines packed data in host memory with pieces in a GPU's memory by kernels, as ampi_rma_combine_pieces. False: there
 * are none for it. */
bool ampi_rma_combine_by_kernel(const struct ampi_op *op, enum ampi_basic basic,
                                const struct ampi_rma_piece *pieces, int n_pieces, const char *in,
                                char *fetched, int *error_out);

/* The whole operation if a side is in GPU memory. */
int ampi_rma_combine_device(const struct ampi_rma *rma);

#endif
