/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that calls on other threads return to their PE while its other ULTs run, that no deadlock is reported before they
 * have returned and one is afterwards, and that the number of threads is limited.
 */
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "ult/pe.h"
#include "ult_job.h"

static atomic_int n_deadlocks;
static struct wake_note rescue_notes[8];

static void deadlock_and_rescue(void)
{
    atomic_fetch_add(&n_deadlocks, 1);
    for (int i = 0; i < job.n_ults; i++)
        if (job.ults[i].state == ULT_BLOCKED)
            wake(&rescue_notes[i], &job.ults[i]);
}

/* A call that reads a byte of a pipe. */
struct pipe_read {
    struct ult_offload work;
    struct ult *waiter; /* made ready by done; NULL: none */
    int fd;
    bool is_over;
    bool had_signals; /* the thread accepts signals */
};

static atomic_int n_running, most_running;

static void run_read(struct ult_offload *work)
{
    struct pipe_read *call = BASE_CONTAINER(work, struct pipe_read, work);
    int n = atomic_fetch_add(&n_running, 1) + 1, most = atomic_load(&most_running);
    sigset_t blocked;
    char byte;

    while (n > most && !atomic_compare_exchange_weak(&most_running, &most, n))
        ;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    call->had_signals = !sigismember(&blocked, SIGXFSZ) || !sigismember(&blocked, SIGUSR1) || ult_self();
    ULT_CHECK(read(call->fd, &byte, 1) == 1);
    atomic_fetch_sub(&n_running, 1);
}

static void end_read(struct ult_offload *work)
{
    struct pipe_read *call = BASE_CONTAINER(work, struct pipe_read, work);

    ULT_CHECK(ult_self() && ult_self()->pe == work->pe);
    call->is_over = true;
    if (call->waiter)
        ult_ready(call->waiter);
}

static int ends[2];

/* Ends the call when the PE has begun to sleep: it has looked for a deadlock then. */
static void *write_later(void *arg)
{
    while (!ult_idle_all())
        sched_yield();
    ULT_CHECK(write(ends[1], "x", 1) == 1);
    return arg;
}

static void one_waits(void *arg)
{
    struct pipe_read call = {
        .work = {.run = run_read, .done = end_read}, .waiter = ult_self(), .fd = ends[0]};
    pthread_t writer;

    (void)arg;
    ULT_CHECK(pthread_create(&writer, NULL, write_later, NULL) == 0);
    ult_offload_start(&call.work);
    ult_suspend();
    ULT_CHECK(call.is_over && !call.had_signals);
    ULT_CHECK(atomic_load(&n_deadlocks) == 0);
    pthread_join(writer, NULL);
    ult_suspend(); /* for ever */
    ULT_CHECK(atomic_load(&n_deadlocks) == 1);
    ult_end();
}

START_TEST(call_keeps_job_alive)
{
    ck_assert_int_eq(pipe(ends), 0);
    job.deadlock = deadlock_and_rescue;
    ult_job_start(1, 1, one_waits);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 1);
}
END_TEST

#define N_CALLS 100
static struct pipe_read calls[4][N_CALLS];

/* All calls of a PE, at once. */
static void many_calls(void *arg)
{
    struct pipe_read *own = calls[(intptr_t)arg];
    bool is_over = false;

    for (int i = 0; i < N_CALLS; i++) {
        own[i] = (struct pipe_read){.work = {.run = run_read, .done = end_read}, .fd = ends[0]};
        ult_offload_start(&own[i].work);
    }
    for (int i = 0; i < N_CALLS; i++)
        ULT_CHECK(write(ends[1], "x", 1) == 1);
    while (!is_over) {
        ult_yield();
        is_over = true;
        for (int i = 0; i < N_CALLS; i++)
            is_over &= own[i].is_over;
    }
    ult_end();
}

START_TEST(calls_of_all_pes)
{
    ck_assert_int_eq(pipe(ends), 0);
    ult_job_start(4, 4, many_calls);
    ck_assert_int_le(atomic_load(&most_running), 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_offload");
    TCase *tcase = tcase_create("threads");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, call_keeps_job_alive);
    tcase_add_test(tcase, calls_of_all_pes);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
