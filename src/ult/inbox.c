/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inbox.c: the ring of items and the queue of notes. See inbox.h for the invariants.
 */
#include "ult/inbox.h"

#include <string.h>

#include "base/log.h"

/* How often the receiver publishes its head: a power of two well below the size. */
#define PUBLISH_EVERY (ULT_INBOX_CELLS / 8)

void ult_inbox_init(struct ult_inbox *inbox)
{
    memset(inbox, 0, sizeof *inbox);
    inbox->cells = base_calloc_aligned(ULT_INBOX_CELLS, sizeof(struct ult_item), "the inbox of a PE");
}

/* Claims the next free position; false: the ring is full. */
static bool claim(struct ult_inbox *inbox, uint64_t *position_out)
{
    uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);

    do {
        if (position - atomic_load_explicit(&inbox->head_seen, memory_order_acquire) >= ULT_INBOX_CELLS)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->tail, &position, position + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *position_out = position;
    return true;
}

bool ult_inbox_try_put(struct ult_inbox *inbox, const struct ult_item *item)
{
    uint64_t position;
    struct ult_item *cell;

    if (BASE_UNLIKELY(!claim(inbox, &position)))
        return false;
    cell = &inbox->cells[position % ULT_INBOX_CELLS];
    cell->handle = item->handle;
    memcpy(cell->body, item->body, sizeof cell->body);
    /* A plain store right behind the others: they leave the core in one burst, before the receiver, which polls this
     * line, takes it away again. The fence is for the sender's look at whether the receiver sleeps (idle.c). */
    atomic_store_explicit(&cell->turn, position + 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    return true;
}

void ult_inbox_put_note(struct ult_inbox *inbox, struct ult_note *note)
{
    note->next = atomic_load_explicit(&inbox->notes, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&inbox->notes, &note->next, note, memory_order_seq_cst,
                                                  memory_order_relaxed))
        ;
}

/* Handles the notes in the order in which they were posted. */
static int drain_notes(struct ult_inbox *inbox)
{
    struct ult_note *last = atomic_exchange_explicit(&inbox->notes, NULL, memory_order_acquire);
    struct ult_note *first = NULL;
    int n_handled = 0;

    while (last) {
        struct ult_note *before = last->next;
        last->next = first;
        first = last;
        last = before;
    }
    while (first) {
        struct ult_note *note = first;
        first = note->next;
        note->handle(note);
        n_handled++;
    }
    return n_handled;
}

int ult_inbox_drain(struct ult_inbox *inbox)
{
    int n_handled = 0;

    for (;;) {
        const struct ult_item *cell = &inbox->cells[inbox->head % ULT_INBOX_CELLS];
        if (atomic_load_explicit(&cell->turn, memory_order_acquire) != inbox->head + 1)
            break;
        cell->handle(cell);
        inbox->head++;
        n_handled++;
        if (inbox->head % PUBLISH_EVERY == 0)
            atomic_store_explicit(&inbox->head_seen, inbox->head, memory_order_release);
    }
    if (atomic_load_explicit(&inbox->notes, memory_order_relaxed))
        n_handled += drain_notes(inbox);
    return n_handled;
}
