/* SPDX-License-Identifier: BSD-3-Clause
 *
 * carrier.c: a shared PE gets another carrier if its carrier stays in the program's code while other ULTs are ready: its ULT
 * keeps the OS thread. See sharing.h.
 */
#include <string.h>

#include "base/log.h"
#include "ult/pe.h"

static void *carrier_thread(void *arg)
{
    struct ult_carrier *carrier = arg;

    ult_pe_name_thread(carrier->pe, "PE");
    ult_pe_pin(carrier->pe);
    ult_sharing_lock(carrier->pe);
    ult_pe_attach(carrier);
    if (ult_job.hooks.carrier_start)
        ult_job.hooks.carrier_start();
    ult_pe_run(carrier);
    ult_current = NULL;
    return NULL;
}

static BASE_COLD void keep_thread(struct ult_pe *pe)
{
    struct ult_sharing *sharing = &pe->sharing;
    struct ult *u = sharing->outside;
    struct ult_carrier *next = base_calloc_aligned(1, sizeof *next, "a PE's further thread");
    int error;

    next->pe = pe;
    error = ult_pe_create_thread(&next->thread, NULL, carrier_thread, next);
    if (error) {
        base_log("no further thread for PE %d: %s; its ranks wait for the rank that it runs", pe->pe_id,
                 strerror(error));
        sharing->has_no_more = true;
        free(next);
        return;
    }
    u->home = pe->carrier;
    u->detours |= ULT_BOUND;
    pe->carrier->successor = next;
    pe->carrier = next;
    sharing->outside = NULL;
    atomic_fetch_add(&sharing->n_active, 1);
    atomic_fetch_add(&ult_job.n_threads, 1);
}

/* The thread that first notices waiting ULTs may leave before the time is over, so the sleeper is woken to continue the watch. */
void ult_carrier_watch(struct ult_pe *pe)
{
    struct ult_sharing *sharing = &pe->sharing;

    if (BASE_LIKELY(!pe->queue_first) || !sharing->outside || sharing->is_carrier_idle ||
        sharing->has_no_more) {
        sharing->seen_since_ns = 0;
        return;
    }
    if (sharing->seen_since_ns == 0 || sharing->seen_returns != sharing->n_returns) {
        if (sharing->seen_since_ns == 0 && sharing->sleeper)
            ult_pe_wake_now(pe);
        sharing->seen_returns = sharing->n_returns;
        sharing->seen_since_ns = ult_now_ns();
    } else if (ult_now_ns() - sharing->seen_since_ns > ULT_KEEP_AFTER_NS && ult_job.hooks.may_keep_thread &&
               ult_job.hooks.may_keep_thread(sharing->outside)) {
        keep_thread(pe);
    }
}
