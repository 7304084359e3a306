/* SPDX-License-Identifier: BSD-3-Clause
 *
 * move_plan.c: plans a move (gpu_move.c): determines the memory and layout of its ends and the way between
 * them, and allocates staging memory.
 *
 * If scratch memory is exhausted, chunks become smaller, then pinned.
 */
#include "gpu/copy/move_plan.h"

#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/query.h"

/* Maximum and minimum number of bytes that are copied through scratch memory at a time. */
#define SCRATCH_MAX ((size_t)8 << 20)
#define SCRATCH_MIN ((size_t)256 << 10)

/* Chunk size from pinned memory to pinned memory, so that one chunk arrives while another one leaves. */
#define HOP_MAX ((size_t)1 << 20)

/* ---- Planning ---- */

static uintptr_t first_byte(const struct gpu_data *data)
{
    int64_t disp = data->layout ? data->layout->disp_bytes : data->true_lb_bytes;

    return (uintptr_t)data->buf + (uintptr_t)disp;
}

static int set_side(struct gpu_move_side *side, const struct gpu_data *data, size_t skip_bytes)
{
    void *first = NULL;
    bool is_block = gpu_data_is_block(data, &first);
    uintptr_t at = first_byte(data) + (is_block ? skip_bytes : 0);
    struct gpu_range range =
        gpu_data_is_known(data, at) ? data->facts->range : *gpu_resolve((const void *)at);
    bool is_device = range.memory == GPU_MEMORY_DEVICE || range.memory == GPU_MEMORY_MANAGED;

    if (BASE_UNLIKELY(range.memory == GPU_MEMORY_NOWHERE))
        return gpu_address_error(at);
    side->addr = at;
    side->first = first ? (char *)first + skip_bytes : NULL;
    side->buffer = range.memory == GPU_MEMORY_DEVICE ? range.buffer : 0;
    side->room_bytes = range.to - at;
    side->device = is_device ? (range.device < 0 ? 0 : range.device) : -1;
    if (is_block)
        side->kind = range.memory == GPU_MEMORY_HOST ? HOST : FLAT;
    else
        side->kind = is_device ? DEVICE : HOST;
    return 0;
}

/* The way in which the device of one side can access the memory of the other. */
static enum gpu_peer_access access_between(const struct gpu_move_side *side,
                                           const struct gpu_move_side *other)
{
    return side->device < 0 ? GPU_PEER_ACCESS_KERNEL
                            : gpu_peer_access(side->device, other->addr, other->device, other->buffer);
}

/* If kernels are used: determines whether they can access the memory of their own side. */
static void find_foreign(struct gpu_move_side *side)
{
    side->is_foreign = side->device >= 0 && access_between(side, side) != GPU_PEER_ACCESS_KERNEL;
}

/* Called if kernels are used, or there are two GPUs. */
static void plan_ways(struct gpu_move *move)
{
    struct gpu_move_side *from = &move->from, *to = &move->to;
    bool is_cross = from->device >= 0 && to->device >= 0 && from->device != to->device;
    bool are_peers =
        !is_cross || gpu_peer_enable(from->device, to->device); /* then the driver copies directly */
    enum gpu_peer_access forth = to->kind == FLAT ? access_between(from, to) : GPU_PEER_ACCESS_KERNEL;
    enum gpu_peer_access back =
        to->kind == DEVICE && from->kind == FLAT ? access_between(to, from) : GPU_PEER_ACCESS_KERNEL;

    if (from->kind == DEVICE)
        find_foreign(from);
    if (to->kind == DEVICE)
        find_foreign(to);
    if (is_cross && from->kind == DEVICE && to->kind == DEVICE) {
        are_peers = gpu_peer_enable(to->device, from->device);
        move->is_split = true;
    } else {
        move->is_split = is_cross && (forth == GPU_PEER_ACCESS_NONE || back == GPU_PEER_ACCESS_NONE);
    }
    move->has_scratch[0] =
        from->kind == DEVICE && to->kind != HOST && (to->kind == DEVICE || forth != GPU_PEER_ACCESS_KERNEL);
    if (to->kind == DEVICE)
        move->has_scratch[1] =
            from->kind == DEVICE ? !are_peers : from->kind == FLAT && back != GPU_PEER_ACCESS_KERNEL;
    else
        move->has_scratch[1] = move->is_split;
}

/* The GPU that the pinned memory belongs to moves it. */
static void plan_hop(struct gpu_move *move)
{
    int device = gpu_resolve((const void *)move->from.addr)->device;

    move->is_hop = true;
    move->has_pinned = move->has_scratch[1] = move->is_split = false;
    move->has_scratch[0] = true;
    move->from.device = device < 0 ? 0 : device;
}

/* Decides the steps between the ends. */
static int plan(struct gpu_move *move)
{
    struct gpu_move_side *from = &move->from, *to = &move->to;
    int error = set_side(from, &move->src, move->src_skip_bytes);

    if (!error) {
        error = set_side(to, &move->dst, move->dst_skip_bytes);
        move->is_dst_missing = error != 0;
    }
    if (BASE_UNLIKELY(error))
        return error;
    if (from->device < 0 && to->device < 0) {
        if ((from->kind != FLAT || to->kind != FLAT) && (move->src.facts || move->dst.facts)) {
            move->src.facts = move->dst.facts = NULL; /* host memory may have been registered since */
            return plan(move);
        }
        if (from->kind != FLAT || to->kind != FLAT)
            return GPU_ERROR_INVALID_VALUE; /* one end was device or pinned memory: it has been freed */
        plan_hop(move);
        return 0;
    }
    move->has_pinned = from->kind == HOST || to->kind == HOST;
    move->has_scratch[0] = move->has_scratch[1] = move->is_split = false;
    if (from->kind == DEVICE || to->kind == DEVICE ||
        (from->device >= 0 && to->device >= 0 && from->device != to->device))
        plan_ways(move);
    return 0;
}

/* ---- Staging ---- */

void gpu_move_put_staging(struct gpu_move *move)
{
    for (int i = 0; i < move->n_chunks; i++) {
        struct gpu_move_chunk *chunk = &move->chunks[i];
        if (chunk->pinned)
            gpu_pinned_put(chunk->pinned);
        if (chunk->scratch[0])
            gpu_scratch_put(move->from.device, chunk->scratch[0], move->chunk_bytes);
        if (chunk->scratch[1])
            gpu_scratch_put(move->to.device, chunk->scratch[1], move->chunk_bytes);
        chunk->pinned = chunk->scratch[0] = chunk->scratch[1] = NULL;
    }
}

static int get_pinned(struct gpu_move *move)
{
    int error = 0;

    for (int i = 0; i < move->n_chunks && !error; i++) {
        size_t size_bytes = 0;
        move->chunks[i].pinned = gpu_pinned_get(move->chunk_bytes, &size_bytes, &error);
        if (i == 0 && move->chunks[i].pinned && size_bytes < move->chunk_bytes) {
            move->chunk_bytes = size_bytes;
            move->n_chunks = 2;
        }
    }
    return error;
}

static int get_scratch(struct gpu_move *move)
{
    int error = 0;

    for (int i = 0; i < move->n_chunks && !error; i++) {
        struct gpu_move_chunk *chunk = &move->chunks[i];
        if (move->has_scratch[0])
            chunk->scratch[0] = gpu_scratch_get(move->from.device, move->chunk_bytes, &error);
        if (move->has_scratch[1] && !error)
            chunk->scratch[1] = gpu_scratch_get(move->to.device, move->chunk_bytes, &error);
    }
    if (error)
        gpu_move_put_staging(move);
    return error;
}

static void set_chunks(struct gpu_move *move, size_t most_bytes)
{
    move->chunk_bytes = move->n_bytes < most_bytes ? move->n_bytes : most_bytes;
    move->n_chunks = move->n_bytes > move->chunk_bytes ? 2 : 1;
}

/* Allocates the memory that the plan needs, in chunks as small as necessary. */
static int get_staging(struct gpu_move *move)
{
    int error;

    if (move->is_hop) {
        set_chunks(move, HOP_MAX);
        return get_scratch(move);
    }
    set_chunks(move, move->n_bytes);
    if (!move->has_pinned && (move->has_scratch[0] || move->has_scratch[1])) {
        for (size_t most = SCRATCH_MAX; most >= SCRATCH_MIN; most /= 2) {
            set_chunks(move, most);
            if (!get_scratch(move))
                return 0;
        }
        move->has_pinned = true; /* accessible for both GPUs */
        move->has_scratch[0] = move->has_scratch[1] = false;
        set_chunks(move, move->n_bytes);
    }
    error = move->has_pinned ? get_pinned(move) : 0;
    if (error)
        gpu_move_put_staging(move);
    return error;
}

void gpu_move_plan(struct gpu_move *move)
{
    move->is_dst_missing = false;
    move->is_hop = false;
    move->taken_bytes = 0;
    move->n_busy = 0;
    move->n_chunks = 0;
    for (size_t i = 0; i < BASE_COUNT(move->chunks); i++)
        move->chunks[i].pinned = move->chunks[i].scratch[0] = move->chunks[i].scratch[1] = NULL;
    move->error = plan(move);
    if (!move->error)
        move->error = get_staging(move);
}
