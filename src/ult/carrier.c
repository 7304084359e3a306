/* SPDX-License-Identifier: BSD-3-Clause
 *
 * carrier.c: a shared PE gets another carrier if its carrier stays in the program's code while other ULTs are ready: its ULT
 * keeps the OS thread. See sharing.h.
 *
 * Each shared PE with several ULTs has a thread that looks for this, the *watcher*, because there may be no thread in
 * the library while the carrier is outside of it. In that case it polls, too. It polls often while ULTs wait for the
 * carrier, less often if the carrier comes and goes, and sleeps while the carrier is in the library. The carrier's
 * return to the program, and ULTs that become ready, end a long sleep.
 *
 * The watcher creates the new carrier, which inherits the watcher's CPUs and priority: those that the carrier had when the
 * watcher began. A thread of the program, which may have others, would pass on its own.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "ult/pe.h"

/* Maximum time between two polls. */
#define LONGEST_PAUSE_NS (8 * ULT_KEEP_AFTER_NS)

/* States of the watcher's bell. SLEEPS: changes have to be reported. */
enum watcher_bell { POLLS, SLEEPS, ENDS };

struct ult_watcher {
    struct ult ult; /* its own, bound; it enters the PE without being counted */
    pthread_t thread;
    _Atomic uint32_t bell; /* enum watcher_bell; a futex */
    uint64_t pause_ns;     /* until the next poll; 0: until the bell rings */
    uint64_t seen_returns; /* the PE's n_returns at the last poll */
    bool has_seen_ready;   /* ULTs waited for the carrier at the last poll */
    bool wants_report;     /* it has set its bell to SLEEPS */
};

static void *carrier_thread(void *arg)
{
    struct ult_carrier *carrier = arg;

    ult_pe_name_thread(carrier->pe, "PE");
    ult_pe_pin(carrier->pe);
    pthread_sigmask(SIG_SETMASK, &carrier->pe->sharing.signal_mask, NULL);
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

/* ---- The watcher ---- */

static bool may_keep(const struct ult_pe *pe)
{
    return !pe->sharing.has_no_more && ult_job.hooks.may_keep_thread &&
           ult_job.hooks.may_keep_thread(pe->sharing.outside);
}

/* With the lock: its next holder reports the changes. */
static void want_report(struct ult_watcher *watcher)
{
    uint32_t polls = POLLS;

    watcher->wants_report = atomic_compare_exchange_strong(&watcher->bell, &polls, SLEEPS);
}

static void lengthen_pause(struct ult_watcher *watcher)
{
    watcher->pause_ns = watcher->pause_ns < LONGEST_PAUSE_NS / 2 ? 2 * watcher->pause_ns : LONGEST_PAUSE_NS;
}

/* The carrier is outside. */
static void poll_outside(struct ult_watcher *watcher)
{
    struct ult_pe *pe = watcher->ult.pe;
    struct ult_sharing *sharing = &pe->sharing;
    bool is_same = sharing->n_returns == watcher->seen_returns;

    if (sharing->n_awake == 0 && !sharing->sleeper)
        ult_pe_poll(pe);
    watcher->seen_returns = sharing->n_returns;
    if (!pe->queue_first) {
        watcher->has_seen_ready = false;
        lengthen_pause(watcher);
        if (is_same)
            want_report(watcher);
        return;
    }
    if (is_same && watcher->has_seen_ready && may_keep(pe))
        keep_thread(pe);
    if (is_same && watcher->has_seen_ready)
        lengthen_pause(watcher);
    else
        watcher->pause_ns = ULT_KEEP_AFTER_NS;
    watcher->has_seen_ready = true;
}

/* The carrier is in the library. */
static void poll_inside(struct ult_watcher *watcher)
{
    const struct ult_sharing *sharing = &watcher->ult.pe->sharing;

    watcher->has_seen_ready = false;
    if (watcher->seen_returns == sharing->n_returns) {
        watcher->pause_ns = 0;
        want_report(watcher);
        return;
    }
    watcher->seen_returns = sharing->n_returns;
    lengthen_pause(watcher);
}

static void poll_carrier(struct ult_watcher *watcher)
{
    struct ult_pe *pe = watcher->ult.pe;

    if (watcher->pause_ns == 0)
        watcher->pause_ns = ULT_KEEP_AFTER_NS;
    if (!ult_lock_try(&pe->sharing.lock))
        return; /* a thread is in the library: it makes progress */
    ult_has_lock = true;
    ult_current = &watcher->ult;
    watcher->ult.depth = 1;
    if (pe->sharing.outside && !pe->sharing.is_carrier_idle)
        poll_outside(watcher);
    else
        poll_inside(watcher);
    ult_leave_bound(&watcher->ult);
}

/* Waits until the next poll. */
static void pause_watching(struct ult_watcher *watcher)
{
    const struct timespec pause = {.tv_nsec = (long)watcher->pause_ns};
    uint32_t bell = watcher->wants_report ? SLEEPS : POLLS;

    syscall(SYS_futex, (uint32_t *)&watcher->bell, FUTEX_WAIT_PRIVATE, bell,
            watcher->pause_ns ? &pause : NULL, NULL, 0);
    if (watcher->wants_report && !atomic_compare_exchange_strong(&watcher->bell, &bell, POLLS))
        watcher->pause_ns = ULT_KEEP_AFTER_NS;
    watcher->wants_report = false;
}

/* The watcher of a ULT that came later may have been started by a thread of the program. */
static void take_carrier_cpus(const struct ult_pe *pe)
{
    cpu_set_t cpus;

    if (sched_getaffinity(ult_pe_tid(pe), sizeof cpus, &cpus) == 0)
        sched_setaffinity(0, sizeof cpus, &cpus);
}

static void *watch(void *arg)
{
    struct ult_watcher *watcher = arg;

    ult_pe_name_thread(watcher->ult.pe, "watch");
    take_carrier_cpus(watcher->ult.pe);
    if (ult_job.hooks.carrier_start)
        ult_job.hooks.carrier_start();
    while (atomic_load(&watcher->bell) != ENDS) {
        poll_carrier(watcher);
        pause_watching(watcher);
    }
    return NULL;
}

void ult_watcher_start(const struct ult *u)
{
    struct ult_watcher *watcher = base_calloc_aligned(1, sizeof *watcher, "a PE's watcher");
    struct ult_pe *pe = u->pe;
    sigset_t all, before;
    int error;

    watcher->ult.pe = pe;
    watcher->ult.world_rank = u->world_rank;
    watcher->ult.owner = u->owner; /* messages are handled on behalf of any waiting rank of the PE */
    watcher->ult.detours = ULT_BOUND;
    watcher->ult.state = ULT_RUNNING;
    sigfillset(&all); /* the program's handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pe->sharing.watcher = watcher;
    error = ult_pe_create_thread(&watcher->thread, NULL, watch, watcher);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return;
    base_log("no thread to watch PE %d: %s; a rank that waits outside of MPI keeps the other ranks waiting",
             pe->pe_id, strerror(error));
    pe->sharing.watcher = NULL;
    free(watcher);
}

void ult_watcher_notify(const struct ult_pe *pe)
{
    struct ult_watcher *watcher = pe->sharing.watcher;
    uint32_t bell = SLEEPS;

    if (BASE_LIKELY(!watcher || atomic_load_explicit(&watcher->bell, memory_order_relaxed) != SLEEPS) ||
        !atomic_compare_exchange_strong(&watcher->bell, &bell, POLLS))
        return;
    syscall(SYS_futex, (uint32_t *)&watcher->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ult_watchers_end(void)
{
    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_sharing *sharing = &ult_job.pes[i].sharing;
        if (!sharing->watcher)
            continue;
        atomic_store(&sharing->watcher->bell, ENDS);
        syscall(SYS_futex, (uint32_t *)&sharing->watcher->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        pthread_join(sharing->watcher->thread, NULL);
        free(sharing->watcher);
        sharing->watcher = NULL;
    }
}
