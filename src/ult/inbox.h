/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inbox.h: items and wake-ups from other threads for a PE.
 *
 * Items are one cache line each and are in rings, one per sender PE: the sender writes the line, and the
 * receiver finds payload and arrival flag in the same line, so a message costs one transfer between cores,
 * and neither side needs an atomic read-modify-write. Wake-ups are linked through the sender's memory:
 * unbounded, never fails, any thread.
 *
 * Invariants of a ring:
 *   1. Position n is cell n modulo the size; it is full when its turn is n + 1.
 *   2. `tail` is the sender's. It writes position n only while n - head_known < size.
 *   3. `head` is the receiver's; `head_seen` is a copy that it publishes from time to time, `head_known`
 *      the value that the sender last read. The receiver never writes a cell: the line stays with the
 *      sender.
 *   4. A cell that the receiver polls is also in the receiver's cache: the sender needs one transfer to own
 *      the line, and a second one carries the message. An item is often answered by one in the opposite
 *      direction. So before the receiver handles an item it owns the cell of the answer, if it has sent an
 *      item since it last did so. The sender of a stream owns a later cell with each item, so that several lines are
 *      under way.
 *   5. Fields that one side writes all the time share no cache line with fields that the other side reads
 *      or writes.
 */
#ifndef ULT_INBOX_H
#define ULT_INBOX_H

#include "base/base.h"

/* Payload bytes of an item. */
#define ULT_ITEM_BYTES 48

/* Cells of a ring: 16 KiB. */
#define ULT_RING_CELLS 256u

struct ult_item {
    _Atomic uint64_t turn;                   /* position + 1 when the cell is full (invariant 1) */
    void (*handle)(const struct ult_item *); /* called on the destination PE, in order; may not switch */
    unsigned char body[ULT_ITEM_BYTES];
} BASE_CACHE_ALIGNED;

struct ult_wakeup {
    struct ult_wakeup *next; /* next in the destination's queue */
    void (*handle)(
        struct ult_wakeup *); /* called on the destination PE; may free the wakeup; may not switch */
};

/* The items from one sender PE to one receiver PE. */
struct ult_ring {
    struct ult_item cells[ULT_RING_CELLS];
    /* The sender's: */
    uint64_t tail;       /* next position to write */
    uint64_t head_known; /* positions below are free again */
    uint64_t tail_owned; /* the last position whose cell was owned ahead (invariant 4) */
    /* The receiver's: */
    _Atomic uint64_t head_seen BASE_CACHE_ALIGNED; /* published for the sender */
    uint64_t head BASE_CACHE_ALIGNED;              /* next position to read */
    struct ult_ring *next;                         /* next in the inbox's list */
    struct ult_ring *const *answers; /* *answers: the ring in the opposite direction; NULL: none yet */
};

struct ult_inbox {
    _Atomic(struct ult_wakeup *) wakeups BASE_CACHE_ALIGNED; /* newest first; any thread */
    struct ult_ring *rings BASE_CACHE_ALIGNED; /* rings of all senders so far; used only by the receiver */
};

void ult_inbox_init(struct ult_inbox *inbox);

/* A new empty ring; free it with free. */
struct ult_ring *ult_ring_create(void);

/* Makes the receiver read the ring from now on. *answers: the receiver's ring to the sender, or NULL as long as there is
 * none. The receiver's thread; before any item is put into the ring, or with a wake-up. */
void ult_inbox_add_ring(struct ult_inbox *inbox, struct ult_ring *ring, struct ult_ring *const *answers);

/* Copies the item into the ring; false: the ring is full. The sender's thread. */
bool ult_ring_try_put(struct ult_ring *ring, const struct ult_item *item);

/* Takes back the oldest item that the receiver has not handled; false: there is none. The sender's thread, while the
 * receiver does not read. */
bool ult_ring_take_back(struct ult_ring *ring);

/* Adds a wake-up. Any thread. */
void ult_inbox_put_wakeup(struct ult_inbox *inbox, struct ult_wakeup *wakeup);

/* Handles arrived items, at most one ring's worth from each sender, and wake-ups; returns their number. The
 * receiver's thread. */
int ult_inbox_drain(struct ult_inbox *inbox);

/* True if there are items or wake-ups. The receiver's thread, or any thread while the receiver sleeps. */
static inline bool ult_inbox_has_mail(struct ult_inbox *inbox)
{
    for (const struct ult_ring *ring = inbox->rings; ring; ring = ring->next)
        if (atomic_load_explicit(&ring->cells[ring->head % ULT_RING_CELLS].turn, memory_order_acquire) ==
            ring->head + 1)
            return true;
    return atomic_load_explicit(&inbox->wakeups, memory_order_acquire) != NULL;
}

#endif
