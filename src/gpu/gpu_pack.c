/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_pack.c: launches the kernels that copy between a layout and consecutive memory; see gpu_pack.h.
 *
 *      one block                                                 a copy
 *      up to GPU_BOX_DIMS nested loops over blocks of one size   pack_box: vectors, subarrays, a regular table
 *      anything else                                             pack_program, which interprets the program
 *
 * The results of analysing a program are kept with it (layout->gpu), as are its copies on GPUs if it is too
 * large for a kernel's arguments.
 */
#include "gpu/gpu_pack.h"

#include <string.h>

#include "base/log.h"
#include "gpu/kernels/kernels.h"
#include "gpu/queue.h"

#define THREADS 256
#define UNITS_PER_THREAD 4

/* More blocks than a GPU can run at once: threads loop over the rest of the work. */
#define BLOCKS_MAX 4096

/* Units of one launch, so that unit numbers in kernels have 31 bits. */
#define LAUNCH_UNITS ((size_t)1 << 29)

#define UNIT_MAX 16

bool gpu_has_kernels(void)
{
    return gpu_module.image != NULL;
}

/* ---- Analysis of a program ---- */

struct box {
    uintptr_t base;
    int64_t block; /* bytes */
    int n_dims;
    int64_t n[GPU_BOX_DIMS + 1]; /* the innermost first; one more than the kernel supports, while the box is
                                  * built */
    int64_t stride[GPU_BOX_DIMS + 1];
};

/* A copy of a program in a GPU's memory. */
struct layout_copy {
    struct layout_copy *next; /* next copy, on another device */
    int device;
    void *words; /* scratch memory of any PE */
    size_t n_bytes;
};

struct gpu_layout {
    int64_t bits;   /* all its sizes and displacements in bytes, or-ed: gives their common alignment */
    bool is_box;    /* nested loops */
    struct box box; /* of one element; base: the displacement */
    struct layout_copy *_Atomic copies;
};

/* Adds a loop around a box. false: too many loops. */
static bool box_repeat(struct box *box, int64_t n, int64_t stride)
{
    int last = box->n_dims - 1;

    if (n == 1)
        return true;
    if (last < 0 && stride == box->block) {
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

static bool box_of_node(const int64_t *words, int64_t index, struct box *box)
{
    const struct base_node *node = base_layout_node(words, index);

    if (node->kind == BASE_NODE_STRIDED) {
        box->block = node->unit;
        box->n_dims = 0;
        return box_repeat(box, node->n, node->stride);
    }
    return node->kind == BASE_NODE_LOOP && box_of_node(words, node->unit, box) &&
           box_repeat(box, node->n, node->stride);
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

/* State that is kept with a layout, created at first use. Safe for concurrent PEs. */
static struct gpu_layout *layout_of(struct base_layout *layout)
{
    struct gpu_layout *made, *old = __atomic_load_n((struct gpu_layout **)&layout->gpu, __ATOMIC_ACQUIRE);

    if (BASE_LIKELY(old))
        return old;
    made = base_calloc(1, sizeof *made, "a datatype");
    made->is_box = box_of_node(layout->words, layout->root, &made->box);
    made->box.base = (uintptr_t)layout->disp_bytes;
    made->bits = layout->disp_bytes;
    for (int64_t i = 0; i < layout->n_words; i += base_node_words(base_layout_node(layout->words, i)))
        made->bits |= node_bits(base_layout_node(layout->words, i));
    if (__atomic_compare_exchange_n((struct gpu_layout **)&layout->gpu, &old, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return old;
}

void gpu_layout_forget(struct base_layout *layout)
{
    struct gpu_layout *known = layout->gpu;
    struct layout_copy *copy, *next;

    for (copy = atomic_load(&known->copies); copy; copy = next) {
        next = copy->next;
        if (ult_self()) /* otherwise the process is ending */
            gpu_scratch_put(copy->device, copy->words, copy->n_bytes);
        free(copy);
    }
    free(known);
    layout->gpu = NULL;
}

/* The program in the memory of the queue's device; copies it there if necessary. */
static int device_words(struct gpu_queue *queue, const struct base_layout *layout, struct gpu_layout *known,
                        uint64_t *words_out)
{
    int device = gpu_queue_device(queue), error = 0;
    struct layout_copy *copy;

    for (copy = atomic_load_explicit(&known->copies, memory_order_acquire); copy; copy = copy->next) {
        if (copy->device == device) {
            *words_out = (uintptr_t)copy->words;
            return 0;
        }
    }
    copy = base_calloc(1, sizeof *copy, "a datatype");
    copy->device = device;
    copy->n_bytes = (size_t)layout->n_words * sizeof(int64_t);
    copy->words = gpu_scratch_get(device, copy->n_bytes, &error);
    if (!copy->words)
        goto err_free;
    error = gpu_queue_copy(queue, copy->words, layout->words, copy->n_bytes);
    if (!error)
        error = gpu_queue_spin(queue); /* other PEs' queues will use it */
    if (error)
        goto err_put;
    /* Two PEs may both create one: the second stays unused. */
    copy->next = atomic_load(&known->copies);
    while (!atomic_compare_exchange_weak(&known->copies, &copy->next, copy))
        ;
    *words_out = (uintptr_t)copy->words;
    return 0;
err_put:
    gpu_scratch_put(device, copy->words, copy->n_bytes);
err_free:
    free(copy);
    return error;
}

/* ---- Launching ---- */

static unsigned blocks_for(size_t n_units, size_t per_thread)
{
    size_t n = (n_units + THREADS * per_thread - 1) / (THREADS * per_thread);

    return (unsigned)(n < BLOCKS_MAX ? n : BLOCKS_MAX);
}

/* The largest unit that divides all values in bits. */
static size_t unit_of(uint64_t bits)
{
    bits |= UNIT_MAX;
    return (size_t)(bits & -bits);
}

static struct gpu_divisor divisor_by(uint64_t by)
{
    struct gpu_divisor d = {.by = (uint32_t)by};
    unsigned bits = 0;

    if (by == 1)
        return d;
    while (((uint64_t)1 << bits) < by)
        bits++;
    /* ceil(2^(31 + bits) / by): exact for numbers below 2^31 */
    d.mul = (uint32_t)((((uint64_t)1 << (31 + bits)) + by - 1) / by);
    d.shift = bits - 1;
    return d;
}

/* One launch: bytes from .. from + n_bytes - 1 of the box, all within its first LAUNCH_UNITS * 2 units. */
static int launch_box(struct gpu_queue *queue, const struct box *box, size_t unit, uint64_t from,
                      size_t n_bytes, uintptr_t flat, bool is_pack)
{
    struct gpu_kernel_box args = {
        .base = box->base,
        .flat = flat,
        .first = (uint32_t)(from / unit),
        .n = (uint32_t)(n_bytes / unit),
        .unit = (uint16_t)unit,
        .n_dims = (uint8_t)box->n_dims,
        .is_pack = is_pack,
        .block = divisor_by((uint64_t)box->block / unit),
    };

    for (int d = 0; d < box->n_dims; d++) {
        args.stride[d] = box->stride[d];
        if (d < box->n_dims - 1)
            args.dim[d] = divisor_by((uint64_t)box->n[d]);
    }
    return gpu_queue_launch(queue, GPU_KERNEL_PACK_BOX, blocks_for(args.n, UNITS_PER_THREAD), THREADS, &args,
                            sizeof args);
}

/* Bytes from .. from + n_bytes - 1 of the box. Iterates over its outermost loop where one launch cannot
 * number all units. */
static int move_box(struct gpu_queue *queue, struct box box, size_t unit, uint64_t from, size_t n_bytes,
                    uintptr_t flat, bool is_pack)
{
    uint64_t turn_bytes = (uint64_t)box.block; /* of the outermost loop */
    int last = box.n_dims - 1, error = 0;
    bool is_large;

    if (box.n_dims == 0)
        return is_pack ? gpu_queue_copy(queue, (void *)flat, (void *)(box.base + from), n_bytes)
                       : gpu_queue_copy(queue, (void *)(box.base + from), (void *)flat, n_bytes);
    for (int d = 0; d < last; d++)
        turn_bytes *= (uint64_t)box.n[d];
    is_large = turn_bytes / unit > LAUNCH_UNITS;
    while (n_bytes > 0 && !error) {
        uint64_t turn = from / turn_bytes;
        size_t piece = is_large ? turn_bytes - from % turn_bytes : LAUNCH_UNITS * unit;
        struct box part = box;
        if (piece > n_bytes)
            piece = n_bytes;
        part.base += turn * (uint64_t)box.stride[last];
        part.n_dims -= is_large;
        if (is_large)
            error = move_box(queue, part, unit, from % turn_bytes, piece, flat, is_pack);
        else
            error = launch_box(queue, &part, unit, from % turn_bytes, piece, flat, is_pack);
        from += piece;
        flat += piece;
        n_bytes -= piece;
    }
    return error;
}

/* Launches the next n_bytes in units of this size. */
static int launch_program(struct gpu_queue *queue, struct gpu_kernel_pack *args, size_t unit, size_t n_bytes)
{
    size_t n_turns = unit > 1 ? n_bytes / unit : n_bytes / UNIT_MAX + 2; /* of threads */
    int error;

    args->unit = (uint32_t)unit;
    args->n = n_bytes / unit;
    error = gpu_queue_launch(queue, GPU_KERNEL_PACK_PROGRAM, blocks_for(n_turns, UNITS_PER_THREAD), THREADS,
                             args, sizeof *args);
    args->first += n_bytes;
    args->flat += n_bytes;
    return error;
}

static int move_program(struct gpu_queue *queue, const struct gpu_data *data, struct gpu_layout *known,
                        size_t offset, size_t n_bytes, uintptr_t flat, bool is_pack)
{
    const struct base_layout *layout = data->layout;
    size_t unit, n;
    int error = 0;
    struct gpu_kernel_pack args = {
        .base = (uintptr_t)data->buf,
        .flat = flat,
        .first = offset,
        .is_pack = is_pack,
        .size_bytes = (int64_t)data->size_bytes / data->count,
        .extent_bytes = data->extent_bytes,
        .disp_bytes = layout->disp_bytes,
        .root = layout->root,
        .n_words = layout->n_words,
    };
    uint64_t bits = (uint64_t)known->bits | (uintptr_t)data->buf | (uint64_t)args.size_bytes | offset | flat |
                    (data->count > 1 ? (uint64_t)data->extent_bytes : 0);

    if (layout->n_words <= GPU_PROGRAM_WORDS)
        memcpy(args.words, layout->words, (size_t)layout->n_words * sizeof(int64_t));
    else
        error = device_words(queue, layout, known, &args.program);
    unit = unit_of(bits);
    unit = unit < 8 ? 1 : unit;
    n = n_bytes / unit * unit; /* the rest is the end of a truncated message */
    if (!error && n)
        error = launch_program(queue, &args, unit, n);
    if (!error && n < n_bytes)
        error = launch_program(queue, &args, 1, n_bytes - n);
    return error;
}

/* The nested loops of all the data. false: it needs a program. */
static bool box_of_data(const struct gpu_data *data, struct box *box_out)
{
    *box_out = (struct box){.base = (uintptr_t)data->true_lb_bytes,
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

bool gpu_data_is_block(const struct gpu_data *data, void **first_out)
{
    struct box box;

    if (!box_of_data(data, &box) || box.n_dims > 0)
        return false;
    *first_out = (void *)box.base;
    return true;
}

static int move(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                uintptr_t flat, bool is_pack)
{
    uint64_t bits;
    struct box box;
    size_t unit, body;
    int error;

    BASE_ASSERT(offset + n_bytes <= data->size_bytes);
    if (n_bytes == 0)
        return 0;
    if (!box_of_data(data, &box))
        return move_program(queue, data, layout_of(data->layout), offset, n_bytes, flat, is_pack);
    bits = box.base | (uint64_t)box.block | offset | flat;
    for (int d = 0; d < box.n_dims; d++)
        bits |= (uint64_t)box.stride[d];
    unit = unit_of(bits);
    body = n_bytes / unit * unit;
    error = body ? move_box(queue, box, unit, offset, body, flat, is_pack) : 0;
    if (!error && body < n_bytes)
        error = move_box(queue, box, 1, offset + body, n_bytes - body, flat + body, is_pack);
    return error;
}

int gpu_pack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                    void *to)
{
    return move(queue, data, offset, n_bytes, (uintptr_t)to, true);
}

int gpu_unpack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                      const void *from)
{
    return move(queue, data, offset, n_bytes, (uintptr_t)from, false);
}
