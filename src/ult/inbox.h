/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inbox.h: what other threads put in front of a PE.
 *
 * Items are one cache line each and live in a bounded ring: a sender writes the line, the receiver
 * finds payload and arrival flag in the same line, so a message costs one transfer between cores.
 * Notes are linked through memory of the sender's: no bound, never fails; for completions.
 *
 * Invariants of the ring:
 *   1. Position n is cell n modulo the size; it is full when its turn is n + 1.
 *   2. Senders claim positions by compare-and-swap on `tail`, and only while tail - head_seen < size.
 *   3. `head` is the receiver's; `head_seen` is a copy that it publishes from time to time. The receiver
 *      never writes a cell: the line stays with the sender.
 */
#ifndef ULT_INBOX_H
#define ULT_INBOX_H

#include "base/base.h"

/* Bytes of an item that are the sender's. */
#define ULT_ITEM_BYTES 48

/* Cells of a PE's ring: 64 KiB. */
#define ULT_INBOX_CELLS 1024u

struct ult_item {
    _Atomic uint64_t turn;                   /* position + 1 when the cell is full (invariant 1) */
    void (*handle)(const struct ult_item *); /* called on the destination PE, in order; may not switch */
    unsigned char body[ULT_ITEM_BYTES];
} BASE_CACHE_ALIGNED;

struct ult_note {
    struct ult_note *next;             /* link of the destination's queue */
    void (*handle)(struct ult_note *); /* called on the destination PE; may free the note; may not switch */
};

struct ult_inbox {
    struct ult_item *cells;             /* ULT_INBOX_CELLS of them */
    _Atomic uint64_t tail BASE_CACHE_ALIGNED;      /* next position to claim; senders write it */
    _Atomic uint64_t head_seen BASE_CACHE_ALIGNED; /* positions below are free again */
    _Atomic(struct ult_note *) notes BASE_CACHE_ALIGNED; /* the last note posted first */
    uint64_t head BASE_CACHE_ALIGNED;   /* next position to read; the receiver's own */
};

void ult_inbox_init(struct ult_inbox *inbox);

/* Copies the item into the ring; false: the ring is full. Any PE thread. */
bool ult_inbox_try_put(struct ult_inbox *inbox, const struct ult_item *item);

/* Adds a note. Any thread. */
void ult_inbox_put_note(struct ult_inbox *inbox, struct ult_note *note);

/* Handles what has arrived; returns how many items and notes that was. The receiver's thread. */
int ult_inbox_drain(struct ult_inbox *inbox);

/* True if something has arrived. Any thread; exact only on the receiver's. */
static inline bool ult_inbox_has_mail(struct ult_inbox *inbox)
{
    const struct ult_item *cell = &inbox->cells[inbox->head % ULT_INBOX_CELLS];

    return atomic_load_explicit(&cell->turn, memory_order_acquire) == inbox->head + 1 ||
           atomic_load_explicit(&inbox->notes, memory_order_acquire) != NULL;
}

#endif
