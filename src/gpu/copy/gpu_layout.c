/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_layout.c: analyses a layout for the kernels that pack it; see gpu_layout.h.
 */
#include "gpu/copy/gpu_layout.h"

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"

/* Maximum number of offsets of a table: TABLE_LEAST, or this many per word of the program. */
#define TABLE_LEAST 4096
#define TABLE_PER_WORD 8

#define SCALE_MAX 16

/* Words in a GPU's memory. */
struct device_copy {
    struct device_copy *next; /* next copy, on another device */
    int device;
    void *words; /* scratch memory of any PE */
    size_t n_bytes;
};

struct gpu_layout {
    const struct base_layout *layout;
    uint64_t bits;
    bool is_box;        /* a box or a table */
    struct gpu_box box; /* of one element; base: the displacement */
    int64_t body;       /* of a table: the node that it describes */
    int64_t n_offsets;
    int64_t n_blocks; /* 0: they are too far from each other for 32 bits */
    struct gpu_pieces pieces;
    struct device_copy *_Atomic programs;
    struct device_copy *_Atomic tables;
    struct device_copy *_Atomic blocks;
};

/* ---- Boxes ---- */

/* Adds a loop around a box. false: too many loops. */
static bool box_repeat(struct gpu_box *box, int64_t n, int64_t stride)
{
    int last = box->n_dims - 1;

    if (n == 1)
        return true;
    if (last < 0 && !box->table && stride == box->block) {
        box->block *= n;
    } else if (last >= 0 && stride == box->n[last] * box->stride[last]) {
        box->n[last] *= n;
    } else {
        if (box->n_dims == GPU_BOX_DIMS)
            return false;
        box->n[box->n_dims] = n;
        box->stride[box->n_dims++] = stride;
    }
    return true;
}

static int64_t node_bits(const struct base_node *node)
{
    const struct base_node_entry *entries = base_node_entries(node);
    int64_t bits = node->size_bytes | node->stride;

    if (node->kind <= BASE_NODE_OFFSETS)
        bits |= node->unit;
    for (int64_t i = 0; i < node->n; i++) {
        if (node->kind == BASE_NODE_OFFSETS || node->kind == BASE_NODE_LIST)
            bits |= node->table[i];
        else if (node->kind == BASE_NODE_BLOCKS)
            bits |= entries[i].disp | entries[i].unit;
        else if (node->kind == BASE_NODE_STRUCT)
            bits |= entries[i].disp;
        else
            break;
    }
    return bits;
}

/* ---- Tables ---- */

/* A function for a block of a body. false: stop. */
struct visitor {
    bool (*visit)(struct visitor *visitor, int64_t disp, int64_t n_bytes);
};

/* Calls visit for all blocks of a node in order. false: it was stopped. */
static bool visit_blocks(struct visitor *visitor, const int64_t *words, int64_t index, int64_t base)
{
    const struct base_node *node = base_layout_node(words, index);
    const struct base_node_entry *entries = base_node_entries(node);
    bool goes_on = true;

    for (int64_t i = 0; i < node->n && goes_on; i++) {
        switch (node->kind) {
        case BASE_NODE_STRIDED:
            goes_on = visitor->visit(visitor, base + i * node->stride, node->unit);
            break;
        case BASE_NODE_OFFSETS:
            goes_on = visitor->visit(visitor, base + node->table[i], node->unit);
            break;
        case BASE_NODE_BLOCKS:
            goes_on = visitor->visit(visitor, base + entries[i].disp, entries[i].unit);
            break;
        case BASE_NODE_LOOP:
            goes_on = visit_blocks(visitor, words, node->unit, base + i * node->stride);
            break;
        case BASE_NODE_LIST:
            goes_on = visit_blocks(visitor, words, node->unit, base + node->table[i]);
            break;
        default:
            goes_on = visit_blocks(visitor, words, entries[i].unit, base + entries[i].disp);
        }
    }
    return goes_on;
}

/* Determines the pieces. */
struct measurer {
    struct visitor visitor;
    int64_t piece;     /* the greatest common divisor of all blocks */
    int64_t n_left;    /* blocks that are still acceptable */
    uint64_t bits;     /* of the displacements */
    int64_t low, high; /* the displacements are in this range */
};

static bool measure(struct visitor *visitor, int64_t disp, int64_t n_bytes)
{
    struct measurer *m = BASE_CONTAINER(visitor, struct measurer, visitor);

    for (int64_t rest = n_bytes; rest;) {
        int64_t next = m->piece % rest;
        m->piece = rest;
        rest = next;
    }
    m->bits |= (uint64_t)disp;
    m->low = disp < m->low ? disp : m->low;
    m->high = disp + n_bytes > m->high ? disp + n_bytes : m->high;
    return --m->n_left >= 0;
}

/* Describes the node by a table. false: it would be too long, or its offsets too large. */
static bool table_of_node(struct gpu_layout *made, int64_t index)
{
    const struct base_layout *layout = made->layout;
    const struct base_node *node = base_layout_node(layout->words, index);
    int64_t most = layout->n_words * TABLE_PER_WORD;
    struct measurer m = {.visitor.visit = measure, .n_left = most > TABLE_LEAST ? most : TABLE_LEAST};
    uint64_t bits;

    most = m.n_left;
    if (!visit_blocks(&m.visitor, layout->words, index, 0) || node->size_bytes / m.piece > most)
        return false;
    bits = m.bits | (uint64_t)m.piece | SCALE_MAX;
    made->pieces = (struct gpu_pieces){.n_bytes = m.piece, .scale = (int64_t)(bits & -bits)};
    made->n_offsets = node->size_bytes / m.piece;
    if (m.high <= INT32_MAX && m.low >= INT32_MIN && node->size_bytes <= INT32_MAX)
        made->n_blocks = most - m.n_left;
    made->body = index;
    made->box = (struct gpu_box){.block = node->size_bytes, .table = made};
    return m.high / made->pieces.scale <= INT32_MAX && m.low / made->pieces.scale >= INT32_MIN;
}

static bool box_of_node(struct gpu_layout *made, int64_t index)
{
    const struct base_node *node = base_layout_node(made->layout->words, index);

    if (node->kind == BASE_NODE_STRIDED) {
        made->box = (struct gpu_box){.block = node->unit};
        return box_repeat(&made->box, node->n, node->stride);
    }
    if (node->kind == BASE_NODE_LOOP)
        return box_of_node(made, node->unit) && box_repeat(&made->box, node->n, node->stride);
    return table_of_node(made, index);
}

/* Writes the offsets. */
struct writer {
    struct visitor visitor;
    struct gpu_pieces pieces;
    int32_t *next;
};

static bool write_offsets(struct visitor *visitor, int64_t disp, int64_t n_bytes)
{
    struct writer *w = BASE_CONTAINER(visitor, struct writer, visitor);

    for (int64_t at = 0; at < n_bytes; at += w->pieces.n_bytes)
        *w->next++ = (int32_t)((disp + at) / w->pieces.scale);
    return true;
}

/* Writes the words of the blocks. */
struct block_writer {
    struct visitor visitor;
    uint32_t prefix;
    uint64_t *next;
};

static bool write_block(struct visitor *visitor, int64_t disp, int64_t n_bytes)
{
    struct block_writer *w = BASE_CONTAINER(visitor, struct block_writer, visitor);

    *w->next++ = gpu_odd_word(w->prefix, (int32_t)disp);
    w->prefix += (uint32_t)n_bytes;
    return true;
}

/* ---- State of a layout ---- */

/* Created at first use. Safe for concurrent PEs. */
static struct gpu_layout *layout_of(struct base_layout *layout)
{
    struct gpu_layout *made, *old = __atomic_load_n((struct gpu_layout **)&layout->gpu, __ATOMIC_ACQUIRE);

    if (BASE_LIKELY(old))
        return old;
    made = base_calloc(1, sizeof *made, "a datatype");
    made->layout = layout;
    made->is_box = box_of_node(made, layout->root);
    made->box.base = (uintptr_t)layout->disp_bytes;
    made->bits = (uint64_t)layout->disp_bytes;
    for (int64_t i = 0; i < layout->n_words; i += base_node_words(base_layout_node(layout->words, i)))
        made->bits |= (uint64_t)node_bits(base_layout_node(layout->words, i));
    if (__atomic_compare_exchange_n((struct gpu_layout **)&layout->gpu, &old, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return old;
}

bool gpu_box_of_data(const struct gpu_data *data, struct gpu_box *box_out)
{
    *box_out = (struct gpu_box){.base = (uintptr_t)data->true_lb_bytes,
                                .block = data->count ? (int64_t)data->size_bytes / data->count : 0};
    if (data->layout) {
        struct gpu_layout *known = layout_of(data->layout);
        if (!known->is_box)
            return false;
        *box_out = known->box;
    }
    box_out->base += (uintptr_t)data->buf;
    return box_repeat(box_out, data->count, data->extent_bytes);
}

int64_t gpu_layout_n_blocks(const struct gpu_layout *table)
{
    return table->n_blocks;
}

uint64_t gpu_layout_bits(struct base_layout *layout)
{
    return layout_of(layout)->bits;
}

struct gpu_pieces gpu_layout_pieces(const struct gpu_layout *table)
{
    return table->pieces;
}

/* ---- Copies on GPUs ---- */

static void put_copies(struct device_copy *copy)
{
    for (struct device_copy *next; copy; copy = next) {
        next = copy->next;
        if (ult_self()) /* otherwise the process is ending */
            gpu_scratch_put(copy->device, copy->words, copy->n_bytes);
        free(copy);
    }
}

void gpu_layout_forget(struct base_layout *layout)
{
    struct gpu_layout *known = layout->gpu;

    put_copies(atomic_load(&known->programs));
    put_copies(atomic_load(&known->tables));
    put_copies(atomic_load(&known->blocks));
    free(known);
    layout->gpu = NULL;
}

static struct device_copy *find_copy(struct device_copy *_Atomic *list, int device)
{
    struct device_copy *copy = atomic_load_explicit(list, memory_order_acquire);

    while (copy && copy->device != device)
        copy = copy->next;
    return copy;
}

/* Copies words to the queue's device, and adds the copy to the list. */
static BASE_COLD int add_copy(struct gpu_queue *queue, struct device_copy *_Atomic *list, const void *words,
                              size_t n_bytes, uint64_t *addr_out)
{
    struct device_copy *copy = base_calloc(1, sizeof *copy, "a datatype");
    int error = 0;

    copy->device = gpu_queue_device(queue);
    copy->n_bytes = n_bytes;
    copy->words = gpu_scratch_get(copy->device, n_bytes, &error);
    if (!copy->words)
        goto err_free;
    error = gpu_queue_copy(queue, copy->words, words, n_bytes);
    if (!error)
        error = gpu_queue_spin(queue); /* other PEs' queues will use it */
    if (error)
        goto err_put;
    *addr_out = (uintptr_t)copy->words;
    /* Two PEs may both create one: the second stays unused. */
    copy->next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &copy->next, copy))
        ;
    return 0;
err_put:
    gpu_scratch_put(copy->device, copy->words, n_bytes);
err_free:
    free(copy);
    return error;
}

int gpu_layout_program(struct gpu_queue *queue, struct base_layout *layout, uint64_t *addr_out)
{
    struct gpu_layout *known = layout_of(layout);
    const struct device_copy *copy = find_copy(&known->programs, gpu_queue_device(queue));

    if (!copy)
        return add_copy(queue, &known->programs, layout->words, (size_t)layout->n_words * sizeof(int64_t),
                        addr_out);
    *addr_out = (uintptr_t)copy->words;
    return 0;
}

int gpu_layout_offsets(struct gpu_queue *queue, struct gpu_layout *table, uint64_t *addr_out)
{
    const struct device_copy *copy = find_copy(&table->tables, gpu_queue_device(queue));
    struct writer w = {.visitor.visit = write_offsets, .pieces = table->pieces};
    size_t n_bytes = (size_t)table->n_offsets * sizeof(int32_t);
    int32_t *offsets;
    int error;

    if (BASE_LIKELY(copy != NULL)) {
        *addr_out = (uintptr_t)copy->words;
        return 0;
    }
    offsets = w.next = base_malloc(n_bytes, "a datatype");
    visit_blocks(&w.visitor, table->layout->words, table->body, 0);
    error = add_copy(queue, &table->tables, offsets, n_bytes, addr_out);
    free(offsets);
    return error;
}

int gpu_layout_blocks(struct gpu_queue *queue, struct gpu_layout *table, uint64_t *addr_out)
{
    const struct device_copy *copy = find_copy(&table->blocks, gpu_queue_device(queue));
    struct block_writer w = {.visitor.visit = write_block};
    size_t n_bytes = (size_t)(table->n_blocks + 1) * sizeof(uint64_t);
    uint64_t *words;
    int error;

    if (BASE_LIKELY(copy != NULL)) {
        *addr_out = (uintptr_t)copy->words;
        return 0;
    }
    words = w.next = base_malloc(n_bytes, "a datatype");
    visit_blocks(&w.visitor, table->layout->words, table->body, 0);
    *w.next = gpu_odd_word(w.prefix, 0);
    error = add_copy(queue, &table->blocks, words, n_bytes, addr_out);
    free(words);
    return error;
}
