/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_graph.c: ends of messages in CUDA graphs; see gpu.h.
 *
 * In a graph an end has two nodes: it is reached, and the graph waits for it. Growing numbers, as in
 * stream_sync.c, cannot be captured. So an end has words of its own, which are 0 between launches:
 *
 *      reached    set by the graph, if the PE may serve the end
 *      done       set by a kernel or by the PE; the graph waits for it
 *
 * If `done` is in the GPU's memory, the graph resets it in the node that waits, and the PE resets `reached`. If both are in
 * pinned memory, each side writes one word only:
 *
 *      graph      waits for done 0, reached = 1, waits for done 1, reached = 0
 *      PE         waits for reached 1, done = 1, waits for reached 0, done = 0
 *
 * A graph that reset `done` overwrote the PE's next answer now and then while several processes shared an H200: two
 * writes of a graph to pinned memory may become visible late, and not in their order.
 *
 * It is decided once, when both ends are captured, whether a kernel or the PE serves them (gpu_graph_agree).
 * The first end may be launched before that. So it is a kernel if a kernel could serve it; the kernel also
 * sets `reached` for the PE. Ends that are known to need the PE only write and wait, in pinned memory.
 *
 * CUDA does not begin a launch before the previous one of the same executable graph has ended. So all words are at
 * rest when an end is reached.
 */
#include <string.h>

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/module.h"
#include "gpu/driver/pe_state.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/streams/stream_sync.h"

/* Time after which a launch that waits for an end that was never captured is reported. */
#define LONELY_NS 5000000000

/* The PE serves larger messages. */
#define EXCHANGE_BYTES_MAX ((size_t)16 << 30)

/* Operations of one call of cuStreamBatchMemOp. */
#define BATCH_MAX 128

#define EXCHANGE_THREADS 512
#define HOLD_THREADS 64

enum graph_server { SERVED_LATER, SERVED_BY_PE, SERVED_BY_GPU };

/* Pinned memory of an end. The PE writes the terms, which the end that was captured second knows. */
struct gpu_graph_words {
    struct gpu_sync_words words;
    struct gpu_exchange_terms terms;
} BASE_CACHE_ALIGNED;

/* Memory for several ends. */
#define ENDS_PER_BLOCK 128
struct gpu_graph_block {
    struct gpu_graph_block *next;
    struct gpu_graph_words *words; /* pinned */
    CUdeviceptr words_at;
    CUdeviceptr meetings_at; /* of the GPU; 0: none */
    int n_used;
};

/* ---- Memory ---- */

/* Allocates the GPU's part, all 0. zeros: pinned memory. May switch. */
static int make_meetings(struct gpu_sync *sync, struct gpu_graph_block *block, const void *zeros)
{
    size_t n_bytes = ENDS_PER_BLOCK * sizeof(struct gpu_exchange_meeting);
    struct gpu_queue *queue;
    int error = 0;

    if (!gpu_has_kernels() || sync->context != gpu_context_of(sync->device))
        return 0;
    queue = gpu_queue_of(sync->device, GPU_STREAM_LOCAL, &error);
    if (!error)
        error = gpu_call(cuMemAlloc, (&block->meetings_at, n_bytes));
    if (!error)
        error = gpu_queue_copy(queue, (void *)block->meetings_at, zeros, n_bytes);
    return error ? error : gpu_queue_wait(queue);
}

static void free_block(CUcontext context, struct gpu_graph_block *block)
{
    if (block->meetings_at)
        gpu_guard_free_later(context, (void *)block->meetings_at, false);
    if (block->words)
        gpu_guard_free_later(context, block->words, true);
    free(block);
}

/* The stream's context is current. May switch. */
static int make_block(struct gpu_sync *sync, struct gpu_graph_block **made_out)
{
    const size_t words_bytes = ENDS_PER_BLOCK * sizeof(struct gpu_graph_words);
    const size_t zeros_bytes = ENDS_PER_BLOCK * sizeof(struct gpu_exchange_meeting);
    struct gpu_graph_block *made = base_calloc(1, sizeof *made, "captured operations");
    void *memory = NULL;
    int error = gpu_call(cuMemHostAlloc, (&memory, words_bytes + zeros_bytes,
                                          CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));

    if (!error) {
        made->words = memory;
        memset(memory, 0, words_bytes + zeros_bytes);
        error = gpu_call(cuMemHostGetDevicePointer, (&made->words_at, memory, 0));
    }
    if (!error)
        error = make_meetings(sync, made, (char *)memory + words_bytes);
    if (error)
        free_block(sync->context, made);
    else
        *made_out = made;
    return error;
}

int gpu_graph_make_room(struct gpu_sync *sync)
{
    struct gpu_graph_block *made = NULL;
    CUstreamCaptureMode mode;
    CUcontext before;
    int error;

    if (sync->captured && sync->captured->n_used < ENDS_PER_BLOCK)
        return 0;
    error = gpu_context_enter(sync->context, &before);
    if (error)
        return error;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    error = make_block(sync, &made);
    (void)gpu_capture_set_mode(mode);
    gpu_context_leave(sync->context, before);
    if (error)
        return error;
    made->next = sync->captured;
    sync->captured = made;
    return 0;
}

void gpu_graph_free_blocks(struct gpu_sync *sync)
{
    while (sync->captured) {
        struct gpu_graph_block *block = sync->captured;
        sync->captured = block->next;
        free_block(sync->context, block);
    }
}

/* Graphs of the freed stream may exist, but the program must not launch them. */
void gpu_graph_keep_blocks(struct gpu_sync *sync)
{
    while (sync->captured && sync->captured->next) {
        struct gpu_graph_block *block = sync->captured;
        sync->captured = block->next;
        free_block(sync->context, block);
    }
}

/* ---- Ends ---- */

bool gpu_sync_is_captured(struct gpu_sync *sync, uint64_t *id_out)
{
    cuuint64_t id = 0;
    struct gpu_call call;
    CUcontext before;
    bool is_captured;

    if (gpu_context_enter(sync->context, &before))
        return false;
    is_captured = gpu_call_begin(&call, sync->stream, false, GPU_CALL_STATE, NULL) == CUDA_SUCCESS &&
                  gpu_stream_is_captured(call.stream, &id);
    gpu_context_leave(sync->context, before);
    *id_out = id;
    return is_captured;
}

static uint32_t chunks_of(size_t n_bytes)
{
    size_t n = (n_bytes + GPU_EXCHANGE_CHUNK - 1) / GPU_EXCHANGE_CHUNK;

    return n < 1 ? 1 : n > GPU_EXCHANGE_CHUNKS ? GPU_EXCHANGE_CHUNKS : (uint32_t)n;
}

/* True if kernels of the device can use these bytes. */
static bool is_open_to(int device, const struct gpu_graph_end *end)
{
    struct gpu_range range;

    if (end->n_bytes == 0)
        return true;
    range = *gpu_resolve(end->data);
    return gpu_peer_access_by_kernel(device, end->data, &range);
}

static void watch(struct gpu_graph_end *end)
{
    struct gpu_pe *pe = gpu_pe_self();

    end->is_watched = true;
    end->next = pe->graph_ends;
    pe->graph_ends = end;
    pe->source.pending++;
}

/* Makes the PE serve an end without nodes: it will wait for a word that the PE can write without the
 * driver. */
static void leave_to_pe(struct gpu_graph_end *end)
{
    end->meeting_at = 0;
    end->done_at = end->words_at + offsetof(struct gpu_graph_words, words.released);
    end->is_done_on_host = true;
}

int gpu_graph_prepare(struct gpu_sync *sync, struct gpu_graph_end *end, void *data, size_t n_bytes)
{
    struct gpu_graph_block *block;
    CUstreamCaptureMode mode;
    int error = gpu_graph_make_room(sync), i;

    if (error)
        return error;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    block = sync->captured;
    i = block->n_used++;
    end->sync = sync;
    end->device = sync->device;
    end->data = data;
    end->n_bytes = n_bytes;
    end->n_chunks = chunks_of(n_bytes);
    end->words = &block->words[i];
    end->words_at = block->words_at + (size_t)i * sizeof(struct gpu_graph_words);
    if (block->meetings_at && (data || n_bytes == 0) && n_bytes <= EXCHANGE_BYTES_MAX &&
        is_open_to(sync->device, end)) {
        end->meeting_at = block->meetings_at + (size_t)i * sizeof(struct gpu_exchange_meeting);
        end->done_at = end->meeting_at + offsetof(struct gpu_exchange_meeting, done);
    } else {
        leave_to_pe(end);
    }
    (void)gpu_capture_set_mode(mode);
    atomic_init(&end->served_by, SERVED_LATER);
    atomic_store(&gpu_graphs_wait, true);
    watch(end);
    return 0;
}

void gpu_graph_forget(struct gpu_graph_end *end)
{
    struct gpu_graph_end **link = &gpu_pe_self()->graph_ends;

    if (!end->is_watched)
        return;
    while (*link != end)
        link = &(*link)->next;
    *link = end->next;
    gpu_pe_self()->source.pending--;
    end->is_watched = false;
}

/* ---- Agreeing ---- */

/* True if atomic operations of each device work on the other's memory. */
static bool have_atomics(int a, int b)
{
    CUresult(CUDAAPI * ask)(int *, CUdevice_P2PAttribute, CUdevice, CUdevice) = (CUresult(CUDAAPI *)(
        int *, CUdevice_P2PAttribute, CUdevice, CUdevice))gpu_driver_find("cuDeviceGetP2PAttribute");
    CUdevice first, second;
    int there = 0, back = 0;

    if (a == b)
        return true;
    return ask && !gpu_call(cuDeviceGet, (&first, a)) && !gpu_call(cuDeviceGet, (&second, b)) &&
           ask(&there, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, first, second) == CUDA_SUCCESS &&
           ask(&back, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, second, first) == CUDA_SUCCESS &&
           there && back;
}

/* True if the kernels of both can copy the message. */
static bool can_exchange(const struct gpu_graph_end *a, const struct gpu_graph_end *b)
{
    return a->meeting_at && b->meeting_at && gpu_peer_enable(a->device, b->device) &&
           gpu_peer_enable(b->device, a->device) && have_atomics(a->device, b->device) &&
           is_open_to(a->device, b) && is_open_to(b->device, a);
}

bool gpu_graph_agree(struct gpu_graph_end *send, struct gpu_graph_end *recv, struct gpu_graph_end *second,
                     size_t n_bytes)
{
    struct gpu_graph_end *first = second == send ? recv : send;
    CUstreamCaptureMode mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool is_exchange = first && can_exchange(first, second);
    int server = is_exchange ? SERVED_BY_GPU : SERVED_BY_PE;

    (void)gpu_capture_set_mode(mode);

    if (is_exchange) {
        second->meeting_at = first->meeting_at;
        second->n_chunks = chunks_of(n_bytes);
        second->words->terms = (struct gpu_exchange_terms){.to = (uintptr_t)recv->data,
                                                           .from = (uintptr_t)send->data,
                                                           .n_bytes = n_bytes,
                                                           .done = {send->done_at, recv->done_at},
                                                           .n_chunks = second->n_chunks};
    } else if (!first) {
        leave_to_pe(second);
    } /* else it stays a kernel, so that another capture of the same calls has the same nodes */
    atomic_store_explicit(&second->served_by, server, memory_order_release);
    if (first)
        atomic_store_explicit(&first->served_by, server, memory_order_release);
    return is_exchange;
}

/* ---- Nodes ---- */

/* A stream of the device, and operations that one call of the driver adds to it. Too large for a rank's stack. */
struct nodes {
    int device;
    CUstream stream;
    unsigned n;
    CUstreamBatchMemOpParams ops[BATCH_MAX];
};

static int launch(const struct nodes *nodes, int kernel, unsigned n_blocks, unsigned n_threads, void *args,
                  size_t args_bytes)
{
    return gpu_sync_launch(nodes->device, nodes->stream, kernel, n_blocks, n_threads, args, args_bytes);
}

static int flush(struct nodes *nodes)
{
    unsigned n = nodes->n;

    nodes->n = 0;
    return n ? gpu_call(cuStreamBatchMemOp, (nodes->stream, n, nodes->ops, 0)) : 0;
}

static int add(struct nodes *nodes, CUstreamBatchMemOpParams op)
{
    nodes->ops[nodes->n++] = op;
    return nodes->n == BATCH_MAX ? flush(nodes) : 0;
}

/* The word that the PE polls; 0: none. */
static uint64_t reached_at(const struct gpu_graph_end *end)
{
    return atomic_load_explicit(&end->served_by, memory_order_acquire) == SERVED_BY_GPU
               ? 0
               : end->words_at + offsetof(struct gpu_graph_words, words.reached);
}

static int launch_exchange(const struct nodes *nodes, struct gpu_kernel_exchange *args)
{
    int error = 0;

    args->n_blocks += args->n_awaited > 0;
    if (args->n > 0)
        error = launch(nodes, GPU_KERNEL_EXCHANGE, args->n_blocks, EXCHANGE_THREADS, args, sizeof *args);
    args->n = args->n_blocks = args->n_awaited = 0;
    return error;
}

/* Adds the launches. can_wait: one launch has all ends, so it may also wait for them. */
static int add_exchanges(const struct nodes *nodes, struct gpu_graph_end *const *ends, int n, bool can_wait)
{
    struct gpu_kernel_exchange args = {.n = 0};
    int error = 0;

    for (int i = 0; i < n && !error; i++) {
        bool is_awaited = can_wait && ends[i]->is_awaited;
        if (!ends[i]->meeting_at)
            continue;
        args.ends[args.n++] = (struct gpu_exchange_end){.meeting = ends[i]->meeting_at,
                                                        .reached = reached_at(ends[i]),
                                                        .awaited = is_awaited ? ends[i]->done_at : 0,
                                                        .terms = ends[i]->words->terms,
                                                        .first_block = args.n_blocks};
        args.n_blocks += ends[i]->n_chunks;
        args.n_awaited += is_awaited;
        if (is_awaited)
            ends[i]->is_awaited = false;
        if (args.n == GPU_EXCHANGE_MAX)
            error = launch_exchange(nodes, &args);
    }
    return error ? error : launch_exchange(nodes, &args);
}

/* The PE has seen the end of the previous launch. */
static int add_reached(struct nodes *nodes, const struct gpu_graph_end *end)
{
    int error = add(nodes, gpu_sync_wait(end->done_at, 0, CU_STREAM_WAIT_VALUE_EQ));

    return error ? error : add(nodes, gpu_sync_write(reached_at(end), 1));
}

static int add_starts(struct nodes *nodes, struct gpu_graph_end *const *ends, int n)
{
    int error = 0, n_exchanged = 0;

    for (int i = 0; i < n && !error; i++) {
        n_exchanged += ends[i]->meeting_at != 0;
        if (!ends[i]->meeting_at)
            error = add_reached(nodes, ends[i]);
    }
    if (!error)
        error = flush(nodes);
    return error ? error : add_exchanges(nodes, ends, n, n_exchanged <= GPU_EXCHANGE_MAX);
}

static int launch_hold(const struct nodes *nodes, struct gpu_kernel_hold *args)
{
    int error = args->n > 0 ? launch(nodes, GPU_KERNEL_HOLD, 1, HOLD_THREADS, args, sizeof *args) : 0;

    args->n = 0;
    return error;
}

/* A kernel waits for words in the GPU's memory: launches of graphs with memory operations cost twice as much. Words in
 * pinned memory are not for kernels, whose polls would occupy the bus. */
static int add_holds(struct nodes *nodes, struct gpu_graph_end *const *ends, int n)
{
    struct gpu_kernel_hold args = {.n = 0};
    int error = 0;

    for (int i = 0; i < n && !error; i++) {
        if (!ends[i]->is_awaited)
            continue;
        if (!ends[i]->is_done_on_host) {
            args.words[args.n++] = ends[i]->done_at;
            if (args.n == GPU_HOLD_MAX)
                error = launch_hold(nodes, &args);
            continue;
        }
        error = add(nodes,
                    gpu_sync_wait(ends[i]->done_at, 1, CU_STREAM_WAIT_VALUE_EQ | ends[i]->sync->wait_flags));
        if (!error)
            error = add(nodes, gpu_sync_write(reached_at(ends[i]), 0));
    }
    if (!error)
        error = flush(nodes);
    return error ? error : launch_hold(nodes, &args);
}

int gpu_graph_add(struct gpu_sync *sync, struct gpu_graph_end *const *starts, int n_starts,
                  struct gpu_graph_end *const *waits, int n_waits)
{
    struct nodes *nodes;
    struct gpu_call call;
    CUstreamCaptureMode mode;
    CUcontext before;
    int error = gpu_sync_begin(sync, &call, &before);

    if (error)
        return error;
    nodes = base_calloc(1, sizeof *nodes, "operations of a graph");
    nodes->device = sync->device;
    nodes->stream = call.stream;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < n_waits; i++)
        waits[i]->is_awaited = true;
    error = add_starts(nodes, starts, n_starts);
    if (!error)
        error = add_holds(nodes, waits, n_waits);
    for (int i = 0; i < n_waits; i++)
        waits[i]->is_awaited = false;
    (void)gpu_capture_set_mode(mode);
    gpu_sync_end(sync, &call, before);
    free(nodes);
    return error;
}

/* ---- The PE's part ---- */

void gpu_graph_release(struct gpu_graph_end *end)
{
    struct gpu_queue *queue;
    CUcontext before;
    int error = 0;

    gpu_sync_flush(end->sync);
    atomic_thread_fence(memory_order_seq_cst);
    if (end->is_done_on_host) {
        end->is_started = false;
        end->is_released = true;
        end->words->words.released = 1;
        return;
    }
    queue = gpu_queue_of(end->device, GPU_STREAM_LOCAL, &error);
    if (!error && !(error = gpu_context_enter(end->sync->context, &before))) {
        error = gpu_call(cuStreamWriteValue32,
                         (gpu_queue_stream(queue), end->done_at, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        gpu_context_leave(end->sync->context, before);
    }
    if (error)
        base_log("a launch of a CUDA graph waits forever for an operation that is complete: %s",
                 gpu_error_text(error));
}

/* Reports a launch that has waited for long for an end that was not captured. */
static BASE_COLD void look_at_lonely(struct gpu_graph_end *end)
{
    uint64_t now_ns = ult_now_ns();

    if (end->lonely_since_ns == 0) {
        end->lonely_since_ns = now_ns;
    } else if (now_ns - end->lonely_since_ns > LONELY_NS && end->lonely) {
        end->lonely(end);
        end->lonely = NULL;
    }
}

/* True if a launch has reached an end that the PE serves, and the PE has not seen this yet. */
static bool is_reached_anew(struct gpu_graph_end *end)
{
    bool is_set = end->words->words.reached != 0;

    if (end->is_started || (end->is_released && is_set))
        return false;
    if (end->is_released) {
        end->is_released = false;
        end->words->words.released = 0;
        return false;
    }
    if (!is_set)
        return false;
    atomic_thread_fence(memory_order_acquire);
    if (end->is_done_on_host)
        end->is_started = true;
    else
        end->words->words.reached = 0;
    return true;
}

int gpu_graph_poll(struct gpu_pe *pe)
{
    struct gpu_graph_end **link = &pe->graph_ends, *end;
    int n_reached = 0;

    while ((end = *link)) {
        int server = atomic_load_explicit(&end->served_by, memory_order_acquire);
        if (server == SERVED_BY_GPU) {
            *link = end->next;
            end->is_watched = false;
            pe->source.pending--;
            continue;
        }
        link = &end->next;
        if (server == SERVED_LATER) {
            if (end->words->words.reached)
                look_at_lonely(end);
        } else if (is_reached_anew(end)) {
            n_reached++;
            end->reached(end);
        }
    }
    return n_reached;
}
