/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inbox.h: what other threads put in front of a PE.
 *
 * Items are one cache line each and live in rings, one per sender PE: the sender writes the line, the
 * receiver finds payload and arrival flag in the same line, so a message costs one transfer between cores,
 * and neither side needs an atomic read-modify-write. Notes are linked through memory of the sender's: no
 * bound, never fails, any thread.
 *
 * Invariants of a ring:
 *   1. Position n is cell n modulo the size; it is full when its turn is n + 1.
 *   2. `tail` is the sender's. It writes position n only while n - head_known < size.
 *   3. `head` is the receiver's; `head_seen` is a copy that it publishes from time to time, `head_known` what
 *      the sender last read of that. The receiver never writes a cell: the line stays with the sender.
 *   4. What one side writes all the time shares no line with what the other side reads or writes.
 */
#ifndef ULT_INBOX_H
#define ULT_INBOX_H

#include "base/base.h"

/* Bytes of an item that are the sender's. */
#define ULT_ITEM_BYTES 48

/* Cells of a ring: 16 KiB. */
#define ULT_RING_CELLS 256u

struct ult_item {
    _Atomic uint64_t turn;                   /* position + 1 when the cell is full (invariant 1) */
    void (*handle)(const struct ult_item *); /* called on the destination PE, in order; may not switch */
    unsigned char body[ULT_ITEM_BYTES];
} BASE_CACHE_ALIGNED;

struct ult_note {
    struct ult_note *next;             /* link of the destination's queue */
    void (*handle)(struct ult_note *); /* called on the destination PE; may free the note; may not switch */
};

/* The items of one sender PE for one receiver PE. */
struct ult_ring {
    struct ult_item cells[ULT_RING_CELLS];
    /* The sender's: */
    uint64_t tail;       /* next position to write */
    uint64_t head_known; /* positions below are free again */
    /* The receiver's: */
    _Atomic uint64_t head_seen BASE_CACHE_ALIGNED; /* published for the sender */
    uint64_t head BASE_CACHE_ALIGNED;              /* next position to read */
    struct ult_ring *next;                         /* link of the inbox's list */
};

struct ult_inbox {
    _Atomic(struct ult_note *) notes BASE_CACHE_ALIGNED; /* the last note posted first; any thread */
    struct ult_ring *rings BASE_CACHE_ALIGNED;           /* those of all senders so far; the receiver's own */
};

void ult_inbox_init(struct ult_inbox *inbox);

/* A new ring, empty; to be freed with free. */
struct ult_ring *ult_ring_create(void);

/* Has the receiver read the ring from now on. The receiver's thread; before anything is put into it, or with
 * a note. */
void ult_inbox_add_ring(struct ult_inbox *inbox, struct ult_ring *ring);

/* Copies the item into the ring; false: the ring is full. The sender's thread. */
bool ult_ring_try_put(struct ult_ring *ring, const struct ult_item *item);

/* Adds a note. Any thread. */
void ult_inbox_put_note(struct ult_inbox *inbox, struct ult_note *note);

/* Handles what has arrived, at most one ring's worth of each sender; returns how many items and notes that
 * was. The receiver's thread. */
int ult_inbox_drain(struct ult_inbox *inbox);

/* True if something has arrived. The receiver's thread, or any while the receiver sleeps. */
static inline bool ult_inbox_has_mail(struct ult_inbox *inbox)
{
    for (const struct ult_ring *ring = inbox->rings; ring; ring = ring->next)
        if (atomic_load_explicit(&ring->cells[ring->head % ULT_RING_CELLS].turn, memory_order_acquire) ==
            ring->head + 1)
            return true;
    return atomic_load_explicit(&inbox->notes, memory_order_acquire) != NULL;
}

#endif
