/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy.c: copies data between two layouts, run by run, without an intermediate buffer. Packing is the case
 * that one of the two is a single block.
 *
 * Runs of one short block each would spend their time in the walk. So where possible, a step handles more
 * at once: many repetitions of a small leaf (copy_columns.c), or many entries of a table (copy_table
 * below).
 *
 * Single doubles at irregular places reach 85 to 88 % of a loop written by hand this way, and 4 % run by
 * run (bench/pack). At 8 KiB most of the rest is the fixed cost of a call, 27 ns.
 */
#include "ampi/datatype/copy.h"

/* Advances the position in a run by n_bytes: into the middle of the current block, or over whole blocks. */
static void run_advance(struct ampi_cursor_run *run, size_t n_bytes, size_t n_blocks)
{
    run->used += n_bytes;
    if (run->used == run->block) {
        run->used = 0;
        n_blocks = 1;
    }
    run->ptr += (uintptr_t)((int64_t)n_blocks * run->stride);
    run->n_blocks -= n_blocks;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Copies the next simple portion, at most n_bytes > 0, from one run to the other. Returns the bytes
 * copied. */
static size_t copy_runs(struct ampi_cursor_run *dst, struct ampi_cursor_run *src, size_t n_bytes)
{
    size_t dst_left = dst->block - dst->used;
    size_t src_left = src->block - src->used;
    size_t block = min3(dst_left, src_left, n_bytes);
    size_t n;

    if (block == dst->block && block == src->block) {
        n = min3(dst->n_blocks, src->n_blocks, n_bytes / block);
        ampi_copy_blocks(dst->ptr, dst->stride, src->ptr, src->stride, block, n);
        run_advance(dst, 0, n);
        run_advance(src, 0, n);
    } else if (block == dst->block) {
        n = min3(dst->n_blocks, src_left / block, n_bytes / block);
        ampi_copy_blocks(dst->ptr, dst->stride, src->ptr + src->used, (int64_t)block, block, n);
        run_advance(dst, 0, n);
        run_advance(src, n * block, 0);
    } else if (block == src->block) {
        n = min3(src->n_blocks, dst_left / block, n_bytes / block);
        ampi_copy_blocks(dst->ptr + dst->used, (int64_t)block, src->ptr, src->stride, block, n);
        run_advance(dst, n * block, 0);
        run_advance(src, 0, n);
    } else {
        n = 1;
        memcpy((void *)(dst->ptr + dst->used), (const void *)(src->ptr + src->used), block);
        run_advance(dst, block, 0);
        run_advance(src, block, 0);
    }
    return n * block;
}

/* Copies the rest of a leaf's table to or from a flat cursor. Returns the bytes copied, 0 if none. */
static size_t copy_table(struct ampi_cursor *cursor, struct ampi_cursor *flat, size_t n_bytes, bool is_pack)
{
    struct ampi_cursor_frame *frame = ampi_cursor_frame_at(cursor, cursor->depth - 1);
    const struct base_node *node = frame->node;
    size_t room = flat->run.block - flat->run.used, done = 0;
    uintptr_t place = flat->run.ptr + flat->run.used;
    int64_t n = 0;

    if (room > n_bytes)
        room = n_bytes;
    if (!node || cursor->run.used)
        return 0;
    if (node->kind == BASE_NODE_OFFSETS) {
        n = (int64_t)min3((size_t)(node->n - frame->index), room / (size_t)node->unit, SIZE_MAX);
        ampi_copy_offsets(frame->base, node->table + frame->index, place, (size_t)node->unit, (size_t)n,
                          is_pack);
        done = (size_t)(n * node->unit);
    } else if (node->kind == BASE_NODE_BLOCKS) {
        done = ampi_copy_entries(frame->base, base_node_entries(node) + frame->index, node->n - frame->index,
                                 place, room, is_pack, &n);
    }
    if (n == 0)
        return 0;
    frame->index += n - 1;
    cursor->run.n_blocks = 0;
    run_advance(&flat->run, done, 0);
    return done;
}

/* True if the cursor is in a single block of consecutive memory. */
static bool is_flat(const struct ampi_cursor *cursor)
{
    return cursor->depth == 0 && cursor->run.n_blocks == 1;
}

static size_t copy_step(struct ampi_cursor *dst, struct ampi_cursor *src, size_t n_bytes)
{
    size_t done = 0;

    if (dst->depth + src->depth > 0) {
        done = ampi_copy_columns(dst, src, n_bytes);
        if (done == 0 && src->depth > 0 && is_flat(dst))
            done = copy_table(src, dst, n_bytes, true);
        else if (done == 0 && dst->depth > 0 && is_flat(src))
            done = copy_table(dst, src, n_bytes, false);
    }
    return done ? done : copy_runs(&dst->run, &src->run, n_bytes);
}

/* Copies up to n_bytes between the positions of two cursors and advances both. */
static size_t copy_cursors(struct ampi_cursor *dst, struct ampi_cursor *src, size_t n_bytes)
{
    size_t left = n_bytes;

    while (left > 0) {
        size_t done;
        if (dst->run.n_blocks == 0 && !ampi_cursor_next_run(dst))
            break;
        if (src->run.n_blocks == 0 && !ampi_cursor_next_run(src))
            break;
        done = copy_step(dst, src, left);
        dst->packed_bytes += (MPI_Count)done;
        src->packed_bytes += (MPI_Count)done;
        left -= done;
    }
    return n_bytes - left;
}

BASE_NOINLINE size_t ampi_type_copy_general(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type,
                                            const void *src, MPI_Count src_count,
                                            const struct ampi_type *src_type)
{
    MPI_Count dst_bytes = dst_count * dst_type->size_bytes;
    MPI_Count src_bytes = src_count * src_type->size_bytes;
    struct ampi_cursor to, from;

    ampi_cursor_init(&to, dst, dst_count, dst_type);
    ampi_cursor_init(&from, src, src_count, src_type);
    return copy_cursors(&to, &from, (size_t)(src_bytes < dst_bytes ? src_bytes : dst_bytes));
}

/* A cursor over one block. */
static void set_flat(struct ampi_cursor *cursor, const void *buf, size_t n_bytes)
{
    cursor->packed_bytes = 0;
    cursor->depth = 0;
    cursor->low = 0;
    cursor->run = (struct ampi_cursor_run){(uintptr_t)buf, (int64_t)n_bytes, n_bytes, n_bytes > 0, 0};
}

BASE_NOINLINE size_t ampi_cursor_pack(struct ampi_cursor *cursor, void *out, size_t n_bytes)
{
    struct ampi_cursor flat;

    set_flat(&flat, out, n_bytes);
    return copy_cursors(&flat, cursor, n_bytes);
}

BASE_NOINLINE size_t ampi_cursor_unpack(struct ampi_cursor *cursor, const void *in, size_t n_bytes)
{
    struct ampi_cursor flat;

    set_flat(&flat, in, n_bytes);
    return copy_cursors(cursor, &flat, n_bytes);
}
