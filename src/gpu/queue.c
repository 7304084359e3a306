/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.c: streams, and noticing that they have come somewhere. See queue.h.
 */
#include "base/log.h"
#include "gpu/batch.h"
#include "gpu/driver.h"
#include "gpu/module.h"
#include "gpu/pe_state.h"
#include "gpu/repeats.h"
#include "gpu/service.h"
#include "gpu/waits.h"
#include "ult/arch/ult_arch.h"
#include "ult/pe.h"

/* The driver is asked for errors after so many looks without news: at most some tens of microseconds apart
 * while a PE is idle, and next to nothing beside the looks themselves. */
#define LOOKS_PER_QUERY 1024

/* Tickets handled in one turn of a queue. */
#define TICKETS_PER_POLL 64

/* Copies within a GPU (gpu_queue_copy_local); docs/decisions/0026 has the measurement. A copy between two
 * places of its memory runs as a kernel: 8 us while the GPU is idle, 20 to 300 us behind the kernels of the
 * program. The engines that copy from and to the host's memory do not wait for kernels. */
#define LOCAL_AROUND ((size_t)4 << 10) /* up to here through the host's memory, unless they come densely */
#define LOCAL_ASKED GPU_PINNED_LARGE   /* up to here the driver knows before a number is written */
#define LOCAL_AROUND_BUSY GPU_PINNED_LARGE /* up to here while the GPU is busy, if that is quicker */
/* When so many direct copies in a row have taken longer than this, the GPU is taken to be busy for a while.
 * One alone says little: the first after some milliseconds may be slow on an idle GPU. */
#define LOCAL_SLOW_NS 15000
#define LOCAL_SLOW_COPIES 4
#define LOCAL_BUSY_NS 100000000
/* Small copies come densely if this many have come, no further apart: only then do they try the direct
 * way. */
#define LOCAL_DENSE 64
#define LOCAL_DENSE_NS 1000000

/* Up to here a copy between two GPUs is known to be done sooner by asking the driver than by a
 * number: 6.4, 6.8 us */
#define PEER_ASKED ((size_t)16 << 10)

struct gpu_queue {
    struct gpu_pe *owner;   /* the PE that uses it */
    struct gpu_queue *next; /* link of the owner's list `busy` */
    CUcontext context;      /* the device's primary context */
    CUstream stream;
    struct gpu_ticket *first; /* those that wait, in order */
    struct gpu_ticket *last;
    volatile uint32_t *written; /* pinned: the number that the GPU has come to */
    CUdeviceptr written_at;     /* the same word as the GPU sees it */
    uint32_t issued;            /* the number that the GPU was last asked to write */
    bool is_written;            /* nothing was queued since then */
    bool cannot_write;          /* the device does not write numbers: the driver is asked instead */
    bool is_busy;               /* is on the owner's list, or is being polled */
    unsigned n_looks;           /* without news */
    bool is_quick;              /* what was queued last is such that asking the driver is quicker */
    bool is_asked;              /* no number was written behind the last work: the driver is asked instead */
    struct {                    /* gpu_queue_copy_local */
        char *bounce;           /* pinned: GPU_PINNED_LARGE bytes; NULL: not needed yet */
        uint32_t watched;       /* the number behind a direct copy that is being timed */
        bool is_watching;       /* `watched` is still to come */
        uint64_t since_ns;      /* when that copy was queued */
        uint64_t busy_until_ns; /* the GPU is taken to be busy ... */
        uint64_t slow_ns;       /* ... and a direct copy to take this long */
        int n_slow;             /* slow ones in a row */
        uint64_t last_ns;       /* when the last small one was queued */
        int n_dense;            /* small ones in close succession */
    } local;
    int device;
    int error; /* the queue has failed: all that wait are told so, then it is 0 again */
};

/* ---- The PE's part ---- */

static int poll_queues(struct ult_source *source);

__thread struct gpu_pe *gpu_pe_of_thread __attribute__((tls_model("initial-exec")));

static BASE_COLD struct gpu_pe *make_pe(void)
{
    const struct ult *self = ult_self();
    struct gpu_pe *made;

    BASE_ASSERT(self != NULL);
    made = base_calloc(1, sizeof *made, "a PE's part in device buffers");
    made->source = (struct ult_source){.poll = poll_queues, .fd = -1};
    made->questions_end = &made->questions;
    made->gathered_end = &made->gathered;
    ult_pe_add_source(self->pe, &made->source);
    gpu_pe_of_thread = made;
    return made;
}

struct gpu_pe *gpu_pe_self(void)
{
    return BASE_LIKELY(gpu_pe_of_thread != NULL) ? gpu_pe_of_thread : make_pe();
}

/* ---- Making a queue ---- */

/* Each queue has a cache line of pinned memory to be written to. */
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
        error = gpu_call(cuStreamCreateWithPriority, (&queue->stream, CU_STREAM_NON_BLOCKING, greatest));
    return error;
}

/* The line of +v about a device: when a PE first uses it. */
static void tell(const struct gpu_pe *pe, int device)
{
    const struct ult *self = ult_self();
    char text[256];

    for (int lane = 0; lane < GPU_LANES; lane++)
        if (pe->queues[device][lane])
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
    tell(pe, device);
    return made;
err_free:
    free(made);
    *error_out = error;
    return NULL;
}

struct gpu_queue *gpu_queue_of(int device, enum gpu_lane lane, int *error_out)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_queue **queue;

    if (device < 0 || device >= GPU_DEVICES_MAX) {
        *error_out = gpu_driver_note(CUDA_ERROR_INVALID_DEVICE, "gpu_queue_of");
        return NULL;
    }
    queue = &pe->queues[device][lane];
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

/* Copies and questions name their stream, so any context of the thread's will do for them (seen on H200s),
 * and changing it and back takes 0.1 us. But they fail if that one is none, gone or broken, and copies if it
 * may not use memory that the stream's may (of pools and mapped: seen on H200s). */
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

/* Out of the GPU's memory and back in, by the copy engines. The queue keeps its order, so its one bounce
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

/* How long a copy through the host's memory takes, at most: 16 us, 1 MiB 54 us. */
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

/* Is a copy to go through the host's memory? */
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

/* Only the first copies after a pause may be left to be timed, which are slow on an idle GPU: those are not
 * in a row. */
void gpu_queue_skip_local(struct gpu_queue *queue, uint64_t now_ns)
{
    count_dense(queue, now_ns);
    queue->local.n_slow = 0;
}

void gpu_queue_forget_time(struct gpu_queue *queue)
{
    queue->local.is_watching = false;
}

/* The direct copy that was timed is done: was it slow? */
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

/* Has the GPU write the next number behind all that was queued; but for work that is known to be done sooner
 * by asking the driver whether all is done, if nobody else waits. */
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
    /* If it failed because the context is broken, the driver will say so when it is asked. */
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

/* Everything may be done, or the queue may have failed. */
static BASE_COLD void ask_driver(struct gpu_queue *queue)
{
    int error = gpu_queue_ask(queue);

    if (error == GPU_QUEUE_BUSY)
        return;
    if (error)
        queue->error = error;
    else
        *queue->written = queue->issued; /* the stream is empty: nobody else writes */
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

/* True if the queue has come to this number, or failed. */
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

/* A ticket's handle may queue more, also on queues that are not busy now; so may the services' handlers. */
static int poll_queues(struct ult_source *source)
{
    struct gpu_pe *pe = BASE_CONTAINER(source, struct gpu_pe, source);
    int n_handled = 0;
    struct gpu_queue *queue, *next;

    if (pe->gathered)
        gpu_batch_start(pe);
    if (pe->repeats)
        gpu_repeats_end(pe->repeats);
    n_handled = (pe->services ? gpu_service_poll(pe) : 0) + (pe->questions ? gpu_wait_poll(pe) : 0);
    queue = pe->busy;
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

/* A ULT that waits, on its stack. */
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
        ult_arch_relax();
    error = queue->error;
    if (!queue->first)
        queue->error = 0;
    return error;
}
