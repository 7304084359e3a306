/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.c: streams and their completion. See queue.h.
 */
#include "base/arch/relax.h"
#include "base/log.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/driver/module.h"
#include "gpu/driver/pe_state.h"
#include "ult/pe.h"

/* Polls without a result after which the driver is queried for errors. On an idle PE queries are at most
 * some tens of microseconds apart; their cost is negligible beside the polls. */
#define LOOKS_PER_QUERY 1024

/* Tickets handled in one turn of a queue. */
#define TICKETS_PER_POLL 64

/* Copies within a GPU (gpu_queue_copy_local); docs/decisions/0026-device-copies.md has the measurement. A copy within a
 * GPU's memory runs as a kernel: 8 us while the GPU is idle, 20 to 300 us behind kernels of the program.
 * The engines that copy from and to host memory do not wait for kernels. */
#define LOCAL_AROUND ((size_t)4 << 10) /* up to this size through host memory, unless copies are dense */
#define LOCAL_ASKED \
    GPU_PINNED_LARGE /* up to this size querying the driver is faster than a written
                                        * number */
#define LOCAL_AROUND_BUSY \
    GPU_PINNED_LARGE /* up to this size through host memory while the GPU is busy, if
                                            * that is faster */
/* If several direct copies in a row take longer than this, the GPU counts as busy for a while. One copy
 * alone means little: the first after some milliseconds may be slow on an idle GPU. */
#define LOCAL_SLOW_NS 15000
#define LOCAL_SLOW_COPIES 4
#define LOCAL_BUSY_NS 100000000
/* Small copies are dense after this many in close succession: only then do they try the direct way. */
#define LOCAL_DENSE 64
#define LOCAL_DENSE_NS 1000000

/* Up to this size, a copy between two GPUs completes sooner by querying the driver than by a written
 * number: 6.4, 6.8 us */
#define PEER_ASKED ((size_t)16 << 10)

struct gpu_queue {
    struct gpu_pe *owner;   /* the PE that uses it */
    struct gpu_queue *next; /* link of the owner's list `busy` */
    CUcontext context;      /* the device's primary context */
    CUstream stream;
    struct gpu_ticket *first; /* waiting tickets, in order */
    struct gpu_ticket *last;
    volatile uint32_t *written; /* pinned: the last number that the GPU has written */
    CUdeviceptr written_at;     /* the GPU's address of the same word */
    uint32_t issued;            /* the last number that the GPU was asked to write */
    bool is_written;            /* no work was queued after that number */
    bool cannot_write;          /* the device cannot write numbers: the driver is queried instead */
    bool is_busy;               /* on the owner's list, or being polled */
    unsigned n_looks;           /* polls without news */
    bool is_quick;              /* querying the driver is faster for the last work queued */
    bool is_asked;              /* no number was written after the last work: the driver is queried instead */
    struct {                    /* gpu_queue_copy_local */
        char *bounce;           /* pinned: GPU_PINNED_LARGE bytes; NULL: not needed yet */
        uint32_t watched;       /* the number after a direct copy that is being timed */
        bool is_watching;       /* `watched` has not been reached yet */
        uint64_t since_ns;      /* time when that copy was queued */
        uint64_t busy_until_ns; /* the GPU counts as busy until then ... */
        uint64_t slow_ns;       /* ... and a direct copy counts as taking this long */
        int n_slow;             /* slow ones in a row */
        uint64_t last_ns;       /* time when the last small one was queued */
        int n_dense;            /* small ones in close succession */
    } local;
    int device;
    int error; /* the queue has failed: all waiting tickets get the error, then it is reset to 0 */
};

/* ---- Creating a queue ---- */

/* Each queue has a cache line of pinned memory for its numbers. */
static int make_word(struct gpu_queue *queue)
{
    void *memory = NULL;
    int error = gpu_call(cuMemHostAlloc, (&memory, BASE_CACHE_LINE, CU_MEMHOSTALLOC_DEVICEMAP));

    if (!error)
        error = gpu_call(cuMemHostGetDevicePointer, (&queue->written_at, memory, 0));
    if (!error) {
        queue->written = memory;
        *queue->written = 0;
    }
    return error;
}

static int make_stream(struct gpu_queue *queue)
{
    int least = 0, greatest = 0;
    int error = gpu_call(cuCtxGetStreamPriorityRange, (&least, &greatest));

    if (!error)
        queue->stream = gpu_upper.take_stream(queue->context, greatest);
    if (!error && !queue->stream)
        error = gpu_call(cuStreamCreateWithPriority, (&queue->stream, CU_STREAM_NON_BLOCKING, greatest));
    return error;
}

/* The +v line about a device, when a PE first uses it. */
static void log_device(const struct gpu_pe *pe, int device)
{
    const struct ult *self = ult_self();
    char text[256];

    for (int role = 0; role < GPU_STREAM_ROLES; role++)
        if (pe->queues[device][role])
            return;
    gpu_device_describe(device, text, sizeof text);
    base_log_verbose(1, "PE %d uses %s (first by rank %d)", ult_pe_id(self->pe), text, self->world_rank);
}

static BASE_COLD struct gpu_queue *make_queue(struct gpu_pe *pe, int device, int *error_out)
{
    struct gpu_queue *made = base_calloc(1, sizeof *made, "a stream");
    CUcontext before;
    int error = CUDA_ERROR_INVALID_DEVICE;

    made->owner = pe;
    made->device = device;
    made->context = gpu_context_of(device);
    if (!made->context) {
        error = gpu_driver_last();
        goto err_free;
    }
    error = gpu_context_enter(made->context, &before);
    if (error)
        goto err_free;
    error = make_stream(made);
    if (!error)
        error = make_word(made);
    gpu_context_leave(made->context, before);
    if (error)
        goto err_free;
    log_device(pe, device);
    return made;
err_free:
    free(made);
    *error_out = error;
    return NULL;
}

struct gpu_queue *gpu_queue_of(int device, enum gpu_stream_role role, int *error_out)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_queue **queue;

    if (device < 0 || device >= GPU_DEVICES_MAX) {
        *error_out = gpu_driver_record(CUDA_ERROR_INVALID_DEVICE, "gpu_queue_of");
        return NULL;
    }
    queue = &pe->queues[device][role];
    if (BASE_UNLIKELY(!*queue))
        *queue = make_queue(pe, device, error_out);
    return *queue;
}

int gpu_queue_device(const struct gpu_queue *queue)
{
    return queue->device;
}

CUstream gpu_queue_stream(struct gpu_queue *queue)
{
    queue->is_written = false;
    queue->is_quick = false;
    return queue->stream;
}

/* ---- Queuing work ---- */

static int copy(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    queue->is_written = false;
    queue->is_quick = false;
    return gpu_call(cuMemcpyAsync, ((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes, queue->stream));
}

int gpu_queue_copy(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    CUcontext before;
    int error = gpu_context_enter(queue->context, &before);

    if (error)
        return error;
    error = copy(queue, dst, src, n_bytes);
    gpu_context_leave(queue->context, before);
    return error;
}

/* Copies and queries name their stream, so they work in any context of the thread (seen on H200s);
 * changing it and back takes 0.1 us. But they fail if that context is NULL, destroyed or broken; and
 * copies fail if that context may not use memory that the stream's context may (pools and mapped memory:
 * seen on H200s). */
static bool needs_own_context(struct gpu_queue *queue, int error)
{
    CUcontext now = NULL;

    return error &&
           (error == CUDA_ERROR_INVALID_VALUE || error == CUDA_ERROR_INVALID_CONTEXT ||
            error == CUDA_ERROR_CONTEXT_IS_DESTROYED || gpu_driver_is_sticky(error)) &&
           (gpu_driver.cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != queue->context);
}

static int copy_devices(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    queue->is_written = false;
    return gpu_call(cuMemcpyDtoDAsync, ((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes, queue->stream));
}

int gpu_queue_copy_peer(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    int error = copy_devices(queue, dst, src, n_bytes);
    CUcontext before;

    if (BASE_UNLIKELY(needs_own_context(queue, error))) {
        error = gpu_context_enter(queue->context, &before);
        if (error)
            return error;
        error = copy_devices(queue, dst, src, n_bytes);
        gpu_context_leave(queue->context, before);
    }
    queue->is_quick = n_bytes <= PEER_ASKED;
    return error;
}

/* Out of the GPU's memory and back, by the copy engines. The queue keeps its order, so its only bounce
 * buffer is free again when the next copy begins. */
static int copy_around(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    size_t size;
    int error = 0;

    if (BASE_UNLIKELY(!queue->local.bounce)) {
        queue->local.bounce = gpu_pinned_get(GPU_PINNED_LARGE, &size, &error);
        if (!queue->local.bounce)
            return error;
    }
    error = copy(queue, queue->local.bounce, src, n_bytes);
    if (!error)
        error = copy(queue, dst, queue->local.bounce, n_bytes);
    return error;
}

/* Maximum time of a copy through host memory: 16 us, 1 MiB 54 us. */
static uint64_t around_ns(size_t n_bytes)
{
    return 16000 + n_bytes * 37 / 1024;
}

static void count_dense(struct gpu_queue *queue, uint64_t now_ns)
{
    bool is_near = now_ns - queue->local.last_ns < LOCAL_DENSE_NS;

    queue->local.n_dense = is_near ? queue->local.n_dense + (queue->local.n_dense < LOCAL_DENSE) : 0;
    queue->local.last_ns = now_ns;
}

/* True if a copy should go through host memory. */
static bool choose_around(struct gpu_queue *queue, size_t n_bytes, uint64_t now_ns)
{
    bool is_busy = now_ns < queue->local.busy_until_ns;

    if (n_bytes > LOCAL_AROUND)
        return is_busy && around_ns(n_bytes) < queue->local.slow_ns;
    count_dense(queue, now_ns);
    return is_busy || queue->local.n_dense < LOCAL_DENSE;
}

int gpu_queue_copy_local(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    bool is_around = false;
    CUcontext before;
    int error;

    if (n_bytes <= LOCAL_AROUND_BUSY) {
        uint64_t now_ns = ult_now_ns();
        is_around = choose_around(queue, n_bytes, now_ns);
        if (!is_around && !queue->local.is_watching) {
            queue->local.is_watching = true;
            queue->local.watched = queue->issued + 1;
            queue->local.since_ns = now_ns;
        }
    }
    error = gpu_context_enter(queue->context, &before);
    if (error)
        return error;
    error = is_around ? copy_around(queue, dst, src, n_bytes) : copy(queue, dst, src, n_bytes);
    queue->is_quick = n_bytes <= LOCAL_ASKED;
    gpu_context_leave(queue->context, before);
    return error;
}

/* Only the first copies after a pause, which are slow on an idle GPU, may be left to be timed: those do not
 * count as consecutive. */
void gpu_queue_skip_local(struct gpu_queue *queue, uint64_t now_ns)
{
    count_dense(queue, now_ns);
    queue->local.n_slow = 0;
}

void gpu_queue_forget_time(struct gpu_queue *queue)
{
    queue->local.is_watching = false;
}

/* Evaluates the timed direct copy, which is done. */
static void note_local(struct gpu_queue *queue)
{
    uint64_t now_ns = ult_now_ns(), took_ns = now_ns - queue->local.since_ns;

    queue->local.is_watching = false;
    if (took_ns <= LOCAL_SLOW_NS) {
        queue->local.n_slow = 0;
        return;
    }
    queue->local.slow_ns = queue->local.n_slow ? base_min_u64(queue->local.slow_ns, took_ns) : took_ns;
    if (++queue->local.n_slow == LOCAL_SLOW_COPIES) {
        queue->local.n_slow = 0;
        queue->local.busy_until_ns = now_ns + LOCAL_BUSY_NS;
    }
}

int gpu_queue_launch(struct gpu_queue *queue, int kernel, unsigned n_blocks, unsigned n_threads,
                     const void *args, size_t args_bytes)
{
    void *options[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                       CU_LAUNCH_PARAM_END};
    CUfunction function;
    CUcontext before;
    int error = gpu_context_enter(queue->context, &before);

    if (error)
        return error;
    error = gpu_module_function(queue->device, kernel, &function);
    if (!error)
        error = gpu_call(cuLaunchKernel,
                         (function, n_blocks, 1, 1, n_threads, 1, 1, 0, queue->stream, NULL, options));
    gpu_context_leave(queue->context, before);
    queue->is_written = false;
    queue->is_quick = false;
    return error;
}

/* ---- Completion ---- */

/* Makes the GPU write the next number after all queued work, except after work whose completion is found
 * sooner by querying the driver, if no other ticket waits. */
static void issue_number(struct gpu_queue *queue)
{
    CUcontext before;
    int error;

    if (queue->is_written)
        return;
    queue->issued++;
    queue->is_written = true;
    queue->is_asked = queue->is_quick && !queue->first;
    if (queue->cannot_write || queue->is_asked)
        return;
    error = gpu_context_enter(queue->context, &before);
    if (!error) {
        error = gpu_call(cuStreamWriteValue32, (queue->stream, queue->written_at, queue->issued, 0));
        gpu_context_leave(queue->context, before);
    }
    /* If it failed because the context is broken, a query of the driver will report that. */
    if (error)
        queue->cannot_write = true;
}

int gpu_queue_ask(struct gpu_queue *queue)
{
    CUresult result = gpu_driver.cuStreamQuery(queue->stream);
    CUcontext before;
    int error;

    if (BASE_LIKELY(result == CUDA_ERROR_NOT_READY))
        return GPU_QUEUE_BUSY;
    if (BASE_LIKELY(result == CUDA_SUCCESS))
        return 0;
    error = gpu_context_enter(queue->context, &before); /* see needs_own_context */
    if (error)
        return error;
    result = gpu_driver.cuStreamQuery(queue->stream);
    gpu_context_leave(queue->context, before);
    return result == CUDA_ERROR_NOT_READY ? GPU_QUEUE_BUSY : gpu_driver_check(result, "cuStreamQuery");
}

/* Queries the driver: all work may be done, or the queue may have failed. */
static BASE_COLD void ask_driver(struct gpu_queue *queue)
{
    int error = gpu_queue_ask(queue);

    if (error == GPU_QUEUE_BUSY)
        return;
    if (error)
        queue->error = error;
    else
        *queue->written = queue->issued; /* the stream is empty: the GPU does not write */
}

static inline bool is_written_to(struct gpu_queue *queue, uint32_t number)
{
    if ((int32_t)(*queue->written - number) < 0)
        return false;
    atomic_thread_fence(memory_order_acquire);
    queue->n_looks = 0;
    if (queue->local.is_watching && (int32_t)(*queue->written - queue->local.watched) >= 0)
        note_local(queue);
    return true;
}

/* True if the queue has reached this number, or failed. */
static inline bool has_reached(struct gpu_queue *queue, uint32_t number)
{
    if (is_written_to(queue, number))
        return true;
    if (BASE_UNLIKELY(queue->cannot_write || queue->is_asked || queue->error ||
                      ++queue->n_looks % LOOKS_PER_QUERY == 0)) {
        if (!queue->error)
            ask_driver(queue);
        return is_written_to(queue, number) || queue->error;
    }
    return false;
}

static int handle_tickets(struct gpu_queue *queue)
{
    int n_handled = 0;

    while (queue->first && n_handled < TICKETS_PER_POLL && has_reached(queue, queue->first->number)) {
        struct gpu_ticket *ticket = queue->first;
        bool is_done = (int32_t)(*queue->written - ticket->number) >= 0;
        queue->first = ticket->next;
        queue->owner->source.pending--;
        n_handled++;
        ticket->handle(ticket, is_done ? 0 : queue->error);
    }
    if (!queue->first)
        queue->error = 0;
    return n_handled;
}

/* A ticket's handler may queue more work, also on idle queues. */
int gpu_queue_poll(struct gpu_pe *pe)
{
    struct gpu_queue *queue = pe->busy, *next;
    int n_handled = 0;

    pe->busy = NULL;
    for (; queue; queue = next) {
        next = queue->next;
        queue->is_busy = true;
        n_handled += handle_tickets(queue);
        queue->is_busy = queue->first != NULL;
        if (queue->first) {
            queue->next = pe->busy;
            pe->busy = queue;
        }
    }
    return n_handled;
}

void gpu_queue_then(struct gpu_queue *queue, struct gpu_ticket *ticket)
{
    struct gpu_pe *pe = queue->owner;

    issue_number(queue);
    ticket->number = queue->issued;
    ticket->next = NULL;
    if (queue->first)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
    pe->source.pending++;
    if (!queue->is_busy) {
        queue->is_busy = true;
        queue->next = pe->busy;
        pe->busy = queue;
    }
}

/* ---- Waiting ---- */

/* A waiting ULT; on its stack. */
struct sleeper {
    struct gpu_ticket ticket;
    struct ult *u;
    int error;
};

static void wake_sleeper(struct gpu_ticket *ticket, int error)
{
    struct sleeper *sleeper = BASE_CONTAINER(ticket, struct sleeper, ticket);

    sleeper->error = error;
    ult_ready(sleeper->u);
}

int gpu_queue_wait(struct gpu_queue *queue)
{
    struct sleeper sleeper = {.ticket.handle = wake_sleeper, .u = ult_self()};

    gpu_queue_then(queue, &sleeper.ticket);
    ult_suspend();
    return sleeper.error;
}

int gpu_queue_spin(struct gpu_queue *queue)
{
    int error;

    issue_number(queue);
    while (!has_reached(queue, queue->issued))
        base_relax();
    error = queue->error;
    if (!queue->first)
        queue->error = 0;
    return error;
}
