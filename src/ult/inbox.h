/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inbox.h: what other threads put in front of a PE.
 *
 * Items are one cache line each and live in a bounded ring: a sender writes the line, the receiver
 * finds payload and arrival flag in the same line, so a message costs one transfer between cores.
 * Notes are linked through memory of the sender's: no bound, never fails; for completions.
 */
#ifndef ULT_INBOX_H
#define ULT_INBOX_H

#include "base/base.h"

/* Bytes of an item that are the sender's. */
#define ULT_ITEM_BYTES 48

struct ult_item {
    _Atomic uint64_t turn;                   /* ring bookkeeping: whose turn the cell is (see inbox.c) */
    void (*handle)(const struct ult_item *); /* called on the destination PE, in order of arrival; may not switch */
    unsigned char body[ULT_ITEM_BYTES];
} BASE_CACHE_ALIGNED;

struct ult_note {
    _Atomic(struct ult_note *) next;   /* link of the destination's queue */
    void (*handle)(struct ult_note *); /* called on the destination PE; may free the note; may not switch */
};

#endif
