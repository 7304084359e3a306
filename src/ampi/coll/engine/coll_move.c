/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_move.c: moving blocks between members, where a single copy is not enough.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/stream.h"
#include "ampi/coll/engine/usage.h"

struct ampi_coll_args *ampi_coll_root_args(const struct ampi_coll_slot *slot)
{
    if (!slot->state->shared->is_inter) {
        struct ampi_coll_args *root = slot->args[slot->last->root];
        if (BASE_UNLIKELY(root && root->root != slot->last->root))
            ampi_coll_usage_check_roots(slot->last, root); /* of another process */
        return root;
    }
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i] && slot->args[i]->root == MPI_ROOT)
            return slot->args[i];
    return NULL;
}

void ampi_coll_refuse_length(struct ampi_coll_args *to, bool is_longer)
{
    if (is_longer || to->recv.n_blocks == 0)
        __atomic_store_n(&to->error, is_longer ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT, __ATOMIC_RELAXED);
}

size_t ampi_coll_total_bytes(const struct ampi_coll_buf *buf, int n_blocks)
{
    size_t total = 0;

    if (!buf->counts)
        return (size_t)(buf->count * buf->type->size_bytes) * (size_t)n_blocks;
    for (int i = 0; i < n_blocks; i++) {
        MPI_Count count = ampi_coll_count(buf, i);
        if (count)
            total += (size_t)(count * (buf->is_w ? ampi_type_of(buf->types[i]) : buf->type)->size_bytes);
    }
    return total;
}

/* Entries that are compared at a time, without a branch for each. */
#define COMPARED 32

/* The same for int arrays, up to less than COMPARED entries at the end. Returns the end of the run that was found. */
static int find_int_run(const int *counts, const int *displs, int s, int n, MPI_Count step)
{
    int end = s + 1;

    for (; end + COMPARED <= n; end += COMPARED) {
        unsigned differ = 0, displ = (unsigned)displs[s] + (unsigned)(end - s) * (unsigned)step;
        for (int i = 0; i < COMPARED; i++)
            differ |= ((unsigned)counts[end + i] ^ (unsigned)counts[s]) |
                      ((unsigned)displs[end + i] ^ (displ + (unsigned)i * (unsigned)step));
        /* Without overflow the last one is exact. */
        if (differ || displs[end + COMPARED - 1] != displs[s] + (end + COMPARED - 1 - s) * step)
            break;
    }
    return end;
}

int ampi_coll_find_run(const struct ampi_coll_buf *buf, int s, int n)
{
    MPI_Count count = ampi_coll_count(buf, s), step = count;
    int end = s + 1;

    if (count == 0)
        return 1;
    if (buf->is_w)
        step *= ampi_type_of(buf->types[s])->extent_bytes;
    if (!buf->has_large_counts && !buf->has_large_displs)
        end = find_int_run(buf->counts, buf->displs, s, n, step);
    while (end < n && ampi_coll_count(buf, end) == count &&
           ampi_coll_displ(buf, end) == ampi_coll_displ(buf, s) + (end - s) * step)
        end++;
    for (int i = s + 1; i < end && buf->is_w; i++)
        if (buf->types[i] != buf->types[s])
            return i - s;
    return end - s;
}

/* Bytes that are copied to all receivers at a time: a third of the first-level cache; for results that
 * bypass the caches, a part of the second-level one, for longer runs of stores. */
#define PIECE_BYTES ((size_t)16 << 10)
#define STREAM_PIECE_BYTES ((size_t)64 << 10)

void ampi_coll_broadcast_block(const struct ampi_coll_slot *slot, int part, struct ampi_coll_block src,
                               int source, ampi_coll_target_fn target, bool is_stream)
{
    size_t src_bytes = ampi_coll_block_bytes(&src);
    size_t piece_bytes = is_stream ? STREAM_PIECE_BYTES : PIECE_BYTES;
    const char *from = src_bytes > PIECE_BYTES ? ampi_coll_flat(&src) : NULL;

    for (size_t done = 0; done == 0 || (from && done < src_bytes); done += piece_bytes) {
        size_t n_bytes = base_min_u64(piece_bytes, src_bytes - done);
        for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
            struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
            struct ampi_coll_block dst = target(args, source);
            char *to = from && dst.type ? ampi_coll_flat(&dst) : NULL;
            /* A receiver that cannot take pieces, or gives another size, gets all data with the first one. */
            if (!to || ampi_coll_block_bytes(&dst) != src_bytes) {
                if (dst.type && done == 0)
                    ampi_coll_move(args, dst, src);
            } else if (to != from) {
                if (is_stream)
                    ampi_coll_stream(to + done, from + done, n_bytes);
                else
                    memcpy(to + done, from + done, n_bytes);
            }
        }
    }
    if (is_stream)
        ampi_coll_stream_end();
}

void ampi_coll_copy_block(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src,
                          bool is_stream)
{
    char *at = is_stream ? ampi_coll_flat(&dst) : NULL;
    const char *from = at ? ampi_coll_flat(&src) : NULL;

    if (from && ampi_coll_block_bytes(&src) == ampi_coll_block_bytes(&dst)) {
        ampi_coll_stream(at, from, ampi_coll_block_bytes(&src));
        ampi_coll_stream_end();
    } else {
        ampi_coll_move(to, dst, src);
    }
}

void ampi_coll_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                    struct ampi_coll_block block_b)
{
    size_t a_bytes = ampi_coll_block_bytes(&block_a);
    size_t b_bytes = ampi_coll_block_bytes(&block_b);
    char piece_a[1024];
    char piece_b[1024];
    struct ampi_cursor get_a, get_b, put_a, put_b;

    if (a_bytes != b_bytes)
        __atomic_store_n(a_bytes < b_bytes ? &a->error : &b->error, MPI_ERR_TRUNCATE, __ATOMIC_RELAXED);
    if (a_bytes == 0 || b_bytes == 0)
        return;
    if (ampi_coll_device_swap(a, block_a, b, block_b, base_min_u64(a_bytes, b_bytes)))
        return;
    ampi_cursor_init(&get_a, block_a.buf, block_a.count, block_a.type);
    ampi_cursor_init(&put_a, block_a.buf, block_a.count, block_a.type);
    ampi_cursor_init(&get_b, block_b.buf, block_b.count, block_b.type);
    ampi_cursor_init(&put_b, block_b.buf, block_b.count, block_b.type);
    for (size_t left = a_bytes < b_bytes ? a_bytes : b_bytes; left > 0;) {
        size_t n_bytes = left < sizeof piece_a ? left : sizeof piece_a;
        ampi_cursor_pack(&get_a, piece_a, n_bytes);
        ampi_cursor_pack(&get_b, piece_b, n_bytes);
        ampi_cursor_unpack(&put_a, piece_b, n_bytes);
        ampi_cursor_unpack(&put_b, piece_a, n_bytes);
        left -= n_bytes;
    }
}
