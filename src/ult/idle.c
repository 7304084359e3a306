/* SPDX-License-Identifier: BSD-3-Clause
 *
 * idle.c: an idle PE: polls, then sleeps; and detects that nothing will ever arrive.
 *
 * Falling asleep and waking race. On each side the order of the steps matters: the sleeper announces that it sleeps, then
 * checks once more; the waker makes its change, then reads the announcement. A fence between the two steps on each side
 * ensures that at least one side sees the other's. All the places where a thread sleeps, and each change that wakes it:
 *
 *      change                the waker                             the sleeper                        wakes by
 *      --------------------  ------------------------------------  ---------------------------------  ---------
 *      A PE sleeps: its thread, or the one thread of a shared PE that is its sleeper, in ppoll (ult_idle_sleep)
 *      an item (inbox.h)     turn; fence_before_wake (a);          is_asleep; fence_before_sleep (a); event_fd
 *                            is_asleep                             turn
 *      a wake-up (inbox.h)   wakeups; is_asleep (b)                is_asleep (b, a); wakeups          event_fd
 *      the last ULT ends     n_live; is_asleep (b)                 is_asleep (b); n_live              event_fd
 *      upper layers' state,  the state; is_asleep (b)              is_asleep (b); the source's arm    event_fd
 *      ult_wake_all                                                checks the state
 *      a message, ring of    turn; a fence unless the receiver     the doorbell's is_asleep; fence,   a nudge
 *      another process       has membarrier (c); is_asleep         for senders too (c); turn          (UCX)
 *      a message, UCX        UCX's                                 a poll of UCX in vain, nothing     UCX's fd
 *                                                                  started since; UCX is armed (d)
 *      a call has returned   a wake-up (above)                     n_offloaded, with the PE           event_fd
 *      time                  -                                     timer_first, with the PE           the limit
 *      a full inbox, a GPU   -                                     n_backlogged, pending, must_poll   the limit
 *      A thread of a shared PE sleeps on its bell (sharing.c)
 *      its ULT is ready, or  with the lock (e): state, queue;      with the lock (e): PARKED or       futex
 *      ULTs, for a carrier   exchanges the bell                    is_carrier_idle, QUIET; without:
 *                                                                  changes QUIET to SLEEPS
 *      no sleeper is left    with the lock (e): the bell           with the lock (e): in `parked`     futex
 *      stop, end of the job  is_stopping, n_live; the bell         as above, and checks these         futex
 *      The sleeper of a shared PE sleeps, and another thread uses the PE
 *      its own ULT is ready  with the lock (e): state              with the lock (e): is `sleeper`    event_fd
 *      the other one polls,  with the lock (e): is `sleeper` set?  with the lock (e): is `sleeper`;   event_fd
 *      so that the port is   Then is_asleep = false                polls at intervals from now on
 *      not armed any more
 *      the other one leaves  with the lock (e): sources, timers,   the same                           event_fd
 *      new work              backlogs?
 *      stop                  is_stopping; nothing is read          is_stopping                        event_fd
 *      A thread waits for the PE's lock: pe_lock.h
 *
 *      (a) Falling asleep is rare and sending is not, so the sleeper pays for both: membarrier(2) forces a barrier on
 *          every thread of the process. If the kernel lacks this call (or a filter forbids it), both sides use a fence:
 *          sequentially consistent accesses alone do not order the plain ones around them. If the call fails later (a
 *          filter of the program, or the kernel is short of memory), a wake-up may be missed, so the PE polls.
 *      (b) Sequentially consistent accesses on both sides. (c) As (a), for all processes that map rings: shm_ring.c.
 *      If membarrier fails the PE does not sleep. (d) The attempt consumes UCX's notification even if it fails: UCX
 *      is polled before the next one (port.c). (e) The lock is the fence. The sleeper releases it after it has
 *      announced itself; event_fd keeps a wake-up that
 *          comes before ppoll, and a bell that has been rung does not become SLEEPS.
 *
 * After every sleep, and after every attempt, the PE polls all sources. event_fd is read before is_asleep is cleared and the
 * inbox is polled, so a wake-up that was read has been answered.
 */
#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arch/relax.h"
#include "base/log.h"
#include "ult/pe.h"

/* A pause of the processor takes longer than a message from core to core, so only one poll in this many has
 * one. */
#define POLLS_PER_RELAX 64

/* Maximum time that an idle PE polls before it sleeps, in ns: polling sockets costs a microsecond each
 * time, and unrelated processes may need the cores. */
#define SPIN_NS 100000

/* The same while GPU copies are pending, which cannot wake a sleeper; or while large data is under way:
 * falling asleep and being woken takes a considerable part of the time of 4 MiB. */
#define SPIN_MOVING_NS 1000000

/* Most polls of ult_progress_fully: others may send without end, and a source that cannot be armed is always polled. */
#define FULL_POLLS_MAX 256

/* How often an idle PE yields its core before it sleeps, if there are more PEs than cores. */
#define CORE_LENDS 128

/* The last PE to fall asleep examines the job again after this time if it could not do so. */
#define EXAMINE_AGAIN_NS 1000000

/* The same if only a thread of the program may still call the library: it may end without a call. */
#define OTHERS_NS 1000000000

static int flush_backlogs(struct ult_pe *pe);

int ult_pe_poll(struct ult_pe *pe)
{
    int n_events = ult_inbox_drain(&pe->inbox);

    if (BASE_UNLIKELY(pe->n_backlogged))
        n_events += flush_backlogs(pe);
    if (pe->timer_first)
        n_events += ult_timer_fire(pe);
    for (struct ult_source *source = pe->sources; source; source = source->next)
        n_events += source->poll(source);
    return n_events;
}

int ult_progress(void)
{
    return ult_pe_poll(ult_self()->pe);
}

/* A source can be armed only after a poll of all its parts that found nothing. */
void ult_progress_fully(void)
{
    struct ult_pe *pe = ult_self()->pe;
    bool is_done = false;

    ult_pe_poll(pe); /* a sleeper of a shared PE may have armed the sources */
    for (int i = 0; i < FULL_POLLS_MAX && !is_done; i++) {
        is_done = true;
        for (struct ult_source *source = pe->sources; source; source = source->next)
            is_done &= source->fd < 0 || source->arm(source);
        ult_pe_poll(pe);
    }
}

/* ---- The inbox, from the sender's side ---- */

static void append_to_backlog(struct ult_pe *self, struct ult_pe *dest, const struct ult_item *item)
{
    struct ult_backlog *backlog = &self->backlogs[dest->pe_id];
    struct ult_backlog_entry *entry = malloc(sizeof *entry);

    if (!entry)
        base_fatal(1, "out of memory: PE %d does not read its messages and PE %d cannot store more of them",
                   dest->pe_id, self->pe_id);
    entry->handle = item->handle;
    memcpy(entry->body, item->body, sizeof entry->body);
    entry->next = NULL;
    if (backlog->last) {
        backlog->last->next = entry;
    } else {
        backlog->first = entry;
        atomic_fetch_add_explicit(&ult_job.n_backlogs, 1, memory_order_relaxed);
    }
    backlog->last = entry;
    self->n_backlogged++;
}

/* A sender calls this between writing into a PE's ring and checking whether the PE is asleep. */
static inline void fence_before_wake(void)
{
    if (BASE_LIKELY(ult_job.has_membarrier))
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* Called between announcing that this PE is asleep and checking its inbox once more. False: senders may miss
 * that it is asleep. */
static bool fence_before_sleep(void)
{
    if (ult_job.has_membarrier)
        return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    atomic_thread_fence(memory_order_seq_cst);
    return true;
}

static bool try_put_entry(struct ult_ring *ring, const struct ult_backlog_entry *entry)
{
    struct ult_item item = {.handle = entry->handle};

    memcpy(item.body, entry->body, sizeof item.body);
    return ult_ring_try_put(ring, &item);
}

/* Moves at most n_most items from a backlog into the inbox, if it has room again; returns their number. */
static int flush_backlog(struct ult_pe *pe, struct ult_pe *dest, int n_most)
{
    struct ult_backlog *backlog = &pe->backlogs[dest->pe_id];
    int n_moved = 0;

    while (n_moved < n_most && backlog->first && try_put_entry(pe->rings_to[dest->pe_id], backlog->first)) {
        struct ult_backlog_entry *entry = backlog->first;
        backlog->first = entry->next;
        free(entry);
        n_moved++;
    }
    if (n_moved == 0)
        return 0;
    pe->n_backlogged -= n_moved;
    if (!backlog->first) {
        backlog->last = NULL;
        atomic_fetch_sub_explicit(&ult_job.n_backlogs, 1, memory_order_release);
    }
    fence_before_wake();
    ult_pe_wake(dest);
    return n_moved;
}

static int flush_backlogs(struct ult_pe *pe)
{
    int n_moved = 0;

    for (int i = 0; i < ult_job.n_pes; i++)
        n_moved += flush_backlog(pe, &ult_job.pes[i], INT_MAX);
    return n_moved;
}

/* More than one, so that the backlog becomes empty again. */
#define MOVED_PER_POST 4

/* Posts an item behind those of the backlog. A sender that does not poll for long also moves some of these: the receiver must not
 * wait while its inbox has room. */
static BASE_COLD void post_late(struct ult_pe *self, struct ult_pe *dest, const struct ult_item *item)
{
    append_to_backlog(self, dest, item);
    if (flush_backlog(self, dest, MOVED_PER_POST) == 0)
        ult_pe_wake(dest);
}

/* Announces a sender's new ring to the receiver. */
struct ring_note {
    struct ult_wakeup wakeup;
    struct ult_pe *sender, *dest;
    struct ult_ring *ring;
};

static void handle_new_ring(struct ult_wakeup *wakeup)
{
    struct ring_note *brought = BASE_CONTAINER(wakeup, struct ring_note, wakeup);

    ult_inbox_add_ring(&brought->dest->inbox, brought->ring,
                       &brought->dest->rings_to[brought->sender->pe_id]);
    free(brought);
}

static BASE_COLD struct ult_ring *make_ring(struct ult_pe *self, struct ult_pe *dest)
{
    struct ring_note *bring = base_malloc(sizeof *bring, "messages between two PEs");

    *bring = (struct ring_note){{NULL, handle_new_ring}, self, dest, ult_ring_create()};
    self->rings_to[dest->pe_id] = bring->ring;
    ult_post_wakeup(dest, &bring->wakeup);
    return self->rings_to[dest->pe_id];
}

void ult_post_item(struct ult_pe *dest, const struct ult_item *item)
{
    struct ult_pe *self = ult_self()->pe;
    struct ult_ring *ring = self->rings_to[dest->pe_id];

    if (BASE_UNLIKELY(!ring))
        ring = make_ring(self, dest);
    if (BASE_UNLIKELY(self->backlogs[dest->pe_id].first || !ult_ring_try_put(ring, item))) {
        post_late(self, dest, item);
        return;
    }
    fence_before_wake();
    if (BASE_UNLIKELY(atomic_load_explicit(&dest->is_asleep, memory_order_seq_cst)))
        ult_pe_wake(dest);
}

void ult_post_wakeup(struct ult_pe *dest, struct ult_wakeup *wakeup)
{
    ult_inbox_put_wakeup(&dest->inbox, wakeup);
    if (BASE_UNLIKELY(atomic_load_explicit(&dest->is_asleep, memory_order_seq_cst)))
        ult_pe_wake(dest);
}

void ult_pe_wake(struct ult_pe *pe)
{
    if (atomic_load_explicit(&pe->is_asleep, memory_order_seq_cst))
        ult_pe_wake_now(pe);
}

void ult_pe_wake_now(struct ult_pe *pe)
{
    uint64_t one = 1;

    while (write(pe->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void ult_wake_all(void)
{
    for (int i = 0; i < ult_job.n_pes; i++)
        ult_pe_wake(&ult_job.pes[i]);
}

/* ---- Sleeping ---- */

/* The events that could still wake a PE, other than ULTs of this job. SOURCES_ONLY: other processes, and perhaps threads of the
 * program. OTHERS: these threads, whose end wakes no PE. BUSY: not known yet. */
enum under_way { NOTHING, SOURCES_ONLY, OTHERS, MORE, BUSY };

static enum under_way find_under_way(void)
{
    enum under_way found = NOTHING;

    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_pe *pe = &ult_job.pes[i];
        if (ult_inbox_has_mail(&pe->inbox) || pe->timer_first || pe->n_backlogged || pe->n_offloaded ||
            pe->queue_first)
            return MORE;
        for (const struct ult_source *source = pe->sources; source; source = source->next)
            if (source->pending && source->fd < 0)
                return MORE; /* a source that must be polled is internal to this process, such as a GPU
                              * copy */
            else if (source->pending)
                found = SOURCES_ONLY;
    }
    return found;
}

int (*_Atomic ult_count_joining)(const struct ult_pe *pe);

/* The threads that wait for the end of others: of a PE that is locked; NULL: all that may. */
static int count_joining(const struct ult_pe *pe)
{
    int (*count)(const struct ult_pe *) = atomic_load_explicit(&ult_count_joining, memory_order_relaxed);

    return BASE_UNLIKELY(count != NULL) ? count(pe) : 0;
}

/* True if a thread that has called the library is running. Waiting threads cannot call it. is_locked: all PEs are. */
static bool has_active_threads(bool is_locked)
{
    for (int i = 0; atomic_load_explicit(&ult_n_shared, memory_order_relaxed) && i < ult_job.n_pes; i++) {
        int n_active = atomic_load(&ult_job.pes[i].sharing.n_active);
        if (n_active > 0 && (!is_locked || n_active > count_joining(&ult_job.pes[i])))
            return true;
    }
    return false;
}

bool ult_has_others(void)
{
    return atomic_load_explicit(&ult_n_shared, memory_order_relaxed) && ult_job.hooks.has_other_threads &&
           ult_job.hooks.has_other_threads();
}

bool ult_idle_all(void)
{
    bool are_asleep;

    pthread_mutex_lock(&ult_job.idle_lock);
    are_asleep = ult_job.n_asleep == ult_job.n_pes;
    pthread_mutex_unlock(&ult_job.idle_lock);
    return are_asleep;
}

/* A waiting thread of a shared PE may poll while another one, the sleeper, counts as asleep. So the other PEs' locks are taken
 * before the job is examined; not waited for, because this PE's is held. False: a thread has one. */
static bool lock_others(const struct ult_pe *self, int *n_locked_out)
{
    int n = 0;

    while (n < ult_job.n_pes && (&ult_job.pes[n] == self || !ult_job.pes[n].is_shared ||
                                 ult_lock_try(&ult_job.pes[n].sharing.lock)))
        n++;
    *n_locked_out = n;
    return n == ult_job.n_pes;
}

static void unlock_others(const struct ult_pe *self, int n_locked)
{
    for (int i = 0; i < n_locked; i++)
        if (&ult_job.pes[i] != self && ult_job.pes[i].is_shared)
            ult_lock_give(&ult_job.pes[i].sharing.lock);
}

/* All PEs sleep, and the lock is held, so they stay asleep. BUSY: a thread uses one of them. */
static enum under_way examine_job(const struct ult_pe *self)
{
    enum under_way found = BUSY;
    int n_locked;

    if (lock_others(self, &n_locked))
        found = !has_active_threads(true) ? find_under_way() : count_joining(NULL) > 0 ? OTHERS : MORE;
    if (found == NOTHING) /* a thread may have posted something, and ended */
        found = ult_has_others() ? OTHERS : find_under_way();
    unlock_others(self, n_locked);
    return found;
}

int64_t ult_idle_enter(void)
{
    int64_t limit_ns = 0;

    pthread_mutex_lock(&ult_job.idle_lock);
    /* For reports: a PE sleeps on the stack of the ULT that blocked last. */
    ult_current->sp = __builtin_frame_address(0);
    ult_job.n_asleep++;
    if (ult_job.n_asleep == ult_job.n_pes && atomic_load(&ult_job.n_live) > 0 &&
        (!has_active_threads(false) || count_joining(NULL) > 0)) {
        enum under_way found = examine_job(ult_self()->pe);
        if (found == NOTHING && ult_job.hooks.deadlock)
            ult_job.hooks.deadlock();
        else if (found == SOURCES_ONLY && ult_job.hooks.check_termination)
            limit_ns = ult_job.hooks.check_termination();
        else if (found == BUSY)
            limit_ns = EXAMINE_AGAIN_NS;
        else if (found == OTHERS)
            limit_ns = OTHERS_NS;
    }
    pthread_mutex_unlock(&ult_job.idle_lock);
    return limit_ns;
}

void ult_idle_leave(void)
{
    pthread_mutex_lock(&ult_job.idle_lock);
    ult_job.n_asleep--;
    pthread_mutex_unlock(&ult_job.idle_lock);
}

bool ult_idle_prepare(struct ult_pe *pe, int64_t limit_ns, struct ult_sleep *sleep_out)
{
    bool must_poll = pe->must_poll || pe->n_backlogged > 0;
    int64_t timer_ns;

    sleep_out->fds[0] = (struct pollfd){.fd = pe->event_fd, .events = POLLIN};
    sleep_out->n_fds = 1;
    for (struct ult_source *source = pe->sources; source; source = source->next) {
        if (source->fd < 0 || sleep_out->n_fds == BASE_COUNT(sleep_out->fds)) {
            must_poll |= source->pending > 0;
            continue;
        }
        if (!source->arm(source))
            return false;
        sleep_out->fds[sleep_out->n_fds++] = (struct pollfd){.fd = source->fd, .events = POLLIN};
    }
    timer_ns = ult_timer_next_ns(pe);
    if (limit_ns > 0 && (timer_ns < 0 || timer_ns > limit_ns))
        timer_ns = limit_ns;
    if (must_poll && (timer_ns < 0 || timer_ns > 50000))
        timer_ns = 50000;
    sleep_out->limit_ns = timer_ns;
    return true;
}

void ult_idle_sleep(const struct ult_pe *pe, struct ult_sleep *sleep)
{
    struct timespec timeout = {.tv_sec = sleep->limit_ns / 1000000000,
                               .tv_nsec = sleep->limit_ns % 1000000000};
    uint64_t ignored;

    ppoll(sleep->fds, sleep->n_fds, sleep->limit_ns < 0 ? NULL : &timeout, NULL);
    while (read(pe->event_fd, &ignored, sizeof ignored) < 0 && errno == EINTR)
        ;
}

static bool is_done(const struct ult_pe *pe, bool until_done)
{
    return pe->queue_first ||
           (until_done && atomic_load_explicit(&ult_job.n_live, memory_order_seq_cst) == 0);
}

/* With more PEs than cores, the PE that this one waits for may be waiting for its core. Yielding takes a
 * microsecond, sleeping and being woken several. But not for long: PEs that compute should not be
 * disturbed. */
static void lend_core(struct ult_pe *pe, bool until_done)
{
    for (int i = 0; i < CORE_LENDS && !pe->is_shared && !is_done(pe, until_done); i++) {
        sched_yield();
        if (ult_pe_poll(pe) > 0)
            i = 0;
    }
}

uint64_t ult_idle_spin_ns(const struct ult_pe *pe)
{
    for (const struct ult_source *source = pe->sources; source; source = source->next)
        if ((source->fd < 0 && source->pending) || (source->is_moving && source->is_moving(source)))
            return SPIN_MOVING_NS;
    return SPIN_NS;
}

static void spin(struct ult_pe *pe, bool until_done)
{
    uint64_t until_ns = 0;

    for (int i = 0; i < ult_job.spin_polls && !pe->is_shared; i++) {
        if (ult_pe_poll(pe) > 0)
            i = 0, until_ns = 0; /* if something arrives, more may follow */
        if (is_done(pe, until_done))
            return;
        if (i % POLLS_PER_RELAX == POLLS_PER_RELAX - 1) {
            uint64_t now_ns = ult_now_ns();
            if (until_ns == 0)
                until_ns = now_ns + ult_idle_spin_ns(pe);
            else if (now_ns >= until_ns)
                return;
            base_relax();
        }
    }
}

bool ult_idle_announce(struct ult_pe *pe)
{
    atomic_store_explicit(&pe->is_asleep, true, memory_order_seq_cst);
    pe->must_poll = !fence_before_sleep();
    if (!ult_inbox_has_mail(&pe->inbox))
        return true;
    atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
    return false;
}

/* Sleeps until an event comes; returns at once if one is there. */
static void sleep_on_events(struct ult_pe *pe, bool until_done)
{
    struct ult_sleep sleep;
    int64_t limit_ns;

    if (!ult_idle_announce(pe))
        return;
    if (!is_done(pe, until_done)) {
        pe->n_sleeps++;
        limit_ns = ult_idle_enter();
        if (ult_idle_prepare(pe, limit_ns, &sleep) && !pe->is_shared)
            ult_idle_sleep(pe, &sleep);
        ult_idle_leave();
    }
    atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
}

/* A poll or a hook of the upper layers may call a library that starts a thread: the PE is shared from then on, and this
 * thread holds its lock. */
void ult_pe_idle(struct ult_pe *pe, bool until_done)
{
    uint64_t since_ns = BASE_UNLIKELY(ult_watchers.idles != NULL) ? ult_now_ns() : 0;

    while (!pe->is_shared && !is_done(pe, until_done)) {
        spin(pe, until_done);
        if (ult_job.is_oversubscribed)
            lend_core(pe, until_done);
        if (pe->is_shared || is_done(pe, until_done))
            break;
        sleep_on_events(pe, until_done);
        ult_pe_poll(pe);
    }
    if (BASE_UNLIKELY(pe->is_shared))
        ult_sharing_idle(pe, until_done);
    if (BASE_UNLIKELY(since_ns != 0) && pe->queue_first)
        ult_watchers.idles(pe, since_ns);
}
