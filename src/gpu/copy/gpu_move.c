/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_move.c: moves data from any memory and layout to any other; see gpu.h.
 *
 * A move is split into chunks, two in progress at a time. A chunk's bytes are consecutive at up to two
 * places between the ends:
 *
 *      source --fill--> near the source --copy--> near the destination --drain--> destination
 *
 *      FLAT: one block known to the driver (device or pinned memory); it is its own place: nothing to fill
 *      or drain.
 *
 *      DEVICE: a layout on a GPU: a kernel fills and drains (without kernels, copies); directly into the
 *      other end's place if that is accessible, else scratch memory on the GPU.
 *
 *      HOST: pageable memory, or a layout in host memory: the CPU fills and drains a pinned block.
 *
 * So a move between two blocks is one copy, and a move between a block and a layout on the same GPU is one
 * kernel; both are one chunk of any size. All work of a chunk is in one queue, except for layouts on two
 * GPUs and for memory that only its own GPU can use (peer_access.c): then the second GPU's work is queued
 * when the first GPU's is done.
 *
 * move_plan.c plans a move. After an error the move ends when all queued work has ended.
 */
#include "gpu/gpu.h"

#include "gpu/copy/batch.h"
#include "gpu/copy/call_watch.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/move_plan.h"
#include "gpu/copy/queue.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/query.h"

gpu_copy_host_fn gpu_copy_host;
gpu_block_at_fn gpu_block_at;

/* ---- A chunk ---- */

/* The queue for a copy, by the devices of the two ends; -1: the host. */
static struct gpu_queue *queue_for(int to, int from, int *error_out)
{
    if (from < 0)
        return gpu_queue_of(to, GPU_STREAM_IN, error_out);
    if (to == from)
        return gpu_queue_of(from, GPU_STREAM_LOCAL, error_out);
    return gpu_queue_of(from, GPU_STREAM_OUT, error_out);
}

/* The queue of a chunk's work. */
static struct gpu_queue *chunk_queue(const struct gpu_move *move, const struct gpu_move_chunk *chunk,
                                     int *error_out)
{
    if (BASE_UNLIKELY(move->is_hop))
        return gpu_queue_of(move->from.device, chunk == move->chunks ? GPU_STREAM_IN : GPU_STREAM_OUT,
                            error_out);
    if (move->from.kind == DEVICE)
        return gpu_queue_of(move->from.device, GPU_STREAM_KERNELS, error_out);
    if (move->to.kind == DEVICE && !move->is_split)
        return gpu_queue_of(move->to.device, GPU_STREAM_KERNELS, error_out);
    return queue_for(move->to.device, move->from.device, error_out);
}

static char *flat_at(const struct gpu_move_side *side, const struct gpu_move_chunk *chunk)
{
    return (char *)side->first + chunk->offset;
}

/* Location of the consecutive bytes after the fill: its own place, or the output of the kernel or the CPU. */
static void *near_source(const struct gpu_move *move, const struct gpu_move_chunk *chunk)
{
    if (move->from.kind == FLAT)
        return flat_at(&move->from, chunk);
    if (chunk->scratch[0])
        return chunk->scratch[0];
    return chunk->pinned ? chunk->pinned : flat_at(&move->to, chunk);
}

/* Location of the bytes that the drain needs. */
static void *near_destination(const struct gpu_move *move, const struct gpu_move_chunk *chunk, void *near)
{
    if (move->to.kind == FLAT && !move->is_split)
        return flat_at(&move->to, chunk);
    if (move->to.kind == HOST)
        return chunk->pinned;
    if (chunk->scratch[1])
        return chunk->scratch[1];
    return chunk->pinned ? chunk->pinned : near;
}

/* Without kernels: one copy per block. */
static int queue_blocks(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                        char *flat, bool is_pack)
{
    int error = 0;

    for (size_t done = 0, block; done < n_bytes && !error; done += block) {
        void *at = gpu_block_at(data, offset + done, &block);
        if (block > n_bytes - done)
            block = n_bytes - done;
        error = gpu_queue_copy(queue, is_pack ? flat + done : at, is_pack ? at : flat + done, block);
    }
    return error;
}

/* Queues the copy of a chunk's bytes between a layout on a GPU and consecutive memory. */
static int queue_pack(struct gpu_queue *queue, const struct gpu_move *move,
                      const struct gpu_move_chunk *chunk, void *flat, bool is_pack)
{
    const struct gpu_data *data = is_pack ? &move->src : &move->dst;
    const struct gpu_move_side *side = is_pack ? &move->from : &move->to;
    size_t offset = chunk->offset + (is_pack ? move->src_skip_bytes : move->dst_skip_bytes);

    if (!gpu_has_kernels() || side->is_foreign)
        return queue_blocks(queue, data, offset, chunk->n_bytes, flat, is_pack);
    return is_pack ? gpu_pack_launch(queue, data, offset, chunk->n_bytes, flat)
                   : gpu_unpack_launch(queue, data, offset, chunk->n_bytes, flat);
}

/* True for a copy from block to block of one GPU. */
static bool is_local(const struct gpu_move *move)
{
    return move->from.kind == FLAT && move->to.kind == FLAT && move->from.device >= 0 &&
           move->from.device == move->to.device;
}

/* True for a copy from block to block of two GPUs. */
static bool is_to_peer(const struct gpu_move *move)
{
    return move->from.kind == FLAT && move->to.kind == FLAT && move->from.device >= 0 &&
           move->to.device >= 0 && move->from.device != move->to.device;
}

/* The fastest function of the driver does not accept all kinds of memory. The addresses have been checked. */
static int queue_to_peer(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes)
{
    int error = gpu_queue_copy_peer(queue, dst, src, n_bytes);

    return BASE_UNLIKELY(error == GPU_ERROR_INVALID_VALUE) ? gpu_queue_copy(queue, dst, src, n_bytes) : error;
}

/* From pinned memory to GPU memory, and back. */
static int queue_hop(struct gpu_move *move, struct gpu_move_chunk *chunk, struct gpu_queue *queue)
{
    int error = gpu_queue_copy(queue, chunk->scratch[0], flat_at(&move->from, chunk), chunk->n_bytes);

    return error ? error
                 : gpu_queue_copy(queue, flat_at(&move->to, chunk), chunk->scratch[0], chunk->n_bytes);
}

/* Fills the chunk and queues the following steps, up to the drain if that is in the same queue. */
static int queue_first(struct gpu_move *move, struct gpu_move_chunk *chunk, struct gpu_queue *queue)
{
    void *near, *far;
    int error = 0;

    if (BASE_UNLIKELY(move->is_hop))
        return queue_hop(move, chunk, queue);
    near = near_source(move, chunk);
    far = near_destination(move, chunk, near);
    if (move->from.kind == HOST)
        gpu_copy_host(&move->src, move->src_skip_bytes + chunk->offset, chunk->n_bytes, chunk->pinned, true);
    else if (move->from.kind == DEVICE)
        error = queue_pack(queue, move, chunk, near, true);
    if (!error && far != near)
        error = is_local(move)     ? gpu_queue_copy_local(queue, far, near, chunk->n_bytes)
                : is_to_peer(move) ? queue_to_peer(queue, far, near, chunk->n_bytes)
                                   : gpu_queue_copy(queue, far, near, chunk->n_bytes);
    if (!error && move->to.kind == DEVICE && !move->is_split)
        error = queue_pack(queue, move, chunk, far, false);
    return error;
}

static int queue_second(struct gpu_move *move, struct gpu_move_chunk *chunk, struct gpu_queue *queue)
{
    void *far = near_destination(move, chunk, near_source(move, chunk));

    if (move->to.kind == FLAT)
        return gpu_queue_copy(queue, flat_at(&move->to, chunk), far, chunk->n_bytes);
    return queue_pack(queue, move, chunk, far, false);
}

static void drain(struct gpu_move *move, const struct gpu_move_chunk *chunk)
{
    if (move->to.kind == HOST)
        gpu_copy_host(&move->dst, move->dst_skip_bytes + chunk->offset, chunk->n_bytes, chunk->pinned, false);
}

/* Assigns the next bytes to the chunk. */
static void take_bytes(struct gpu_move *move, struct gpu_move_chunk *chunk)
{
    size_t left = move->n_bytes - move->taken_bytes;

    chunk->offset = move->taken_bytes;
    chunk->n_bytes = left < move->chunk_bytes ? left : move->chunk_bytes;
    move->taken_bytes += chunk->n_bytes;
}

/* ---- From pinned memory to pinned memory ---- */

size_t gpu_hop_min_bytes = (size_t)256 << 10;

/* True if the whole range is in one pinned allocation. */
static bool is_pinned(const void *addr, size_t n_bytes)
{
    const struct gpu_range *range = gpu_find(addr);

    return range->memory == GPU_MEMORY_PINNED && range->to - (uintptr_t)addr >= n_bytes;
}

/* Maximum amount in progress: beyond it the CPU is faster than the copy engines. */
#define HOPS_MAX ((size_t)8 << 20)
static _Atomic size_t hop_bytes;

bool gpu_can_hop(const void *to, const void *from, size_t n_bytes)
{
    return n_bytes >= gpu_hop_min_bytes &&
           atomic_load_explicit(&hop_bytes, memory_order_relaxed) < HOPS_MAX && is_pinned(from, n_bytes) &&
           is_pinned(to, n_bytes);
}

/* ---- Asynchronous ---- */

static void finish(struct gpu_move *move);
static void first_done(struct gpu_ticket *ticket, int error);
static void second_done(struct gpu_ticket *ticket, int error);

/* Starts a chunk; after an error it is done when all queued work is. */
static void queue_chunk(struct gpu_move *move, struct gpu_move_chunk *chunk)
{
    int error = 0;
    struct gpu_queue *queue = chunk_queue(move, chunk, &error);

    if (queue) {
        take_bytes(move, chunk);
        error = queue_first(move, chunk, queue);
        chunk->move = move;
        chunk->ticket.handle = first_done;
        move->n_busy++;
        gpu_queue_then(queue, &chunk->ticket);
    }
    if (error && !move->error)
        move->error = error;
}

static void served(struct gpu_ticket *ticket, int error)
{
    struct gpu_move_chunk *chunk = BASE_CONTAINER(ticket, struct gpu_move_chunk, ticket);
    struct gpu_move *move = chunk->move;

    if (error != GPU_RESIDENT_NOT_DONE) {
        first_done(ticket, error);
        return;
    }
    move->n_busy--;
    move->taken_bytes = 0;
    queue_chunk(move, chunk);
    if (move->n_busy == 0)
        finish(move);
}

/* True if the resident kernel can make the move: a small copy from block to block. */
static bool can_be_served(const struct gpu_move *move)
{
    const struct gpu_move_side *from = &move->from, *to = &move->to;

    return gpu_resident_us > 0 && move->n_bytes <= GPU_RESIDENT_MAX && from->buffer && to->buffer &&
           from->kind == FLAT && to->kind == FLAT && from->room_bytes >= move->n_bytes &&
           to->room_bytes >= move->n_bytes;
}

/* Returns true if the resident kernel accepted the order. */
static bool order_chunk(struct gpu_move *move, struct gpu_move_chunk *chunk)
{
    chunk->ticket.handle = served;
    if (!gpu_resident_copy(&move->from, &move->to, move->n_bytes, &chunk->ticket))
        return false;
    chunk->move = move;
    take_bytes(move, chunk);
    move->n_busy++;
    return true;
}

/* ---- Immediate copies from GPU to GPU ---- */

void (*gpu_move_watcher)(const struct gpu_move *move, bool is_done, int error);
void (*gpu_launch_watcher)(const void *function);
void (*gpu_call_watcher)(const char *name);

static void start_with_care(struct gpu_move *move);

static void begun_done(struct gpu_ticket *ticket, int error)
{
    struct gpu_move_chunk *chunk = BASE_CONTAINER(ticket, struct gpu_move_chunk, ticket);
    struct gpu_move *move = chunk->move;

    if (BASE_UNLIKELY(move->is_stale))
        start_with_care(move);
    else
        gpu_move_end(move, move->error ? move->error : error);
}

/* The address of the first byte to move if the data is a block in device memory, and its range from the
 * cache. NULL: it is not such a block. */
static char *find_block(const struct gpu_data *data, size_t skip_bytes, size_t n_bytes,
                        struct gpu_range *range_out)
{
    void *first = NULL;
    char *at;

    if (!gpu_data_is_block(data, &first))
        return NULL;
    at = (char *)first + skip_bytes;
    *range_out = gpu_data_is_known(data, (uintptr_t)at) ? data->facts->range : *gpu_find(at);
    return range_out->memory == GPU_MEMORY_DEVICE && range_out->to - (uintptr_t)at >= n_bytes ? at : NULL;
}

/* True if another buffer is at the address now. */
static bool is_stale(const struct gpu_data *data, const char *at, const struct gpu_range *range)
{
    return !gpu_data_is_known(data, (uintptr_t)at) && gpu_resolve(at)->buffer != range->buffer;
}

/* Starts the most common move, a copy between two blocks in buffers that are known to be accessible, from
 * the cache's data; while it is in progress the driver is asked whether that data is still valid. If not,
 * the copy is repeated on the careful path: the first one wrote only the destination's own bytes, or
 * nothing, because the driver refuses addresses that are not device memory. */
static bool begin_at_once(struct gpu_move *move)
{
    struct gpu_move_chunk *chunk = &move->chunks[0];
    struct gpu_range source, destination;
    struct gpu_queue *queue;
    char *from = find_block(&move->src, move->src_skip_bytes, move->n_bytes, &source);
    char *to = from ? find_block(&move->dst, move->dst_skip_bytes, move->n_bytes, &destination) : NULL;
    int error = 0;

    bool is_small = move->n_bytes <= GPU_RESIDENT_MAX && gpu_resident_us > 0;

    if (!to || source.device == destination.device || (is_small && gpu_resident_is_there(source.device)) ||
        !gpu_peer_access_is_known(source.device, destination.device, destination.buffer) ||
        !(queue = gpu_queue_of(source.device, GPU_STREAM_OUT, &error)))
        return false;
    error = gpu_queue_copy_peer(queue, to, from, move->n_bytes);
    if (BASE_UNLIKELY(error == GPU_ERROR_INVALID_VALUE))
        return false;
    move->error = error;
    move->is_dst_missing = false;
    chunk->move = move;
    chunk->ticket.handle = begun_done;
    gpu_queue_then(queue, &chunk->ticket);
    move->is_stale =
        !error && (is_stale(&move->src, from, &source) || is_stale(&move->dst, to, &destination));
    if (is_small)
        gpu_resident_call(source.device);
    return true;
}

static void start_chunk(struct gpu_move *move, struct gpu_move_chunk *chunk)
{
    bool is_small = can_be_served(move);

    if (is_small && order_chunk(move, chunk))
        return;
    queue_chunk(move, chunk);
    if (is_small)
        gpu_resident_call(move->from.device);
}

static void finish(struct gpu_move *move)
{
    if (BASE_UNLIKELY(move->is_hop))
        atomic_fetch_sub_explicit(&hop_bytes, move->n_bytes, memory_order_relaxed);
    gpu_move_put_staging(move);
    gpu_move_end(move, move->error);
}

static void chunk_done(struct gpu_move *move, struct gpu_move_chunk *chunk)
{
    move->n_busy--;
    if (!move->error && move->taken_bytes < move->n_bytes)
        start_chunk(move, chunk);
    if (move->n_busy == 0)
        finish(move);
}

static void second_done(struct gpu_ticket *ticket, int error)
{
    struct gpu_move_chunk *chunk = BASE_CONTAINER(ticket, struct gpu_move_chunk, ticket);
    struct gpu_move *move = chunk->move;

    if (error && !move->error)
        move->error = error;
    if (!move->error)
        drain(move, chunk);
    chunk_done(move, chunk);
}

static void first_done(struct gpu_ticket *ticket, int error)
{
    struct gpu_move_chunk *chunk = BASE_CONTAINER(ticket, struct gpu_move_chunk, ticket);
    struct gpu_move *move = chunk->move;
    struct gpu_queue *queue;

    if (error || move->error || !move->is_split) {
        second_done(ticket, error);
        return;
    }
    queue = gpu_queue_of(move->to.device, GPU_STREAM_KERNELS, &error);
    if (!queue || (error = queue_second(move, chunk, queue))) {
        second_done(ticket, error);
        return;
    }
    chunk->ticket.handle = second_done;
    gpu_queue_then(queue, &chunk->ticket);
}

static void handle_failed(struct ult_wakeup *wakeup)
{
    finish(BASE_CONTAINER(wakeup, struct gpu_move, wakeup));
}

static void start_with_care(struct gpu_move *move)
{
    gpu_move_plan(move);
    if (BASE_UNLIKELY(move->is_hop))
        atomic_fetch_add_explicit(&hop_bytes, move->n_bytes, memory_order_relaxed);
    for (int i = 0; i < move->n_chunks && !move->error && move->taken_bytes < move->n_bytes; i++)
        start_chunk(move, &move->chunks[i]);
    if (move->n_busy == 0) {
        move->wakeup.handle = handle_failed;
        ult_post_wakeup(ult_self()->pe, &move->wakeup);
    }
}

void gpu_move_start_alone(struct gpu_move *move)
{
    if (!begin_at_once(move))
        start_with_care(move);
}

void gpu_move_start(struct gpu_move *move)
{
    if (BASE_UNLIKELY(gpu_move_watcher != NULL))
        gpu_move_watcher(move, false, 0);
    if (!gpu_batch_take(move))
        gpu_move_start_alone(move);
}

/* ---- Synchronous moves ---- */

struct waiter {
    struct gpu_move move;
    struct ult *ult; /* suspended; NULL: not yet */
    bool is_done;
};

static void wake(struct gpu_move *move, int error)
{
    struct waiter *waiter = BASE_CONTAINER(move, struct waiter, move);

    (void)error;
    waiter->is_done = true;
    ult_ready(waiter->ult);
}

int gpu_move_wait(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes)
{
    struct waiter waiter;

    waiter.move.dst = *dst;
    waiter.move.src = *src;
    waiter.move.n_bytes = n_bytes;
    waiter.move.src_skip_bytes = waiter.move.dst_skip_bytes = 0;
    waiter.move.memo = NULL;
    waiter.move.done = wake;
    waiter.is_done = false;
    waiter.ult = ult_self();
    gpu_move_start(&waiter.move);
    ult_suspend();
    BASE_ASSERT(waiter.is_done);
    return waiter.move.error;
}

int gpu_move_now(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes)
{
    struct gpu_move move;

    move.dst = *dst;
    move.src = *src;
    move.n_bytes = n_bytes;
    move.src_skip_bytes = move.dst_skip_bytes = 0;
    gpu_move_plan(&move);
    while (!move.error && move.taken_bytes < n_bytes) {
        struct gpu_move_chunk *chunk = &move.chunks[0];
        struct gpu_queue *queue = chunk_queue(&move, chunk, &move.error);
        int error;
        if (!queue)
            break;
        take_bytes(&move, chunk);
        move.error = queue_first(&move, chunk, queue);
        if ((error = gpu_queue_spin(queue)) && !move.error)
            move.error = error;
        if (!move.error && move.is_split) {
            queue = gpu_queue_of(move.to.device, GPU_STREAM_KERNELS, &move.error);
            if (queue)
                move.error = queue_second(&move, chunk, queue);
            if (queue && (error = gpu_queue_spin(queue)) && !move.error)
                move.error = error;
        }
        if (!move.error)
            drain(&move, chunk);
    }
    gpu_move_put_staging(&move);
    return move.error;
}
