/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_waits.c: the search for circles of ranks that wait for each other's file locks. See lock_waits.h.
 */
#include "image/libc/lock_waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Grows an array whose length is a power of two, or zero, each time it is full. */
static bool make_room(void **items, size_t count, size_t item_bytes)
{
    void *grown;

    if (count & (count - 1) || count == 1)
        return true;
    grown = realloc(*items, (count ? 2 * count : 2) * item_bytes);
    if (grown)
        *items = grown;
    return grown;
}

bool image_lock_waits_add(struct image_lock_waits *waits, const struct image_lock_wait *wait)
{
    if (!make_room((void **)&waits->waits, waits->n_waits, sizeof *wait))
        return false;
    waits->waits[waits->n_waits++] = *wait;
    return true;
}

bool image_lock_waits_add_held(struct image_lock_waits *waits, const struct image_lock_held *held)
{
    if (!make_room((void **)&waits->held, waits->n_held, sizeof *held))
        return false;
    waits->held[waits->n_held++] = *held;
    return true;
}

void image_lock_waits_free(struct image_lock_waits *waits)
{
    free(waits->waits);
    free(waits->held);
    *waits = (struct image_lock_waits){0};
}

/* True if the locks of a description conflict with the wait. */
static bool keeps_waiting(const struct image_lock_held *held, const struct image_lock_wait *wait)
{
    char path[64], line[256], type[16], end[32];
    long long first;
    bool holds_any = false, is_found = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)held->pid, held->fd);
    file = fopen(path, "re");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "lock: %*d: %*s %*s %15s %*d %*s %lld %31s", type, &first, end) != 3)
            continue;
        holds_any = true;
        is_found = (wait->is_exclusive || strcmp(type, "WRITE") == 0) && first <= wait->last &&
                   (strcmp(end, "EOF") == 0 || atoll(end) >= wait->first);
    }
    if (file) {
        if (held->may_hold)
            *held->may_hold = holds_any;
        fclose(file);
    }
    return is_found;
}

/* Appends the waits of a rank that the search has not found yet after `last`; returns the last one. */
static struct image_lock_wait *find_waits(struct image_lock_waits *waits,
                                          const struct image_lock_held *holder, struct image_lock_wait *last)
{
    for (size_t i = 0; i < waits->n_waits; i++) {
        struct image_lock_wait *wait = &waits->waits[i];

        if (wait->pid != holder->pid || wait->rank != holder->rank || wait->is_found)
            continue;
        wait->is_found = true;
        wait->found_next = NULL;
        last = last->found_next = wait;
    }
    return last;
}

bool image_lock_waits_are_circular(struct image_lock_waits *waits)
{
    struct image_lock_wait *start = waits->waits, *last = start;

    for (size_t i = 0; i < waits->n_waits; i++)
        waits->waits[i].is_found = false;
    start->is_found = true;
    start->found_next = NULL;
    for (const struct image_lock_wait *at = start; at; at = at->found_next)
        for (size_t i = 0; i < waits->n_held; i++) {
            const struct image_lock_held *held = &waits->held[i];

            if ((held->pid == at->pid && held->rank == at->rank) || held->inode != at->inode ||
                held->device != at->device || (held->may_hold && !*held->may_hold) ||
                !keeps_waiting(held, at))
                continue;
            if (held->pid == start->pid && held->rank == start->rank)
                return true;
            last = find_waits(waits, held, last);
        }
    return false;
}
