/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sharing.c: PEs that several OS threads use. See sharing.h for the idea.
 *
 * Invariants:
 *   1. All data of a shared PE is accessed with its lock held, except that other PEs' threads put items into its
 *      inbox. The carrier holds the lock while its ULT is in the library, unless it waits.
 *   2. A waiting thread records that it waits (is_carrier_idle, PARKED) before it releases the lock. The thread that makes it
 *      ready holds the lock and rings its bell, so every ring arrives.
 *   3. While threads wait, at least one of them is awake or sleeps until events come (the sleeper): a sleeper that leaves
 *      wakes another one. Threads that poll in part do not count, and wait by themselves.
 *   4. is_asleep is true only while there is a sleeper. A thread that polls clears it: otherwise senders would have to wake
 *      the sleeper for each message. It then polls at intervals, until no other thread has polled during an interval.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/relax.h"
#include "base/log.h"
#include "ult/arch/ult_arch.h"
#include "ult/asan.h"
#include "ult/pe.h"
#include "ult/tls.h"

/* States of a bell. LOOK: the waiter checks its condition again. RUNG: the wait is over. */
enum ult_bell { QUIET, SLEEPS, LOOK, RUNG };

/* How long a thread polls before it sleeps if there are more threads than cores. */
#define CROWDED_SPIN_NS 20000

/* The sleeper's interval of polling while other threads poll. */
#define NAP_NS 100000

/* Pauses of the processor (40 ns each) between two polls of a waiting thread while others use the PE: if it waits for an
 * operation; of a carrier without ready ULTs and of the progress thread. */
#define CALLER_PAUSES 16
#define IDLE_PAUSES 256

_Atomic int ult_n_shared;

__thread bool ult_has_lock __attribute__((tls_model("initial-exec")));
__thread bool ult_polls_in_part __attribute__((tls_model("initial-exec")));

/* ---- Bells ---- */

/* Sets a bell, and wakes the waiter if it sleeps on it; false: it does not. Any thread. */
static bool ring_bell(struct ult_waiter *waiter, uint32_t state)
{
    if (atomic_exchange(&waiter->bell, state) != SLEEPS)
        return false;
    syscall(SYS_futex, (uint32_t *)&waiter->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

/* Rings the bell of a waiter, which may also be the sleeper. With the lock. */
static void ring(struct ult_pe *pe, struct ult_waiter *waiter, uint32_t state)
{
    if (!ring_bell(waiter, state) && pe->sharing.sleeper == waiter)
        ult_pe_wake_now(pe);
}

static void sleep_on_bell(struct ult_waiter *waiter)
{
    uint32_t quiet = QUIET;

    atomic_compare_exchange_strong(&waiter->bell, &quiet, SLEEPS);
    while (atomic_load(&waiter->bell) == SLEEPS)
        syscall(SYS_futex, (uint32_t *)&waiter->bell, FUTEX_WAIT_PRIVATE, SLEEPS, NULL, NULL, 0);
}

/* ---- The lock ---- */

void ult_sharing_lock(struct ult_pe *pe)
{
    ult_lock_take(&pe->sharing.lock);
    pe->sharing.n_entries++;
    ult_has_lock = true;
}

/* Wakes the carrier, which waits, because a ULT is ready. */
static BASE_COLD void rouse_carrier(struct ult_pe *pe)
{
    pe->sharing.is_carrier_idle = false;
    atomic_fetch_add(&pe->sharing.n_active, 1);
    ring(pe, &pe->carrier->waiter, RUNG);
}

/* Before the lock is released: if ULTs are ready, wakes the carrier if it waits, or its watcher. */
static inline void notify_carrier(struct ult_pe *pe)
{
    if (BASE_LIKELY(!pe->queue_first))
        return;
    if (pe->sharing.is_carrier_idle)
        rouse_carrier(pe);
    else if (pe->sharing.outside)
        ult_watcher_notify(pe);
}

static void unlock(struct ult_pe *pe)
{
    notify_carrier(pe);
    ult_has_lock = false;
    ult_lock_give(&pe->sharing.lock);
}

/* Passes the lock to a waiting thread, if there is one, and takes it again. */
static bool hand_over(struct ult_pe *pe)
{
    notify_carrier(pe);
    if (!ult_lock_hand_over(&pe->sharing.lock))
        return false;
    ult_sharing_lock(pe);
    return true;
}

/* ---- Waiting ---- */

/* A waiting thread. */
struct wait {
    struct ult_pe *pe;
    struct ult *u;   /* a bound ULT that waits to be READY; NULL: the carrier waits for any ready ULT ... */
    bool until_done; /* ... or for the end of all ULTs of the job */
    const atomic_bool *stop; /* the progress thread waits until it is set; NULL: another one waits */
    struct ult_waiter *waiter;
};

static bool is_over(const struct wait *wait)
{
    if (BASE_UNLIKELY(wait->stop != NULL))
        return atomic_load(wait->stop);
    if (wait->u)
        return wait->u->state == ULT_READY;
    return wait->pe->queue_first ||
           (wait->until_done && atomic_load_explicit(&ult_job.n_live, memory_order_seq_cst) == 0);
}

/* The sleeper polls at intervals from now on (invariant 4). */
static void disturb_sleeper(struct ult_pe *pe)
{
    if (pe->sharing.sleeper && atomic_load_explicit(&pe->is_asleep, memory_order_relaxed)) {
        ult_pe_wake(pe);
        atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
    }
    pe->sharing.n_polls++;
}

/* Polls after clearing is_asleep. Returns the number of events. */
static int poll_awake(struct ult_pe *pe)
{
    disturb_sleeper(pe);
    return ult_pe_poll(pe);
}

/* The sleeper may not know of work: ULTs that sleep, sources with pending operations, items for a full inbox. */
static inline bool may_have_new_work(const struct ult_pe *pe)
{
    return pe->timer_first || pe->sources || pe->n_backlogged;
}

/* Called when a thread returns to the program: the sleeper has to do such work now. */
static inline void notify_sleeper(struct ult_pe *pe)
{
    if (BASE_UNLIKELY(pe->sharing.sleeper != NULL) && may_have_new_work(pe))
        disturb_sleeper(pe);
}

/* A waiting thread that spins. */
struct spinner {
    const struct wait *wait;
    bool is_crowded;
    unsigned n_pauses;  /* between polls, while other threads use the PE */
    uint64_t n_polls;   /* the PE's at the last poll */
    unsigned n_entries; /* the same */
    bool has_news;      /* the last poll has found events */
    bool has_lock;      /* the last poll has ended the wait, and kept the lock */
};

/* With the lock. */
static struct spinner begin_spinning(const struct wait *wait)
{
    struct spinner spinner = {
        .wait = wait, .is_crowded = ult_is_crowded(), .n_entries = wait->pe->sharing.n_entries};

    spinner.n_pauses = spinner.is_crowded ? 1 : wait->u ? CALLER_PAUSES : IDLE_PAUSES;
    if (wait->u && !spinner.is_crowded)
        atomic_store(&wait->pe->sharing.poller, wait->waiter);
    return spinner;
}

/* Takes the turn to poll if no thread has it, and none has polled since this thread's last poll. */
static void take_turn(struct spinner *spinner)
{
    struct ult_sharing *sharing = &spinner->wait->pe->sharing;
    uint64_t n_polls = atomic_load_explicit(&sharing->n_polls, memory_order_relaxed);
    struct ult_waiter *nobody = NULL;

    if (n_polls == spinner->n_polls || spinner->is_crowded)
        atomic_compare_exchange_strong(&sharing->poller, &nobody, spinner->wait->waiter);
    spinner->n_polls = n_polls;
}

static void end_turn(const struct spinner *spinner)
{
    struct ult_waiter *self = spinner->wait->waiter;

    atomic_compare_exchange_strong(&spinner->wait->pe->sharing.poller, &self, NULL);
}

/* Polls if it is this thread's turn; keeps the lock if that ends the wait. Returns the number of pauses before the next
 * poll: each poll takes cache lines away from a thread that is in the library. */
static unsigned look(struct spinner *spinner)
{
    struct ult_pe *pe = spinner->wait->pe;
    struct ult_sharing *sharing = &pe->sharing;
    bool is_used;

    if (!atomic_load_explicit(&sharing->poller, memory_order_relaxed))
        take_turn(spinner);
    if (atomic_load_explicit(&sharing->poller, memory_order_relaxed) != spinner->wait->waiter ||
        !ult_lock_try(&sharing->lock))
        return spinner->n_pauses;
    ult_has_lock = true;
    spinner->has_news = poll_awake(pe) > 0;
    spinner->has_lock = is_over(spinner->wait);
    is_used = sharing->n_entries != spinner->n_entries;
    spinner->n_entries = sharing->n_entries;
    if (spinner->has_lock)
        sharing->n_entries++;
    else
        unlock(pe);
    return is_used ? spinner->n_pauses : 1;
}

/* Waits until the bell rings or the time is over. Called without the lock. One thread of a PE polls: the last one that
 * began to wait for an operation, because the next event is probably for it; any thread if none waits for an operation. The
 * others only read their bells. A thread that yields its core lets another one poll. */
static void spin(struct spinner *spinner, uint64_t duration_ns)
{
    const struct wait *wait = spinner->wait;
    uint64_t now_ns = ult_now_ns(), end_ns = now_ns + duration_ns;
    uint64_t yield_at_ns = spinner->is_crowded ? now_ns + ULT_YIELD_AFTER_NS : UINT64_MAX;
    unsigned next_look = 1;

    for (unsigned i = 1; atomic_load_explicit(&wait->waiter->bell, memory_order_acquire) == QUIET; i++) {
        if (i >= next_look) {
            spinner->has_news = false;
            next_look = i + look(spinner);
            if (spinner->has_news && !spinner->has_lock)
                end_ns = ult_now_ns() + duration_ns; /* more events often follow */
        }
        if (spinner->has_lock || ((wait->until_done || wait->stop) && is_over(wait)))
            break;
        base_relax();
        if (i % 16 != 0)
            continue;
        now_ns = ult_now_ns();
        if (now_ns >= end_ns)
            break;
        if (now_ns >= yield_at_ns) {
            end_turn(spinner);
            sched_yield();
            yield_at_ns = ult_now_ns() + ULT_YIELD_AFTER_NS;
        }
    }
    end_turn(spinner);
}

/* Sleeps until an event comes, and polls; returns at once if one is there. */
static void sleep_on_events(const struct wait *wait)
{
    struct ult_pe *pe = wait->pe;
    struct ult_sharing *sharing = &pe->sharing;
    uint64_t n_seen = sharing->n_polls;
    bool naps = false;
    int n_events = 0;

    while (n_events == 0 && !is_over(wait)) {
        struct ult_sleep sleep;
        int64_t limit_ns = NAP_NS;
        if (!naps && !ult_idle_announce(pe)) {
            ult_pe_poll(pe); /* now: the thread whose turn it is may have no core */
            break;
        }
        if (is_over(wait)) { /* the end of the job does not take the lock: check after setting is_asleep */
            atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
            break;
        }
        pe->n_sleeps++;
        if (!naps)
            limit_ns = ult_idle_enter();
        if (ult_idle_prepare(pe, limit_ns, &sleep)) {
            sharing->sleeper = wait->waiter;
            unlock(pe);
            ult_idle_sleep(pe, &sleep);
            ult_sharing_lock(pe);
            sharing->sleeper = NULL;
        }
        if (!naps)
            ult_idle_leave();
        atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
        naps = sharing->n_polls != n_seen;
        n_seen = sharing->n_polls;
        n_events = ult_pe_poll(pe);
    }
}

/* Sleeps until the bell rings. Before that it wakes the sleeper, which may have to wait for other events now. */
static void park(const struct wait *wait)
{
    struct ult_pe *pe = wait->pe;
    struct ult_sharing *sharing = &pe->sharing;
    struct ult_waiter **link = &sharing->parked;

    if (may_have_new_work(pe) || (atomic_load(&sharing->n_active) == 0 && ult_idle_all()))
        ult_pe_wake(pe);
    wait->waiter->next = sharing->parked;
    sharing->parked = wait->waiter;
    sharing->n_awake--;
    unlock(pe);
    sleep_on_bell(wait->waiter);
    ult_sharing_lock(pe);
    sharing->n_awake++;
    while (*link != wait->waiter)
        link = &(*link)->next;
    *link = wait->waiter->next;
    if (atomic_load(&wait->waiter->bell) == LOOK)
        atomic_store(&wait->waiter->bell, QUIET);
}

/* No thread sleeps until events come: wakes one that sleeps on its bell, to do so. */
static void wake_parked(struct ult_pe *pe)
{
    for (struct ult_waiter *waiter = pe->sharing.parked; waiter; waiter = waiter->next)
        if (atomic_load(&waiter->bell) <= SLEEPS) {
            ring(pe, waiter, LOOK);
            return;
        }
}

/* The same as wait_until_over for a thread that polls in part. Nobody relies on it: it never is the sleeper nor counts as
 * awake, and polls only if no other thread does. */
static BASE_COLD void nap_until_over(const struct wait *wait)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct ult_pe *pe = wait->pe;
    _Atomic uint32_t *bell = &wait->waiter->bell;

    notify_sleeper(pe);
    while (!is_over(wait)) {
        uint32_t quiet = QUIET, sleeps = SLEEPS;
        atomic_compare_exchange_strong(bell, &quiet, SLEEPS);
        unlock(pe);
        syscall(SYS_futex, (uint32_t *)bell, FUTEX_WAIT_PRIVATE, SLEEPS, &nap, NULL, 0);
        ult_sharing_lock(pe);
        atomic_compare_exchange_strong(bell, &sleeps, QUIET);
        if (!pe->sharing.sleeper && pe->sharing.n_awake == 0)
            ult_pe_poll(pe);
    }
}

static void wait_until_over(const struct wait *wait)
{
    struct ult_pe *pe = wait->pe;
    struct ult_sharing *sharing = &pe->sharing;

    pe->n_waits++;
    if (BASE_UNLIKELY(ult_polls_in_part)) {
        nap_until_over(wait);
        return;
    }
    sharing->n_awake++;
    while (!is_over(wait)) {
        struct spinner spinner = begin_spinning(wait);
        uint64_t spin_ns = spinner.is_crowded ? CROWDED_SPIN_NS : ult_idle_spin_ns(pe);
        unlock(pe);
        spin(&spinner, spin_ns);
        if (!spinner.has_lock)
            ult_sharing_lock(pe);
        if (is_over(wait))
            break;
        if (!sharing->sleeper)
            sleep_on_events(wait);
        else
            park(wait);
    }
    if (--sharing->n_awake == 0 && sharing->parked)
        wake_parked(pe);
}

void ult_sharing_idle(struct ult_pe *pe, bool until_done)
{
    struct ult_sharing *sharing = &pe->sharing;
    const struct wait wait = {.pe = pe, .until_done = until_done, .waiter = &pe->carrier->waiter};

    if (is_over(&wait))
        return;
    atomic_store(&wait.waiter->bell, QUIET);
    sharing->is_carrier_idle = true;
    atomic_fetch_sub(&sharing->n_active, 1);
    wait_until_over(&wait);
    if (sharing->is_carrier_idle) {
        sharing->is_carrier_idle = false;
        atomic_fetch_add(&sharing->n_active, 1);
    }
}

/* Takes over the errands of the rank's main ULT while that ULT is in the program's code. */
static bool take_errands(struct ult *self)
{
    struct ult *main = self->main;

    if (BASE_LIKELY(!main || !main->errands) || main->depth > 0)
        return false;
    self->errands = main->errands;
    main->errands = NULL;
    return true;
}

void ult_sharing_wait(struct ult *self)
{
    const struct wait wait = {.pe = self->pe, .u = self, .waiter = &self->waiter};

    if (!self->errands && take_errands(self)) {
        self->is_called = true;
        self->state = ULT_RUNNING;
        return;
    }
    atomic_store(&wait.waiter->bell, QUIET);
    self->state = ULT_PARKED;
    atomic_fetch_sub(&self->pe->sharing.n_active, 1);
    wait_until_over(&wait);
    self->state = ULT_RUNNING;
}

void ult_sharing_wait_for_stop(struct ult *self, const atomic_bool *is_stopping)
{
    const struct wait wait = {.pe = self->pe, .stop = is_stopping, .waiter = &self->waiter};

    atomic_fetch_sub(&self->pe->sharing.n_active, 1);
    wait_until_over(&wait);
}

void ult_sharing_stop(struct ult *u)
{
    ring_bell(&u->waiter, LOOK);
    ult_pe_wake_now(u->pe); /* it may be about to sleep until events come */
}

void ult_sharing_ready(struct ult *u)
{
    u->state = ULT_READY;
    atomic_fetch_add(&u->pe->sharing.n_active, 1);
    ring(u->pe, &u->waiter, RUNG);
    ult_end_join(u);
}

void ult_sharing_yield(struct ult *self)
{
    struct ult_pe *pe = self->pe;

    if (!pe->queue_first || ult_is_bound(self))
        poll_awake(pe);
    if (ult_is_bound(self) && !self->errands)
        take_errands(self);
    if (hand_over(pe) || !ult_is_bound(self) || !ult_is_crowded())
        return;
    unlock(pe);
    sched_yield();
    ult_sharing_lock(pe);
}

void ult_sharing_end(struct ult *self)
{
    struct ult *base = &self->home->base;

    atomic_fetch_sub(&self->pe->sharing.n_active, 1);
    atomic_fetch_sub(&ult_job.n_threads, 1);
    base->state = ULT_RUNNING;
    if (ult_switch_extras & ULT_EXTRA_OWN)
        ult_tls_reset_pointer(self->home);
    ult_current = base;
    if (BASE_UNLIKELY(ult_switch_extras & ULT_EXTRA_ASAN))
        ult_asan_switch(self, base);
    ult_annotate_leave(&self->annotation, &base->annotation, true);
    ult_arch_switch(&self->sp, base->sp);
    __builtin_unreachable();
}

/* Wakes a carrier that is not the sleeper, which ult_pe_wake wakes: that may be a progress thread. */
void ult_sharing_job_ended(struct ult_pe *pe)
{
    ring_bell(&pe->carrier->waiter, LOOK);
}

void ult_sharing_leave(struct ult_pe *pe)
{
    if (ult_has_lock)
        unlock(pe);
}

/* ---- In and out ---- */

/* The ULT of the calling OS thread, which has the lock, leaves the library. */
static void return_to_program(struct ult *u)
{
    struct ult_pe *pe = u->pe;

    if (!ult_is_bound(u)) {
        pe->sharing.outside = u;
        pe->sharing.n_returns++;
        ult_watcher_notify(pe);
    }
    notify_sleeper(pe);
    unlock(pe);
}

void ult_pe_share(void)
{
    struct ult *self = ult_self();
    struct ult_pe *pe = self->pe;

    if (pe->is_shared) {
        if (self->depth == 0 && ult_has_lock) /* from a call that began before the gates were on */
            return_to_program(self);
        return;
    }
    atomic_store(&pe->sharing.n_active, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &pe->sharing.signal_mask);
    pe->is_shared = true;
    atomic_fetch_add(&ult_n_shared, 1);
    if (self->depth > 0)
        ult_sharing_lock(pe);
    else
        pe->sharing.outside = self;
    if (pe->n_live > 1)
        ult_watcher_start(self);
}

/* The thread may hold the lock already: it was taken inside a call during which the PE became shared. */
void ult_enter_shared(struct ult *u)
{
    struct ult_pe *pe = u->pe;

    if (!pe->is_shared || ult_has_lock)
        return;
    ult_sharing_lock(pe);
    if (!ult_is_bound(u))
        pe->sharing.outside = NULL;
}

void ult_leave_shared(struct ult *u)
{
    struct ult_pe *pe = u->pe;

    if (!pe->is_shared || !ult_has_lock)
        return;
    if (BASE_UNLIKELY(u->errands != NULL)) { /* only a blocked ULT runs them otherwise */
        u->depth = 1;                        /* they may call the library: these calls are nested */
        ult_errands_run(u);
        u->depth = 0;
    }
    return_to_program(u);
}

void ult_bind(struct ult *u, struct ult *main)
{
    u->pe = main->pe;
    u->world_rank = main->world_rank;
    u->owner = main->owner;
    u->main = main;
    u->detours = ULT_BOUND;
    u->state = ULT_RUNNING;
    atomic_fetch_add(&u->pe->sharing.n_active, 1);
    atomic_fetch_add(&ult_job.n_threads, 1);
}

void ult_unbind(struct ult *u)
{
    atomic_fetch_sub(&u->pe->sharing.n_active, 1);
    atomic_fetch_sub(&ult_job.n_threads, 1);
}

void ult_enter_bound(struct ult *u)
{
    ult_sharing_lock(u->pe);
    ult_current = u;
    u->depth = 1;
}

void ult_leave_bound(struct ult *u)
{
    ult_errands_run(u); /* of the main ULT: it took them over and did not wait */
    u->depth = 0;
    ult_current = NULL;
    notify_sleeper(u->pe);
    unlock(u->pe);
}
