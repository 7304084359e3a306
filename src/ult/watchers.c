/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watchers.c: what upper layers see of ULTs and PEs: counters, and functions that are told what happens.
 */
#include "ult/pe.h"
#include "ult/tls.h"

struct ult_watchers ult_watchers;

void ult_watch_switches(void (*switches)(const struct ult *from, const struct ult *to))
{
    ult_watchers.switches = switches;
    __atomic_fetch_or(&ult_switch_extras, ULT_EXTRA_WATCHED, __ATOMIC_RELEASE);
}

void ult_report_ready(struct ult *u)
{
    const struct ult *self = ult_self();

    if (ult_watchers.readies)
        ult_watchers.readies(u, self && self->state == ULT_RUNNING ? self : NULL);
}

bool ult_pe_is_shared(const struct ult_pe *pe)
{
    return pe->is_shared;
}

uint64_t ult_pe_switches(const struct ult_pe *pe)
{
    return pe->n_switches;
}

uint64_t ult_pe_resumed(const struct ult_pe *pe)
{
    return pe->n_switches + pe->n_waits;
}

uint64_t ult_pe_switches_seen(const struct ult_pe *pe)
{
    return __atomic_load_n(&pe->n_switches, __ATOMIC_RELAXED);
}

bool ult_pe_is_asleep(const struct ult_pe *pe)
{
    return atomic_load_explicit(&pe->is_asleep, memory_order_relaxed);
}

uint64_t ult_pe_sleeps(const struct ult_pe *pe)
{
    return pe->n_sleeps;
}

uint64_t ult_pe_backlogged(const struct ult_pe *pe)
{
    return (uint64_t)pe->n_backlogged;
}

int ult_spin_polls(void)
{
    return ult_job.spin_polls;
}
