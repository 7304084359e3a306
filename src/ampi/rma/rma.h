/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma.h: what one-sided operations share: their arguments, and the checks of these.
 *
 * The life of an operation, MPI_Put for instance:
 *      PMPI_Put            puts what the program gave into a struct ampi_rma
 *      put (put_get.c)     opens it: checks the window, the epoch, both sides, the range
 *                          copies straight from the origin's layout to the target's, if it is of this
 * process; else hands it to rma_remote.c
 */
#ifndef AMPI_RMA_H
#define AMPI_RMA_H

#include "ampi/datatype/buffer.h"
#include "ampi/op/op.h"
#include "ampi/rma/win.h"

/* count elements of a type. */
struct ampi_rma_side {
    void *buf;
    MPI_Count count;
    MPI_Datatype handle;    /* of the type, as the program gave it */
    struct ampi_type *type; /* set by the checks */
};

struct ampi_rma {
    int rank; /* of the target; may be MPI_PROC_NULL: then nothing is to be done */
    MPI_Aint disp;
    MPI_Op op_handle;
    MPI_Request *request; /* request forms: where it goes; NULL: another form */
    struct ampi_rma_side origin;
    struct ampi_rma_side result; /* of fetching operations */
    struct ampi_rma_side target; /* buf is set by the checks: an address of the target's process */
    struct ampi_win *win;        /* set by the checks */
    struct ampi_win *at;         /* ... the target's memory; NULL: out of reach */
    const struct ampi_op *op;    /* ... of the checks of accumulate.c */
};

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

/* The window, the rank, the epoch and the form of the call. */
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

/* Count and type of a side; the address unless it is the target's. */
static inline int ampi_rma_check_side(struct ampi_win *win, const char *what, struct ampi_rma_side *side,
                                      bool is_local)
{
    struct ampi_type *type = side->type = ampi_type_of(side->handle);

    if (BASE_UNLIKELY(
            side->count < 0 || !type || !type->is_committed || ampi_type_is_too_much(type, side->count) ||
            (is_local && !side->buf && side->count > 0 && type->is_predefined && type->size_bytes > 0)))
        return ampi_rma_raise_side(win, what, side);
    return MPI_SUCCESS;
}

/* The target's range outside the quick case: raises errors, and sets the address. */
int ampi_rma_locate_slowly(struct ampi_rma *rma);

/* Count, type and range of the target; sets its address. */
static inline int ampi_rma_locate(struct ampi_rma *rma)
{
    const struct ampi_win_target *target = &rma->win->shared->targets[rma->rank];
    struct ampi_rma_side *side = &rma->target;
    MPI_Aint at;
    int error = ampi_rma_check_side(rma->win, "the target's", side, false);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_LIKELY(side->type->is_dense && side->type->extent_bytes == side->type->size_bytes &&
                    side->type->lb_bytes == 0 && (uint64_t)rma->disp < (uint64_t)target->size_bytes &&
                    !__builtin_mul_overflow(rma->disp, target->disp_unit, &at) && at <= target->size_bytes &&
                    ampi_rma_bytes(side) <= target->size_bytes - at)) {
        side->buf = target->base + at;
        return MPI_SUCCESS;
    }
    return ampi_rma_locate_slowly(rma);
}

/* ---- Accumulates on memory of this process (rma_combine.c) ---- */

/* A stretch of the target's memory. */
struct ampi_rma_piece {
    uintptr_t address;
    size_t n_bytes;
};

/* Most bytes of data that are combined at a time where layouts differ. */
#define AMPI_RMA_PIECE_BYTES 1024

/* Where a target's data lies: the next stretches of up to so many bytes, which are a multiple of elem_bytes.
 * Returns their number, 0 at the end, and their bytes. */
#define AMPI_RMA_PIECES_MAX 512
int ampi_rma_next_pieces(struct ampi_cursor *cursor, size_t elem_bytes, size_t most_bytes,
                         struct ampi_rma_piece pieces[AMPI_RMA_PIECES_MAX], size_t *n_bytes_out);

/* Bytes of data of one element of a basic type, pairs as a whole; 1: no basic type. */
size_t ampi_rma_elem_bytes(enum ampi_basic basic);

/* Combines packed data with the pieces, under the target's lock (at NULL: without); fetched (NULL: not
 * wanted) gets what was there before, packed. in: not read for MPI_NO_OP. Returns CUDA's error. Never
 * switches. */
int ampi_rma_combine_pieces(struct ampi_win *at, const struct ampi_op *op, enum ampi_basic basic,
                            const struct ampi_rma_piece *pieces, int n_pieces, const char *in, char *fetched);

/* The whole operation: origin into target, old data into result (type NULL: not wanted). */
int ampi_rma_combine(const struct ampi_rma *rma);

/* If the memory is as expected, replaces it; result gets what was there. All of n_bytes. */
int ampi_rma_compare_and_swap(struct ampi_win *at, void *address, const void *expected, const void *desired,
                              void *result, size_t n_bytes);

/* Copies between the sides of an operation, either a GPU's; raises errors. May switch if one is. */
int ampi_rma_copy_device(struct ampi_win *win, const struct ampi_rma_side *dst,
                         const struct ampi_rma_side *src);

#endif
