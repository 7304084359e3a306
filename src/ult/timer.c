/* SPDX-License-Identifier: BSD-3-Clause
 *
 * timer.c: sleeping ULTs, one list per PE in the order in which they wake; and ULTs that wait for another one to go on.
 */
#include <time.h>

#include "ult/pe.h"

uint64_t ult_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ult_timer_add(struct ult_pe *pe, struct ult *u)
{
    struct ult **link = &pe->timer_first;

    /* Ranks that sleep in a loop usually sleep equally long: check the end of the list first. */
    if (pe->timer_last && pe->timer_last->wake_at_ns <= u->wake_at_ns)
        link = &pe->timer_last->timer_next;
    while (*link && (*link)->wake_at_ns <= u->wake_at_ns)
        link = &(*link)->timer_next;
    u->timer_next = *link;
    *link = u;
    if (!u->timer_next)
        pe->timer_last = u;
}

int ult_timer_fire(struct ult_pe *pe)
{
    uint64_t now_ns = ult_now_ns();
    int n_fired = 0;

    while (pe->timer_first && pe->timer_first->wake_at_ns <= now_ns) {
        struct ult *u = pe->timer_first;
        pe->timer_first = u->timer_next;
        if (!pe->timer_first)
            pe->timer_last = NULL;
        if (u->state != ULT_ENDED) /* an errand can end a sleeping ULT */
            ult_ready(u);
        n_fired++;
    }
    return n_fired;
}

int64_t ult_timer_next_ns(const struct ult_pe *pe)
{
    uint64_t now_ns;

    if (!pe->timer_first)
        return -1;
    now_ns = ult_now_ns();
    return pe->timer_first->wake_at_ns <= now_ns ? 0 : (int64_t)(pe->timer_first->wake_at_ns - now_ns);
}

void ult_sleep_ns(uint64_t duration_ns)
{
    struct ult *self = ult_self();

    self->wake_at_ns = ult_now_ns() + duration_ns;
    if (BASE_UNLIKELY(self->is_called)) { /* it is still blocked, except for an errand */
        while (ult_now_ns() < self->wake_at_ns)
            ult_yield();
        return;
    }
    ult_timer_add(self->pe, self);
    ult_suspend();
}

void ult_end_sleep(struct ult *u)
{
    struct ult **link = &u->pe->timer_first;
    struct ult *before = NULL;

    u->wake_at_ns = 0;
    while (*link && *link != u) {
        before = *link;
        link = &before->timer_next;
    }
    if (!*link)
        return;
    *link = u->timer_next;
    if (!u->timer_next)
        u->pe->timer_last = before;
    if (u->state != ULT_ENDED)
        ult_ready(u);
}

/* ---- Waiting for another ULT ---- */

void ult_join(struct ult *blocked)
{
    blocked->joiner = ult_self();
    ult_suspend();
}

void ult_wake_joiner(struct ult *blocked)
{
    struct ult *joiner = blocked->joiner;

    blocked->joiner = NULL;
    if (joiner->state != ULT_ENDED) /* an errand can end it */
        ult_ready(joiner);
}
