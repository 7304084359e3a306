/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_slots.c: small messages between streams, through slots of the sender's GPU; see gpu.h and
 * kernels/slot_kernel.h.
 *
 * A stream has a fixed number of slots and inboxes, which are created with it. Each operation is a launch of
 * one block, which writes the numbers of its points into the stream's word `reached`; for other operations
 * memory operations do that (stream_sync.c).
 */
#include <dlfcn.h>
#include <string.h>

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/queue.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/pe_state.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/stream_api.h"
#include "gpu/streams/stream_sync.h"

#define SLOTS 256
#define INBOXES 256
#define ZEROS 8 /* slots that are set to 0 by one copy */
#define THREADS_MIN 32
#define THREADS_MAX 512

const size_t gpu_slot_bytes = GPU_SLOT_BYTES;

static _Atomic uint64_t n_received;

struct gpu_slots {
    CUdeviceptr memory;
    struct gpu_slot slots[SLOTS];
    struct gpu_slot *free_slots;
    struct gpu_inbox_words *words; /* pinned */
    CUdeviceptr words_at;
    uint16_t free_inboxes[INBOXES]; /* numbers of the free ones: the first n_free_inboxes elements */
    int n_free_inboxes;
};

/* ---- Memory: the slots are 0 first, so that no word has a turn ---- */

static int make_memory(struct gpu_sync *sync, struct gpu_slots *made)
{
    const size_t inboxes_bytes = INBOXES * sizeof(struct gpu_inbox_words);
    const size_t zeros_bytes = ZEROS * sizeof(struct gpu_slot_memory);
    void *memory = NULL;
    struct gpu_queue *queue;
    int error = gpu_call(cuMemHostAlloc, (&memory, inboxes_bytes + zeros_bytes,
                                          CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));

    if (error)
        return error;
    made->words = memory;
    memset(memory, 0, inboxes_bytes + zeros_bytes);
    error = gpu_call(cuMemHostGetDevicePointer, (&made->words_at, memory, 0));
    if (!error)
        error = gpu_call(cuMemAlloc, (&made->memory, SLOTS * sizeof(struct gpu_slot_memory)));
    if (error)
        return error;
    queue = gpu_queue_of(sync->device, GPU_STREAM_LOCAL, &error);
    for (size_t i = 0; i < SLOTS / ZEROS && !error; i++)
        error = gpu_queue_copy(queue, (char *)made->memory + i * zeros_bytes, (char *)memory + inboxes_bytes,
                               zeros_bytes);
    return error ? error : gpu_queue_wait(queue);
}

static void free_memory(CUcontext context, struct gpu_slots *slots)
{
    if (slots->memory)
        gpu_guard_free_later(context, (void *)slots->memory, false);
    if (slots->words)
        gpu_guard_free_later(context, slots->words, true);
    free(slots);
}

/* True if one kernel runs at a time, so that no kernel may wait for another one: under compute-sanitizer, or
 * if launches block. */
static bool are_kernels_serial(void)
{
    void *sanitizer = dlopen("libsanitizer-collection.so", RTLD_LAZY | RTLD_NOLOAD);

    if (sanitizer)
        dlclose(sanitizer);
    return sanitizer || gpu_launches_block();
}

void gpu_slots_make(struct gpu_sync *sync)
{
    CUstreamCaptureMode mode;
    struct gpu_slots *made;
    int error;

    if (sync->slots || !gpu_has_kernels() || are_kernels_serial() ||
        sync->context != gpu_context_of(sync->device))
        return;
    made = base_calloc(1, sizeof *made, "slots of a stream");
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    error = make_memory(sync, made);
    (void)gpu_capture_set_mode(mode);
    if (error) {
        base_log_verbose(2, "no memory for small messages of a stream: %s", gpu_error_text(error));
        free_memory(sync->context, made);
        return;
    }
    for (int i = SLOTS; i-- > 0;) {
        made->slots[i].sync = sync;
        made->slots[i].at = made->memory + (size_t)i * sizeof(struct gpu_slot_memory);
        made->slots[i].next = made->free_slots;
        made->free_slots = &made->slots[i];
    }
    for (int i = 0; i < INBOXES; i++)
        made->free_inboxes[i] = (uint16_t)i;
    made->n_free_inboxes = INBOXES;
    sync->slots = made;
}

void gpu_slots_free(struct gpu_sync *sync)
{
    if (sync->slots)
        free_memory(sync->context, sync->slots);
    sync->slots = NULL;
}

/* ---- Sending ---- */

struct gpu_slot *gpu_slot_take(struct gpu_sync *sync, const void *data, size_t n_bytes)
{
    struct gpu_slot *slot = sync->slots ? sync->slots->free_slots : NULL;

    if (!slot || n_bytes > GPU_SLOT_BYTES || (n_bytes > 0 && !gpu_watch_can_use(sync->device, data, n_bytes)))
        return NULL;
    sync->slots->free_slots = slot->next;
    slot->turn = slot->turn == UINT32_MAX ? 1 : slot->turn + 1;
    slot->n_bytes = (uint32_t)n_bytes;
    return slot;
}

void gpu_slot_put(struct gpu_slot *slot)
{
    struct gpu_slots *slots = slot->sync->slots;

    slot->next = slots->free_slots;
    slots->free_slots = slot;
}

void *gpu_slot_data(const struct gpu_slot *slot)
{
    return (void *)(slot->at + offsetof(struct gpu_slot_memory, plain));
}

static unsigned threads_for(size_t n_bytes)
{
    size_t n = (n_bytes / sizeof(uint32_t) + THREADS_MIN) / THREADS_MIN * THREADS_MIN;

    return n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

static uint64_t reached_at(const struct gpu_sync *sync)
{
    return sync->words_at + offsetof(struct gpu_sync_words, reached);
}

/* Launches one block between gpu_sync_begin and gpu_sync_end. */
static int launch(const struct gpu_sync *sync, CUstream stream, int kernel, unsigned n_threads, void *args,
                  size_t args_bytes)
{
    if (gpu_stream_is_captured(stream, NULL))
        return gpu_driver_record(GPU_SYNC_CAPTURED, "cuLaunchKernel");
    return gpu_sync_launch(sync->device, stream, kernel, 1, n_threads, args, args_bytes);
}

int gpu_slot_fill(struct gpu_slot *slot, const void *data, struct gpu_point *point)
{
    struct gpu_sync *sync = slot->sync;
    struct gpu_kernel_fill args = {.from = (uintptr_t)data,
                                   .slot = slot->at,
                                   .reached = reached_at(sync),
                                   .n_bytes = slot->n_bytes,
                                   .turn = slot->turn};
    struct gpu_call call;
    CUcontext before;
    int error = gpu_sync_begin(sync, &call, &before);

    if (error)
        return error;
    args.number = sync->n_points + 1;
    error = launch(sync, call.stream, GPU_KERNEL_FILL, threads_for(slot->n_bytes), &args, sizeof args);
    if (!error)
        gpu_sync_append_point(sync, point);
    gpu_sync_end(sync, &call, before);
    return error;
}

/* ---- Receiving ---- */

bool gpu_inbox_take(struct gpu_sync *sync, struct gpu_inbox *inbox, void *to, size_t n_bytes)
{
    struct gpu_slots *slots = sync->slots;
    int i;

    if (!slots || slots->n_free_inboxes == 0 || n_bytes == 0 || n_bytes > GPU_SLOT_BYTES ||
        !gpu_watch_can_use(sync->device, to, n_bytes))
        return false;
    i = slots->free_inboxes[--slots->n_free_inboxes];
    *inbox = (struct gpu_inbox){.sync = sync,
                                .words = &slots->words[i],
                                .words_at = slots->words_at + (size_t)i * sizeof(struct gpu_inbox_words),
                                .to = to,
                                .n_bytes = n_bytes};
    inbox->words->place = inbox->words->turn = 0;
    return true;
}

void gpu_inbox_put(struct gpu_inbox *inbox)
{
    struct gpu_slots *slots = inbox->sync->slots;

    slots->free_inboxes[slots->n_free_inboxes++] = (uint16_t)(inbox->words - slots->words);
}

bool gpu_inbox_can(const struct gpu_inbox *inbox, const struct gpu_slot *slot)
{
    return inbox->sync->device == slot->sync->device ||
           gpu_peer_enable(inbox->sync->device, slot->sync->device);
}

void gpu_inbox_tell(struct gpu_inbox *inbox, const struct gpu_slot *slot, size_t n_bytes)
{
    inbox->words->place = (uint64_t)n_bytes << GPU_INBOX_ADDRESS_BITS | slot->at;
    inbox->words->turn = slot->turn;
}

void gpu_inbox_release(struct gpu_inbox *inbox)
{
    atomic_thread_fence(memory_order_seq_cst);
    inbox->words->place = GPU_INBOX_DONE;
    inbox->words->turn = 1;
}

/* Launches one kernel for n of them. */
static int launch_empty(const struct gpu_sync *sync, CUstream stream, struct gpu_inbox *const *inboxes, int n,
                        struct gpu_kernel_empty *args)
{
    bool is_known = true;
    size_t n_bytes = 0;

    for (int i = 0; i < n; i++) {
        args->ends[i] = (struct gpu_inbox_end){.to = (uintptr_t)inboxes[i]->to,
                                               .words_at = inboxes[i]->words_at,
                                               .place = inboxes[i]->words->place,
                                               .turn = inboxes[i]->words->turn};
        is_known = is_known && args->ends[i].turn != 0;
        n_bytes = inboxes[i]->n_bytes > n_bytes ? inboxes[i]->n_bytes : n_bytes;
    }
    args->n = (uint16_t)n;
    args->has_arrived = args->has_arrived && !is_known; /* otherwise `done` implies it */
    return launch(sync, stream, GPU_KERNEL_EMPTY, threads_for(n_bytes), args, sizeof *args);
}

int gpu_inbox_empty(struct gpu_sync *sync, struct gpu_inbox *const *inboxes, int n, struct gpu_point *arrived,
                    struct gpu_point *done)
{
    struct gpu_kernel_empty args = {.reached = reached_at(sync)};
    struct gpu_call call;
    CUcontext before;
    int error = gpu_sync_begin(sync, &call, &before);

    if (error)
        return error;
    args.arrived = sync->n_points + 1;
    args.done = sync->n_points + 1 + (arrived != NULL);
    for (int first = 0; first < n && !error; first += GPU_EMPTY_MAX) {
        int part = n - first < GPU_EMPTY_MAX ? n - first : GPU_EMPTY_MAX;
        args.has_arrived = arrived && first == 0;
        args.has_done = first + part == n;
        error = launch_empty(sync, call.stream, inboxes + first, part, &args);
    }
    if (arrived && !error)
        gpu_sync_append_point(sync, arrived);
    if (!error)
        gpu_sync_append_point(sync, done);
    gpu_sync_end(sync, &call, before);
    return error;
}

/* ---- Others ---- */

void gpu_point_rest(struct gpu_point *point)
{
    point->is_resting = true;
    gpu_pe_self()->source.pending--;
}

void gpu_point_expect(struct gpu_point *point)
{
    point->is_resting = false;
    gpu_pe_self()->source.pending++;
}

void gpu_sync_watch(const struct gpu_sync *sync, struct gpu_watch *watch)
{
    watch->context = sync->context;
    watch->probe = sync->probe;
    watch->device = sync->device;
    watch->n_looks = 0;
}

uint64_t gpu_slot_count(void)
{
    return atomic_load_explicit(&n_received, memory_order_relaxed);
}

void gpu_slot_count_one(void)
{
    atomic_fetch_add_explicit(&n_received, 1, memory_order_relaxed);
}
