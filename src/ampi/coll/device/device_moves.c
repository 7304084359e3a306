/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_moves.c: moves of a collective's stage on GPUs; see coll_device.h.
 *
 * Moves are recorded, and started at the end of the stage, when all are known:
 *
 * - Many small blocks: one kernel per receiving GPU, because each single move costs 2 us and more.
 *
 * - Large blocks from several GPUs to one: likewise. The kernel reads from all of them at once, whereas
 *   copies would read from one after the other, so that several GPUs would send to one and none to another.
 *
 * - A large block to several receivers: it crosses to each GPU once, where a kernel writes it to the other
 *   receivers; in pieces, so that both overlap.
 *
 * - All others: one move each.
 *
 * Measured on four H200s, 64 MiB, us: alltoall and allgather 171 by a kernel, 290 by copies in the order of ranks,
 * 165 by copies that begin with the next GPU, which are not synchronised (545 and 868 for 256 MiB, 625 by the
 * kernel). A kernel that pushes is 10 % faster than one that pulls, but would have to be started on all sending GPUs,
 * by PEs that do not know of it. A block to three other ranks of a GPU takes 88 in four pieces, 115 by three copies.
 * A single block to a peer takes 182 by the copy engine, 197 by a kernel.
 */
#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/procs/procs.h"
#include "base/log.h"
#include "gpu/kernels/kernels.h"

/* Blocks up to this size are merged, larger ones only if there are many: above, single copies are faster. */
#define TOGETHER_MAX ((size_t)256 << 10)
#define MANY_TOGETHER_MAX ((size_t)4 << 20)
#define MANY 8

/* Blocks from this size on cross to a GPU once; also the minimum size of their pieces. */
#define SPREAD_FROM ((size_t)1 << 20)
#define PIECE_LEAST ((size_t)4 << 20)
#define PIECES 4

#define GPUS_MAX 64

/* A move. */
struct pending_move {
    struct gpu_move move;
    struct pending_move *next; /* next in the stage's list, or in a group's */
    struct ampi_coll_pe *part;
    struct ampi_coll_args *to;
    struct gpu_copy copy; /* if it is from one GPU block to another; else n_bytes is 0 */
    int from_gpu;
    int to_gpu;
    bool is_spread; /* a large block with other receivers on this GPU */
};

/* The current or last stage of each PE. */
static struct stage {
    struct ampi_coll_pe *part;
    struct pending_move *first; /* not started yet */
    struct pending_move *last;
} stages[AMPI_PES_MAX];

static struct stage *own_stage(void)
{
    return &stages[ult_pe_id(ult_self()->pe)];
}

void ampi_coll_gpu_begin(struct ampi_coll_pe *part)
{
    own_stage()->part = part;
}

void ampi_coll_device_save_stage(struct ampi_op_stage *stage_out)
{
    struct stage *stage;

    *stage_out = (struct ampi_op_stage){{0}};
    if (!gpu_is_used() || !ult_self())
        return;
    stage = own_stage();
    *stage_out = (struct ampi_op_stage){{stage->part, stage->first, stage->last}};
    *stage = (struct stage){0};
}

void ampi_coll_device_restore_stage(const struct ampi_op_stage *saved)
{
    if (gpu_is_used() && ult_self())
        *own_stage() = (struct stage){saved->words[0], saved->words[1], saved->words[2]};
}

struct ampi_coll_pe *ampi_coll_device_stage(void)
{
    return own_stage()->part;
}

void ampi_coll_device_end(struct ampi_coll_pe *part)
{
    if (--part->n_moves == 0)
        part->then(part);
}

static int gpu_at(const struct ampi_coll_known *known, const void *addr)
{
    const struct gpu_range *range = ampi_coll_range_at(known, addr);

    return range->memory == GPU_MEMORY_DEVICE ? range->device : -1;
}

/* Fills in the copy if the move is between two GPU blocks. */
static void set_copy(struct pending_move *pending, struct ampi_coll_block dst, struct ampi_coll_block src)
{
    pending->copy.n_bytes = 0;
    if (!ampi_type_is_block(dst.type, dst.count) || !ampi_type_is_block(src.type, src.count))
        return;
    pending->copy.dst = ampi_type_address(dst.buf, dst.type->true_lb_bytes);
    pending->copy.src = ampi_type_address(src.buf, src.type->true_lb_bytes);
    pending->from_gpu = gpu_at(src.known, pending->copy.src);
    pending->to_gpu = gpu_at(dst.known, pending->copy.dst);
    if (pending->from_gpu >= 0 && pending->to_gpu >= 0)
        pending->copy.n_bytes = pending->move.n_bytes;
}

bool ampi_coll_gpu_move(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src)
{
    struct stage *stage = own_stage();
    struct pending_move *pending;

    if (!ampi_coll_device_has_block(&dst) && !ampi_coll_device_has_block(&src))
        return false;
    pending = base_calloc(1, sizeof *pending, "a collective on GPUs");
    pending->move.dst = ampi_type_gpu_data(dst.buf, dst.count, dst.type);
    pending->move.src = ampi_type_gpu_data(src.buf, src.count, src.type);
    pending->move.dst.facts = dst.known ? &dst.known->facts : NULL;
    pending->move.src.facts = src.known ? &src.known->facts : NULL;
    if (dst.known && src.known && !dst.known->is_shared)
        pending->move.memo = &dst.known->memo;
    pending->move.n_bytes = base_min_u64(pending->move.dst.size_bytes, pending->move.src.size_bytes);
    pending->part = stage->part;
    pending->to = to;
    set_copy(pending, dst, src);
    if (stage->first)
        stage->last->next = pending;
    else
        stage->first = pending;
    stage->last = pending;
    return true;
}

/* ---- Grouping by GPU ---- */

static void moved(struct gpu_move *move, int error)
{
    struct pending_move *pending = BASE_CONTAINER(move, struct pending_move, move);
    struct ampi_coll_pe *part = pending->part;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_set_error(pending->to, error);
    free(pending);
    ampi_coll_device_end(part);
}

static void start_alone(struct pending_move *pending)
{
    pending->part->n_moves++;
    pending->move.done = moved;
    gpu_move_start(&pending->move);
}

/* Moves grouped by receiving GPU. */
struct by_gpu {
    struct pending_move *first[GPUS_MAX];
    int n[GPUS_MAX];
};

static void sort_in(struct by_gpu *groups, struct pending_move *pending)
{
    pending->next = groups->first[pending->to_gpu];
    groups->first[pending->to_gpu] = pending;
    groups->n[pending->to_gpu]++;
}

/* Starts them; start_many: for several moves to one GPU. */
static void start_groups(const struct by_gpu *groups, void (*start_many)(struct pending_move *moves, int n))
{
    for (int gpu = 0; gpu < GPUS_MAX; gpu++) {
        if (groups->n[gpu] == 1)
            start_alone(groups->first[gpu]);
        else if (groups->n[gpu] > 1)
            start_many(groups->first[gpu], groups->n[gpu]);
    }
}

/* ---- Merging small blocks ---- */

struct batch {
    struct gpu_copies copies;
    struct pending_move *moves;
    struct ampi_coll_pe *part;
};

static void free_moves(struct pending_move *pending, int error)
{
    for (struct pending_move *next; pending; pending = next) {
        next = pending->next;
        if (BASE_UNLIKELY(error))
            ampi_coll_device_set_error(pending->to, error);
        free(pending);
    }
}

static void batch_done(struct gpu_copies *copies, int error)
{
    struct batch *batch = BASE_CONTAINER(copies, struct batch, copies);
    struct ampi_coll_pe *part = batch->part;

    free_moves(batch->moves, error);
    free(batch);
    ampi_coll_device_end(part);
}

/* Starts a list of n copies that one GPU receives. */
static void start_batch(struct pending_move *moves, int n)
{
    struct batch *batch = base_calloc(1, sizeof *batch, "a collective on GPUs");
    struct gpu_copy *list = base_malloc((size_t)n * sizeof *list, "a collective on GPUs");
    int error;

    batch->moves = moves;
    batch->part = moves->part;
    batch->copies = (struct gpu_copies){.copies = list, .device = moves->to_gpu, .done = batch_done};
    for (struct pending_move *pending = moves; pending; pending = pending->next)
        list[batch->copies.n++] = pending->copy;
    error = gpu_copies_start(&batch->copies);
    free(list);
    if (BASE_LIKELY(!error)) {
        batch->part->n_moves++;
        return;
    }
    free_moves(moves, error);
    free(batch);
}

static bool has_same_source(const struct pending_move *a, const struct pending_move *b)
{
    return a->copy.src == b->copy.src && a->copy.n_bytes == b->copy.n_bytes;
}

static bool is_large(const struct pending_move *pending)
{
    return pending->copy.n_bytes >= SPREAD_FROM && gpu_can_combine(GPU_OP_BOR, GPU_TYPE_UINT64);
}

/* Moves with the same source are adjacent. Returns the first one with another source. */
static struct pending_move *mark_spread(struct pending_move *list)
{
    struct pending_move *first[GPUS_MAX] = {0}, *pending = list;

    for (; pending && is_large(pending) && has_same_source(pending, list); pending = pending->next) {
        struct pending_move **same = &first[pending->to_gpu];
        if (*same)
            (*same)->is_spread = pending->is_spread = true;
        else
            *same = pending;
    }
    return pending;
}

/* Moves to a GPU that are merged. */
struct together {
    size_t most_bytes;          /* of the largest block */
    uint64_t sources[GPUS_MAX]; /* by receiving GPU: bit mask of other GPUs that send large blocks */
    struct gpu_known known;
};

/* Single copies take any alignment; kernels are fast only with whole vectors. */
static bool is_aligned(const struct gpu_copy *copy)
{
    return ((uintptr_t)copy->dst | (uintptr_t)copy->src) % 16 == 0;
}

static void look_at_all(struct pending_move *list, struct together *together)
{
    int n_pending = 0;

    *together = (struct together){0};
    for (struct pending_move *pending = list; pending;)
        if (is_large(pending))
            pending = mark_spread(pending);
        else
            pending = pending->next;
    for (const struct pending_move *pending = list; pending; pending = pending->next, n_pending++)
        if (is_large(pending) && !pending->is_spread && pending->from_gpu != pending->to_gpu)
            together->sources[pending->to_gpu] |= (uint64_t)1 << pending->from_gpu;
    together->most_bytes = n_pending >= MANY ? MANY_TOGETHER_MAX : TOGETHER_MAX;
}

static bool goes_together(const struct pending_move *pending, struct together *together)
{
    bool has_many_sources;

    if (pending->copy.n_bytes == 0 || pending->is_spread)
        return false;
    has_many_sources =
        __builtin_popcountll(together->sources[pending->to_gpu]) > 1 && is_aligned(&pending->copy);
    return (pending->copy.n_bytes <= together->most_bytes || has_many_sources) &&
           gpu_copies_can(pending->to_gpu, &pending->copy, pending->move.dst.facts, pending->move.src.facts,
                          &together->known);
}

/* Removes the moves that can be merged from the list, and starts them. */
static void start_batches(struct pending_move **list)
{
    struct by_gpu groups = {0};
    struct together together;

    look_at_all(*list, &together);
    for (struct pending_move **link = list; *link;) {
        struct pending_move *pending = *link;
        if (!goes_together(pending, &together)) {
            link = &pending->next;
            continue;
        }
        *link = pending->next;
        sort_in(&groups, pending);
    }
    start_groups(&groups, start_batch);
}

/* ---- One large block to several receivers on a GPU ---- */

struct broadcast;
struct piece {
    struct gpu_move move;       /* to the first receiver, if the block is on another GPU */
    struct gpu_combine combine; /* from there to the others: a combination of one input */
    struct broadcast *broadcast;
    const void *input;
    void **outs;
    const struct gpu_facts **facts; /* of the outs and the input */
};
struct broadcast {
    struct pending_move *moves; /* the receivers */
    struct ampi_coll_pe *part;
    int n_running; /* pieces in progress */
    int error;
    void **outs;
    const struct gpu_facts **facts;
    struct piece pieces[PIECES];
};

static void piece_done(struct piece *piece, int error)
{
    struct broadcast *broadcast = piece->broadcast;
    struct ampi_coll_pe *part = broadcast->part;

    if (error && !broadcast->error)
        broadcast->error = error;
    if (--broadcast->n_running > 0)
        return;
    free_moves(broadcast->moves, broadcast->error);
    free(broadcast->outs);
    free(broadcast->facts);
    free(broadcast);
    ampi_coll_device_end(part);
}

static void copied(struct gpu_combine *combine, int error)
{
    piece_done(BASE_CONTAINER(combine, struct piece, combine), error);
}

static void crossed(struct gpu_move *move, int error)
{
    struct piece *piece = BASE_CONTAINER(move, struct piece, move);

    if (!error)
        error = gpu_combine_start(&piece->combine);
    if (error)
        piece_done(piece, error);
}

/* Bytes from .. from + n_bytes - 1. has_crossing: a move takes them to the first receiver, whose buffer is
 * the others' source. */
static void set_piece(struct piece *piece, size_t from, size_t n_bytes, bool has_crossing)
{
    const struct pending_move *first = piece->broadcast->moves;
    uintptr_t bits = n_bytes;
    int n = 0;

    for (const struct pending_move *pending = has_crossing ? first->next : first; pending;
         pending = pending->next) {
        piece->facts[n] = pending->move.dst.facts;
        piece->outs[n++] = (char *)pending->copy.dst + from;
        bits |= (uintptr_t)piece->outs[n - 1];
    }
    piece->input = (const char *)(has_crossing ? first->copy.dst : first->copy.src) + from;
    piece->facts[n] = has_crossing ? first->move.dst.facts : first->move.src.facts;
    bits |= (uintptr_t)piece->input;
    piece->combine = (struct gpu_combine){.outs = piece->outs,
                                          .inputs = &piece->input,
                                          .facts = piece->facts,
                                          .n_outs = n,
                                          .n_inputs = 1,
                                          .count_elems = (int64_t)(bits % 8 ? n_bytes : n_bytes / 8),
                                          .op = GPU_OP_BOR,
                                          .type = bits % 8 ? GPU_TYPE_UINT8 : GPU_TYPE_UINT64,
                                          .device = first->to_gpu,
                                          .is_aside = true,
                                          .done = copied};
    piece->move.dst = first->move.dst;
    piece->move.src = first->move.src;
    piece->move.src_skip_bytes = piece->move.dst_skip_bytes = from;
    piece->move.n_bytes = n_bytes;
    piece->move.done = crossed;
}

/* Starts a list of n moves with one source and one receiving GPU. */
static void start_spread(struct pending_move *moves, int n)
{
    struct broadcast *broadcast = base_calloc(1, sizeof *broadcast, "a collective on GPUs");
    size_t left = moves->copy.n_bytes, from = 0, n_bytes;
    bool has_crossing = moves->from_gpu != moves->to_gpu;
    int error = 0;

    broadcast->moves = moves;
    broadcast->part = moves->part;
    broadcast->outs = base_malloc((size_t)n * PIECES * sizeof(void *), "a collective on GPUs");
    n_bytes = has_crossing ? base_round_up(left / PIECES + 1, 4096) : left;
    if (has_crossing && n_bytes < PIECE_LEAST)
        n_bytes = PIECE_LEAST;
    broadcast->part->n_moves++;
    broadcast->facts =
        base_malloc((size_t)(n + 1) * PIECES * sizeof(struct gpu_facts *), "a collective on GPUs");
    broadcast->n_running = 1; /* held until all pieces are started */
    for (int p = 0; left > 0 && !error; p++, from += n_bytes, left -= n_bytes) {
        struct piece *piece = &broadcast->pieces[p];
        piece->broadcast = broadcast;
        piece->outs = broadcast->outs + p * n;
        piece->facts = broadcast->facts + p * (n + 1);
        if (n_bytes > left)
            n_bytes = left;
        set_piece(piece, from, n_bytes, has_crossing);
        if (has_crossing)
            gpu_move_start(&piece->move);
        else
            error = gpu_combine_start(&piece->combine);
        broadcast->n_running += !error;
    }
    broadcast->error = error;
    if (--broadcast->n_running > 0)
        return;
    free_moves(moves, error); /* none could be started */
    broadcast->part->n_moves--;
    free(broadcast->outs);
    free(broadcast->facts);
    free(broadcast);
}

/* Removes the leading moves with the same source from the list, and starts them. */
static struct pending_move *start_spreads(struct pending_move *list)
{
    struct by_gpu groups = {0};
    struct pending_move *source = list, *next;

    for (; list && is_large(list) && has_same_source(list, source); list = next) {
        next = list->next;
        sort_in(&groups, list);
    }
    start_groups(&groups, start_spread);
    return list;
}

/* ---- The order of crossings ---- */

/* Bit mask of GPUs that send or receive blocks. */
static uint64_t gpus_of(const struct pending_move *list)
{
    uint64_t gpus = 0;

    for (const struct pending_move *pending = list; pending; pending = pending->next)
        if (pending->copy.n_bytes > 0)
            gpus |= (uint64_t)1 << pending->from_gpu | (uint64_t)1 << pending->to_gpu;
    return gpus;
}

static int place_among(uint64_t gpus, int gpu)
{
    return __builtin_popcountll(gpus & (((uint64_t)1 << gpu) - 1));
}

/* The distance of the receiving GPU from the sending one, from 1 on; n for moves within a GPU, and for
 * moves that are not block copies. */
static int distance(const struct pending_move *pending, uint64_t gpus, int n)
{
    int places;

    if (pending->copy.n_bytes == 0)
        return n;
    places = place_among(gpus, pending->to_gpu) - place_among(gpus, pending->from_gpu);
    return places > 0 ? places : places + n;
}

/* Sorts blocks so that each GPU first sends to the next GPU, and so on: not all GPUs send to the same one
 * at once. */
static struct pending_move *sort_by_distance(struct pending_move *list)
{
    struct pending_move *first[GPUS_MAX + 1] = {0}, **end[GPUS_MAX + 1], *sorted = NULL, **link = &sorted,
                                          *next;
    uint64_t gpus = gpus_of(list);
    int n = __builtin_popcountll(gpus);

    for (int i = 0; i <= n; i++)
        end[i] = &first[i];
    for (; list; list = next) {
        int i = distance(list, gpus, n);
        next = list->next;
        list->next = NULL;
        *end[i] = list;
        end[i] = &list->next;
    }
    for (int i = 0; i <= n; i++)
        if (first[i]) {
            *link = first[i];
            link = end[i];
        }
    return sorted;
}

/* ---- The end of a stage ---- */

/* True if the resident kernel is there, which is faster for small copies. */
static bool is_served(const struct pending_move *pending)
{
    return pending->copy.n_bytes > 0 && pending->copy.n_bytes <= GPU_RESIDENT_MAX &&
           gpu_resident_is_there(pending->from_gpu);
}

void ampi_coll_gpu_flush(void)
{
    struct stage *stage = own_stage();
    struct pending_move *list = stage->first, *next;

    if (!list)
        return;
    stage->first = stage->last = NULL;
    if (list->next && !is_served(list))
        start_batches(&list);
    list = sort_by_distance(list);
    for (; list; list = next) {
        if (is_large(list)) {
            next = start_spreads(list);
            continue;
        }
        next = list->next;
        start_alone(list);
    }
}
