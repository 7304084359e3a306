/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeats.c: finds repeated sequences, and follows them; see repeats.h.
 */
#include "gpu/rank/repeats.h"

#include <string.h>

#include "base/log.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

/* Shorter sequences are submitted call by call. */
#define OPS_MIN 2

/* A pause of the program of this length ends a sequence: the program may be waiting for its launches. */
#define PAUSE_NS 20000

/* The monitoring thread submits operations that have been held back for this time. */
#define LATE_NS 100000
/* A rank that needs it LATE_MIN times, and once in LATE_PART sequences, stops using graphs. */
#define LATE_MIN 16
#define LATE_PART 256
/* The monitoring thread goes to sleep when nothing has been held back for this time. */
#define LATELY_NS 100000000

/* Number of repetitions before a sequence becomes a graph, which takes 150 us and more and saves some 2 us for each operation
 * but the first. Doubles after every GRAPHS_PER_DOUBT graphs. */
#define TIMES_MIN 4
#define TIMES_BY_LENGTH 96
#define GRAPHS_PER_DOUBT 16

/* After VAIN_MAX sequences without a repeated one, a number of sequences is ignored. */
#define VAIN_MAX 256
#define REST 4096

#define TRACES 16
#define SEEN 32

/* A sequence that has a graph. */
struct trace {
    struct gpu_sequence *sequence; /* NULL: a free entry */
    CUgraphExec graph;
    uint64_t used; /* the number of the sequence when this one was last begun */
    unsigned n_launched;
    unsigned n_broken; /* times it was begun, but another operation followed */
};

struct gpu_repeats {
    struct gpu_rank_streams *rank;
    pthread_mutex_t lock;         /* taken by the rank, its threads, and the monitoring thread */
    struct gpu_sequence sequence; /* the recorded operations; empty while operations are held back */
    int n;                        /* operations of the current sequence */
    uint32_t matching;            /* bit mask of the matching traces; not 0: all operations are held back */
    bool is_held;                 /* the same; the monitoring thread reads this without the lock */
    uint64_t held_ns, last_ns;    /* time of the first held-back operation; time of the last operation */
    CUstream asked;               /* the program's handle of the stream */
    bool is_asked_per_thread;
    bool is_pending;   /* counted in the PE's source */
    bool is_spoiled;   /* an operation failed: do not learn this sequence */
    bool is_off;       /* the rank has stopped using graphs */
    unsigned n_late;   /* submissions by the monitoring thread */
    unsigned n_graphs; /* ordered so far */
    unsigned n_vain, n_rest;
    uint64_t n_sequences;
    uint64_t generation; /* counts invalidations of recorded data */
    CUresult error;      /* of a held-back operation; the next call returns it */
    struct trace traces[TRACES];
    struct {
        uint64_t hash, n_times, at;
    } seen[SEEN];
    struct gpu_kernels kernels;
    struct gpu_graph_job *job; /* a graph that is being made; NULL: none */
    struct gpu_capture_stream capture;
};

bool gpu_repeats_are_on;

/* ---- Traces ---- */

/* A graph that may be running is kept to the end of the process: there are few (times_needed). */
static void drop(struct trace *trace)
{
    if (!trace->sequence)
        return;
    if (gpu_driver.cuStreamQuery(trace->sequence->stream) == CUDA_SUCCESS)
        gpu_graph_destroy(trace->graph);
    free(trace->sequence);
    *trace = (struct trace){.sequence = NULL};
}

static void forget_all(struct gpu_repeats *repeats)
{
    for (int i = 0; i < TRACES; i++)
        drop(&repeats->traces[i]);
    memset(repeats->seen, 0, sizeof repeats->seen);
    gpu_kernels_forget(&repeats->kernels);
}

static bool is_equal(const struct gpu_sequence *sequence, int i, const struct gpu_operation *op,
                     const char *data)
{
    const struct gpu_operation *other = &sequence->ops[i];

    return i < sequence->n && memcmp(other->key, op->key, sizeof op->key) == 0 &&
           other->n_bytes == op->n_bytes && memcmp(sequence->data + other->at, data, op->n_bytes) == 0;
}

static void record(struct gpu_sequence *sequence, const struct gpu_operation *op, const char *data)
{
    struct gpu_operation *recorded = &sequence->ops[sequence->n++];

    *recorded = *op;
    recorded->at = sequence->n_bytes;
    memcpy(sequence->data + sequence->n_bytes, data, op->n_bytes);
    sequence->n_bytes += (op->n_bytes + 15) & ~15u;
}

static const struct gpu_sequence *followed(const struct gpu_repeats *repeats)
{
    return repeats->traces[__builtin_ctz(repeats->matching)].sequence;
}

/* Submits and records the operations held back. */
static CUresult submit_held(struct gpu_repeats *repeats)
{
    const struct gpu_sequence *from = followed(repeats);
    struct gpu_sequence *to = &repeats->sequence;
    CUresult result = CUDA_SUCCESS;
    CUcontext before;
    int n = repeats->n;

    for (uint32_t bits = repeats->matching; bits; bits &= bits - 1)
        repeats->traces[__builtin_ctz(bits)].n_broken++;
    repeats->matching = 0;
    __atomic_store_n(&repeats->is_held, false, __ATOMIC_RELAXED);
    if (gpu_context_enter(from->context, &before))
        return (CUresult)gpu_driver_last();
    for (int i = 0; i < n && result == CUDA_SUCCESS; i++) {
        const char *data = from->data + from->ops[i].at;
        result = gpu_op_submit(&from->ops[i], data, from->stream);
        record(to, &from->ops[i], data);
    }
    gpu_context_leave(from->context, before);
    gpu_streams_note(repeats->rank, from->stream);
    repeats->is_spoiled |= result != CUDA_SUCCESS;
    return result;
}

/* ---- Learning ---- */

/* An entry for a new trace: a free one, or the least recently used. */
static struct trace *place_for_trace(struct gpu_repeats *repeats)
{
    struct trace *oldest = &repeats->traces[0];

    for (int i = 0; i < TRACES && oldest->sequence; i++)
        if (!repeats->traces[i].sequence || repeats->traces[i].used < oldest->used)
            oldest = &repeats->traces[i];
    drop(oldest);
    return oldest;
}

/* Orders the graph of the current sequence. */
static void make_graph(struct gpu_repeats *repeats)
{
    repeats->job = gpu_graph_job_begin(&repeats->sequence, repeats->generation, &repeats->capture);
    repeats->n_graphs++;
}

/* Takes the graph that was ordered, if it is made. A sequence that got none is counted anew. */
static void take_graph(struct gpu_repeats *repeats)
{
    struct gpu_graph_job *job = repeats->job;
    uint64_t hash;

    if (!atomic_load_explicit(&job->is_done, memory_order_acquire))
        return;
    repeats->job = NULL;
    if (job->graph && !job->is_cancelled && job->generation == repeats->generation) {
        *place_for_trace(repeats) =
            (struct trace){.sequence = job->sequence, .graph = job->graph, .used = repeats->n_sequences};
        repeats->n_vain = 0;
    } else {
        if (job->graph)
            gpu_graph_destroy(job->graph);
        hash = gpu_sequence_hash(job->sequence);
        for (int i = 0; i < SEEN; i++)
            if (repeats->seen[i].hash == hash)
                repeats->seen[i].n_times = 0;
        free(job->sequence);
    }
    free(job);
}

static uint64_t times_needed(const struct gpu_repeats *repeats)
{
    unsigned doubts = repeats->n_graphs / GRAPHS_PER_DOUBT;
    uint64_t times = TIMES_BY_LENGTH / (unsigned)(repeats->sequence.n - 1);

    return (times < TIMES_MIN ? TIMES_MIN : times) << (doubts < 20 ? doubts : 20);
}

/* Called when a sequence has ended that was submitted call by call. */
static void learn(struct gpu_repeats *repeats)
{
    uint64_t hash;
    int place = 0;

    if (++repeats->n_vain == VAIN_MAX) {
        repeats->n_vain = 0;
        repeats->n_rest = REST;
    }
    if (repeats->sequence.n < OPS_MIN || repeats->is_spoiled)
        return;
    hash = gpu_sequence_hash(&repeats->sequence);
    for (int i = 0; i < SEEN; i++) {
        if (repeats->seen[i].hash == hash && repeats->seen[i].n_times > 0) {
            place = i;
            break;
        }
        if (repeats->seen[i].at < repeats->seen[place].at)
            place = i;
    }
    if (repeats->seen[place].hash != hash) {
        repeats->seen[place].hash = hash;
        repeats->seen[place].n_times = 0;
    }
    repeats->seen[place].at = repeats->n_sequences;
    if (repeats->seen[place].n_times + 1 == times_needed(repeats)) {
        /* Later if streams wait for a PE: the driver may wait for them; or if another graph is in the making. */
        if (repeats->job || atomic_load_explicit(&gpu_streams_n_waiting, memory_order_relaxed) > 0)
            return;
        make_graph(repeats);
    }
    repeats->seen[place].n_times++;
}

/* ---- A sequence ---- */

static void begin(struct gpu_repeats *repeats, CUstream stream, CUcontext context)
{
    struct gpu_pe *pe = gpu_pe_self();

    repeats->sequence.stream = stream;
    repeats->sequence.context = context;
    repeats->sequence.n = 0;
    repeats->sequence.n_bytes = 0;
    repeats->is_spoiled = false;
    repeats->matching = 0;
    repeats->n_sequences++;
    if (BASE_UNLIKELY(repeats->job != NULL))
        take_graph(repeats);
    for (int i = 0; i < TRACES; i++) {
        const struct gpu_sequence *sequence = repeats->traces[i].sequence;
        if (sequence && sequence->stream == stream && sequence->context == context)
            repeats->matching |= 1u << i;
    }
    __atomic_store_n(&pe->repeats, repeats, __ATOMIC_RELEASE); /* read by other threads (drain.c) */
}

/* Traces that are broken too often cost more than they save. */
static void drop_broken(struct gpu_repeats *repeats)
{
    for (int i = 0; i < TRACES; i++) {
        struct trace *trace = &repeats->traces[i];
        if (trace->sequence && trace->n_broken > 64 + trace->n_launched)
            drop(trace);
    }
}

/* Ends the sequence. On the rank's PE. */
static void close_sequence(struct gpu_repeats *repeats)
{
    struct gpu_pe *pe = gpu_pe_here();

    repeats->n = 0;
    repeats->matching = 0;
    __atomic_store_n(&repeats->is_held, false, __ATOMIC_RELAXED);
    if (repeats->is_pending)
        pe->source.pending--;
    repeats->is_pending = false;
    __atomic_store_n(&pe->repeats, NULL, __ATOMIC_RELEASE);
}

static void end(struct gpu_repeats *repeats)
{
    if (repeats->is_held) {
        repeats->error = submit_held(repeats);
        drop_broken(repeats);
    }
    learn(repeats);
    close_sequence(repeats);
}

/* Launches a trace whose operations have all been called. */
static CUresult launch(struct gpu_repeats *repeats, struct trace *trace)
{
    const struct gpu_sequence *sequence = trace->sequence;
    CUresult result = gpu_stream_real.r_cuGraphLaunch(trace->graph, sequence->stream);

    gpu_streams_note(repeats->rank, sequence->stream);
    trace->used = repeats->n_sequences;
    trace->n_launched++;
    repeats->n_vain = 0;
    if (BASE_UNLIKELY(result != CUDA_SUCCESS)) {
        repeats->matching = 1u << (trace - repeats->traces);
        result = submit_held(repeats);
        drop(trace);
    }
    close_sequence(repeats);
    return result;
}

/* Holds the operation back if a trace continues like this. False: submit it, if *result_out is
 * CUDA_SUCCESS. */
static bool follow(struct gpu_repeats *repeats, const struct gpu_operation *op, const char *data,
                   CUresult *result_out)
{
    uint32_t matching = 0;

    for (uint32_t bits = repeats->matching; bits; bits &= bits - 1) {
        int i = __builtin_ctz(bits);
        if (is_equal(repeats->traces[i].sequence, repeats->n, op, data))
            matching |= 1u << i;
    }
    if (!matching) {
        if (repeats->n > 0)
            *result_out = submit_held(repeats);
        repeats->matching = 0;
        return false;
    }
    repeats->matching = matching;
    if (repeats->n++ == 0) {
        struct gpu_pe *pe = gpu_pe_here();
        repeats->is_pending = true;
        pe->source.pending++;
        __atomic_store_n(&repeats->held_ns, repeats->last_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&repeats->is_held, true, __ATOMIC_SEQ_CST);
        gpu_repeat_watch_begin();
    }
    for (uint32_t bits = matching; bits; bits &= bits - 1) {
        struct trace *trace = &repeats->traces[__builtin_ctz(bits)];
        if (trace->sequence->n == repeats->n) {
            *result_out = launch(repeats, trace);
            return true;
        }
    }
    return true;
}

static CUresult submit(struct gpu_repeats *repeats, CUstream stream, const struct gpu_operation *op,
                       const char *data)
{
    CUresult result = gpu_op_submit(op, data, stream);

    gpu_streams_note(repeats->rank, stream);
    repeats->last_ns = ult_now_ns(); /* time in the driver is not a pause of the program */
    repeats->n++;
    if (result != CUDA_SUCCESS)
        repeats->is_spoiled = true;
    else
        record(&repeats->sequence, op, data);
    if (repeats->sequence.n == GPU_SEQUENCE_OPS ||
        repeats->sequence.n_bytes > GPU_SEQUENCE_BYTES - GPU_ARGUMENTS_MAX - 16)
        end(repeats);
    return result;
}

CUresult gpu_repeats_take(struct gpu_repeats *repeats, CUstream stream, CUcontext context,
                          const struct gpu_operation *op, const char *data)
{
    uint64_t now_ns = ult_now_ns();
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&repeats->lock);
    if (repeats->n > 0 && (repeats->sequence.stream != stream || repeats->sequence.context != context ||
                           now_ns - repeats->last_ns > PAUSE_NS))
        end(repeats);
    if (repeats->n == 0)
        begin(repeats, stream, context);
    repeats->last_ns = now_ns;
    if (BASE_UNLIKELY(repeats->error != CUDA_SUCCESS)) {
        result = repeats->error;
        repeats->error = CUDA_SUCCESS;
    } else if (!(repeats->matching && follow(repeats, op, data, &result)) && result == CUDA_SUCCESS) {
        result = submit(repeats, stream, op, data);
    }
    pthread_mutex_unlock(&repeats->lock);
    return result;
}

bool gpu_repeats_are_held(struct gpu_repeats *repeats)
{
    bool are_held;

    if (pthread_mutex_trylock(&repeats->lock) != 0)
        return true; /* they may be submitted now */
    are_held = repeats->is_held;
    pthread_mutex_unlock(&repeats->lock);
    return are_held;
}

void gpu_repeats_end(struct gpu_repeats *repeats)
{
    pthread_mutex_lock(&repeats->lock);
    end(repeats);
    pthread_mutex_unlock(&repeats->lock);
}

/* ---- Eligible calls ---- */

static BASE_COLD struct gpu_repeats *create(struct gpu_rank_streams *rank)
{
    struct gpu_repeats *repeats = base_calloc(1, sizeof *repeats, "sequences of launches");

    repeats->rank = rank;
    pthread_mutex_init(&repeats->lock, NULL);
    __atomic_store_n(&rank->repeats, repeats, __ATOMIC_RELEASE);
    gpu_repeat_watch_add(repeats);
    return gpu_repeats_are_on ? repeats : NULL;
}

/* The context of a call's stream, if the library knows it; else NULL. Work on the rank's other streams that
 * comes first by CUDA's rules has been submitted, and this stream waits for it (gpu_call_begin). */
static CUcontext context_of(struct gpu_rank_streams *rank, const struct gpu_call *call)
{
    const struct gpu_stream *known;
    CUcontext context = NULL;

    if (call->face)
        return call->face->context;
    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, call->stream);
    if (known)
        context = known->face->context;
    pthread_mutex_unlock(&rank->lock);
    return context;
}

/* Called before the first operation of a sequence. False: ignore this sequence. */
static bool is_to_begin(struct gpu_repeats *repeats)
{
    uint64_t now = gpu_graphs_generation();

    if (BASE_UNLIKELY(repeats->generation != now)) {
        pthread_mutex_lock(&repeats->lock);
        forget_all(repeats);
        repeats->generation = now;
        pthread_mutex_unlock(&repeats->lock);
    }
    if (repeats->n_rest > 0)
        repeats->n_rest--;
    return repeats->n_rest == 0;
}

bool gpu_repeats_has(struct gpu_repeats *repeats, const struct gpu_operation *op)
{
    bool is_known = false;

    pthread_mutex_lock(&repeats->lock);
    for (uint32_t bits = repeats->matching; bits && !is_known; bits &= bits - 1)
        is_known = is_equal(repeats->traces[__builtin_ctz(bits)].sequence, repeats->n, op, "");
    pthread_mutex_unlock(&repeats->lock);
    return is_known;
}

struct gpu_kernels *gpu_repeats_kernels(struct gpu_repeats *repeats)
{
    return &repeats->kernels;
}

struct gpu_repeats *gpu_repeats_for(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                                    CUcontext *context_out)
{
    struct gpu_rank_streams *rank = gpu_repeats_are_on ? gpu_streams_of_main() : NULL;
    struct gpu_repeats *repeats;

    if (!rank || !ult_has_pe(ult_self()) || rank->n_captures > 0)
        return NULL;
    repeats = rank->repeats ? rank->repeats : create(rank);
    if (!repeats || __atomic_load_n(&repeats->is_off, __ATOMIC_RELAXED))
        return NULL;
    if (repeats->n == 0 && !is_to_begin(repeats))
        return NULL;
    if (repeats->n > 0 && repeats->sequence.stream == call->stream) {
        *context_out = repeats->sequence.context;
        return repeats;
    }
    *context_out = context_of(rank, call);
    if (!*context_out || *context_out != gpu_context_current())
        return NULL;
    repeats->asked = stream;
    repeats->is_asked_per_thread = is_per_thread;
    return repeats;
}

void gpu_repeats_break_unless(CUstream stream, bool is_per_thread)
{
    const struct gpu_pe *pe = gpu_pe_here();

    if (!pe || !pe->repeats || pe->repeats->asked != stream ||
        pe->repeats->is_asked_per_thread != is_per_thread)
        gpu_repeats_break();
}

/* ---- Invalidation ---- */

/* Lock held. */
static void turn_off(struct gpu_repeats *repeats)
{
    __atomic_store_n(&repeats->is_off, true, __ATOMIC_RELAXED);
    if (repeats->is_held)
        repeats->error = submit_held(repeats);
}

void gpu_repeats_end_outside(void)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_repeats *repeats = rank ? __atomic_load_n(&rank->repeats, __ATOMIC_ACQUIRE) : NULL;
    struct ult *self = ult_self();

    if (!repeats)
        return;
    if (self) { /* the PE has become shared since the sequence began */
        ult_enter(self);
        if (repeats->n > 0)
            gpu_repeats_end(repeats);
        ult_leave(self);
        return;
    }
    pthread_mutex_lock(&repeats->lock);
    turn_off(repeats);
    pthread_mutex_unlock(&repeats->lock);
}

void gpu_repeats_cancel(void)
{
    struct gpu_rank_streams *rank = gpu_repeats_are_on ? gpu_streams_of_main() : NULL;

    if (rank && rank->repeats && rank->repeats->job)
        gpu_graph_job_cancel(rank->repeats->job);
    else if (!rank && gpu_repeats_are_on)
        gpu_graphs_forget_all();
}

void gpu_repeats_forget(void)
{
    struct gpu_rank_streams *rank = gpu_repeats_are_on ? gpu_streams_of_main() : NULL;

    gpu_count_change();
    if (rank && rank->repeats)
        rank->repeats->generation = 0;
    gpu_repeats_cancel();
}

void gpu_repeats_forget_stream(struct gpu_rank_streams *rank, CUstream stream)
{
    struct gpu_repeats *repeats = rank->repeats;

    if (!repeats)
        return;
    pthread_mutex_lock(&repeats->lock);
    for (int i = 0; i < TRACES; i++) {
        struct trace *trace = &repeats->traces[i];
        if (!trace->sequence || trace->sequence->stream != stream)
            continue;
        if (rank->n_captures == 0) {
            drop(trace);
        } else { /* a query could invalidate a capture */
            free(trace->sequence);
            trace->sequence = NULL;
        }
    }
    if (repeats->job && repeats->job->sequence->stream == stream)
        gpu_graph_job_cancel(repeats->job);
    pthread_mutex_unlock(&repeats->lock);
}

bool gpu_repeats_look(struct gpu_repeats *repeats, uint64_t now_ns)
{
    uint64_t held_ns = __atomic_load_n(&repeats->held_ns, __ATOMIC_RELAXED);

    if (!__atomic_load_n(&repeats->is_held, __ATOMIC_SEQ_CST))
        return now_ns - held_ns < LATELY_NS;
    if ((int64_t)(now_ns - held_ns) < LATE_NS || pthread_mutex_trylock(&repeats->lock) != 0)
        return true;
    if (repeats->is_held && (int64_t)(now_ns - repeats->held_ns) >= LATE_NS) {
        repeats->error = submit_held(repeats);
        if (++repeats->n_late > LATE_MIN + repeats->n_sequences / LATE_PART)
            __atomic_store_n(&repeats->is_off, true, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&repeats->lock);
    return true;
}
