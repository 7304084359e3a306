/* SPDX-License-Identifier: BSD-3-Clause
 *
 * idle.c: what a PE does when no ULT is ready: poll, then sleep; and noticing that nothing will ever come.
 *
 * Falling asleep and waking somebody race; the order of the two steps on each side decides:
 *      sleeper: is_asleep = true, then look into the inbox once more, then sleep
 *      sender:  put into the inbox, then read is_asleep, then write to event_fd
 * Between the two steps of each there must be a barrier, so that at least one side sees the other. Falling
 * asleep is rare and sending is not, so the sleeper pays for both: membarrier(2) has every thread of the
 * process pass a barrier. Where the kernel has no such call (or a filter forbids it), both sides use a fence:
 * sequentially consistent accesses alone do not order the plain ones around them.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "ult/arch/ult_arch.h"
#include "ult/pe.h"

/* A relax takes longer than a message needs from core to core: most polls go without. */
#define POLLS_PER_RELAX 64

/* Longest time that an idle PE polls before it sleeps, in ns: what looks into sockets costs a microsecond a
 * poll, and the cores may be wanted by processes that this one knows nothing of. */
#define SPIN_NS 100000

/* The same while something is under way that can only be polled, a GPU's copies, which are not noticed in a
 * sleep; or large data is on its way: to fall asleep and be woken takes a good part of the time of 4 MiB. */
#define SPIN_MOVING_NS 1000000

/* How often an idle PE lets others have its core before it sleeps, if there are more PEs than cores. */
#define CORE_LENDS 128

/* Most sources with an fd that one PE sleeps on. */
#define SLEEP_FDS_MAX 8

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

/* ---- The inbox, from the sender's side ---- */

static void append_to_backlog(struct ult_pe *self, struct ult_pe *dest, const struct ult_item *item)
{
    struct ult_backlog *backlog = &self->backlogs[dest->pe_id];
    struct ult_backlog_entry *entry = aligned_alloc(BASE_CACHE_LINE, sizeof *entry);

    if (!entry)
        base_fatal(1, "out of memory: PE %d does not read its messages and PE %d cannot keep more of them",
                   dest->pe_id, self->pe_id);
    entry->item = *item;
    entry->next = NULL;
    if (backlog->last)
        backlog->last->next = entry;
    else
        backlog->first = entry;
    backlog->last = entry;
    self->n_backlogged++;
    atomic_fetch_add_explicit(&ult_job.n_backlogged, 1, memory_order_relaxed);
}

/* Between putting something into a PE's ring and looking whether the PE is asleep. */
static inline void fence_before_wake(void)
{
    if (BASE_LIKELY(ult_job.has_membarrier))
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* Between saying that this PE is asleep and looking into its inbox once more. */
static void fence_before_sleep(void)
{
    if (ult_job.has_membarrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* Moves what waits for room into the inboxes that have some again. */
static int flush_backlogs(struct ult_pe *pe)
{
    int n_moved = 0;

    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_backlog *backlog = &pe->backlogs[i];
        while (backlog->first && ult_ring_try_put(pe->rings_to[i], &backlog->first->item)) {
            struct ult_backlog_entry *entry = backlog->first;
            backlog->first = entry->next;
            if (!backlog->first)
                backlog->last = NULL;
            free(entry);
            pe->n_backlogged--;
            atomic_fetch_sub_explicit(&ult_job.n_backlogged, 1, memory_order_release);
            n_moved++;
            fence_before_wake();
            ult_pe_wake(&ult_job.pes[i]);
        }
    }
    return n_moved;
}

/* Brings a sender's new ring to the receiver. */
struct ring_note {
    struct ult_note note;
    struct ult_pe *dest;
    struct ult_ring *ring;
};

static void handle_new_ring(struct ult_note *note)
{
    struct ring_note *brought = BASE_CONTAINER(note, struct ring_note, note);

    ult_inbox_add_ring(&brought->dest->inbox, brought->ring);
    free(brought);
}

static BASE_COLD struct ult_ring *make_ring(struct ult_pe *self, struct ult_pe *dest)
{
    struct ring_note *bring = base_malloc(sizeof *bring, "messages between two PEs");

    *bring = (struct ring_note){{NULL, handle_new_ring}, dest, ult_ring_create()};
    self->rings_to[dest->pe_id] = bring->ring;
    ult_post_note(dest, &bring->note);
    return self->rings_to[dest->pe_id];
}

void ult_post_item(struct ult_pe *dest, const struct ult_item *item)
{
    struct ult_pe *self = ult_self()->pe;
    struct ult_ring *ring = self->rings_to[dest->pe_id];

    if (BASE_UNLIKELY(!ring))
        ring = make_ring(self, dest);
    if (BASE_UNLIKELY(self->backlogs[dest->pe_id].first || !ult_ring_try_put(ring, item))) {
        append_to_backlog(self, dest, item);
        ult_pe_wake(dest);
        return;
    }
    fence_before_wake();
    if (BASE_UNLIKELY(atomic_load_explicit(&dest->is_asleep, memory_order_seq_cst)))
        ult_pe_wake(dest);
}

void ult_post_note(struct ult_pe *dest, struct ult_note *note)
{
    ult_inbox_put_note(&dest->inbox, note);
    if (BASE_UNLIKELY(atomic_load_explicit(&dest->is_asleep, memory_order_seq_cst)))
        ult_pe_wake(dest);
}

void ult_pe_wake(struct ult_pe *pe)
{
    uint64_t one = 1;

    if (!atomic_load_explicit(&pe->is_asleep, memory_order_seq_cst))
        return;
    while (write(pe->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void ult_wake_all(void)
{
    for (int i = 0; i < ult_job.n_pes; i++)
        ult_pe_wake(&ult_job.pes[i]);
}

/* ---- Sleeping ---- */

/* Whether any PE could still be woken by something that is not a ULT of this job. SOURCES_ONLY: by other
 * processes. */
enum under_way { NOTHING, SOURCES_ONLY, MORE };

static enum under_way find_under_way(void)
{
    enum under_way found = NOTHING;

    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_pe *pe = &ult_job.pes[i];
        if (ult_inbox_has_mail(&pe->inbox) || pe->timer_first || pe->n_backlogged || pe->queue_first)
            return MORE;
        for (const struct ult_source *source = pe->sources; source; source = source->next)
            if (source->pending && source->fd < 0)
                return MORE; /* what must be polled is this process's own, such as a copy that a GPU makes */
            else if (source->pending)
                found = SOURCES_ONLY;
    }
    return found;
}

/* Counts this PE among the sleepers. The last one to fall asleep, with nothing under way, has found a
 * deadlock. Returns for how many ns the PE may sleep; 0: no limit. */
static int64_t enter_sleep(void)
{
    int64_t limit_ns = 0;

    pthread_mutex_lock(&ult_job.idle_lock);
    ult_job.n_asleep++;
    /* With the lock held: while the hook looks at them, the others stay asleep. */
    if (ult_job.n_asleep == ult_job.n_pes && atomic_load(&ult_job.n_live) > 0) {
        enum under_way found = find_under_way();
        if (found == NOTHING && ult_job.hooks.deadlock)
            ult_job.hooks.deadlock();
        else if (found == SOURCES_ONLY && ult_job.hooks.quiet)
            limit_ns = ult_job.hooks.quiet();
    }
    pthread_mutex_unlock(&ult_job.idle_lock);
    return limit_ns;
}

static void leave_sleep(void)
{
    pthread_mutex_lock(&ult_job.idle_lock);
    ult_job.n_asleep--;
    pthread_mutex_unlock(&ult_job.idle_lock);
}

/* Sleeps until a sender, a source or a timer wakes the PE. */
static void sleep_on_events(struct ult_pe *pe, int64_t limit_ns)
{
    struct pollfd fds[1 + SLEEP_FDS_MAX] = {{.fd = pe->event_fd, .events = POLLIN}};
    nfds_t n_fds = 1;
    bool must_poll = pe->n_backlogged > 0;
    int64_t timer_ns;
    struct timespec timeout;
    uint64_t ignored;

    for (struct ult_source *source = pe->sources; source; source = source->next) {
        if (source->fd < 0 || n_fds == BASE_COUNT(fds)) {
            must_poll |= source->pending > 0;
            continue;
        }
        if (!source->arm(source))
            return;
        fds[n_fds++] = (struct pollfd){.fd = source->fd, .events = POLLIN};
    }
    timer_ns = ult_timer_next_ns(pe);
    if (limit_ns > 0 && (timer_ns < 0 || timer_ns > limit_ns))
        timer_ns = limit_ns;
    if (must_poll && (timer_ns < 0 || timer_ns > 50000))
        timer_ns = 50000;
    timeout = (struct timespec){.tv_sec = timer_ns / 1000000000, .tv_nsec = timer_ns % 1000000000};
    ppoll(fds, n_fds, timer_ns < 0 ? NULL : &timeout, NULL);
    while (read(pe->event_fd, &ignored, sizeof ignored) < 0 && errno == EINTR)
        ;
}

static bool is_done(const struct ult_pe *pe, bool until_done)
{
    return pe->queue_first ||
           (until_done && atomic_load_explicit(&ult_job.n_live, memory_order_seq_cst) == 0);
}

/* With more PEs than cores, the one that this one waits for may be waiting for its core. To let others run
 * takes a microsecond, to sleep and be woken several. But not for long: who computes should not be
 * disturbed. */
static void lend_core(struct ult_pe *pe, bool until_done)
{
    for (int i = 0; i < CORE_LENDS && !is_done(pe, until_done); i++) {
        sched_yield();
        if (ult_pe_poll(pe) > 0)
            i = 0;
    }
}

/* Longest time to poll now. */
static uint64_t spin_ns(const struct ult_pe *pe)
{
    for (const struct ult_source *source = pe->sources; source; source = source->next)
        if ((source->fd < 0 && source->pending) || (source->is_moving && source->is_moving(source)))
            return SPIN_MOVING_NS;
    return SPIN_NS;
}

static void spin(struct ult_pe *pe, bool until_done)
{
    uint64_t until_ns = 0;

    for (int i = 0; i < ult_job.spin_polls; i++) {
        if (ult_pe_poll(pe) > 0)
            i = 0, until_ns = 0; /* where something comes, more may come */
        if (is_done(pe, until_done))
            return;
        if (i % POLLS_PER_RELAX == POLLS_PER_RELAX - 1) {
            uint64_t now_ns = ult_now_ns();
            if (until_ns == 0)
                until_ns = now_ns + spin_ns(pe);
            else if (now_ns >= until_ns)
                return;
            ult_arch_relax();
        }
    }
}

void ult_pe_idle(struct ult_pe *pe, bool until_done)
{
    while (!is_done(pe, until_done)) {
        spin(pe, until_done);
        if (ult_job.is_oversubscribed)
            lend_core(pe, until_done);
        if (is_done(pe, until_done))
            break;
        atomic_store_explicit(&pe->is_asleep, true, memory_order_seq_cst);
        fence_before_sleep();
        if (!ult_inbox_has_mail(&pe->inbox) && !is_done(pe, until_done)) {
            pe->n_sleeps++;
            sleep_on_events(pe, enter_sleep());
            leave_sleep();
        }
        atomic_store_explicit(&pe->is_asleep, false, memory_order_relaxed);
        ult_pe_poll(pe);
    }
}
