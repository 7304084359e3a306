/* SPDX-License-Identifier: BSD-3-Clause
 *
 * move.c: moving blocks between members, where it takes more than a copy.
 */
#include "ampi/coll/coll.h"

struct ampi_coll_args *ampi_coll_root_args(const struct ampi_coll_slot *slot)
{
    if (!slot->state->shared->is_inter)
        return slot->args[slot->last->root];
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i] && slot->args[i]->root == MPI_ROOT)
            return slot->args[i];
    return NULL;
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

void ampi_coll_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                    struct ampi_coll_block block_b)
{
    size_t a_bytes = ampi_coll_block_bytes(&block_a);
    size_t b_bytes = ampi_coll_block_bytes(&block_b);
    char piece_a[2048];
    char piece_b[2048];
    struct ampi_cursor get_a, get_b, put_a, put_b;

    if (a_bytes != b_bytes)
        __atomic_store_n(a_bytes < b_bytes ? &a->error : &b->error, MPI_ERR_TRUNCATE, __ATOMIC_RELAXED);
    if (a_bytes == 0 || b_bytes == 0)
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
