/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check.c: reports errors of one-sided operations, and checks target ranges outside the fast path.
 */
#include "ampi/rma/rma.h"

int ampi_rma_raise_rank(struct ampi_win *win, int rank)
{
    return ampi_win_raise(win, MPI_ERR_RANK, "the target rank is %d, but the window's size is %d", rank,
                          win->shared->n_ranks);
}

int ampi_rma_raise_epoch(struct ampi_win *win, int rank)
{
    if (win->access == AMPI_ACCESS_NONE)
        return ampi_win_raise(
            win, MPI_ERR_RMA_SYNC,
            "no access epoch is open: call MPI_Win_fence, MPI_Win_start or MPI_Win_lock first");
    return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "the access epoch does not include rank %d", rank);
}

int ampi_rma_raise_form(struct ampi_win *win)
{
    return ampi_win_raise(win, MPI_ERR_RMA_SYNC,
                          "operations with a request need an epoch of MPI_Win_lock or MPI_Win_lock_all");
}

int ampi_rma_raise_side(struct ampi_win *win, const char *what, const struct ampi_rma_side *side)
{
    const struct ampi_type *type = side->type;

    if (side->count < 0)
        return ampi_win_raise(win, MPI_ERR_COUNT, "%s count %lld is negative", what, (long long)side->count);
    if (side->handle == MPI_DATATYPE_NULL)
        return ampi_win_raise(win, MPI_ERR_TYPE, "%s datatype is MPI_DATATYPE_NULL", what);
    if (!type)
        return ampi_win_raise(win, MPI_ERR_TYPE, "%s datatype %p is not a valid datatype, or has been freed",
                              what, (void *)side->handle);
    if (!type->is_committed)
        return ampi_win_raise(win, MPI_ERR_TYPE,
                              "%s datatype has been freed, or not been committed (MPI_Type_commit)", what);
    if (ampi_type_is_too_much(type, side->count))
        return ampi_win_raise(win, MPI_ERR_COUNT, AMPI_TYPE_TOO_MUCH, (long long)side->count,
                              (long long)type->size_bytes);
    return ampi_win_raise(win, MPI_ERR_BUFFER, "%s buffer is %s, but its count is %lld", what,
                          side->buf ? "MPI_IN_PLACE" : "NULL", (long long)side->count);
}

int ampi_rma_raise_truncated(struct ampi_win *win, MPI_Count bytes, MPI_Count room)
{
    return ampi_win_raise(win, MPI_ERR_TRUNCATE, "%lld bytes of data do not fit into %lld bytes",
                          (long long)bytes, (long long)room);
}

/* ---- Ranges ---- */

/* The offsets of the first byte of the data and of one past the last, relative to address 0; false: they
 * exceed 64 bits. */
static bool hull(const struct ampi_rma_side *side, int64_t *first_out, int64_t *end_out)
{
    const struct ampi_type *type = side->type;
    int64_t reach;

    if (__builtin_mul_overflow(side->count - 1, type->extent_bytes, &reach))
        return false;
    return !__builtin_add_overflow(type->true_lb_bytes, reach < 0 ? reach : 0, first_out) &&
           !__builtin_add_overflow(type->true_lb_bytes + type->true_extent_bytes, reach > 0 ? reach : 0,
                                   end_out);
}

static int raise_range(struct ampi_rma *rma, int64_t first, int64_t end)
{
    return ampi_win_raise(rma->win, MPI_ERR_RMA_RANGE,
                          "the data is at bytes %lld to %lld of the window of rank %d, which has %lld bytes",
                          (long long)first, (long long)end - 1, rma->rank,
                          (long long)rma->win->shared->targets[rma->rank].size_bytes);
}

/* True if every block of the data is attached. */
static bool are_attached(struct ampi_rma *rma)
{
    struct ampi_rma_piece pieces[AMPI_RMA_PIECES];
    struct ampi_cursor cursor;
    size_t n_bytes;
    int n;

    ampi_cursor_init(&cursor, rma->target.buf, rma->target.count, rma->target.type);
    while ((n = ampi_rma_next_pieces(&cursor, 1, AMPI_RMA_PIECE_BYTES, pieces, AMPI_RMA_PIECES, &n_bytes)) >
           0)
        for (int i = 0; i < n; i++)
            if (!ampi_win_is_attached(rma->at, pieces[i].address, pieces[i].address + pieces[i].n_bytes))
                return false;
    return true;
}

/* Displacements are addresses of the target's process. If that is another process, it checks them itself. */
static int locate_dynamic(struct ampi_rma *rma, bool is_empty, int64_t first, int64_t end)
{
    rma->target.buf = (void *)rma->disp;
    if (is_empty || !rma->at ||
        ampi_win_is_attached(rma->at, (uintptr_t)rma->disp + (uintptr_t)first,
                             (uintptr_t)rma->disp + (uintptr_t)end) ||
        (!ampi_type_is_block(rma->target.type, rma->target.count) && are_attached(rma)))
        return MPI_SUCCESS;
    return ampi_win_raise(rma->win, MPI_ERR_RMA_RANGE, "rank %d has not attached all of the data at %p",
                          rma->rank, rma->target.buf);
}

int ampi_rma_locate_slowly(struct ampi_rma *rma)
{
    const struct ampi_win_target *target = &rma->win->shared->targets[rma->rank];
    bool is_empty = ampi_rma_bytes(&rma->target) == 0;
    int64_t first = 0, end = 0, at;

    if (!is_empty && !hull(&rma->target, &first, &end))
        return raise_range(rma, INT64_MIN, INT64_MAX);
    if (rma->win->shared->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return locate_dynamic(rma, is_empty, first, end);
    if (rma->disp < 0)
        return ampi_win_raise(rma->win, MPI_ERR_DISP, "the displacement %lld is negative",
                              (long long)rma->disp);
    if (__builtin_mul_overflow(rma->disp, target->disp_unit, &at) ||
        (!is_empty && (__builtin_add_overflow(first, at, &first) || __builtin_add_overflow(end, at, &end))))
        return raise_range(rma, INT64_MIN, INT64_MAX);
    if (first < 0 || end > target->size_bytes)
        return raise_range(rma, first, end);
    rma->target.buf = ampi_type_address(target->base, at);
    return MPI_SUCCESS;
}

int ampi_rma_check_request(MPI_Win handle, const MPI_Request *request)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (BASE_LIKELY(request || !win))
        return MPI_SUCCESS;
    return ampi_win_raise(win, MPI_ERR_ARG, "the address of the request is NULL");
}
