/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.c: merges moves that start together into one kernel; see batch.h.
 */
#include "gpu/batch.h"

#include "base/log.h"
#include "gpu/kernels/kernels.h"
#include "gpu/gpu_pack.h"

/* Size limit of a batched move: larger ones lose nothing on their own. */
#define MOVE_MAX ((size_t)1 << 20)

/* Moves in progress; created on demand, and then kept by the PE. */
struct gpu_batch {
    struct gpu_copies copies; /* must be first */
    struct gpu_batch *next;   /* free list of the PE */
    struct gpu_pe *pe;
    struct gpu_copy list[GPU_KERNEL_COPIES_MAX];
    struct gpu_move *moves[GPU_KERNEL_COPIES_MAX];
};

/* The device that holds this end of a move, according to the cache, and its address; -1: another kind of
 * memory. */
static int device_of(const struct gpu_data *data, size_t skip_bytes, size_t n_bytes, void **at_out)
{
    struct gpu_range range;

    *at_out = gpu_move_find_block(data, skip_bytes, n_bytes, &range);
    return *at_out ? range.device : -1;
}

bool gpu_batch_take(struct gpu_move *move)
{
    struct gpu_pe *pe = gpu_pe_self();
    void *at;
    int device;

    if (move->n_bytes > MOVE_MAX || (move->n_bytes <= GPU_RESIDENT_MAX && gpu_resident_us > 0) ||
        !gpu_has_kernels())
        return false;
    device = device_of(&move->src, move->src_skip_bytes, move->n_bytes, &at);
    if (device < 0 || device != device_of(&move->dst, move->dst_skip_bytes, move->n_bytes, &at))
        return false;
    move->next = NULL;
    *pe->gathered_end = move;
    pe->gathered_end = &move->next;
    pe->source.pending++;
    return true;
}

static void put_batch(struct gpu_batch *batch)
{
    batch->next = batch->pe->free_batches;
    batch->pe->free_batches = batch;
}

static void batch_done(struct gpu_copies *copies, int error)
{
    struct gpu_batch *batch = BASE_CONTAINER(copies, struct gpu_batch, copies);

    for (int i = 0; i < copies->n; i++) {
        struct gpu_move *move = batch->moves[i];
        move->error = error;
        move->is_dst_missing = false;
        move->done(move, error);
    }
    put_batch(batch);
}

static struct gpu_batch *get_batch(struct gpu_pe *pe, int device)
{
    struct gpu_batch *batch = pe->free_batches;

    if (batch)
        pe->free_batches = batch->next;
    else
        batch = base_malloc(sizeof *batch, "copies in one kernel");
    batch->pe = pe;
    batch->copies = (struct gpu_copies){.copies = batch->list, .device = device, .done = batch_done};
    return batch;
}

/* Transfers the gathered moves that are within the batch's device, and that its kernel can do, to the
 * batch. */
static void fill(struct gpu_batch *batch, struct gpu_move **link)
{
    struct gpu_known known = {0};

    while (*link && batch->copies.n < GPU_KERNEL_COPIES_MAX) {
        struct gpu_move *move = *link;
        struct gpu_copy copy = {.n_bytes = move->n_bytes};
        void *from = NULL, *to = NULL;
        if (device_of(&move->src, move->src_skip_bytes, move->n_bytes, &from) != batch->copies.device ||
            device_of(&move->dst, move->dst_skip_bytes, move->n_bytes, &to) != batch->copies.device) {
            link = &move->next;
            continue;
        }
        copy.src = from;
        copy.dst = to;
        if (!gpu_copies_can(batch->copies.device, &copy, &known)) {
            link = &move->next;
            continue;
        }
        *link = move->next;
        batch->moves[batch->copies.n] = move;
        batch->list[batch->copies.n++] = copy;
    }
}

/* Starts a batch with the first gathered move and others on its device. False: there are no others. */
static bool start_batch(struct gpu_pe *pe, struct gpu_move **first)
{
    struct gpu_move *move = *first;
    void *at = NULL;
    int device = device_of(&move->src, move->src_skip_bytes, move->n_bytes, &at);
    struct gpu_batch *batch;

    if (device < 0)
        return false;
    batch = get_batch(pe, device);
    fill(batch, first);
    if (batch->copies.n > 1 && gpu_copies_start(&batch->copies) == 0)
        return true;
    for (int i = batch->copies.n - 1; i >= 0; i--) {
        batch->moves[i]->next = *first;
        *first = batch->moves[i];
    }
    put_batch(batch);
    return false;
}

void gpu_batch_start(struct gpu_pe *pe)
{
    struct gpu_move *first = pe->gathered;

    pe->gathered = NULL;
    pe->gathered_end = &pe->gathered;
    for (const struct gpu_move *move = first; move; move = move->next)
        pe->source.pending--;
    while (first && first->next && start_batch(pe, &first))
        ;
    while (first) {
        struct gpu_move *move = first;
        first = move->next;
        gpu_move_start_alone(move);
    }
}
