/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace.c: records the events of +trace. See trace.h.
 */
#include "ampi/tool/trace.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "ampi/comm/contexts.h"
#include "ampi/tool/event_queue.h"
#include "base/log.h"
#include "base/settings.h"
#include "gpu/copy/call_watch.h"
#include "gpu/gpu.h"

#define DEFAULT_BYTES (32u << 20) /* of the job */
#define RECORDS_MIN 1024
#define UNNUMBERED (-2) /* instead of a count */

struct ampi_trace ampi_trace;

/* ---- Counts ---- */

/* The name of a message or collective, without its number. */
static uint64_t hash_of(const struct ampi_trace_record *record)
{
    bool is_match = record->kind == AMPI_EVENT_MESSAGE_MATCHED;
    bool is_message =
        is_match || record->kind == AMPI_EVENT_SEND_POSTED || record->kind == AMPI_EVENT_SEND_UNMATCHED;
    uint32_t from = (uint32_t)(is_match ? record->peer : record->rank);
    uint32_t to = (uint32_t)(is_match ? record->rank : record->peer);
    uint64_t kind =
        is_message ? (uint32_t)record->tag : (uint64_t)record->value; /* a collective's operation */
    int32_t counted =
        record->kind == AMPI_EVENT_SEND_UNMATCHED ? (int32_t)AMPI_EVENT_SEND_POSTED : record->kind;
    uint64_t hash = (uint64_t)counted * 0x9e3779b97f4a7c15u ^ record->context;

    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u ^ (uint64_t)from << 32 ^ to;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu ^ kind;
    hash = (hash ^ hash >> 31) * 0xbf58476d1ce4e5b9u;
    return hash ? hash : 1;
}

/* The entry of a name, a new one if it has none. NULL: it would be the n_max-th. */
static struct ampi_trace_count *entry_of(struct ampi_trace_ring *ring, uint64_t hash, uint64_t n_max)
{
    uint64_t mask = 2 * ring->n_records - 1, i = hash & mask;

    while (ring->counts[i].hash && ring->counts[i].hash != hash)
        i = (i + 1) & mask;
    if (!ring->counts[i].hash) {
        if (ring->n_counts >= n_max)
            return NULL;
        ring->n_counts++;
        ring->counts[i].hash = hash;
    }
    return &ring->counts[i];
}

int64_t ampi_trace_count(struct ampi_trace_ring *ring, const struct ampi_trace_record *record, uint64_t n_max)
{
    struct ampi_trace_count *entry = entry_of(ring, hash_of(record), n_max);

    if (entry && record->kind == AMPI_EVENT_SEND_UNMATCHED)
        entry->n = UNNUMBERED;
    return !entry ? -1 : entry->n == UNNUMBERED ? UNNUMBERED : entry->n++;
}

static BASE_COLD void lose(struct ampi_trace_ring *ring, const struct ampi_trace_record *record)
{
    bool has_number = record->kind == AMPI_EVENT_SEND_POSTED || record->kind == AMPI_EVENT_MESSAGE_MATCHED ||
                      record->kind == AMPI_EVENT_COLLECTIVE_BEGIN ||
                      record->kind == AMPI_EVENT_COLLECTIVE_END || record->kind == AMPI_EVENT_SEND_UNMATCHED;

    if (has_number && ampi_trace_count(ring, record, ring->n_records) == -1)
        ring->has_lost_counts = true;
}

/* ---- Recording ---- */

/* The place of a new record. The record after it is the next to be overwritten, and is lost now. */
static struct ampi_trace_record *append(struct ampi_trace_ring *ring)
{
    uint64_t n = atomic_load_explicit(&ring->n_written, memory_order_relaxed), mask = ring->n_records - 1;
    struct ampi_trace_record *record = &ring->records[n & mask];

    if (BASE_UNLIKELY(n >= mask))
        lose(ring, &ring->records[(n + 1) & mask]);
    record->time_ns = ult_now_ns();
    return record;
}

static void publish(struct ampi_trace_ring *ring)
{
    uint64_t n = atomic_load_explicit(&ring->n_written, memory_order_relaxed);

    atomic_store_explicit(&ring->n_written, n + 1, memory_order_release);
}

static struct ampi_trace_ring *ring_of(int pe_id)
{
    return ampi_trace.rings && !atomic_load_explicit(&ampi_trace.is_ended, memory_order_relaxed)
               ? &ampi_trace.rings[pe_id]
               : NULL;
}

/* What no other communicator of the job has, also after this one is freed. */
static uint64_t context_of(const struct ampi_comm *comm)
{
    const struct ampi_comm_shared *shared = comm->shared;

    return shared->context_id & AMPI_CONTEXT_CROSS ? shared->context_id
                                                   : (uint64_t)ampi_job.proc_id << 40 | shared->number;
}

static int32_t world_rank_of(const struct ampi_comm *comm, int64_t peer)
{
    return peer < 0 ? -1 : ampi_group_world_rank(comm->peer->layout->group, (int)peer);
}

void ampi_trace_take(const struct ampi_rank *rank, enum ampi_event_kind kind, const struct ampi_comm *comm,
                     const int64_t *values)
{
    struct ampi_trace_ring *ring = ring_of(rank->pe_id);
    struct ampi_trace_record *record;

    if (!ring || kind == AMPI_EVENT_SEND_COMPLETED || kind == AMPI_EVENT_RECEIVE_POSTED ||
        kind == AMPI_EVENT_RECEIVE_COMPLETED || ampi_event_types[kind].scope == AMPI_EVENT_OF_PE ||
        (kind == AMPI_EVENT_SEND_POSTED && comm->streams))
        return; /* streams start sends that have no event */
    record = append(ring);
    record->kind = (int32_t)kind;
    record->rank = rank->world_rank;
    record->peer = -1;
    record->tag = 0;
    record->context = comm ? context_of(comm) : 0;
    record->value = values[0];
    record->call = NULL;
    if (kind == AMPI_EVENT_COLLECTIVE_BEGIN || kind == AMPI_EVENT_COLLECTIVE_END) {
        record->value = values[1];
        record->tag = (int32_t)values[2];
    } else if (kind == AMPI_EVENT_ONE_SIDED || kind == AMPI_EVENT_WINDOW_SYNC) {
        record->peer = world_rank_of(comm, values[1]);
        record->call = (const char *)(intptr_t)values[2];
        record->value = values[3];
    } else if (comm) {
        record->peer = world_rank_of(comm, values[1]);
        record->tag = (int32_t)values[2];
        record->value = values[3];
        record->call = kind == AMPI_EVENT_SEND_POSTED || (kind == AMPI_EVENT_MESSAGE_MATCHED && values[3])
                           ? rank->ult.call
                           : NULL;
    }
    publish(ring);
}

void ampi_trace_take_idle(int pe_id, uint64_t since_ns)
{
    struct ampi_trace_ring *ring = ring_of(pe_id);
    struct ampi_trace_record *record;

    if (!ring)
        return;
    record = append(ring);
    record->kind = AMPI_EVENT_PE_IDLE;
    record->rank = -1;
    record->value = (int64_t)since_ns;
    publish(ring);
}

void ampi_trace_take_copy(int pe_id, enum ampi_event_kind kind, const int64_t *values)
{
    struct ampi_trace_ring *ring = ring_of(pe_id);
    struct ampi_trace_record *record;

    if (!ring)
        return;
    record = append(ring);
    record->kind = (int32_t)kind;
    record->rank = -1;
    record->context = (uint64_t)values[0];
    record->value = values[1];
    publish(ring);
}

static int32_t world_rank_of_ult(const struct ult *u)
{
    const struct ampi_rank *rank = u ? u->owner : NULL;

    return rank && u == &rank->ult ? rank->world_rank : -1;
}

static void readies(struct ult *u, const struct ult *by)
{
    struct ampi_trace_ring *ring = ring_of(ult_pe_id(u->pe));
    struct ampi_trace_record *record;

    if (!ring)
        return;
    record = append(ring);
    record->kind = AMPI_EVENT_RANK_READY;
    record->rank = world_rank_of_ult(u);
    record->peer = world_rank_of_ult(by);
    publish(ring);
}

static void switches(const struct ult *from, const struct ult *to)
{
    struct ampi_trace_ring *ring = ring_of(ult_pe_id(to->pe));
    struct ampi_trace_record *record;

    if (!ring)
        return;
    record = append(ring);
    record->kind = AMPI_EVENT_RANK_RUNS;
    record->rank = world_rank_of_ult(to);
    record->peer = world_rank_of_ult(from);
    record->tag = (int32_t)from->state;
    publish(ring);
}

static void record_work(const void *function, const char *call)
{
    const struct ult *u = ult_self();
    struct ampi_trace_ring *ring = u && u->owner ? ring_of(ult_pe_id(u->pe)) : NULL;
    struct ampi_trace_record *record;

    if (!ring)
        return;
    record = append(ring);
    record->kind = AMPI_EVENT_GPU_WORK;
    record->rank = world_rank_of_ult(u);
    record->value = (intptr_t)function;
    record->call = call;
    publish(ring);
}

static void launches(const void *function)
{
    record_work(function, "kernel");
}

static void calls_gpu(const char *name)
{
    record_work(NULL, name);
}

/* ---- Start ---- */

static void end_by_signal(int number)
{
    if (!ampi_job.is_forked)
        ampi_trace_write();
    signal(number, SIG_DFL);
    raise(number);
}

/* mpirun ends processes by SIGTERM, users by SIGINT. */
static void catch_signals(void)
{
    for (size_t i = 0; i < BASE_COUNT(ampi_trace_signals); i++) {
        struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = SA_ONSTACK}, old;
        if (sigaction(ampi_trace_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(ampi_trace_signals[i], &action, NULL);
    }
}

static void *map(size_t n_bytes)
{
    void *memory =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        base_fatal(1, "+trace: cannot allocate %zu bytes: %s; choose less with +trace FILE,SIZE", n_bytes,
                   strerror(errno));
    return memory;
}

/* Once per process, on its first rank in MPI. */
static void open_trace(void)
{
    size_t bytes = base_settings.trace_bytes ? base_settings.trace_bytes : DEFAULT_BYTES;
    uint64_t n_records = RECORDS_MIN, n_pes = (uint64_t)ampi_job.n_pes * (uint64_t)ampi_job.n_procs;
    struct ampi_trace_ring *rings = map((size_t)ampi_job.n_pes * sizeof *rings);

    while (2 * n_records * n_pes * sizeof(struct ampi_trace_record) <= bytes)
        n_records *= 2;
    for (int i = 0; i < ampi_job.n_pes; i++) {
        rings[i].n_records = n_records;
        rings[i].records = map(n_records * sizeof *rings[i].records);
        rings[i].counts = map(2 * n_records * sizeof *rings[i].counts);
    }
    if (ampi_job.proc_id == 0) {
        ampi_trace.base_ns = ampi_trace.start_ns;
        ampi_trace_create_file();
    }
    catch_signals();
    __atomic_store_n(&ampi_trace.rings, rings, __ATOMIC_RELEASE);
    ult_watchers.readies = readies;
    __atomic_store_n(&gpu_launch_watcher, launches, __ATOMIC_RELAXED);
    __atomic_store_n(&gpu_call_watcher, calls_gpu, __ATOMIC_RELAXED);
    ult_watch_switches(switches);
}

void ampi_trace_begin(struct ampi_rank *self)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct ult none = {.state = ULT_ENDED};
    struct ampi_events *events;

    if (BASE_LIKELY(!base_settings.trace) || (self->events && self->events->is_traced))
        return;
    pthread_once(&once, open_trace);
    if (self->world_state == AMPI_RANK_INITIALIZED && self->world_rank == ampi_job.first_rank)
        ampi_trace_measure_clock(self);
    events = ampi_events_of(self);
    events->is_traced = true;
    ampi_events_update(events);
    switches(&none, ult_self()); /* without images nothing switches */
}
