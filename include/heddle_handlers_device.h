/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_handlers_device.h: how kernels send messages, and how the resident kernel runs handlers; the protocol is described in heddle_handlers.h. It is
 * compiled as CUDA C++, and for tests as C.
 */
#ifndef HEDDLE_HANDLERS_DEVICE_H
#define HEDDLE_HANDLERS_DEVICE_H

#include "heddle_handlers_memory.h"

/* 16 bytes at a time. */
typedef struct
#ifdef __CUDACC__
    __align__(16)
#endif
{
    uint64_t low, high;
}
heddle_handlers_vector;

/* Copies a message's bytes: `lane` of n_lanes threads does its part. `to` and `from` are aligned to 16 bytes if is_aligned, and have room for a
 * multiple of 16 bytes. */
HEDDLE_HANDLERS_FN void heddle_handlers_copy(char *to, const char *from, uint32_t n_bytes, int is_aligned,
                                             uint32_t lane, uint32_t n_lanes)
{
    if (is_aligned) {
        for (uint32_t i = lane; i < (n_bytes + 15) / 16; i += n_lanes)
            ((heddle_handlers_vector *)to)[i] = ((const heddle_handlers_vector *)from)[i];
    } else if ((((uintptr_t)from | n_bytes) & 7) == 0) {
        for (uint32_t i = lane; i < n_bytes / 8; i += n_lanes)
            ((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
    } else {
        for (uint32_t i = lane; i < n_bytes; i += n_lanes)
            to[i] = from[i];
    }
}

/* ---- Sending ---- */

/* Where a message goes. */
struct heddle_handlers_place {
    struct HEDDLE_Handlers_slot *slot;
    uint64_t *doorbell; /* to be rung; NULL: the kernel is there */
    uint64_t word;      /* to be published */
    uint32_t source;
    int is_near;
    enum HEDDLE_Handlers_fault fault; /* if it is one, there is no place */
};

HEDDLE_HANDLERS_FN struct HEDDLE_Handlers_slot *heddle_handlers_slot(uint64_t slots, uint32_t n_slots,
                                                                     uint32_t slot_bytes, uint64_t number)
{
    uint64_t stride = HEDDLE_HANDLERS_STRIDE(slot_bytes);

    return HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_slot, slots + (number & (n_slots - 1)) * stride, stride);
}

HEDDLE_HANDLERS_FN enum HEDDLE_Handlers_fault heddle_handlers_check(const struct HEDDLE_Handlers_peer *peer,
                                                                    uint32_t n_bytes, uint32_t tag)
{
    if (peer->obstacle)
        return (enum HEDDLE_Handlers_fault)peer->obstacle;
    if (tag >= HEDDLE_HANDLERS_TAGS || !(peer->tags[tag / 64] >> tag % 64 & 1))
        return HEDDLE_HANDLERS_NO_HANDLER;
    return n_bytes > peer->slot_bytes ? HEDDLE_HANDLERS_TOO_LONG : HEDDLE_HANDLERS_FINE;
}

/* Records a wrong send for the host. */
HEDDLE_HANDLERS_FN struct heddle_handlers_place
heddle_handlers_refuse(const struct HEDDLE_Handlers_device *device, enum HEDDLE_Handlers_fault fault,
                       uint32_t dest, uint32_t tag)
{
    struct heddle_handlers_place place = {NULL, NULL, 0, 0, 0, fault};
    struct HEDDLE_Handlers_page *page =
        HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_page, device->page, sizeof *page);

    heddle_handlers_store(&page->fault, (uint64_t)fault << 48 | (uint64_t)(tag & 0xffff) << 32 | dest);
    return place;
}

/* First, by one thread: takes a slot of the destination. */
HEDDLE_HANDLERS_FN struct heddle_handlers_place
heddle_handlers_begin(struct HEDDLE_Handlers_device *at, uint32_t n_bytes, uint32_t dest, uint32_t tag)
{
    const struct HEDDLE_Handlers_device *device =
        HEDDLE_HANDLERS_AT(const struct HEDDLE_Handlers_device, at, sizeof *device);
    struct heddle_handlers_place place = {NULL, NULL, 0, device->rank, 0, HEDDLE_HANDLERS_FINE};
    struct HEDDLE_Handlers_peer peer; /* a copy: what follows would let the compiler load it again */
    const struct HEDDLE_Handlers_peer *peers;
    struct HEDDLE_Handlers_ring *ring;
    uint64_t *guess, guessed, seen, tickets, number;
    uint32_t n_reserved;

    if (dest >= device->n_ranks)
        return heddle_handlers_refuse(device, HEDDLE_HANDLERS_NO_RANK, dest, tag);
    peers = HEDDLE_HANDLERS_AT(const struct HEDDLE_Handlers_peer, at + 1,
                               device->n_ranks * (sizeof peer + sizeof *guess));
    peer = peers[dest];
    guess = (uint64_t *)(uintptr_t)(peers + device->n_ranks) + dest;
    guessed = heddle_handlers_load(guess);
    place.fault = heddle_handlers_check(&peer, n_bytes, tag);
    if (place.fault != HEDDLE_HANDLERS_FINE)
        return heddle_handlers_refuse(device, place.fault, dest, tag);
    ring = HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_ring, peer.ring, sizeof *ring);
    n_reserved = heddle_handlers_add32(&ring->n_reserved, 1);
    place.slot = heddle_handlers_slot(peer.slots, peer.n_slots, peer.slot_bytes, guessed);
    seen = heddle_handlers_acquire(&place.slot->word); /* while the reservation is under way */
    if (n_reserved >= peer.n_slots) {
        heddle_handlers_add32(&ring->n_reserved, (uint32_t)-1);
        place.fault = HEDDLE_HANDLERS_NO_SLOT;
        return place;
    }
    tickets = heddle_handlers_add(&ring->tickets, 2);
    number = tickets >> 1;
    heddle_handlers_store(guess, number + 1);
    place.is_near = (int)peer.is_near;
    place.word = number << 32 | HEDDLE_HANDLERS_FULL | tag << 16 | n_bytes;
    if (tickets & HEDDLE_HANDLERS_AWAY)
        place.doorbell = HEDDLE_HANDLERS_AT(uint64_t, peer.doorbell, sizeof(uint64_t));
    if (number == guessed && seen == number << 32)
        return place;
    place.slot = heddle_handlers_slot(peer.slots, peer.n_slots, peer.slot_bytes, number);
    while (heddle_handlers_acquire(&place.slot->word) != number << 32)
        HEDDLE_HANDLERS_PAUSE();
    return place;
}

/* Next, by all threads of the call, behind a barrier. */
HEDDLE_HANDLERS_FN void heddle_handlers_write(const struct heddle_handlers_place *place, const void *data,
                                              uint32_t n_bytes, uint32_t lane, uint32_t n_lanes)
{
    if (place->fault != HEDDLE_HANDLERS_FINE)
        return;
    if (lane == 0)
        place->slot->source = place->source;
    heddle_handlers_copy((char *)(place->slot + 1), (const char *)data, n_bytes,
                         (((uintptr_t)data | n_bytes) & 15) == 0, lane, n_lanes);
}

/* Last, by one of them, behind a barrier: the message can be taken. */
HEDDLE_HANDLERS_FN void heddle_handlers_publish(const struct heddle_handlers_place *place)
{
    if (place->fault != HEDDLE_HANDLERS_FINE)
        return;
    heddle_handlers_release(&place->slot->word, place->word, place->is_near);
    if (place->doorbell) {
        heddle_handlers_fence();
        heddle_handlers_store(place->doorbell, 1);
    }
}

/* The three by one thread. */
HEDDLE_HANDLERS_FN enum HEDDLE_Handlers_fault heddle_handlers_send(const void *data, uint32_t n_bytes,
                                                                   uint32_t dest, uint32_t tag,
                                                                   struct HEDDLE_Handlers_device *device)
{
    struct heddle_handlers_place place = heddle_handlers_begin(device, n_bytes, dest, tag);

    heddle_handlers_write(&place, data, n_bytes, 0, 1);
    heddle_handlers_publish(&place);
    return place.fault;
}

/* A message of the host, by one thread. It waits while the ring is full: handlers take messages meanwhile. */
HEDDLE_HANDLERS_FN void heddle_handlers_post(const struct HEDDLE_Handlers_post *post)
{
    const struct HEDDLE_Handlers_device *device;
    struct HEDDLE_Handlers_page *page;

    if (post->number == 0)
        return;
    while (heddle_handlers_send(post->data, post->n_bytes, post->dest, post->tag,
                                (struct HEDDLE_Handlers_device *)(uintptr_t)post->device) ==
           HEDDLE_HANDLERS_NO_SLOT)
        HEDDLE_HANDLERS_PAUSE();
    device = HEDDLE_HANDLERS_AT(const struct HEDDLE_Handlers_device, post->device, sizeof *device);
    page = HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_page, device->page, sizeof *page);
    heddle_handlers_fence();
    heddle_handlers_store(&page->posted, post->number);
}

/* ---- The resident kernel ---- */

typedef void (*heddle_handlers_fn)(const struct HEDDLE_Handlers_message *message);

/* Time between two looks at page.evict, which is in the host's memory. */
#define HEDDLE_HANDLERS_EVICT_NS 1000000u

/* A block's thread 0; with copies of what it needs for each look. */
struct heddle_handlers_look {
    struct HEDDLE_Handlers_ring *ring;
    struct HEDDLE_Handlers_page *page;
    uint64_t launch;
    uint64_t next; /* number of the message that it looks for */
    uint64_t slots;
    uint64_t idle_ns;
    uint32_t n_slots;
    uint32_t slot_bytes;
    uint32_t n_blocks;
    uint32_t block;
    uint32_t n_polls;
    /* Block 0: */
    uint64_t n_done;        /* as it was ... */
    uint64_t idle_since_ns; /* ... since then */
    uint64_t asked_ns;      /* time of the last look at page.evict */
};

/* Shared by the threads of a block. */
struct heddle_handlers_block {
    struct HEDDLE_Handlers_message message;
    struct HEDDLE_Handlers_slot *slot;
    uint64_t number;
    heddle_handlers_fn function;
    uint32_t by; /* enum HEDDLE_Handlers_by; NONE: leave */
    uint32_t pad;
    heddle_handlers_vector data[HEDDLE_HANDLERS_BYTES_MAX / 16];
    struct HEDDLE_Handlers_entry entries[HEDDLE_HANDLERS_TAGS]; /* a copy */
};

/* A barrier of all blocks, for one thread of each. Returns 1, or 2 to the last block. `taken` becomes next before the others go on, unless that is 0. With a launch: returns
 * 0 if block 0 has left instead (which is not in this barrier, so it cannot be complete): the message is for the next launch. */
HEDDLE_HANDLERS_FN int heddle_handlers_barrier(struct HEDDLE_Handlers_ring *ring, uint32_t n_blocks,
                                               uint64_t launch, uint64_t next)
{
    uint32_t barrier = heddle_handlers_acquire_near(&ring->barrier);

    if (heddle_handlers_add_near(&ring->n_arrived, 1) == n_blocks - 1) {
        heddle_handlers_release_near(&ring->n_arrived, 0);
        if (next)
            heddle_handlers_store(&ring->taken, next);
        heddle_handlers_release_near(&ring->barrier, barrier + 1);
        return 2;
    }
    for (uint32_t n = 1; heddle_handlers_acquire_near(&ring->barrier) == barrier; n++) {
        if (n % 64 == 0 && launch && heddle_handlers_load(&ring->left) == launch) {
            heddle_handlers_add_near(&ring->n_arrived, (uint32_t)-1);
            return 0;
        }
        HEDDLE_HANDLERS_PAUSE();
    }
    return 1;
}

HEDDLE_HANDLERS_FN struct heddle_handlers_look
heddle_handlers_enter(const struct HEDDLE_Handlers_device *device, uint64_t launch, uint32_t block)
{
    struct heddle_handlers_look look;

    look.ring = HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_ring, device->ring, sizeof *look.ring);
    look.page = HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_page, device->page, sizeof *look.page);
    look.launch = launch;
    look.slots = device->slots;
    look.idle_ns = device->idle_ns;
    look.n_slots = device->n_slots;
    look.slot_bytes = device->slot_bytes;
    look.n_blocks = device->n_blocks;
    look.block = block;
    look.n_polls = 0;
    look.n_done = (uint64_t)-1;
    look.idle_since_ns = look.asked_ns = heddle_handlers_now_ns();
    if (block == 0)
        heddle_handlers_and(&look.ring->tickets, ~(uint64_t)HEDDLE_HANDLERS_AWAY);
    look.next = heddle_handlers_acquire(&look.ring->taken);
    return look;
}

/* Block 0 lets all blocks leave. */
HEDDLE_HANDLERS_FN void heddle_handlers_leave(const struct heddle_handlers_look *look)
{
    heddle_handlers_store(&look->ring->left, look->launch);
    heddle_handlers_fence();
    heddle_handlers_store(&look->page->left, look->launch);
}

/* Block 0 looks whether the host wants it to leave. Returns 1 if the kernel leaves. */
HEDDLE_HANDLERS_FN int heddle_handlers_is_evicted(struct heddle_handlers_look *look)
{
    uint64_t now = heddle_handlers_now_ns();

    if (now - look->asked_ns < HEDDLE_HANDLERS_EVICT_NS)
        return 0;
    look->asked_ns = now;
    if (!heddle_handlers_load(&look->page->evict))
        return 0;
    heddle_handlers_or(&look->ring->tickets, HEDDLE_HANDLERS_AWAY);
    heddle_handlers_leave(look);
    return 1;
}

/* Block 0 has found no message. Returns 1 if the kernel leaves. */
HEDDLE_HANDLERS_FN int heddle_handlers_rest(struct heddle_handlers_look *look)
{
    uint64_t now = heddle_handlers_now_ns(), n_done = heddle_handlers_load(&look->ring->n_done);
    uint64_t tickets = heddle_handlers_load(&look->ring->tickets);

    if (n_done != look->n_done || tickets != n_done << 1) {
        look->n_done = n_done;
        look->idle_since_ns = now;
        return 0;
    }
    if (now - look->idle_since_ns < look->idle_ns ||
        heddle_handlers_swap(&look->ring->tickets, tickets, tickets | HEDDLE_HANDLERS_AWAY) != tickets)
        return 0;
    heddle_handlers_leave(look);
    return 1;
}

/* True if this block has taken the message that it looks for. */
HEDDLE_HANDLERS_FN int heddle_handlers_take(struct heddle_handlers_look *look)
{
    uint64_t found;

    if (look->n_blocks == 1) {
        heddle_handlers_store(&look->ring->taken, ++look->next);
        return 1;
    }
    found = heddle_handlers_swap_near(&look->ring->taken, look->next, look->next + 1);
    if (found == look->next++)
        return 1;
    look->next = found;
    return 0;
}

/* What the handler will get, but for the data. */
HEDDLE_HANDLERS_FN void heddle_handlers_note(const struct heddle_handlers_look *look,
                                             struct heddle_handlers_block *block,
                                             struct HEDDLE_Handlers_slot *slot, uint64_t number,
                                             uint64_t word)
{
    uint32_t tag = (uint32_t)word >> 16 & (HEDDLE_HANDLERS_TAGS - 1);
    const struct HEDDLE_Handlers_entry *entry = &block->entries[tag];
    int is_grid = entry->by == HEDDLE_HANDLERS_BY_GRID;

    block->by = entry->by;
    block->function = (heddle_handlers_fn)(uintptr_t)entry->function;
    block->slot = slot;
    block->number = number;
    block->message.n_bytes = (int)(word & 0xffff);
    block->message.source = (int)slot->source;
    block->message.tag = (int)tag;
    block->message.block = is_grid ? (int)look->block : 0;
    block->message.n_blocks = is_grid ? (int)look->n_blocks : 1;
    block->message.argument = (void *)(uintptr_t)entry->argument;
}

/* Waits for a message for this block, and takes it. None: the block leaves. */
HEDDLE_HANDLERS_FN void heddle_handlers_next(struct heddle_handlers_look *look,
                                             struct heddle_handlers_block *block)
{
    block->by = HEDDLE_HANDLERS_BY_NONE;
    for (;;) {
        uint64_t number = look->next, word;
        struct HEDDLE_Handlers_slot *slot =
            heddle_handlers_slot(look->slots, look->n_slots, look->slot_bytes, number);
        if (++look->n_polls % 64 == 0 && look->block == 0 && heddle_handlers_is_evicted(look))
            return;
        word = heddle_handlers_acquire(&slot->word);
        if (word >> 31 == ((uint64_t)(uint32_t)number << 1 | 1)) {
            if (block->entries[(uint32_t)word >> 16 & (HEDDLE_HANDLERS_TAGS - 1)].by ==
                HEDDLE_HANDLERS_BY_GRID) {
                if (!heddle_handlers_barrier(look->ring, look->n_blocks, look->launch, 0))
                    return;
                look->next = number + 1;
            } else if (!heddle_handlers_take(look)) {
                continue;
            }
            heddle_handlers_note(look, block, slot, number, word);
            return;
        }
        if (look->n_blocks > 1) {
            look->next = heddle_handlers_acquire(&look->ring->taken);
            if (look->next != number)
                continue;
        }
        if (look->n_polls % 32 == 0 &&
            (look->block == 0 ? heddle_handlers_rest(look)
                              : heddle_handlers_load(&look->ring->left) == look->launch))
            return;
        HEDDLE_HANDLERS_PAUSE();
    }
}

/* Frees the slot of the block's message. */
HEDDLE_HANDLERS_FN void heddle_handlers_free(const struct heddle_handlers_block *block,
                                             const struct HEDDLE_Handlers_device *device)
{
    struct HEDDLE_Handlers_ring *ring =
        HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_ring, device->ring, sizeof *ring);

    heddle_handlers_release(&block->slot->word, (block->number + device->n_slots) << 32,
                            (int)device->is_alone);
    heddle_handlers_add32(&ring->n_reserved, (uint32_t)-1);
}

/* The handler has returned in this block. */
HEDDLE_HANDLERS_FN void heddle_handlers_done(const struct heddle_handlers_look *look,
                                             const struct heddle_handlers_block *block,
                                             const struct HEDDLE_Handlers_device *device)
{
    if (block->by == HEDDLE_HANDLERS_BY_GRID) {
        if (heddle_handlers_barrier(look->ring, look->n_blocks, 0, block->number + 1) == 1)
            return;
        heddle_handlers_free(block, device);
    }
    heddle_handlers_fence();
    if (look->n_blocks == 1)
        heddle_handlers_store(&look->ring->n_done, heddle_handlers_load(&look->ring->n_done) + 1);
    else
        heddle_handlers_count_near(&look->ring->n_done);
}

/* By all threads of a block, at the begin: what does not change. */
HEDDLE_HANDLERS_FN void heddle_handlers_fill(struct heddle_handlers_block *block,
                                             const struct HEDDLE_Handlers_launch *launch,
                                             const struct HEDDLE_Handlers_device *device, uint32_t lane,
                                             uint32_t n_lanes)
{
    for (uint32_t i = lane; i < HEDDLE_HANDLERS_TAGS; i += n_lanes)
        block->entries[i] = device->entries[i];
    if (lane == 0) {
        block->message.rank = (int)device->rank;
        block->message.data = block->data;
        block->message.device = (struct HEDDLE_Handlers_device *)(uintptr_t)launch->device;
    }
    HEDDLE_HANDLERS_SYNC();
}

/* What a block of the resident kernel does. By all its threads; `block` is theirs. */
HEDDLE_HANDLERS_FN void heddle_handlers_serve(const struct HEDDLE_Handlers_launch *launch, uint32_t number,
                                              uint32_t lane, uint32_t n_lanes,
                                              struct heddle_handlers_block *block)
{
    const struct HEDDLE_Handlers_device *device;
    struct heddle_handlers_look look;

    if (launch->number == 0)
        return;
    device = HEDDLE_HANDLERS_AT(const struct HEDDLE_Handlers_device, launch->device, sizeof *device);
    heddle_handlers_fill(block, launch, device, lane, n_lanes);
    if (lane == 0)
        look = heddle_handlers_enter(device, launch->number, number);
    for (;;) {
        if (lane == 0)
            heddle_handlers_next(&look, block);
        HEDDLE_HANDLERS_SYNC();
        if (block->by == HEDDLE_HANDLERS_BY_NONE)
            return;
        heddle_handlers_copy((char *)block->data, (const char *)(block->slot + 1),
                             (uint32_t)block->message.n_bytes, 1, lane, n_lanes);
        HEDDLE_HANDLERS_SYNC();
        /* Another warp than the one whose thread the handler may need first. */
        if (lane == n_lanes - 1 && block->by == HEDDLE_HANDLERS_BY_BLOCK)
            heddle_handlers_free(block, device);
        block->function(&block->message);
        HEDDLE_HANDLERS_SYNC();
        if (lane == 0)
            heddle_handlers_done(&look, block, device);
    }
}

/* A barrier of all blocks that run a handler of the whole grid, for one thread of each, between barriers of the block. */
HEDDLE_HANDLERS_FN void heddle_handlers_grid_sync(const struct HEDDLE_Handlers_message *message)
{
    const struct HEDDLE_Handlers_device *device =
        HEDDLE_HANDLERS_AT(const struct HEDDLE_Handlers_device, message->device, sizeof *device);
    struct HEDDLE_Handlers_ring *ring =
        HEDDLE_HANDLERS_AT(struct HEDDLE_Handlers_ring, device->ring, sizeof *ring);

    if (message->n_blocks > 1)
        (void)heddle_handlers_barrier(ring, device->n_blocks, 0, 0);
}

#endif /* HEDDLE_HANDLERS_DEVICE_H */
