/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shuffle.c: see shuffle.h.
 *
 * A uniform choice among the ready ULTs seldom delays one of them for long, which some errors need. So the seed makes a quarter of
 * the ranks slow: another one that is ready is preferred to them fifteen times in sixteen. A slow one still runs, because those
 * that poll would wait for it for ever.
 */
#include "ult/shuffle.h"

#include "ult/pe.h"

#include <stdlib.h>
#include <string.h>

bool ult_shuffles;
static uint64_t seed;
static const char *list;

/* The numbers of splitmix64: a counter, scrambled. */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void ult_shuffle(uint64_t wanted, const char *numbers)
{
    ult_shuffles = true;
    seed = wanted;
    list = numbers;
}

const char *ult_shuffle_list(void)
{
    return list;
}

bool ult_shuffle_is_list(const char *text)
{
    return *text && text[strspn(text, "0123456789-+")] == '\0';
}

/* True if the number of the PE is in the list: 3+17-20. */
static bool has_effect(uint32_t number)
{
    const char *at = list;

    while (at && *at) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        if (number >= first && number <= last)
            return true;
        at = *end ? end + 1 : end;
    }
    return !list;
}

bool ult_random_counts(void)
{
    const struct ult *self = ult_self();

    return !list || (self && has_effect(self->pe->n_random));
}

uint64_t ult_shuffle_seed(void)
{
    return seed;
}

static uint32_t next(struct ult_pe *pe, uint32_t n)
{
    uint64_t number = (uint64_t)(uint32_t)pe->pe_id << 32 | ++pe->n_random;

    return (uint32_t)((scramble(scramble(seed + 1) + number) >> 32) * n >> 32);
}

uint32_t ult_random(uint32_t n)
{
    const struct ult *self = ult_self();

    return self ? next(self->pe, n) : 0;
}

uint32_t ult_random_trait(uint32_t purpose, uint32_t n)
{
    return (uint32_t)((scramble(scramble(~seed) + purpose) >> 32) * n >> 32);
}

static bool is_slow(const struct ult *u)
{
    enum { RANKS = 100 }; /* purposes from here on are ranks */

    return ult_random_trait(RANKS + (uint32_t)u->world_rank, 4) == 0;
}

void ult_shuffle_queue(struct ult_pe *pe)
{
    struct ult **link = &pe->queue_first, *u, *last = NULL;
    uint32_t n_ready = 0, n_fast = 0, which;
    bool prefers_fast;

    ult_pe_poll(pe);
    if (!pe->queue_first)
        ult_pe_idle(pe, false);
    for (u = pe->queue_first; u; u = u->next) {
        n_ready++;
        n_fast += !is_slow(u);
    }
    prefers_fast = n_fast > 0 && next(pe, 16) > 0;
    which = next(pe, prefers_fast ? n_fast : n_ready);
    for (; (prefers_fast && is_slow(*link)) || which-- > 0; link = &(*link)->next)
        last = *link;
    u = *link;
    if (!last || !has_effect(pe->n_random))
        return;
    last->next = u->next;
    if (pe->queue_last == u)
        pe->queue_last = last;
    u->next = pe->queue_first;
    pe->queue_first = u;
}

void ult_shuffle_preempt(void)
{
    static const uint32_t one_in[] = {2, 4, 16, 128};

    if (ult_random(one_in[ult_random_trait(0, BASE_COUNT(one_in))]) == 0 && ult_random_counts())
        ult_yield();
}
