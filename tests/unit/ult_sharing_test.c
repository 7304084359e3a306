/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that threads which share a PE lose no wake-up: a thread that sleeps for all learns of timers and of sources
 * that others leave behind, and of the end of the job; that the lock is held while a ULT is in the library, also
 * in its errands, and not while it is outside; that no deadlock is reported while a thread polls; and that one ULT at a
 * time is in an exclusive section, whichever OS thread it has.
 */
#include <pthread.h>
#include <sched.h>

#include "ult_job.h"

#include "ult/pe.h"

#define MS 1000000u

/* A thread of the program. */
struct thread {
    struct ult ult;
    pthread_t id;
    void (*run)(struct ult *self); /* what it does in the library */
};

static void *thread_main(void *arg)
{
    struct thread *thread = arg;

    ult_enter_bound(&thread->ult);
    thread->run(&thread->ult);
    ult_leave_bound(&thread->ult);
    ult_unbind(&thread->ult);
    return NULL;
}

/* Starts a thread that acts for the running ULT, which may not leave the library before it is bound. */
static void thread_start(struct thread *thread, void (*run)(struct ult *self))
{
    *thread = (struct thread){.run = run};
    ult_pe_share();
    ult_bind(&thread->ult, ult_self());
    ULT_CHECK(pthread_create(&thread->id, NULL, thread_main, thread) == 0);
}

static void block(struct ult *self)
{
    (void)self;
    ult_suspend();
}

/* Until another thread's ULT waits: who makes a ULT ready before that ends the job by an assertion. */
static void wait_until_blocked(struct ult *self, const struct ult *u)
{
    while (!ult_is_blocked(u)) {
        ult_leave(self);
        sched_yield();
        ult_enter(self);
    }
}

/* Outside of the library: until a thread of the PE sleeps, or is about to. */
static void wait_for_sleeper(const struct ult_pe *pe)
{
    while (!ult_pe_is_asleep(pe))
        sched_yield();
}

static bool may_keep(const struct ult *u)
{
    (void)u;
    return true;
}

/* ---- The sleeper ---- */

static struct thread sleeper;
static bool is_first_blocked;

/* The second ULT computes while a thread of its own sleeps; the first one sets a timer and lets it go on; then it joins
 * its thread, which the first one wakes. */
static void leave_a_timer(void *arg)
{
    if ((intptr_t)arg == 0) {
        is_first_blocked = true;
        ult_suspend();
        ult_ready(&job.ults[1]);
        ult_sleep_ns(20 * MS);
        ult_ready(&sleeper.ult);
        return;
    }
    ULT_CHECK(is_first_blocked);
    thread_start(&sleeper, block);
    ult_leave(ult_self());
    wait_for_sleeper(job.ults[1].pe);
    ult_enter(ult_self());
    ult_ready(&job.ults[0]);
    ult_suspend();
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
}

START_TEST(sleeper_learns_of_timers)
{
    is_first_blocked = false;
    job.may_keep_thread = may_keep;
    ult_job_start(1, 2, leave_a_timer);
}
END_TEST

static int wake_sleeper(struct ult_source *source)
{
    if (!source->pending)
        return 0;
    source->pending = 0;
    ult_ready(&sleeper.ult);
    return 1;
}

static struct ult_source source;

/* Its thread sleeps already when an operation begins that has to be polled for. */
static void leave_a_source(void *arg)
{
    (void)arg;
    source = (struct ult_source){.poll = wake_sleeper, .fd = -1};
    ult_pe_add_source(ult_self()->pe, &source);
    thread_start(&sleeper, block);
    ult_leave(ult_self());
    wait_for_sleeper(job.ults[0].pe);
    ult_enter(ult_self());
    source.pending = 1;
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
}

START_TEST(sleeper_learns_of_sources)
{
    ult_job_start(1, 1, leave_a_source);
}
END_TEST

static void ready_first(struct ult *self)
{
    (void)self;
    ult_ready(&job.ults[0]);
}

static int start_a_thread(struct ult_source *from)
{
    if (from->pending) {
        from->pending = 0;
        thread_start(&sleeper, ready_first);
    }
    return 0;
}

/* Its PE is not shared, and idle, when a source calls a library that starts a thread. */
static void share_while_idle(void *arg)
{
    (void)arg;
    source = (struct ult_source){.poll = start_a_thread, .fd = -1, .pending = 1};
    ult_pe_add_source(ult_self()->pe, &source);
    ult_suspend();
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
}

START_TEST(idle_pe_becomes_shared)
{
    ult_job_start(1, 1, share_while_idle);
}
END_TEST

static atomic_int n_received;
static atomic_bool is_sent;
static struct wake_note backlog_notes[2];
static struct ult_waiter absent; /* a thread whose turn it is to poll, and that gets no core */

static void handle_received(const struct ult_item *item)
{
    (void)item;
    atomic_fetch_add(&n_received, 1);
}

/* The first ULT's thread sleeps already when the ULT sends more than the second one's inbox can hold, and blocks. It does
 * not poll meanwhile, because it is another thread's turn, which gets no core. The second one reads its inbox when the
 * first one sleeps on its bell. */
static void leave_a_backlog(void *arg)
{
    struct ult_pe *sender = ult_pe_get(0);
    struct ult_item item = {.handle = handle_received};
    const int n_items = ULT_RING_CELLS + 1;

    if ((intptr_t)arg == 1) {
        while (!atomic_load(&is_sent) || atomic_load(&sender->carrier->waiter.bell) == 0)
            sched_yield();
        atomic_store(&sender->sharing.poller, NULL);
        while (atomic_load(&n_received) < n_items)
            ult_yield();
        wake(&backlog_notes[0], &job.ults[0]);
        wake(&backlog_notes[1], &sleeper.ult);
        return;
    }
    thread_start(&sleeper, block);
    ult_leave(ult_self());
    wait_for_sleeper(sender);
    ult_enter(ult_self());
    atomic_store(&sender->sharing.poller, &absent);
    for (int i = 0; i < n_items; i++)
        ult_post_item(ult_pe_get(1), &item);
    atomic_store(&sender->carrier->waiter.bell, 0);
    atomic_store(&is_sent, true);
    ult_suspend();
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
}

START_TEST(sleeper_learns_of_backlogs)
{
    ult_job_start(2, 2, leave_a_backlog);
    ck_assert_int_eq(atomic_load(&n_received), ULT_RING_CELLS + 1);
}
END_TEST

static atomic_bool is_about_to_sleep, is_last_at_end;

bool __real_ult_idle_announce(struct ult_pe *pe);
bool __wrap_ult_idle_announce(struct ult_pe *pe);

static struct wake_note mail;
static bool has_mail_to_come;

/* The carrier of PE 1 has seen that the job has not ended: now it ends. Or mail comes right before a PE sleeps. */
bool __wrap_ult_idle_announce(struct ult_pe *pe)
{
    if (has_mail_to_come) {
        has_mail_to_come = false;
        wake(&mail, &sleeper.ult);
    }
    if (atomic_load(&is_last_at_end) && pe->pe_id == 1) {
        atomic_store(&is_about_to_sleep, true);
        while (atomic_load(&pe->carrier->waiter.bell) == 0) /* it is rung last */
            sched_yield();
    }
    return __real_ult_idle_announce(pe);
}

static void end_before_sleep(void *arg)
{
    if ((intptr_t)arg == 1) {
        ult_pe_share();
        atomic_store(&is_last_at_end, true);
        return;
    }
    while (!atomic_load(&is_about_to_sleep))
        sched_yield();
}

START_TEST(end_of_job_wakes_who_is_about_to_sleep)
{
    ult_job_start(2, 2, end_before_sleep);
}
END_TEST

/* It is the turn of a thread to poll that gets no core. */
static void let_thread_wait_for_mail(void *arg)
{
    struct ult_sharing *sharing = &ult_self()->pe->sharing;

    (void)arg;
    thread_start(&sleeper, block);
    has_mail_to_come = true;
    atomic_store(&sharing->poller, &absent);
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
    atomic_store(&sharing->poller, NULL);
}

START_TEST(mail_before_sleep_is_read_at_once)
{
    ult_job_start(1, 1, let_thread_wait_for_mail);
}
END_TEST

/* ---- The lock ---- */

static bool is_errand_done;

static void call_in_errand(struct ult_errand *errand)
{
    struct ult *self = ult_self();

    (void)errand;
    ult_enter(self);
    ult_leave(self);
    ULT_CHECK(!ult_lock_try(&self->pe->sharing.lock));
    is_errand_done = true;
}

static struct ult_errand errand = {.run = call_in_errand};

static void do_errand_at_return(void *arg)
{
    struct ult *self = ult_self();

    (void)arg;
    ult_pe_share();
    ult_post_errand(self, &errand);
    ult_leave(self);
    ULT_CHECK(is_errand_done);
    ULT_CHECK(ult_lock_try(&self->pe->sharing.lock));
    ult_lock_give(&self->pe->sharing.lock);
    ult_enter(self);
}

START_TEST(errands_at_return_hold_the_lock)
{
    is_errand_done = false;
    ult_job_start(1, 1, do_errand_at_return);
}
END_TEST

/* The thread takes over the main ULT's errand while it waits for an exclusive section, and then returns. */
static void take_over(struct ult *self)
{
    ult_post_errand(self->main, &errand);
    ult_pe_let_others_run(self);
}

static void leave_errand_to_thread(void *arg)
{
    (void)arg;
    thread_start(&sleeper, take_over);
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ULT_CHECK(is_errand_done);
    ult_enter(ult_self());
}

START_TEST(errands_taken_over_are_done)
{
    is_errand_done = false;
    ult_job_start(1, 1, leave_errand_to_thread);
}
END_TEST

static void do_nothing(struct ult *self)
{
    (void)self;
}

/* The first ULT is in a call that began before the PE was shared, so it does not leave. It starts a thread of its
 * own, and waits for it. */
static void return_from_old_call(void *arg)
{
    struct ult *self = ult_self();

    if ((intptr_t)arg == 1) {
        ult_pe_share();
        ult_ready(&job.ults[0]);
        return;
    }
    ult_leave(self);
    ult_suspend();
    thread_start(&sleeper, do_nothing);
    pthread_join(sleeper.id, NULL);
    ult_enter(self);
}

START_TEST(who_starts_threads_does_not_keep_the_lock)
{
    ult_job_start(1, 2, return_from_old_call);
}
END_TEST

/* ---- Exclusive sections ---- */

static atomic_bool has_second_begun, is_inside;
static bool ends_inside;

/* The first ULT of PE 0 keeps its OS thread in an exclusive section. The next one of the PE comes to its own while it is
 * there: it runs on another OS thread, and its turn comes when the first one's is over. */
static void keep_thread_inside(void *arg)
{
    struct ult *self = ult_self();
    int i = (int)(intptr_t)arg;

    if (i >= ult_pe_count())
        atomic_store(&has_second_begun, true);
    if (i > 0) {
        if (i < ult_pe_count())
            return;
        ult_exclusive_begin();
        ULT_CHECK(!atomic_load(&is_inside));
        ult_exclusive_end();
        return;
    }
    thread_start(&sleeper, block);
    ult_exclusive_begin();
    atomic_store(&is_inside, true);
    ult_leave(self);
    while (!atomic_load(&has_second_begun))
        sched_yield();
    ult_enter(self);
    ULT_CHECK(ult_is_bound(self));
    wait_until_blocked(self, &sleeper.ult);
    ult_ready(&sleeper.ult);
    ult_leave(self);
    pthread_join(sleeper.id, NULL);
    ult_enter(self);
    atomic_store(&is_inside, false);
    if (!ends_inside)
        ult_exclusive_end();
}

START_TEST(exclusive_on_another_thread)
{
    job.may_keep_thread = may_keep;
    ends_inside = _i >= 2;
    atomic_store(&has_second_begun, false);
    ult_job_start(1 + _i % 2, 2 + _i % 2, keep_thread_inside);
}
END_TEST

/* ---- Deadlocks ---- */

static atomic_bool is_polled;
static atomic_int n_deadlocks;
static struct wake_note second_note;

static void count_deadlock(void)
{
    atomic_fetch_add(&n_deadlocks, 1);
}

/* The carrier waits, and polls while the other thread still counts as asleep. Then the other PE falls asleep, which only this
 * poll wakes. If the other thread polls, the carrier tries again. */
static int wake_second(struct ult_source *polled)
{
    struct ult_pe *pe = job.ults[0].pe;

    (void)polled;
    if (!pe->sharing.is_carrier_idle || atomic_load(&is_polled) || !ult_is_blocked(&job.ults[0]))
        return 0;
    if (pe->sharing.sleeper) {
        atomic_store(&is_polled, true);
        while (!ult_idle_all())
            sched_yield();
        wake(&second_note, &job.ults[1]);
    }
    ult_ready(&job.ults[0]);
    return 1;
}

static struct ult_source poller;

static void poll_beside_sleeper(void *arg)
{
    struct ult_pe *pe = ult_self()->pe;

    if ((intptr_t)arg == 1) {
        while (!atomic_load(&is_polled))
            sched_yield();
        ult_suspend();
        return;
    }
    poller = (struct ult_source){.poll = wake_second, .fd = -1};
    ult_pe_add_source(pe, &poller);
    thread_start(&sleeper, block);
    while (!atomic_load(&is_polled)) {
        ult_leave(ult_self());
        wait_for_sleeper(pe);
        ult_enter(ult_self());
        ult_suspend();
    }
    ult_ready(&sleeper.ult);
    ult_leave(ult_self());
    pthread_join(sleeper.id, NULL);
    ult_enter(ult_self());
}

START_TEST(polling_beside_a_sleeper_is_no_deadlock)
{
    atomic_store(&is_polled, false);
    atomic_store(&n_deadlocks, 0);
    job.may_keep_thread = may_keep;
    job.deadlock = count_deadlock;
    ult_job_start(2, 2, poll_beside_sleeper);
    job.deadlock = NULL;
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_sharing");
    TCase *tcase = tcase_create("ult_sharing");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, sleeper_learns_of_timers);
    tcase_add_test(tcase, sleeper_learns_of_sources);
    tcase_add_test(tcase, idle_pe_becomes_shared);
    tcase_add_test(tcase, sleeper_learns_of_backlogs);
    tcase_add_test(tcase, polling_beside_a_sleeper_is_no_deadlock);
    tcase_add_test(tcase, end_of_job_wakes_who_is_about_to_sleep);
    tcase_add_test(tcase, mail_before_sleep_is_read_at_once);
    tcase_add_test(tcase, errands_at_return_hold_the_lock);
    tcase_add_test(tcase, errands_taken_over_are_done);
    tcase_add_test(tcase, who_starts_threads_does_not_keep_the_lock);
    tcase_add_loop_test(tcase, exclusive_on_another_thread, 0, 4);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
