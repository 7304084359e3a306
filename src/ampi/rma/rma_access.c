/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_access.c: put and get on memory of other processes by the machine (struct machine_rma), without a message to
 * the target. The two kinds of access:
 *
 *      DIRECT   the machine copies: an operation is complete at both sides when its call returns. Large data only: a message is faster for small data
 *      KEYED    needs a key of the target's memory. A PE requests it with its first operation on the target, which is
 *               itself a message, and uses it once it has arrived. Operations are complete at the target when the
 *               connection has been flushed: the ends of epochs and MPI_Win_flush do that
 *
 * All other operations are messages (rma_remote.c): on dynamic windows and GPU memory; with keys also on data that is
 * not one block; and all accumulates, because these must be atomic with those of the target's own process.
 */
#include "ampi/rma/rma_remote.h"

#include <string.h>

#include "ampi/rma/rma_remote_header.h"
#include "base/log.h"

/* Data of at least this size is copied directly, as that takes less time than messages if the other side's pieces are
 * large: the kernel takes 1 to 2 us for each piece. */
#define DIRECT_BYTES_MIN ((MPI_Count)16 << 10)
#define DIRECT_PIECE_BYTES_MIN 4096

/* Placeholders for a key: the key was requested; the target has none. */
static char requested, none;
#define KEY_REQUESTED ((void *)&requested)
#define KEY_NONE ((void *)&none)

/* A PE's knowledge of a window. */
struct ampi_win_keys {
    int n_handles;   /* of members of the PE that are not freed */
    void *by_rank[]; /* keys; NULL: not requested yet */
};

/* The PE of another process that a connection leads to. */
struct end {
    int proc_id;
    int pe_id; /* -1: it cannot be found */
};

static struct end end_of(const struct ampi_win *win, int rank)
{
    int world_rank = ampi_group_world_rank(win->comm->local->layout->group, rank);

    return (struct end){ampi_procs_of_rank(world_rank), ampi_procs_pe_of(world_rank)};
}

static int own_pe(const struct ampi_win *win)
{
    return ult_pe_id(win->owner->ult.pe);
}

/* ---- Direct ---- */

/* The pieces of a side that follow its first `done` bytes of data. */
static int pieces_at(struct ampi_cursor *cursor, MPI_Count done, size_t most_bytes,
                     struct ampi_rma_piece pieces[AMPI_RMA_PIECES])
{
    size_t n_bytes;

    if (cursor->packed_bytes != done)
        ampi_cursor_seek(cursor, done);
    return ampi_rma_next_pieces(cursor, 1, most_bytes, pieces, AMPI_RMA_PIECES, &n_bytes);
}

static bool has_large_pieces(const struct ampi_rma_side *side)
{
    struct ampi_rma_piece pieces[AMPI_RMA_PIECES];
    struct ampi_cursor cursor;
    size_t n_bytes;
    int n;

    if (ampi_type_is_block(side->type, side->count))
        return true;
    ampi_cursor_init(&cursor, side->buf, side->count, side->type);
    n = ampi_rma_next_pieces(&cursor, 1, SIZE_MAX, pieces, AMPI_RMA_PIECES, &n_bytes);
    return n_bytes / (size_t)n >= DIRECT_PIECE_BYTES_MIN;
}

/* Copies all data; the machine's result. */
static int copy_all(int proc_id, bool is_put, const struct ampi_rma_side *own,
                    const struct ampi_rma_side *other, MPI_Count n_bytes)
{
    struct ampi_rma_piece here[AMPI_RMA_PIECES], there[AMPI_RMA_PIECES];
    struct ampi_cursor at_here, at_there;
    int result = MACHINE_DONE, n_here, n_there;
    size_t copied;

    _Static_assert(sizeof here[0] == sizeof(struct machine_piece) && AMPI_RMA_PIECES <= MACHINE_PIECES_MAX,
                   "the machine takes them as they are");
    ampi_cursor_init(&at_here, own->buf, own->count, own->type);
    ampi_cursor_init(&at_there, other->buf, other->count, other->type);
    for (MPI_Count done = 0; done < n_bytes && result == MACHINE_DONE; done += (MPI_Count)copied) {
        n_here = pieces_at(&at_here, done, (size_t)(n_bytes - done), here);
        n_there = pieces_at(&at_there, done, (size_t)(n_bytes - done), there);
        result = ampi_machine->rma->copy(proc_id, is_put, (const struct machine_piece *)here, n_here,
                                         (const struct machine_piece *)there, n_there, &copied);
    }
    return result;
}

/* False: a message is needed, because the kernel refuses some memory that the target can access, such as
 * that of devices. */
static bool copy_directly(struct ampi_rma *rma, int proc_id, bool is_put, MPI_Count n_bytes)
{
    int result = copy_all(proc_id, is_put, &rma->origin, &rma->target, n_bytes);

    if (BASE_UNLIKELY(result == MACHINE_FAILED)) /* the message sends all of the data again */
        return false;
    if (rma->request || result != MACHINE_DONE)
        ampi_rma_part_end(ampi_rma_part_begin(rma),
                          result == MACHINE_DONE ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED);
    return true;
}

/* ---- Keys ---- */

static struct ampi_win_keys *keys_of(struct ampi_win *win)
{
    struct ampi_win_shared *shared = win->shared;
    struct ampi_win_keys **keys = &shared->keys[own_pe(win)];

    if (BASE_LIKELY(*keys != NULL))
        return *keys;
    *keys = base_calloc(1, sizeof **keys + (size_t)shared->n_ranks * sizeof(void *), "keys of a window");
    for (int i = 0; i < shared->n_local; i++)
        (*keys)->n_handles += shared->handles[i].owner->pe_id == win->owner->pe_id;
    return *keys;
}

/* Requests a member's key; the request counts as a pending operation until the answer arrives. */
static void request_key(struct ampi_win *win, int rank)
{
    struct ampi_rma rma = {.win = win, .rank = rank};
    struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_KEY_WANTED, rank);
    struct ampi_rma_part *part = ampi_rma_part_begin(&rma);

    am.cookie = (uintptr_t)part;
    if (!ampi_rma_post(win->shared, &am, NULL, 0))
        ampi_rma_part_end(part, MPI_ERR_PROC_ABORTED);
}

/* The key of a member's memory; NULL: there is none, or not yet. */
static void *find_key(struct ampi_win *win, int rank)
{
    void **key = &keys_of(win)->by_rank[rank];

    if (BASE_UNLIKELY(*key == NULL)) {
        *key = KEY_REQUESTED;
        request_key(win, rank);
    }
    return *key == KEY_REQUESTED || *key == KEY_NONE ? NULL : *key;
}

void ampi_rma_access_handle_key(struct ampi_win *win, int rank, const void *packed, size_t n_bytes)
{
    struct end end = end_of(win, rank);
    void *key = NULL;

    if (n_bytes > 0 && end.pe_id >= 0)
        key = ampi_machine->rma->import_key(own_pe(win), end.proc_id, end.pe_id, packed);
    keys_of(win)->by_rank[rank] = key ? key : KEY_NONE;
}

void *ampi_rma_access_pack_key(struct ampi_win *win, size_t *n_bytes_out)
{
    const struct ampi_win_target *own = &win->shared->targets[win->rank];
    void *copy;

    *n_bytes_out = 0;
    if (!win->exposed && !own->is_device && own->size_bytes > 0 && ampi_machine->rma)
        win->exposed =
            ampi_machine->rma->expose(own->base, (size_t)own->size_bytes, &win->key, &win->key_bytes);
    if (!win->exposed)
        return NULL;
    copy = base_malloc(win->key_bytes, "the key of a window's memory");
    memcpy(copy, win->key, win->key_bytes);
    *n_bytes_out = win->key_bytes;
    return copy;
}

void ampi_rma_access_release(struct ampi_win *win)
{
    struct ampi_win_keys **keys = win->shared->keys ? &win->shared->keys[own_pe(win)] : NULL;

    if (win->exposed)
        ampi_machine->rma->conceal(win->exposed);
    free(win->key);
    free(win->unflushed);
    if (!keys || !*keys || --(*keys)->n_handles > 0)
        return;
    for (int i = 0; i < win->shared->n_ranks; i++) {
        void *key = (*keys)->by_rank[i];
        if (key && key != KEY_REQUESTED && key != KEY_NONE)
            ampi_machine->rma->drop_key(key);
    }
    free(*keys);
    *keys = NULL;
}

/* ---- With a key ---- */

static void ended(void *part, int result)
{
    ampi_rma_part_end(part, result == MACHINE_DONE ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED);
}

static bool is_block(const struct ampi_rma_side *side)
{
    return ampi_type_is_block(side->type, side->count);
}

/* False: it has to be a message. */
static bool access_by_key(struct ampi_rma *rma, struct end end, bool is_put, MPI_Count n_bytes)
{
    const struct machine_rma *access = ampi_machine->rma;
    struct ampi_win *win = rma->win;
    void *key =
        is_block(&rma->origin) && is_block(&rma->target) && end.pe_id >= 0 ? find_key(win, rma->rank) : NULL;
    char *own = ampi_type_address(rma->origin.buf, rma->origin.type->true_lb_bytes);
    uint64_t other = (uintptr_t)ampi_type_address(rma->target.buf, rma->target.type->true_lb_bytes);
    struct ampi_rma_part *part;
    int result;

    if (!key)
        return false;
    part = ampi_rma_part_begin(rma);
    result =
        is_put
            ? access->put(own_pe(win), end.proc_id, end.pe_id, key, own, other, (size_t)n_bytes, ended, part)
            : access->get(own_pe(win), end.proc_id, end.pe_id, key, own, other, (size_t)n_bytes, ended, part);
    if (result != MACHINE_PENDING)
        ended(part, result);
    if (is_put) {
        ampi_win_set_bit(win, &win->unflushed, rma->rank);
        win->has_unflushed = true;
    }
    return true;
}

static void flush_one(struct ampi_win *win, int rank)
{
    struct ampi_rma rma = {.win = win, .rank = rank};
    struct ampi_rma_part *part = ampi_rma_part_begin(&rma);
    struct end end = end_of(win, rank);
    int result = end.pe_id < 0 ? MACHINE_PEER_FAILED
                               : ampi_machine->rma->flush(own_pe(win), end.proc_id, end.pe_id, ended, part);

    ampi_win_clear_bit(win->unflushed, rank);
    if (result != MACHINE_PENDING)
        ended(part, result);
}

void ampi_rma_access_flush(struct ampi_win *win, int rank)
{
    if (rank >= 0) {
        if (ampi_win_bit(win->unflushed, rank))
            flush_one(win, rank);
        return;
    }
    win->has_unflushed = false;
    for (int i = 0; i < win->shared->n_ranks; i++)
        if (i % 64 == 0 && win->unflushed[i / 64] == 0)
            i += 63;
        else if (ampi_win_bit(win->unflushed, i))
            flush_one(win, i);
}

/* ---- Which way ---- */

bool ampi_rma_access(struct ampi_rma *rma, bool is_put)
{
    const struct ampi_win_target *target = &rma->win->shared->targets[rma->rank];
    MPI_Count n_bytes = ampi_rma_bytes(is_put ? &rma->origin : &rma->target);
    struct end end;

    if (!ampi_machine->rma || n_bytes == 0 || target->is_device ||
        rma->win->shared->flavor == MPI_WIN_FLAVOR_DYNAMIC ||
        ampi_device_has(rma->origin.buf, rma->origin.count, rma->origin.type))
        return false;
    end = end_of(rma->win, rma->rank);
    switch (ampi_machine->rma->access(end.proc_id)) {
    case MACHINE_DIRECT_ACCESS:
        return n_bytes >= DIRECT_BYTES_MIN && has_large_pieces(&rma->target) &&
               copy_directly(rma, end.proc_id, is_put, n_bytes);
    case MACHINE_KEYED_ACCESS:
        return access_by_key(rma, end, is_put, n_bytes);
    default:
        return false;
    }
}
