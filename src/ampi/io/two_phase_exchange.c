/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase_exchange.c: see two_phase_exchange.h.
 *
 * The range of the file that the operation touches is divided into domains, one for each aggregator, and a domain into
 * windows of cb_buffer_size, one for each cycle. The leader of each process runs these steps on its PE; a step begins when the
 * messages of the one before have been sent and received, and its work on other threads is done:
 *
 *      ranges     all leaders send each other the range of their pieces
 *      pack       a thread lists the pieces in each aggregator's window, and copies their data if it is a write
 *      parcels    sent to the aggregators: the size, then the pieces (and their data)
 *      transfer   an aggregator merges the parcels of its window (two_phase_merge.h)
 *      replies    a read: the data goes back with the limit of what was read, and a thread copies it to its places; then the
 *                 next cycle
 *      results    all leaders send each other where their transfers ended
 *
 * The file's bytes between pieces are not written, because the aggregator writes pieces only. The process's own parcel is not
 * sent, and refers to the ranks' memory. Messages with a failed process end at once, as if it had no data; the survivors get
 * ECONNABORTED.
 */
#include "ampi/io/two_phase_exchange.h"

#include <errno.h>
#include <string.h>

#include "ampi/io/file.h"
#include "ampi/p2p/p2p.h"
#include "base/log.h"

/* Domains begin at multiples of this size. */
#define ALIGN_BYTES ((MPI_Offset)64 << 10)

/* Messages of an operation. */
enum step_tag { TAG_RANGE, TAG_SIZE, TAG_PARCEL, TAG_REPLY, TAG_RESULT, TAGS };

static const char memory_what[] = "a collective access to a file";

/* The first message of leaders to each other. */
struct range {
    MPI_Offset from; /* of all pieces; from >= to: none */
    MPI_Offset to;
};

/* ... and last. */
struct result {
    MPI_Offset limit;
    int64_t error;
};

/* A piece in a parcel. */
struct parcel_piece {
    MPI_Offset at;
    uint64_t n_bytes;
};

/* The size of a parcel. A write's is followed by the data. */
struct parcel_size {
    uint64_t n_pieces;
    uint64_t n_bytes; /* of data */
};

/* Pieces of one process in one window. */
struct parcel {
    struct parcel_size size;
    unsigned char *body; /* struct parcel_piece for each, then the data of a write; NULL: no piece */
    unsigned char *data; /* a read: the reply */
    /* The pieces. Their memory is that of the ranks (sender), or of the body or the reply (aggregator). */
    struct ampi_disk_piece *pieces;
    bool is_awaited; /* the sender and the aggregator exchange a parcel in this cycle */
};

struct exchange {
    const struct ampi_two_phase_procs *procs;
    struct ampi_comm *comm; /* the leader's hidden handle */
    struct ampi_comm_shared *shared;
    const struct ampi_disk_hints *hints;
    struct ampi_merge *merge; /* of this process; its results are set at the end */
    uint32_t number;
    bool has_failed;           /* a process has failed */
    struct ult_wakeup wakeup;  /* brings it to the leader's PE */
    struct ampi_request whole; /* the parts are messages */
    int n_waiting;             /* messages and work of this step that are not done */
    void (*next)(struct exchange *x);
    struct ult_offload work;
    struct range *ranges;   /* by process */
    struct result *results; /* by process */
    int n_aggregators;
    int own_aggregator; /* number of this process among the aggregators; -1: none of them */
    MPI_Offset from;    /* of the first domain */
    MPI_Offset domain;  /* size of a domain */
    MPI_Offset window;  /* size of a window */
    int64_t cycle;
    int64_t n_cycles;
    struct parcel *outs;     /* by aggregator */
    struct parcel *ins;      /* by process */
    struct ampi_merge inner; /* the aggregator's */
    struct result result;    /* of this aggregator's transfers */
};

/* ---- Processes ---- */

struct ampi_two_phase_procs *ampi_two_phase_find_procs(const struct ampi_comm_shared *comm)
{
    const struct ampi_layout *layout = comm->side[0].layout;
    int n_ranks = comm->side[0].n_ranks, most = n_ranks < ampi_job.max_procs ? n_ranks : ampi_job.max_procs;
    struct ampi_two_phase_procs *procs;
    bool *is_known;

    if (layout->n_local == n_ranks)
        return NULL;
    procs = base_calloc(1, sizeof *procs + (size_t)most * sizeof(int), memory_what);
    is_known = base_calloc((size_t)ampi_job.max_procs, sizeof *is_known, memory_what);
    for (int i = 0; i < n_ranks; i++) {
        int proc_id = ampi_procs_of_rank(ampi_group_world_rank(layout->group, i));
        if (is_known[proc_id])
            continue;
        is_known[proc_id] = true;
        if (layout->pe_of[i] != AMPI_PE_REMOTE)
            procs->own = procs->n;
        procs->leaders[procs->n++] = i;
    }
    free(is_known);
    return procs;
}

/* ---- Steps ---- */

/* An event that the step waits for has happened. */
static void step_done(struct exchange *x)
{
    if (--x->n_waiting == 0)
        x->next(x);
}

/* Begins a step; step_done ends its beginning. */
static void step_begin(struct exchange *x, void (*next)(struct exchange *x))
{
    x->n_waiting = 1;
    x->next = next;
}

static void message_done(struct ampi_request *message, struct ampi_request *whole)
{
    struct exchange *x = BASE_CONTAINER(whole, struct exchange, whole);

    x->has_failed |= message->status.MPI_ERROR != MPI_SUCCESS;
    ampi_request_destroy(message);
    step_done(x);
}

static int tag_of(const struct exchange *x, enum step_tag tag)
{
    return (int)(x->number % (1u << 20)) * TAGS + (int)tag;
}

static void send(struct exchange *x, int proc, enum step_tag tag, const void *bytes, size_t n_bytes)
{
    struct ampi_send_args args = {.buf = bytes,
                                  .count = (MPI_Count)n_bytes,
                                  .type = ampi_type_of(MPI_BYTE),
                                  .dest = x->procs->leaders[proc],
                                  .tag = tag_of(x, tag),
                                  .comm = x->comm,
                                  .mode = AMPI_SEND_STANDARD};

    x->n_waiting++;
    ampi_request_attach(&x->whole, ampi_send_start(x->comm->owner, &args), message_done);
}

static void receive(struct exchange *x, int proc, enum step_tag tag, void *bytes, size_t n_bytes)
{
    struct ampi_recv_args args = {.buf = bytes,
                                  .count = (MPI_Count)n_bytes,
                                  .type = ampi_type_of(MPI_BYTE),
                                  .source = x->procs->leaders[proc],
                                  .tag = tag_of(x, tag),
                                  .comm = x->comm};

    x->n_waiting++;
    ampi_request_attach(&x->whole, ampi_recv_start(x->comm->owner, &args), message_done);
}

static void work_done(struct ult_offload *work)
{
    step_done(BASE_CONTAINER(work, struct exchange, work));
}

/* Runs a function on another thread as a part of the step. */
static void work(struct exchange *x, void (*run)(struct ult_offload *work))
{
    x->n_waiting++;
    x->work = (struct ult_offload){.run = run, .done = work_done};
    ult_offload_start(&x->work);
}

/* ---- Windows ---- */

static int aggregator_proc(const struct exchange *x, int aggregator)
{
    return (int)((int64_t)aggregator * x->procs->n / x->n_aggregators);
}

/* The aggregator's window of this cycle. */
static struct range window_of(const struct exchange *x, int aggregator)
{
    MPI_Offset first = x->from + aggregator * x->domain, end = first + x->domain;
    struct range window = {first + x->cycle * x->window, first + (x->cycle + 1) * x->window};

    window.to = window.to < end ? window.to : end;
    return window;
}

static bool do_overlap(struct range a, struct range b)
{
    return a.from < b.to && b.from < a.to;
}

/* ---- Packing, on another thread ---- */

/* Lists the pieces of this process in a window. pieces NULL: counts them. */
static struct parcel_size list_pieces(const struct ampi_merge *merge, struct range window,
                                      struct ampi_disk_piece *pieces)
{
    struct parcel_size size = {0};

    for (size_t s = 0; s < merge->n_sources; s++) {
        const struct ampi_merge_source *source = &merge->sources[s];
        for (size_t i = ampi_merge_find(source, window.from);
             i < source->n_pieces && source->pieces[i].at < window.to; i++) {
            struct ampi_disk_piece piece = ampi_merge_clip(&source->pieces[i], window.from, window.to);
            if (pieces)
                pieces[size.n_pieces] = piece;
            size.n_pieces++;
            size.n_bytes += piece.n_bytes;
        }
    }
    return size;
}

static void pack(struct exchange *x, struct parcel *parcel)
{
    struct parcel_piece *heads;
    unsigned char *data;

    parcel->body = base_malloc(parcel->size.n_pieces * sizeof *heads + parcel->size.n_bytes, memory_what);
    heads = (struct parcel_piece *)(void *)parcel->body;
    data = (unsigned char *)(heads + parcel->size.n_pieces);
    for (size_t i = 0; i < parcel->size.n_pieces; i++) {
        const struct ampi_disk_piece *piece = &parcel->pieces[i];
        heads[i] = (struct parcel_piece){piece->at, piece->n_bytes};
        if (x->merge->is_write) {
            memcpy(data, piece->memory, piece->n_bytes);
            data += piece->n_bytes;
        }
    }
}

static void run_pack(struct ult_offload *work)
{
    struct exchange *x = BASE_CONTAINER(work, struct exchange, work);

    for (int a = 0; a < x->n_aggregators; a++) {
        struct parcel *parcel = &x->outs[a];
        *parcel = (struct parcel){.is_awaited = do_overlap(window_of(x, a), x->ranges[x->procs->own])};
        if (!parcel->is_awaited)
            continue;
        parcel->size = list_pieces(x->merge, window_of(x, a), NULL);
        if (parcel->size.n_pieces == 0)
            continue;
        parcel->pieces = base_malloc(parcel->size.n_pieces * sizeof *parcel->pieces, memory_what);
        list_pieces(x->merge, window_of(x, a), parcel->pieces);
        if (aggregator_proc(x, a) != x->procs->own)
            pack(x, parcel);
    }
}

/* A reply is the data and, behind it, the limit of the aggregator's transfers: from there on, the data is void. */
static size_t reply_bytes(const struct parcel *parcel)
{
    return parcel->size.n_bytes + sizeof(MPI_Offset);
}

/* Copies the replies to their places. */
static void run_unpack(struct ult_offload *work)
{
    struct exchange *x = BASE_CONTAINER(work, struct exchange, work);

    for (int a = 0; a < x->n_aggregators; a++) {
        const struct parcel *parcel = &x->outs[a];
        const unsigned char *data = parcel->data;
        MPI_Offset limit;
        if (!data)
            continue;
        memcpy(&limit, data + parcel->size.n_bytes, sizeof limit);
        for (size_t i = 0; i < parcel->size.n_pieces; i++) {
            const struct ampi_disk_piece *piece = &parcel->pieces[i];
            if (piece->at < limit)
                memcpy(piece->memory, data, base_min_u64(piece->n_bytes, (uint64_t)(limit - piece->at)));
            data += piece->n_bytes;
        }
    }
}

/* ---- The end ---- */

static void finish(struct exchange *x)
{
    struct ampi_merge *merge = x->merge;

    merge->limit = AMPI_DISK_NO_END;
    merge->error = 0;
    for (int i = 0; i < x->procs->n; i++)
        if (x->results[i].limit < merge->limit) {
            merge->limit = x->results[i].limit;
            merge->error = (int)x->results[i].error;
        }
    if (x->has_failed) {
        merge->limit = 0;
        merge->error = ECONNABORTED;
    }
    free(x->ranges);
    free(x->results);
    free(x->outs);
    free(x->ins);
    free(x);
    merge->done(merge);
}

static void exchange_results(struct exchange *x)
{
    step_begin(x, finish);
    for (int i = 0; i < x->procs->n; i++) {
        x->results[i] = x->result;
        if (i == x->procs->own)
            continue;
        x->results[i].limit = AMPI_DISK_NO_END;
        receive(x, i, TAG_RESULT, &x->results[i], sizeof x->results[i]);
        send(x, i, TAG_RESULT, &x->result, sizeof x->result);
    }
    step_done(x);
}

/* ---- A cycle ---- */

static void free_parcel(struct parcel *parcel)
{
    free(parcel->body);
    free(parcel->data);
    free(parcel->pieces);
    *parcel = (struct parcel){0};
}

static void begin_cycle(struct exchange *x);

static void end_cycle(struct exchange *x)
{
    for (int a = 0; a < x->n_aggregators; a++)
        free_parcel(&x->outs[a]);
    for (int i = 0; i < x->procs->n; i++)
        free_parcel(&x->ins[i]);
    x->cycle++;
    begin_cycle(x);
}

static void unpack(struct exchange *x)
{
    step_begin(x, end_cycle);
    if (!x->has_failed)
        work(x, run_unpack);
    step_done(x);
}

/* The data goes back to the processes that read it. */
static void send_replies(struct exchange *x)
{
    step_begin(x, x->merge->is_write ? end_cycle : unpack);
    for (int a = 0; !x->merge->is_write && a < x->n_aggregators; a++) {
        struct parcel *out = &x->outs[a];
        if (out->size.n_pieces == 0 || aggregator_proc(x, a) == x->procs->own)
            continue;
        out->data = base_malloc(reply_bytes(out), memory_what);
        receive(x, aggregator_proc(x, a), TAG_REPLY, out->data, reply_bytes(out));
    }
    for (int i = 0; !x->merge->is_write && i < x->procs->n; i++)
        if (x->ins[i].data) {
            memcpy(x->ins[i].data + x->ins[i].size.n_bytes, &x->result.limit, sizeof x->result.limit);
            send(x, i, TAG_REPLY, x->ins[i].data, reply_bytes(&x->ins[i]));
        }
    step_done(x);
}

/* The pieces of a parcel as sources: in each, offsets ascend. Returns the number of sources. */
static size_t list_sources(const struct parcel *parcel, struct ampi_merge_source *sources)
{
    size_t n = 0;

    for (size_t i = 0; i < parcel->size.n_pieces; i++) {
        const struct ampi_disk_piece *piece = &parcel->pieces[i];
        MPI_Offset to = piece->at + (MPI_Offset)piece->n_bytes;
        if (n == 0 || piece->at < sources[n - 1].to)
            sources[n++] = (struct ampi_merge_source){.pieces = piece, .from = piece->at};
        sources[n - 1].to = to;
        sources[n - 1].n_bytes += piece->n_bytes;
        sources[n - 1].n_pieces++;
    }
    return n;
}

static void transferred(struct ampi_merge *inner)
{
    struct exchange *x = BASE_CONTAINER(inner, struct exchange, inner);

    if (inner->limit < x->result.limit)
        x->result = (struct result){inner->limit, inner->error};
    if (inner
            ->is_write) /* also if all data came from other processes: MPI_File_sync must write it to the device */
        atomic_store_explicit(&x->shared->file->has_written, true, memory_order_release);
    free(inner->sources);
    send_replies(x);
}

/* Gives the pieces of a received parcel their memory: that of its data, or of the reply. */
static void place_parcel(struct parcel *parcel, bool is_write)
{
    const struct parcel_piece *heads = (const struct parcel_piece *)(const void *)parcel->body;
    unsigned char *memory;

    if (!is_write)
        parcel->data = base_malloc(reply_bytes(parcel), memory_what);
    memory = is_write ? parcel->body + parcel->size.n_pieces * sizeof *heads : parcel->data;
    parcel->pieces = base_malloc(parcel->size.n_pieces * sizeof *parcel->pieces, memory_what);
    for (size_t i = 0; i < parcel->size.n_pieces; i++) {
        parcel->pieces[i] = (struct ampi_disk_piece){heads[i].at, memory, heads[i].n_bytes};
        memory += heads[i].n_bytes;
    }
}

/* All parcels of this aggregator's window are here. */
static void transfer(struct exchange *x)
{
    const struct parcel *own = x->own_aggregator >= 0 ? &x->outs[x->own_aggregator] : NULL;
    size_t n_pieces = own ? own->size.n_pieces : 0;

    for (int i = 0; i < x->procs->n; i++)
        n_pieces += x->ins[i].size.n_pieces;
    if (n_pieces == 0) {
        send_replies(x);
        return;
    }
    x->inner = (struct ampi_merge){.fd = x->merge->fd,
                                   .is_write = x->merge->is_write,
                                   .window_bytes = x->merge->window_bytes,
                                   .done = transferred};
    x->inner.sources = base_malloc(n_pieces * sizeof *x->inner.sources, memory_what);
    if (own)
        x->inner.n_sources = list_sources(own, x->inner.sources);
    for (int i = 0; i < x->procs->n; i++) {
        struct parcel *in = &x->ins[i];
        if (in->size.n_pieces == 0)
            continue;
        place_parcel(in, x->merge->is_write); /* also after an error: the others wait for replies */
        x->inner.n_sources += list_sources(in, x->inner.sources + x->inner.n_sources);
    }
    if (x->has_failed)
        x->result = (struct result){0, ECONNABORTED};
    if (x->result.error)
        x->inner.n_sources = 0;
    ampi_merge_start(&x->inner);
}

static size_t body_bytes(const struct exchange *x, const struct parcel *parcel)
{
    return parcel->size.n_pieces * sizeof(struct parcel_piece) +
           (x->merge->is_write ? parcel->size.n_bytes : 0);
}

/* The sizes are known: the parcels follow. */
static void exchange_parcels(struct exchange *x)
{
    step_begin(x, transfer);
    for (int i = 0; i < x->procs->n; i++)
        if (x->ins[i].size.n_pieces > 0) {
            x->ins[i].body = base_malloc(body_bytes(x, &x->ins[i]), memory_what);
            receive(x, i, TAG_PARCEL, x->ins[i].body, body_bytes(x, &x->ins[i]));
        }
    for (int a = 0; a < x->n_aggregators; a++)
        if (x->outs[a].body)
            send(x, aggregator_proc(x, a), TAG_PARCEL, x->outs[a].body, body_bytes(x, &x->outs[a]));
    step_done(x);
}

static void exchange_sizes(struct exchange *x)
{
    step_begin(x, exchange_parcels);
    for (int i = 0; x->own_aggregator >= 0 && i < x->procs->n; i++)
        if (i != x->procs->own && do_overlap(window_of(x, x->own_aggregator), x->ranges[i]))
            receive(x, i, TAG_SIZE, &x->ins[i].size, sizeof x->ins[i].size);
    for (int a = 0; a < x->n_aggregators; a++)
        if (x->outs[a].is_awaited && aggregator_proc(x, a) != x->procs->own)
            send(x, aggregator_proc(x, a), TAG_SIZE, &x->outs[a].size, sizeof x->outs[a].size);
    step_done(x);
}

static void begin_cycle(struct exchange *x)
{
    if (x->cycle == x->n_cycles) {
        exchange_results(x);
        return;
    }
    step_begin(x, exchange_sizes);
    work(x, run_pack);
    step_done(x);
}

/* ---- The beginning ---- */

/* All ranges are known: divides the file. */
static void divide(struct exchange *x)
{
    MPI_Offset from = AMPI_DISK_NO_END, to = 0;
    int n_procs = x->procs->n;

    for (int i = 0; i < n_procs; i++)
        if (x->ranges[i].from < x->ranges[i].to) {
            from = x->ranges[i].from < from ? x->ranges[i].from : from;
            to = x->ranges[i].to > to ? x->ranges[i].to : to;
        }
    x->n_aggregators =
        x->hints->cb_nodes > 0 && x->hints->cb_nodes < (size_t)n_procs ? (int)x->hints->cb_nodes : n_procs;
    x->own_aggregator = -1;
    for (int a = 0; a < x->n_aggregators; a++)
        if (aggregator_proc(x, a) == x->procs->own)
            x->own_aggregator = a;
    x->window = (MPI_Offset)base_max_u64(x->hints->cb_buffer_bytes, 1);
    if (from < to) {
        x->from = from / ALIGN_BYTES * ALIGN_BYTES;
        x->domain = (MPI_Offset)base_round_up((size_t)((to - x->from - 1) / x->n_aggregators + 1),
                                              (size_t)ALIGN_BYTES);
        x->n_cycles = (x->domain - 1) / x->window + 1;
    }
    x->outs = base_calloc((size_t)x->n_aggregators, sizeof *x->outs, memory_what);
    x->ins = base_calloc((size_t)n_procs, sizeof *x->ins, memory_what);
    begin_cycle(x);
}

/* On the leader's PE. */
static void begin(struct ult_wakeup *wakeup)
{
    struct exchange *x = BASE_CONTAINER(wakeup, struct exchange, wakeup);
    struct range own = {AMPI_DISK_NO_END, 0};

    x->comm = ampi_comm_hidden(&x->shared->side[0].handles[x->procs->leaders[x->procs->own]]);
    if (!x->comm)
        base_fatal(1, "no context id is left for a collective access to a file");
    for (size_t s = 0; s < x->merge->n_sources; s++) {
        const struct ampi_merge_source *source = &x->merge->sources[s];
        own.from = source->from < own.from ? source->from : own.from;
        own.to = source->to > own.to ? source->to : own.to;
    }
    x->ranges = base_calloc((size_t)x->procs->n, sizeof *x->ranges, memory_what);
    x->results = base_calloc((size_t)x->procs->n, sizeof *x->results, memory_what);
    x->ranges[x->procs->own] = own;
    step_begin(x, divide);
    for (int i = 0; i < x->procs->n; i++)
        if (i != x->procs->own) {
            receive(x, i, TAG_RANGE, &x->ranges[i], sizeof x->ranges[i]);
            send(x, i, TAG_RANGE, &x->ranges[x->procs->own], sizeof own);
        }
    step_done(x);
}

void ampi_two_phase_exchange(const struct ampi_two_phase_procs *procs, struct ampi_comm_shared *comm,
                             uint32_t number, const struct ampi_disk_hints *hints, struct ampi_merge *merge)
{
    struct exchange *x = base_calloc(1, sizeof *x, memory_what);

    x->procs = procs;
    x->shared = comm;
    x->hints = hints;
    x->merge = merge;
    x->number = number;
    x->result.limit = AMPI_DISK_NO_END;
    x->wakeup.handle = begin;
    ult_post_wakeup(comm->side[0].handles[procs->leaders[procs->own]].owner->ult.pe, &x->wakeup);
}
