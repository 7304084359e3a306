/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy.c: moves data between two layouts, run against run, without an intermediate buffer. Packing is the case
 * that one of the two is a single block.
 */
#include "ampi/datatype/cursor.h"

/* Copies n blocks of a size that is known when this is compiled in. */
static inline __attribute__((always_inline)) void copy_fixed(char *dst, int64_t dst_stride, const char *src,
                                                             int64_t src_stride, size_t block, size_t n)
{
    for (; n >= 4; n -= 4) {
        memcpy(dst, src, block);
        memcpy(dst + dst_stride, src + src_stride, block);
        memcpy(dst + 2 * dst_stride, src + 2 * src_stride, block);
        memcpy(dst + 3 * dst_stride, src + 3 * src_stride, block);
        dst += 4 * dst_stride;
        src += 4 * src_stride;
    }
    for (; n > 0; n--) {
        memcpy(dst, src, block);
        dst += dst_stride;
        src += src_stride;
    }
}

/* The same for blocks of any size. */
static void copy_any(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t block, size_t n)
{
    for (; n > 0; n--) {
        memcpy(dst, src, block);
        dst += dst_stride;
        src += src_stride;
    }
}

static void copy_blocks(uintptr_t to, int64_t dst_stride, uintptr_t from, int64_t src_stride, size_t block,
                        size_t n)
{
    char *dst = (char *)to;
    const char *src = (const char *)from;

    if (n == 1) {
        memcpy(dst, src, block);
        return;
    }
    switch (block) {
#define FIXED(bytes) \
    case bytes: \
        copy_fixed(dst, dst_stride, src, src_stride, bytes, n); \
        break;
        FIXED(1)
        FIXED(2)
        FIXED(4)
        FIXED(8)
        FIXED(12)
        FIXED(16)
        FIXED(24)
        FIXED(32)
        FIXED(48)
        FIXED(64)
#undef FIXED
    default:
        copy_any(dst, dst_stride, src, src_stride, block, n);
    }
}

/* Moves the position of a run n_bytes on: to the middle of the current block, or over whole blocks. */
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

/* Copies as much as is simple, at most n_bytes > 0, from one run to the other. Returns the bytes copied. */
static size_t copy_runs(struct ampi_cursor_run *dst, struct ampi_cursor_run *src, size_t n_bytes)
{
    size_t dst_left = dst->block - dst->used;
    size_t src_left = src->block - src->used;
    size_t block = min3(dst_left, src_left, n_bytes);
    size_t n;

    if (block == dst->block && block == src->block) {
        n = min3(dst->n_blocks, src->n_blocks, n_bytes / block);
        copy_blocks(dst->ptr, dst->stride, src->ptr, src->stride, block, n);
        run_advance(dst, 0, n);
        run_advance(src, 0, n);
    } else if (block == dst->block) {
        n = min3(dst->n_blocks, src_left / block, n_bytes / block);
        copy_blocks(dst->ptr, dst->stride, src->ptr + src->used, (int64_t)block, block, n);
        run_advance(dst, 0, n);
        run_advance(src, n * block, 0);
    } else if (block == src->block) {
        n = min3(src->n_blocks, dst_left / block, n_bytes / block);
        copy_blocks(dst->ptr + dst->used, (int64_t)block, src->ptr, src->stride, block, n);
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

/* Copies up to n_bytes between the positions of two cursors and moves both on. */
static size_t copy_cursors(struct ampi_cursor *dst, struct ampi_cursor *src, size_t n_bytes)
{
    size_t left = n_bytes;

    while (left > 0) {
        size_t done;
        if (dst->run.n_blocks == 0 && !ampi_cursor_next_run(dst))
            break;
        if (src->run.n_blocks == 0 && !ampi_cursor_next_run(src))
            break;
        done = copy_runs(&dst->run, &src->run, left);
        dst->packed_bytes += (MPI_Count)done;
        src->packed_bytes += (MPI_Count)done;
        left -= done;
    }
    return n_bytes - left;
}

size_t ampi_type_copy_general(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type, const void *src,
                              MPI_Count src_count, const struct ampi_type *src_type)
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

size_t ampi_cursor_pack(struct ampi_cursor *cursor, void *out, size_t n_bytes)
{
    struct ampi_cursor flat;

    set_flat(&flat, out, n_bytes);
    return copy_cursors(&flat, cursor, n_bytes);
}

size_t ampi_cursor_unpack(struct ampi_cursor *cursor, const void *in, size_t n_bytes)
{
    struct ampi_cursor flat;

    set_flat(&flat, in, n_bytes);
    return copy_cursors(cursor, &flat, n_bytes);
}
