/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.c: merges moves that start together into one kernel; see batch.h.
 *
 *      blocks of one GPU                        up to 1 MiB each: copies (copies.c)
 *      a layout, and a layout or a block:       up to 1 MiB each, and blocks beside them: jobs (jobs.c), on the
 *      of a GPU, a peer, or pinned memory       source's GPU, or else the destination's
 *      two layouts of one GPU, larger           a launch of its own
 */
#include "gpu/copy/batch.h"

#include "gpu/driver/module.h"

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/jobs.h"
#include "gpu/copy/resident.h"

/* Size limit of a batched move: larger ones lose nothing on their own. */
#define MOVE_MAX ((size_t)1 << 20)

#define MOVES_MAX GPU_KERNEL_COPIES_MAX

/* Moves in progress; created on demand, and then kept by the PE. */
struct gpu_batch {
    struct gpu_batch *next; /* free list of the PE */
    struct gpu_pe *pe;
    struct gpu_queue *queue; /* of the jobs; NULL: copies */
    struct gpu_copies copies;
    struct gpu_ticket ticket; /* of the jobs */
    struct gpu_jobs jobs;
    int n;
    bool is_worth_it; /* also for one move */
    struct gpu_move *moves[MOVES_MAX];
    struct gpu_copy list[MOVES_MAX];
};

/* ---- Eligible moves ---- */

/* The two sides of a move by a kernel. */
struct sides {
    struct gpu_job_side to;
    struct gpu_job_side from;
    struct gpu_range to_range;
    struct gpu_range from_range;
    bool is_to_known; /* the range holds now */
    bool is_from_known;
};

/* false: kernels of no GPU can do it. */
static bool set_side(struct gpu_job_side *side, const struct gpu_data *data, size_t skip_bytes,
                     struct gpu_range *range_out, bool *is_known_out)
{
    bool is_flat;

    if (!gpu_box_of_data(data, &side->box))
        return false;
    is_flat = gpu_box_is_flat(&side->box);
    side->box.base += is_flat ? skip_bytes : 0;
    side->skip_bytes = is_flat ? 0 : skip_bytes;
    *is_known_out = gpu_data_is_known(data, side->box.base);
    *range_out = *is_known_out ? data->facts->range : *gpu_find((const void *)side->box.base);
    return range_out->memory == GPU_MEMORY_DEVICE || (is_flat && range_out->memory == GPU_MEMORY_PINNED);
}

static bool set_sides(struct sides *sides, const struct gpu_move *move)
{
    return set_side(&sides->from, &move->src, move->src_skip_bytes, &sides->from_range,
                    &sides->is_from_known) &&
           set_side(&sides->to, &move->dst, move->dst_skip_bytes, &sides->to_range, &sides->is_to_known);
}

/* True if the device's kernels can use both sides, which are valid. */
static bool can_use(int device, const struct sides *s, struct gpu_known *known)
{
    return gpu_kernel_can_use(device, (const void *)s->to.box.base, s->is_to_known ? &s->to_range : NULL,
                              known) &&
           gpu_kernel_can_use(device, (const void *)s->from.box.base,
                              s->is_from_known ? &s->from_range : NULL, known);
}

static bool is_block_of_device(const struct gpu_job_side *side, const struct gpu_range *range, size_t n_bytes)
{
    return range->memory == GPU_MEMORY_DEVICE && range->to - side->box.base >= n_bytes;
}

/* Determines the device that runs the move, and its kind, from the cache. False: it is not eligible. */
static bool examine(struct gpu_move *move)
{
    struct sides s;
    bool is_local;
    size_t unit;

    if (!set_sides(&s, move))
        return false;
    is_local = s.from_range.device == s.to_range.device;
    move->batch.device = s.from_range.memory == GPU_MEMORY_DEVICE ? s.from_range.device : s.to_range.device;
    move->batch.n_layouts = !gpu_box_is_flat(&s.from.box) + !gpu_box_is_flat(&s.to.box);
    if (move->batch.n_layouts == 0)
        return is_local && move->n_bytes <= MOVE_MAX &&
               is_block_of_device(&s.from, &s.from_range, move->n_bytes) &&
               is_block_of_device(&s.to, &s.to_range, move->n_bytes);
    unit = gpu_jobs_unit(&s.to, &s.from, move->n_bytes);
    return (unit >= GPU_JOBS_UNIT_LEAST || (unit && move->n_bytes <= GPU_JOBS_UNALIGNED_MAX)) &&
           (move->n_bytes <= MOVE_MAX || (move->batch.n_layouts == 2 && is_local));
}

static bool is_block(const struct gpu_move *move)
{
    return !move->src.layout && !move->dst.layout;
}

static bool is_mergeable(struct gpu_move *move)
{
    return !(is_block(move) && move->n_bytes > MOVE_MAX) && gpu_has_kernels() && examine(move);
}

/* True if a resident kernel that is there takes the move sooner. */
static bool is_for_resident(const struct gpu_move *move)
{
    return move->n_bytes <= GPU_RESIDENT_MAX && is_block(move) && gpu_resident_is_near();
}

/* The same, from the memo if that still holds. */
static bool is_mergeable_again(struct gpu_move *move)
{
    struct gpu_move_memo *memo = move->memo;
    uint64_t changes = atomic_load_explicit(&gpu_change_count, memory_order_acquire);

    if (BASE_UNLIKELY(memo->changes != changes || memo->n_bytes != move->n_bytes)) {
        memo->is_mergeable = is_mergeable(move);
        memo->device = move->batch.device;
        memo->n_layouts = move->batch.n_layouts;
        memo->n_bytes = move->n_bytes;
        memo->changes = gpu_facts_hold(move->src.facts) && gpu_facts_hold(move->dst.facts) ? changes : 0;
    }
    move->batch.device = memo->device;
    move->batch.n_layouts = memo->n_layouts;
    return memo->is_mergeable;
}

bool gpu_batch_take(struct gpu_move *move)
{
    struct gpu_pe *pe = gpu_pe_self();

    if (is_for_resident(move) || !(move->memo ? is_mergeable_again(move) : is_mergeable(move)))
        return false;
    move->next = NULL;
    *pe->gathered_end = move;
    pe->gathered_end = &move->next;
    pe->source.pending++;
    return true;
}

/* ---- Batches ---- */

static void put_batch(struct gpu_batch *batch)
{
    batch->next = batch->pe->free_batches;
    batch->pe->free_batches = batch;
}

static void batch_done(struct gpu_batch *batch, int error)
{
    for (int i = 0; i < batch->n; i++) {
        struct gpu_move *move = batch->moves[i];
        move->error = error;
        move->is_dst_missing = false;
        gpu_move_end(move, error);
    }
    put_batch(batch);
}

static void copies_done(struct gpu_copies *copies, int error)
{
    batch_done(BASE_CONTAINER(copies, struct gpu_batch, copies), error);
}

static void jobs_done(struct gpu_ticket *ticket, int error)
{
    batch_done(BASE_CONTAINER(ticket, struct gpu_batch, ticket), error);
}

static struct gpu_batch *get_batch(struct gpu_pe *pe, int device, struct gpu_queue *queue)
{
    struct gpu_batch *batch = pe->free_batches;

    if (batch)
        pe->free_batches = batch->next;
    else
        batch = base_malloc(sizeof *batch, "copies in one kernel");
    batch->pe = pe;
    batch->queue = queue;
    batch->n = 0;
    batch->is_worth_it = false;
    batch->copies = (struct gpu_copies){.copies = batch->list, .device = device, .done = copies_done};
    gpu_jobs_begin(&batch->jobs);
    return batch;
}

/* Adds a move. false: the kernel cannot do it, or (*is_full_out) there is no room left. */
static bool add(struct gpu_batch *batch, struct gpu_move *move, struct gpu_known *known, bool *is_full_out)
{
    struct sides s;
    struct gpu_copy copy;
    int error = 0;

    if (!set_sides(&s, move))
        return false;
    if (!gpu_module.image || !can_use(batch->copies.device, &s, known))
        return false;
    copy = (struct gpu_copy){(void *)s.to.box.base, (const void *)s.from.box.base, move->n_bytes};
    if (batch->queue)
        error = gpu_jobs_add(&batch->jobs, batch->queue, &s.to, &s.from, move->n_bytes);
    else
        batch->list[batch->copies.n++] = copy;
    *is_full_out = error == GPU_JOBS_FULL;
    if (error)
        return false;
    batch->is_worth_it = batch->n > 0 || move->batch.n_layouts == 2;
    batch->moves[batch->n++] = move;
    return true;
}

/* Transfers the gathered moves that the batch's device can do to the batch. */
static void fill(struct gpu_batch *batch, struct gpu_move **link)
{
    struct gpu_known known = {0};
    bool is_full = false;

    while (*link && batch->n < MOVES_MAX && !is_full) {
        struct gpu_move *move = *link;
        bool is_large = move->n_bytes > MOVE_MAX;
        if (move->batch.device != batch->copies.device || (!batch->queue && move->batch.n_layouts) ||
            (is_large && batch->n > 0) || !add(batch, move, &known, &is_full)) {
            link = &move->next;
            continue;
        }
        *link = move->next;
        is_full = is_large;
    }
}

static int start(struct gpu_batch *batch)
{
    int error;

    if (!batch->queue)
        return gpu_copies_start(&batch->copies);
    error = gpu_jobs_launch(&batch->jobs, batch->queue);
    if (error)
        return error;
    batch->ticket.handle = jobs_done;
    gpu_queue_then(batch->queue, &batch->ticket);
    return 0;
}

/* True if some of the moves of the device have layouts. */
static bool has_layouts(const struct gpu_move *move, int device)
{
    while (move && (move->batch.device != device || move->batch.n_layouts == 0))
        move = move->next;
    return move != NULL;
}

/* Starts a batch of gathered moves on the first one's device. False: the first one is to start alone. */
static bool start_batch(struct gpu_pe *pe, struct gpu_move **first)
{
    int device = (*first)->batch.device, error = 0;
    struct gpu_queue *queue = NULL;
    struct gpu_batch *batch;

    if (has_layouts(*first, device)) {
        queue = gpu_queue_of(device, GPU_STREAM_KERNELS, &error);
        if (!queue)
            return false;
    }
    batch = get_batch(pe, device, queue);
    fill(batch, first);
    if (batch->is_worth_it && start(batch) == 0)
        return true;
    for (int i = batch->n - 1; i >= 0; i--) {
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
    while (first) {
        struct gpu_move *move;
        if (start_batch(pe, &first))
            continue;
        move = first;
        first = move->next;
        gpu_move_start_alone(move);
    }
}
