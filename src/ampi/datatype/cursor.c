/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cursor.c: walks a typemap program run by run; a run is a number of equal blocks at equal distances.
 *
 * The cursor keeps the innermost AMPI_CURSOR_FRAMES frames in a ring. When the walk returns to a frame that
 * was overwritten, it seeks to its position from the root again, which is a division or a binary search per
 * level.
 */
#include "ampi/datatype/cursor.h"

static void push_frame(struct ampi_cursor *cursor, const struct base_node *node, int64_t index,
                       uintptr_t base)
{
    *ampi_cursor_frame_at(cursor, cursor->depth) = (struct ampi_cursor_frame){node, index, base};
    cursor->depth++;
    if (cursor->depth - cursor->low > AMPI_CURSOR_FRAMES)
        cursor->low = cursor->depth - AMPI_CURSOR_FRAMES;
}

static void set_block(struct ampi_cursor *cursor, uintptr_t ptr, int64_t bytes, int64_t used)
{
    cursor->run = (struct ampi_cursor_run){ptr, bytes, (size_t)bytes, 1, (size_t)used};
}

/* The address of a repetition, and its node; NULL for the blocks of OFFSETS and BLOCKS. */
static const struct base_node *child_at(const struct base_layout *map, const struct base_node *node,
                                        int64_t index, uintptr_t *base)
{
    switch (node->kind) {
    case BASE_NODE_OFFSETS:
        *base += (uintptr_t)node->table[index];
        return NULL;
    case BASE_NODE_BLOCKS:
        *base += (uintptr_t)base_node_entries(node)[index].disp;
        return NULL;
    case BASE_NODE_LOOP:
        *base += (uintptr_t)(index * node->stride);
        return base_layout_node(map->words, node->unit);
    case BASE_NODE_LIST:
        *base += (uintptr_t)node->table[index];
        return base_layout_node(map->words, node->unit);
    default:
        *base += (uintptr_t)base_node_entries(node)[index].disp;
        return base_layout_node(map->words, base_node_entries(node)[index].unit);
    }
}

static int64_t block_bytes(const struct base_node *node, int64_t index)
{
    return node->kind == BASE_NODE_OFFSETS ? node->unit : base_node_entries(node)[index].unit;
}

/* Descends to data byte `offset` of the node, and sets the run. */
static void descend(struct ampi_cursor *cursor, const struct base_node *node, uintptr_t base, int64_t offset)
{
    const struct base_layout *map = cursor->type->map;

    while (node->kind != BASE_NODE_STRIDED) {
        const struct base_node *child;
        int64_t index = 0;
        uintptr_t child_base = base;

        if (offset && (node->kind == BASE_NODE_BLOCKS || node->kind == BASE_NODE_STRUCT)) {
            index = base_node_find(node, offset);
            offset -= base_node_entries(node)[index].prefix;
        } else if (offset) {
            int64_t unit_size = node->size_bytes / node->n;
            index = offset / unit_size;
            offset %= unit_size;
        }
        push_frame(cursor, node, index, base);
        child = child_at(map, node, index, &child_base);
        if (!child) {
            set_block(cursor, child_base, block_bytes(node, index), offset);
            return;
        }
        node = child;
        base = child_base;
    }
    cursor->run = (struct ampi_cursor_run){base, node->stride, (size_t)node->unit, (size_t)node->n, 0};
    if (offset) {
        int64_t index = offset / node->unit;
        cursor->run.ptr += (uintptr_t)(index * node->stride);
        cursor->run.n_blocks -= (size_t)index;
        cursor->run.used = (size_t)(offset % node->unit);
    }
}

/* The whole data as one run, if possible. */
static bool is_one_run(const struct ampi_cursor *cursor, struct ampi_cursor_run *run_out)
{
    const struct ampi_type *type = cursor->type;
    const struct base_node *root;

    if (!type->map) {
        *run_out = (struct ampi_cursor_run){cursor->buf + (uintptr_t)type->true_lb_bytes, type->extent_bytes,
                                            (size_t)type->size_bytes, (size_t)cursor->count, 0};
        if (run_out->stride == type->size_bytes) {
            run_out->block *= run_out->n_blocks;
            run_out->n_blocks = 1;
        }
        return true;
    }
    root = base_layout_node(type->map->words, type->map->root);
    if (root->kind != BASE_NODE_STRIDED ||
        (cursor->count > 1 && type->extent_bytes != root->n * root->stride))
        return false;
    *run_out = (struct ampi_cursor_run){cursor->buf + (uintptr_t)type->map->disp_bytes, root->stride,
                                        (size_t)root->unit, (size_t)(root->n * cursor->count), 0};
    return true;
}

void ampi_cursor_seek(struct ampi_cursor *cursor, MPI_Count packed_bytes)
{
    const struct ampi_type *type = cursor->type;
    int64_t index;

    cursor->packed_bytes = packed_bytes;
    cursor->depth = 0;
    cursor->low = 0;
    cursor->run.n_blocks = 0;
    if (packed_bytes >= cursor->count * type->size_bytes)
        return;
    if (is_one_run(cursor, &cursor->run)) {
        if (packed_bytes) {
            index = packed_bytes / (int64_t)cursor->run.block;
            cursor->run.ptr += (uintptr_t)(index * cursor->run.stride);
            cursor->run.n_blocks -= (size_t)index;
            cursor->run.used = (size_t)(packed_bytes % (int64_t)cursor->run.block);
        }
        return;
    }
    index = packed_bytes / type->size_bytes;
    push_frame(cursor, NULL, index, cursor->buf);
    descend(cursor, base_layout_node(type->map->words, type->map->root),
            cursor->buf + (uintptr_t)(index * type->extent_bytes + type->map->disp_bytes),
            packed_bytes % type->size_bytes);
}

void ampi_cursor_init(struct ampi_cursor *cursor, const void *buf, MPI_Count count,
                      const struct ampi_type *type)
{
    cursor->buf = (uintptr_t)buf;
    cursor->type = type;
    cursor->count = count;
    ampi_cursor_seek(cursor, 0);
}

bool ampi_cursor_next_run(struct ampi_cursor *cursor)
{
    const struct ampi_type *type = cursor->type;

    while (cursor->depth > 0) {
        struct ampi_cursor_frame *frame = ampi_cursor_frame_at(cursor, cursor->depth - 1);
        const struct base_node *node;
        uintptr_t base;

        if (cursor->depth - 1 < cursor->low) {
            ampi_cursor_seek(cursor, cursor->packed_bytes);
            return cursor->run.n_blocks > 0;
        }
        frame->index++;
        base = frame->base;
        if (!frame->node) {
            if (frame->index < cursor->count) {
                base += (uintptr_t)(frame->index * type->extent_bytes + type->map->disp_bytes);
                descend(cursor, base_layout_node(type->map->words, type->map->root), base, 0);
                return true;
            }
        } else if (frame->index < frame->node->n) {
            node = child_at(type->map, frame->node, frame->index, &base);
            if (node)
                descend(cursor, node, base, 0);
            else
                set_block(cursor, base, block_bytes(frame->node, frame->index), 0);
            return true;
        }
        cursor->depth--;
    }
    return false;
}
