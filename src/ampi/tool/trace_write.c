/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace_write.c: a process's records in the format of Chrome's trace events, which Perfetto reads.
 *
 * In the file, the PEs of process p are the threads of "process" 2 p + 1, and its ranks those of 2 p + 2. The track of a rank has its states,
 * one after another: running, ready (waits for its PE), and the function in which it is blocked; `by` is the rank that ended the wait.
 * Arrows are messages; their id is SOURCE>DEST.CONTEXT.TAG.N; and one-sided operations, with the id SOURCE>DEST.put.N or get.N of data
 * that goes from SOURCE to DEST; N is unique for a rank. Collectives and copies of GPUs are asynchronous events.
 */
#include "ampi/tool/trace.h"

#include <string.h>
#include <sys/mman.h>

#include "ampi/procs/procs.h"
#include "ampi/tool/json.h"

#define COUNTERS_MAX 400 /* values of a counter */

enum state { UNKNOWN, RUNNING, READY, BLOCKED };

/* Of a rank, while the records of its PE are read. */
struct rank_track {
    enum state state;
    int32_t by;       /* the rank that made it ready; -1: none */
    int64_t since_ns; /* when the state began */
    const char *call; /* BLOCKED */
};

/* Of a PE. */
struct pe_track {
    struct ampi_trace_ring *ring;
    int pe_id;
    int32_t running; /* the rank; -1: none */
    int64_t n_taken; /* the number of the record */
    int64_t n_ready, n_unexpected, n_bytes;
    int64_t next_counter_ns, counter_step_ns;
};

static struct ampi_json *out;
static struct rank_track *ranks; /* by ampi_job_index_of */
static int n_ranks;              /* entries */
static int64_t zero_ns;          /* time 0 of the file, on the clock of this process */

/* ---- Events of the file ---- */

/* Begins an event of a PE's track or a rank's: number 2 p + 1 or 2 p + 2 of "process", for process p. */
static void begin_event(const char *phase, int number, int thread, int64_t time_ns)
{
    ampi_json_text(out, ",\n{\"ph\":\"");
    ampi_json_text(out, phase);
    ampi_json_field(out, "\",\"pid\":", number);
    ampi_json_field(out, ",\"tid\":", thread);
    ampi_json_text(out, ",\"ts\":");
    ampi_json_us(out, time_ns - zero_ns);
}

static void begin_of_pe(const char *phase, const struct pe_track *pe, int64_t time_ns)
{
    begin_event(phase, 2 * ampi_job.proc_id + 1, pe->pe_id, time_ns);
}

static void begin_of_rank(const char *phase, int32_t rank, int64_t time_ns)
{
    begin_event(phase, 2 * ampi_job.proc_id + 2, rank, time_ns);
}

static void add_name(const char *category, const char *name)
{
    ampi_json_text(out, ",\"cat\":\"");
    ampi_json_text(out, category);
    ampi_json_text(out, "\",\"name\":\"");
    ampi_json_escaped(out, name);
    ampi_json_text(out, "\"");
}

static void add_call(const struct ampi_trace_record *record)
{
    if (!record->call)
        return;
    ampi_json_text(out, ",\"call\":\"");
    ampi_json_escaped(out, record->call);
    ampi_json_text(out, "\"");
}

static void add_duration(int64_t since_ns, int64_t until_ns)
{
    ampi_json_text(out, ",\"dur\":");
    ampi_json_us(out, until_ns - since_ns);
}

static void end_event(void)
{
    ampi_json_text(out, "}");
}

/* ---- States of ranks ---- */

static struct rank_track *track_of(int32_t rank)
{
    int index = rank < 0 ? -1 : ampi_job_index_of(rank);

    return index >= 0 && index < n_ranks ? &ranks[index] : NULL;
}

static void write_running(const struct pe_track *pe, int32_t rank, int64_t since_ns, int64_t until_ns)
{
    begin_of_rank("X", rank, since_ns);
    add_duration(since_ns, until_ns);
    add_name("state", "running");
    end_event();
    begin_of_pe("X", pe, since_ns);
    add_duration(since_ns, until_ns);
    ampi_json_field(out, ",\"name\":\"rank ", rank);
    ampi_json_text(out, "\"");
    end_event();
}

static void write_state(const struct pe_track *pe, int32_t rank, const struct rank_track *track,
                        int64_t until_ns, bool is_end)
{
    if (track->state == RUNNING) {
        write_running(pe, rank, track->since_ns, until_ns);
        return;
    }
    if (track->state == UNKNOWN)
        return;
    begin_of_rank("X", rank, track->since_ns);
    add_duration(track->since_ns, until_ns);
    add_name(track->state == BLOCKED ? "blocked" : "state", track->state == BLOCKED ? track->call : "ready");
    if (track->by >= 0)
        ampi_json_field(out, ",\"args\":{\"by\":", track->by);
    else if (is_end)
        ampi_json_text(out, ",\"args\":{\"is_last\":true");
    if (track->by >= 0 || is_end)
        ampi_json_text(out, "}");
    end_event();
}

static void change(struct pe_track *pe, int32_t rank, enum state state, int64_t now_ns)
{
    struct rank_track *track = track_of(rank);

    if (!track)
        return;
    write_state(pe, rank, track, now_ns, false);
    pe->n_ready += (state == READY) - (track->state == READY);
    track->state = state;
    track->since_ns = now_ns;
    if (state == RUNNING)
        pe->running = rank;
    else if (pe->running == rank)
        pe->running = -1;
}

static void take_switch(struct pe_track *pe, const struct ampi_trace_record *record, int64_t now_ns)
{
    struct rank_track *before = track_of(pe->running);

    if (before && record->rank == pe->running)
        return;
    if (before)
        change(pe, pe->running,
               record->tag == ULT_READY     ? READY
               : record->tag == ULT_BLOCKED ? BLOCKED
                                            : UNKNOWN,
               now_ns);
    if (before) {
        before->by = -1;
        before->call = "outside MPI"; /* there is no RANK_BLOCKED of waits for other threads */
    }
    pe->running = -1;
    change(pe, record->rank, RUNNING, now_ns);
}

static void take_state(struct pe_track *pe, const struct ampi_trace_record *record, int64_t now_ns)
{
    struct rank_track *track = track_of(record->rank);

    if (!track)
        return;
    if (record->kind == AMPI_EVENT_RANK_BLOCKED) {
        change(pe, record->rank, BLOCKED, now_ns);
        track->call = (const char *)(intptr_t)record->value;
        track->by = -1;
    } else if (record->kind == AMPI_EVENT_RANK_READY) {
        track->by = record->peer;
        change(pe, record->rank, READY, now_ns);
    } else if (track->state != RUNNING) { /* it goes on without a switch */
        if (pe->running >= 0)
            change(pe, pe->running, UNKNOWN, now_ns);
        change(pe, record->rank, RUNNING, now_ns);
    }
}

/* ---- Messages, collectives, GPUs ---- */

/* The number of the message or collective; negative: not known. */
static int64_t number_of(const struct pe_track *pe, const struct ampi_trace_record *record)
{
    struct ampi_trace_ring *ring = pe->ring;

    return ampi_trace_count(ring, record, ring->has_lost_counts ? 0 : 2 * ring->n_records - 1);
}

static void take_message(const struct pe_track *pe, const struct ampi_trace_record *record, int64_t now_ns)
{
    bool is_send = record->kind == AMPI_EVENT_SEND_POSTED;
    int32_t from = is_send ? record->rank : record->peer, to = is_send ? record->peer : record->rank;
    int64_t n = number_of(pe, record);

    if (n < 0)
        return;
    begin_of_rank(is_send ? "s" : "f\",\"bp\":\"e", record->rank, now_ns);
    add_name("msg", "msg");
    ampi_json_field(out, ",\"id\":\"", from);
    ampi_json_field(out, ">", to);
    ampi_json_field(out, ".", (int64_t)record->context);
    ampi_json_field(out, ".", record->tag);
    ampi_json_field(out, ".", n);
    ampi_json_text(out, "\"");
    ampi_json_field(out, is_send ? ",\"args\":{\"bytes\":" : ",\"args\":{\"was_unexpected\":", record->value);
    add_call(record);
    ampi_json_text(out, "}");
    end_event();
}

/* One end of a one-sided operation, on the track of either rank. */
static void write_end(const struct pe_track *pe, const struct ampi_trace_record *record, int32_t from,
                      int32_t to, bool is_source)
{
    int32_t rank = is_source ? from : to;

    begin_event(is_source ? "s" : "f\",\"bp\":\"e", 2 * ampi_procs_of_rank(rank) + 2, rank,
                (int64_t)record->time_ns);
    add_name("rma", "rma");
    ampi_json_field(out, ",\"id\":\"", from);
    ampi_json_field(out, ">", to);
    ampi_json_field(out, ampi_event_is_get(record->call) ? ".get." : ".put.", pe->n_taken);
    ampi_json_field(out, "\",\"args\":{\"bytes\":", record->value);
    ampi_json_field(out, ",\"context\":\"", (int64_t)record->context);
    ampi_json_text(out, "\"");
    add_call(record);
    ampi_json_text(out, "}");
    end_event();
}

static void take_one_sided(const struct pe_track *pe, const struct ampi_trace_record *record)
{
    bool is_get = ampi_event_is_get(record->call);
    int32_t from = is_get ? record->peer : record->rank, to = is_get ? record->rank : record->peer;

    write_end(pe, record, from, to, true);
    write_end(pe, record, from, to, false);
}

static void take_sync(const struct ampi_trace_record *record, int64_t now_ns)
{
    begin_of_rank("i", record->rank, now_ns);
    add_name("rma", record->call);
    ampi_json_field(out, ",\"s\":\"t\",\"args\":{\"target\":", record->peer);
    ampi_json_field(out, ",\"exclusive\":", record->value);
    ampi_json_field(out, ",\"context\":\"", (int64_t)record->context);
    ampi_json_text(out, "\"}");
    end_event();
}

static void take_collective(const struct pe_track *pe, const struct ampi_trace_record *record, int64_t now_ns)
{
    bool is_begin = record->kind == AMPI_EVENT_COLLECTIVE_BEGIN;
    int64_t n = number_of(pe, record);

    if (n < 0)
        return;
    begin_of_rank(is_begin ? "b" : "e", record->rank, now_ns);
    add_name("collective", (const char *)(intptr_t)record->value);
    ampi_json_field(out, ",\"id\":\"", record->rank);
    ampi_json_field(out, ".", (int64_t)record->context);
    ampi_json_field(out, ".", n);
    ampi_json_field(out, "\",\"args\":{\"context\":\"", (int64_t)record->context);
    ampi_json_field(out, "\",\"n\":", n);
    ampi_json_field(out, is_begin ? ",\"root\":" : ",\"error\":", record->tag);
    ampi_json_text(out, "}");
    end_event();
}

static void take_gpu(const struct pe_track *pe, const struct ampi_trace_record *record, int64_t now_ns)
{
    if (record->kind == AMPI_EVENT_GPU_WORK) {
        begin_of_rank("i", record->rank, now_ns);
        add_name("gpu", record->call);
        ampi_json_field(out, ",\"s\":\"t\",\"args\":{\"function\":", record->value);
    } else {
        begin_of_pe(record->kind == AMPI_EVENT_COPY_BEGIN ? "b" : "e", pe, now_ns);
        add_name("gpu", "copy");
        ampi_json_field(out, ",\"id\":\"", (int64_t)record->context);
        ampi_json_field(out, "\",\"args\":{\"bytes\":", record->value);
    }
    ampi_json_text(out, "}");
    end_event();
}

/* ---- Counters ---- */

static void write_counter(const struct pe_track *pe, const char *name, int64_t value, int64_t now_ns)
{
    begin_of_pe("C", pe, now_ns);
    ampi_json_text(out, ",\"name\":\"");
    ampi_json_text(out, name);
    ampi_json_field(out, " of PE ", pe->pe_id);
    ampi_json_field(out, "\",\"args\":{\"n\":", value);
    ampi_json_text(out, "}");
    end_event();
}

static void write_counters(struct pe_track *pe, int64_t now_ns)
{
    if (now_ns < pe->next_counter_ns)
        return;
    pe->next_counter_ns = now_ns + pe->counter_step_ns;
    write_counter(pe, "ready ranks", pe->n_ready, now_ns);
    write_counter(pe, "unexpected messages", pe->n_unexpected, now_ns);
    write_counter(pe, "bytes sent", pe->n_bytes, now_ns);
}

/* ---- A PE's records ---- */

static void take(struct pe_track *pe, const struct ampi_trace_record *record)
{
    int64_t now_ns = (int64_t)record->time_ns;

    switch (record->kind) {
    case AMPI_EVENT_RANK_RUNS:
        take_switch(pe, record, now_ns);
        break;
    case AMPI_EVENT_RANK_BLOCKED:
    case AMPI_EVENT_RANK_READY:
    case AMPI_EVENT_RANK_RESUMED:
        take_state(pe, record, now_ns);
        break;
    case AMPI_EVENT_SEND_POSTED:
        pe->n_bytes += record->value;
        take_message(pe, record, now_ns);
        break;
    case AMPI_EVENT_MESSAGE_UNEXPECTED:
        pe->n_unexpected++;
        break;
    case AMPI_EVENT_MESSAGE_MATCHED:
        pe->n_unexpected -= record->value && pe->n_unexpected > 0;
        take_message(pe, record, now_ns);
        break;
    case AMPI_EVENT_COLLECTIVE_BEGIN:
    case AMPI_EVENT_COLLECTIVE_END:
        take_collective(pe, record, now_ns);
        break;
    case AMPI_EVENT_ONE_SIDED:
        take_one_sided(pe, record);
        break;
    case AMPI_EVENT_WINDOW_SYNC:
        take_sync(record, now_ns);
        break;
    case AMPI_EVENT_SEND_UNMATCHED:
        break; /* find_unmatched */
    case AMPI_EVENT_PE_IDLE:
        begin_of_pe("i", pe, record->value);
        add_name("state", "idle");
        ampi_json_text(out, ",\"s\":\"t\",\"args\":{\"us\":");
        ampi_json_us(out, now_ns - record->value);
        ampi_json_text(out, "}");
        end_event();
        break;
    default:
        take_gpu(pe, record, now_ns);
        break;
    }
    write_counters(pe, now_ns);
}

/* The first record that is kept; a PE that still runs may be writing over the one before it. */
static uint64_t first_kept(const struct ampi_trace_ring *ring, uint64_t n)
{
    return n >= ring->n_records ? n + 1 - ring->n_records : 0;
}

static const struct ampi_trace_record *record_at(const struct ampi_trace_ring *ring, uint64_t i)
{
    return &ring->records[i & (ring->n_records - 1)];
}

/* Before any send is written: whose arrows are left out. */
static void find_unmatched(const struct pe_track *pe, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < n; i++)
        if (record_at(pe->ring, i)->kind == AMPI_EVENT_SEND_UNMATCHED)
            (void)number_of(pe, record_at(pe->ring, i));
}

static void write_pe(int pe_id, int64_t end_ns)
{
    struct pe_track pe = {.ring = &ampi_trace.rings[pe_id], .pe_id = pe_id, .running = -1};
    struct ampi_trace_ring *ring = pe.ring;
    uint64_t n = atomic_load_explicit(&ring->n_written, memory_order_acquire), i = first_kept(ring, n);

    if (i < n)
        pe.counter_step_ns = (end_ns - (int64_t)record_at(ring, i)->time_ns) / COUNTERS_MAX;
    find_unmatched(&pe, i, n);
    for (; i < n; i++) {
        pe.n_taken = (int64_t)i;
        take(&pe, record_at(ring, i));
    }
    for (int k = 0; k < n_ranks; k++) {
        const struct ampi_rank *rank = &ampi_job.ranks[k];
        if (ranks[k].state != UNKNOWN && rank->pe_id == pe_id && end_ns >= ranks[k].since_ns)
            write_state(&pe, rank->world_rank, &ranks[k], end_ns, true);
    }
}

/* ---- All of the process ---- */

static void write_meta(int process_offset, int thread, const char *kind, const char *name, int64_t number)
{
    begin_event("M", 2 * ampi_job.proc_id + process_offset, thread, zero_ns);
    ampi_json_text(out, ",\"name\":\"");
    ampi_json_text(out, kind);
    ampi_json_text(out, "\",\"args\":{\"name\":\"");
    ampi_json_text(out, name);
    ampi_json_number(out, number);
    ampi_json_text(out, "\"}");
    end_event();
}

static void write_names(void)
{
    write_meta(1, 0, "process_name", "PEs of process ", ampi_job.proc_id);
    write_meta(2, 0, "process_name", "ranks of process ", ampi_job.proc_id);
    for (int i = 0; i < ampi_job.n_pes; i++)
        write_meta(1, i, "thread_name", "PE ", i);
    for (int i = 0; i < ampi_job.n_local; i++)
        write_meta(2, ampi_job.ranks[i].world_rank, "thread_name", "rank ", ampi_job.ranks[i].world_rank);
}

static int64_t write_summary(void)
{
    int64_t n_recorded = 0, n_dropped = 0;

    for (int i = 0; i < ampi_job.n_pes; i++) {
        uint64_t n = atomic_load_explicit(&ampi_trace.rings[i].n_written, memory_order_acquire);
        n_recorded += (int64_t)n;
        n_dropped += (int64_t)first_kept(&ampi_trace.rings[i], n);
    }
    begin_event("M", 2 * ampi_job.proc_id + 1, 0, zero_ns);
    ampi_json_field(out, ",\"name\":\"heddle_process\",\"args\":{\"process\":", ampi_job.proc_id);
    ampi_json_field(out, ",\"pes\":", ampi_job.n_pes);
    ampi_json_field(out, ",\"events\":", n_recorded);
    ampi_json_field(out, ",\"dropped\":", n_dropped);
    ampi_json_field(out, ",\"clock_offset_ns\":", ampi_trace.clock_offset_ns);
    ampi_json_text(out, "}");
    end_event();
    return n_dropped;
}

int64_t ampi_trace_write_records(struct ampi_json *json, int64_t end_ns)
{
    int64_t n_dropped;

    out = json;
    n_ranks = atomic_load(&ampi_job.n_present);
    ranks = mmap(NULL, (size_t)n_ranks * sizeof *ranks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (ranks == MAP_FAILED)
        return -1;
    zero_ns = (int64_t)ampi_trace.base_ns - ampi_trace.clock_offset_ns;
    write_names();
    n_dropped = write_summary();
    for (int i = 0; i < ampi_job.n_pes; i++)
        write_pe(i, end_ns);
    return n_dropped;
}
