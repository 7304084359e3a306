/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that one ULT at a time is between ult_exclusive_begin and ult_exclusive_end, on all PEs together,
 * except ULTs that wait; and that such a ULT can wait for another one that needs its turn, too.
 */
#include "ult_job.h"

#define N_ROUNDS 200

static int n_inside; /* plain: a race would lose counts */
static int n_turns;

static void take_turns(void *arg)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        ult_exclusive_begin();
        ult_exclusive_begin();
        ULT_CHECK(n_inside == 0);
        n_inside++;
        for (volatile int spin = 0; spin < 200; spin++)
            ;
        n_turns++;
        n_inside--;
        ult_exclusive_end();
        ULT_CHECK(n_inside == 0);
        if (i % 10 == 0)
            ult_yield(); /* others get in */
        ULT_CHECK(n_inside == 0);
        n_turns++;
        ult_exclusive_end();
    }
}

START_TEST(one_at_a_time)
{
    n_turns = 0;
    ult_job_start(4, 40, take_turns);
    ck_assert_int_eq(n_turns, 2 * 40 * N_ROUNDS);
}
END_TEST

static struct wake_note wakeups[8];
static atomic_int n_waiting;

/* The even ones wait inside for the odd ones, which wake them from inside. */
static void wait_inside(void *arg)
{
    int i = (int)(intptr_t)arg;

    ult_exclusive_begin();
    if (i % 2 == 0) {
        atomic_fetch_add(&n_waiting, 1);
        ult_suspend();
    } else {
        while (atomic_load(&n_waiting) < 4)
            ult_yield();
        wake(&wakeups[i], &job.ults[i - 1]);
    }
    ult_exclusive_end();
}

START_TEST(holder_may_wait)
{
    atomic_store(&n_waiting, 0);
    ult_job_start(2, 8, wait_inside);
}
END_TEST

static void end_inside(void *arg)
{
    ult_exclusive_begin();
    ult_end();
}

START_TEST(end_lets_go)
{
    ult_job_start(3, 12, end_inside);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_exclusive");
    TCase *tcase = tcase_create("ult_exclusive");

    tcase_add_test(tcase, one_at_a_time);
    tcase_add_test(tcase, holder_may_wait);
    tcase_add_test(tcase, end_lets_go);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
