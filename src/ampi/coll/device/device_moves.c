/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_moves.c: what a stage of a collective moves on GPUs; see coll_device.h.
 *
 * Moves are noted, and started at the end of the stage, when all are known:
 *
 * - Many small blocks: one kernel per receiving GPU, where a move each costs 2 us and more.
 *
 * - Large blocks from several GPUs to one: likewise. It reads from all of them at once, where copies would
 *   come from one after the other, and while they do, so that several GPUs send to one and none to another.
 *
 * - A large block to several receivers: it crosses to each GPU once, from where a kernel writes it to all
 *   others there; in pieces, so that both go on at once.
 *
 * - All others: a move each.
 */
#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/procs/procs.h"
#include "base/log.h"
#include "gpu/kernels/kernels.h"

/* Blocks up to this size go together, and larger ones if there are many: above, copies by themselves are
 * quicker. */
#define TOGETHER_MAX ((size_t)256 << 10)
#define MANY_TOGETHER_MAX ((size_t)4 << 20)
#define MANY 8

/* Blocks from this size on cross to a GPU once; pieces of this size at least. */
#define SPREAD_FROM ((size_t)1 << 20)
#define PIECE_LEAST ((size_t)4 << 20)
#define PIECES 4

#define GPUS_MAX 64

/* A move. */
struct note {
    struct gpu_move move;
    struct note *next; /* link of the stage's list, or of a group's */
    struct ampi_coll_part *part;
    struct ampi_coll_args *to;
    struct gpu_copy copy; /* if it is from one block of a GPU to another's; else n_bytes is 0 */
    int from_gpu;
    int to_gpu;
    bool is_spread; /* a large block that other receivers of this GPU get as well */
};

/* The stage that each PE is in, or was in last. */
static struct stage {
    struct ampi_coll_part *part;
    struct note *first; /* not started yet */
    struct note *last;
} stages[AMPI_PES_MAX];

static struct stage *own_stage(void)
{
    return &stages[ult_pe_id(ult_self()->pe)];
}

void ampi_coll_gpu_begin(struct ampi_coll_part *part)
{
    own_stage()->part = part;
}

void ampi_coll_device_put_aside(struct ampi_op_aside *aside_out)
{
    struct stage *stage;

    *aside_out = (struct ampi_op_aside){{0}};
    if (!gpu_is_used() || !ult_self())
        return;
    stage = own_stage();
    *aside_out = (struct ampi_op_aside){{stage->part, stage->first, stage->last}};
    *stage = (struct stage){0};
}

void ampi_coll_device_take_up(const struct ampi_op_aside *aside)
{
    if (gpu_is_used() && ult_self())
        *own_stage() = (struct stage){aside->words[0], aside->words[1], aside->words[2]};
}

struct ampi_coll_part *ampi_coll_device_stage(void)
{
    return own_stage()->part;
}

void ampi_coll_device_end(struct ampi_coll_part *part)
{
    if (--part->n_moves == 0)
        part->then(part);
}

static int gpu_at(const void *addr)
{
    const struct gpu_range *range = gpu_find(addr);

    return range->memory == GPU_MEMORY_DEVICE ? range->device : -1;
}

/* The same as a copy between two blocks, if it is one. */
static void set_copy(struct note *note, struct ampi_coll_block dst, struct ampi_coll_block src)
{
    note->copy.n_bytes = 0;
    if (!ampi_type_is_block(dst.type, dst.count) || !ampi_type_is_block(src.type, src.count))
        return;
    note->copy.dst = ampi_type_address(dst.buf, dst.type->true_lb_bytes);
    note->copy.src = ampi_type_address(src.buf, src.type->true_lb_bytes);
    note->from_gpu = gpu_at(note->copy.src);
    note->to_gpu = gpu_at(note->copy.dst);
    if (note->from_gpu >= 0 && note->to_gpu >= 0)
        note->copy.n_bytes = note->move.n_bytes;
}

bool ampi_coll_gpu_move(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src)
{
    struct stage *stage = own_stage();
    struct note *note;

    if (!ampi_device_has(dst.buf, dst.count, dst.type) && !ampi_device_has(src.buf, src.count, src.type))
        return false;
    note = base_calloc(1, sizeof *note, "a collective on GPUs");
    note->move.dst = ampi_type_gpu_data(dst.buf, dst.count, dst.type);
    note->move.src = ampi_type_gpu_data(src.buf, src.count, src.type);
    note->move.n_bytes = base_min_u64(note->move.dst.size_bytes, note->move.src.size_bytes);
    note->part = stage->part;
    note->to = to;
    set_copy(note, dst, src);
    if (stage->first)
        stage->last->next = note;
    else
        stage->first = note;
    stage->last = note;
    return true;
}

/* ---- One by one ---- */

static void moved(struct gpu_move *move, int error)
{
    struct note *note = BASE_CONTAINER(move, struct note, move);
    struct ampi_coll_part *part = note->part;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_set_error(note->to, error);
    free(note);
    ampi_coll_device_end(part);
}

static void start_alone(struct note *note)
{
    note->part->n_moves++;
    note->move.done = moved;
    gpu_move_start(&note->move);
}

/* Some notes, by the GPUs that receive. */
struct by_gpu {
    struct note *first[GPUS_MAX];
    int n[GPUS_MAX];
};

static void sort_in(struct by_gpu *groups, struct note *note)
{
    note->next = groups->first[note->to_gpu];
    groups->first[note->to_gpu] = note;
    groups->n[note->to_gpu]++;
}

/* Starts them; start_many: those of a GPU, if there are several. */
static void start_groups(const struct by_gpu *groups, void (*start_many)(struct note *notes, int n))
{
    for (int gpu = 0; gpu < GPUS_MAX; gpu++) {
        if (groups->n[gpu] == 1)
            start_alone(groups->first[gpu]);
        else if (groups->n[gpu] > 1)
            start_many(groups->first[gpu], groups->n[gpu]);
    }
}

/* ---- Small ones together ---- */

struct batch {
    struct gpu_copies copies;
    struct note *notes;
    struct ampi_coll_part *part;
};

static void free_notes(struct note *note, int error)
{
    for (struct note *next; note; note = next) {
        next = note->next;
        if (BASE_UNLIKELY(error))
            ampi_coll_device_set_error(note->to, error);
        free(note);
    }
}

static void batch_done(struct gpu_copies *copies, int error)
{
    struct batch *batch = BASE_CONTAINER(copies, struct batch, copies);
    struct ampi_coll_part *part = batch->part;

    free_notes(batch->notes, error);
    free(batch);
    ampi_coll_device_end(part);
}

/* A list of n copies that one GPU receives. */
static void start_batch(struct note *notes, int n)
{
    struct batch *batch = base_calloc(1, sizeof *batch, "a collective on GPUs");
    struct gpu_copy *list = base_malloc((size_t)n * sizeof *list, "a collective on GPUs");
    int error;

    batch->notes = notes;
    batch->part = notes->part;
    batch->copies = (struct gpu_copies){.copies = list, .device = notes->to_gpu, .done = batch_done};
    for (struct note *note = notes; note; note = note->next)
        list[batch->copies.n++] = note->copy;
    error = gpu_copies_start(&batch->copies);
    free(list);
    if (BASE_LIKELY(!error)) {
        batch->part->n_moves++;
        return;
    }
    free_notes(notes, error);
    free(batch);
}

static bool has_same_source(const struct note *a, const struct note *b)
{
    return a->copy.src == b->copy.src && a->copy.n_bytes == b->copy.n_bytes;
}

static bool is_large(const struct note *note)
{
    return note->copy.n_bytes >= SPREAD_FROM && gpu_can_combine(GPU_OP_BOR, GPU_TYPE_UINT64);
}

/* Notes with one source follow each other. Returns the first that has another one. */
static struct note *mark_spread(struct note *list)
{
    struct note *first[GPUS_MAX] = {0}, *note = list;

    for (; note && is_large(note) && has_same_source(note, list); note = note->next) {
        struct note **same = &first[note->to_gpu];
        if (*same)
            (*same)->is_spread = note->is_spread = true;
        else
            *same = note;
    }
    return note;
}

/* Moves that go to a GPU together. */
struct together {
    size_t most_bytes;          /* of a block */
    uint64_t sources[GPUS_MAX]; /* by receiving GPU: other GPUs that large blocks come from, a bit each */
    struct gpu_known known;
};

/* Copies by themselves go as far as memory does; kernels are quick with whole vectors only. */
static bool is_aligned(const struct gpu_copy *copy)
{
    return ((uintptr_t)copy->dst | (uintptr_t)copy->src) % 16 == 0;
}

static void look_at_all(struct note *list, struct together *together)
{
    int n_notes = 0;

    *together = (struct together){0};
    for (struct note *note = list; note;)
        if (is_large(note))
            note = mark_spread(note);
        else
            note = note->next;
    for (const struct note *note = list; note; note = note->next, n_notes++)
        if (is_large(note) && !note->is_spread && note->from_gpu != note->to_gpu)
            together->sources[note->to_gpu] |= (uint64_t)1 << note->from_gpu;
    together->most_bytes = n_notes >= MANY ? MANY_TOGETHER_MAX : TOGETHER_MAX;
}

static bool goes_together(const struct note *note, struct together *together)
{
    bool has_many_sources;

    if (note->copy.n_bytes == 0 || note->is_spread)
        return false;
    has_many_sources = __builtin_popcountll(together->sources[note->to_gpu]) > 1 && is_aligned(&note->copy);
    return (note->copy.n_bytes <= together->most_bytes || has_many_sources) &&
           gpu_copies_can(note->to_gpu, &note->copy, &together->known);
}

/* Takes those that go together off the list, and starts them. */
static void start_batches(struct note **list)
{
    struct by_gpu groups = {0};
    struct together together;

    look_at_all(*list, &together);
    for (struct note **link = list; *link;) {
        struct note *note = *link;
        if (!goes_together(note, &together)) {
            link = &note->next;
            continue;
        }
        *link = note->next;
        sort_in(&groups, note);
    }
    start_groups(&groups, start_batch);
}

/* ---- One large block to several receivers on a GPU ---- */

struct spread;
struct piece {
    struct gpu_move move;       /* to the first receiver, if the block is another GPU's */
    struct gpu_combine combine; /* from there to the others: a combination of one input */
    struct spread *spread;
    const void *input;
    void **outs;
};
struct spread {
    struct note *notes; /* the receivers */
    struct ampi_coll_part *part;
    int n_running; /* pieces */
    int error;
    void **outs;
    struct piece pieces[PIECES];
};

static void piece_done(struct piece *piece, int error)
{
    struct spread *spread = piece->spread;
    struct ampi_coll_part *part = spread->part;

    if (error && !spread->error)
        spread->error = error;
    if (--spread->n_running > 0)
        return;
    free_notes(spread->notes, spread->error);
    free(spread->outs);
    free(spread);
    ampi_coll_device_end(part);
}

static void spread_out(struct gpu_combine *combine, int error)
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

/* Bytes from .. from + n_bytes - 1. has_crossing: the first receiver gets them by a move, the others from
 * it. */
static void set_piece(struct piece *piece, size_t from, size_t n_bytes, bool has_crossing)
{
    const struct note *first = piece->spread->notes;
    uintptr_t bits = n_bytes;
    int n = 0;

    for (const struct note *note = has_crossing ? first->next : first; note; note = note->next) {
        piece->outs[n++] = (char *)note->copy.dst + from;
        bits |= (uintptr_t)piece->outs[n - 1];
    }
    piece->input = (const char *)(has_crossing ? first->copy.dst : first->copy.src) + from;
    bits |= (uintptr_t)piece->input;
    piece->combine = (struct gpu_combine){.outs = piece->outs,
                                          .inputs = &piece->input,
                                          .n_outs = n,
                                          .n_inputs = 1,
                                          .count_elems = (int64_t)(bits % 8 ? n_bytes : n_bytes / 8),
                                          .op = GPU_OP_BOR,
                                          .type = bits % 8 ? GPU_TYPE_UINT8 : GPU_TYPE_UINT64,
                                          .device = first->to_gpu,
                                          .is_aside = true,
                                          .done = spread_out};
    piece->move.dst = first->move.dst;
    piece->move.src = first->move.src;
    piece->move.src_skip_bytes = piece->move.dst_skip_bytes = from;
    piece->move.n_bytes = n_bytes;
    piece->move.done = crossed;
}

/* A list of n notes with one source and one receiving GPU. */
static void start_spread(struct note *notes, int n)
{
    struct spread *spread = base_calloc(1, sizeof *spread, "a collective on GPUs");
    size_t left = notes->copy.n_bytes, from = 0, n_bytes;
    bool has_crossing = notes->from_gpu != notes->to_gpu;
    int error = 0;

    spread->notes = notes;
    spread->part = notes->part;
    spread->outs = base_malloc((size_t)n * PIECES * sizeof(void *), "a collective on GPUs");
    n_bytes = has_crossing ? base_round_up(left / PIECES + 1, 4096) : left;
    if (has_crossing && n_bytes < PIECE_LEAST)
        n_bytes = PIECE_LEAST;
    spread->part->n_moves++;
    spread->n_running = 1; /* until all pieces are started */
    for (int p = 0; left > 0 && !error; p++, from += n_bytes, left -= n_bytes) {
        struct piece *piece = &spread->pieces[p];
        piece->spread = spread;
        piece->outs = spread->outs + p * n;
        if (n_bytes > left)
            n_bytes = left;
        set_piece(piece, from, n_bytes, has_crossing);
        if (has_crossing)
            gpu_move_start(&piece->move);
        else
            error = gpu_combine_start(&piece->combine);
        spread->n_running += !error;
    }
    spread->error = error;
    if (--spread->n_running > 0)
        return;
    free_notes(notes, error); /* nothing could be started */
    spread->part->n_moves--;
    free(spread->outs);
    free(spread);
}

/* Takes those with the source of the first off the list, as far as they follow each other, and starts
 * them. */
static struct note *start_spreads(struct note *list)
{
    struct by_gpu groups = {0};
    struct note *source = list, *next;

    for (; list && is_large(list) && has_same_source(list, source); list = next) {
        next = list->next;
        sort_in(&groups, list);
    }
    start_groups(&groups, start_spread);
    return list;
}

/* ---- The order of crossings ---- */

/* GPUs that send or receive blocks, a bit each. */
static uint64_t gpus_of(const struct note *list)
{
    uint64_t gpus = 0;

    for (const struct note *note = list; note; note = note->next)
        if (note->copy.n_bytes > 0)
            gpus |= (uint64_t)1 << note->from_gpu | (uint64_t)1 << note->to_gpu;
    return gpus;
}

static int place_among(uint64_t gpus, int gpu)
{
    return __builtin_popcountll(gpus & (((uint64_t)1 << gpu) - 1));
}

/* How many places on the receiving GPU is behind the sending one, from 1 on; n for one within a GPU, and for
 * what is no copy of a block. */
static int distance(const struct note *note, uint64_t gpus, int n)
{
    int places;

    if (note->copy.n_bytes == 0)
        return n;
    places = place_among(gpus, note->to_gpu) - place_among(gpus, note->from_gpu);
    return places > 0 ? places : places + n;
}

/* Blocks begin with those for the next GPU, and so on: so that not all GPUs send to the same at once. */
static struct note *sort_by_distance(struct note *list)
{
    struct note *first[GPUS_MAX + 1] = {0}, **end[GPUS_MAX + 1], *sorted = NULL, **link = &sorted, *next;
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

/* The kernel that stays does small ones quicker, if it is there. */
static bool is_served(const struct note *note)
{
    return note->copy.n_bytes > 0 && note->copy.n_bytes <= GPU_SERVICE_MAX &&
           gpu_service_is_there(note->from_gpu);
}

void ampi_coll_gpu_flush(void)
{
    struct stage *stage = own_stage();
    struct note *list = stage->first, *next;

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
