/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the locks of windows are granted first come, first served, that exclusive holders of a process's lock
 * exclude only shared ones, and that a waiter that holds other locks passes the queue as soon as the holders allow it, and
 * is told so when it has done that too often; and that ranks get through a gate between two that close it.
 */
#include <check.h>

#include "ampi/rma/win_lock.h"

enum { N_WAITERS = 4, N_RANKS = 10 };

static struct ampi_win_lock lock;
static struct ampi_win_waiter waiters[N_WAITERS];
static int n_granted;

static void granted(struct ampi_win_waiter *waiter)
{
    waiter->rank = -1 - n_granted++;
}

static enum ampi_win_lock_result take(int i, enum ampi_win_lock_as as, bool has_others)
{
    waiters[i] = (struct ampi_win_waiter){.as = as, .rank = i, .has_others = has_others, .granted = granted};
    return ampi_win_lock_take(&lock, &waiters[i]);
}

/* The place of a waiter's grant among all grants, from 0 on; -1: it waits. */
static int place_of(int i)
{
    return waiters[i].rank < 0 ? -1 - waiters[i].rank : -1;
}

static void begin(bool is_group)
{
    ampi_win_lock_init(&lock, is_group, N_RANKS);
    n_granted = 0;
}

static void end(void)
{
    ck_assert_uint_eq(atomic_load(&lock.word), 0);
    ck_assert_ptr_null(lock.first);
    ampi_win_lock_fini(&lock);
}

START_TEST(waiters_get_their_turns_in_order)
{
    begin(false);
    ck_assert(ampi_win_lock_try(&lock, AMPI_LOCK_SHARED, 9));
    ck_assert_int_eq(take(0, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(1, AMPI_LOCK_SHARED, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(2, AMPI_LOCK_SHARED, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(3, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    ck_assert(!ampi_win_lock_try(&lock, AMPI_LOCK_SHARED, 9));
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert(place_of(0) == 0 && n_granted == 1);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert(place_of(1) == 1 && place_of(2) == 2 && n_granted == 3);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert_int_eq(n_granted, 3);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert_int_eq(place_of(3), 3);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    end();
}
END_TEST

START_TEST(exclusive_holders_of_a_group_exclude_shared_ones)
{
    begin(true);
    ck_assert(ampi_win_lock_try(&lock, AMPI_LOCK_EXCLUSIVE, 9));
    ck_assert_int_eq(take(0, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_TAKEN);
    ck_assert_int_eq(take(1, AMPI_LOCK_SHARED, false), AMPI_LOCK_QUEUED);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert_int_eq(n_granted, 0);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert_int_eq(n_granted, 1);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    end();
}
END_TEST

START_TEST(a_waiter_with_other_locks_passes_the_queue)
{
    begin(true);
    ck_assert(ampi_win_lock_try(&lock, AMPI_LOCK_EXCLUSIVE, 9));
    ck_assert_int_eq(take(0, AMPI_LOCK_SHARED, true), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(1, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(2, AMPI_LOCK_SHARED, true), AMPI_LOCK_QUEUED);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert(place_of(0) == 0 && place_of(1) == -1 && place_of(2) == 1);
    ck_assert_int_eq(take(3, AMPI_LOCK_SHARED, true), AMPI_LOCK_TAKEN);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(place_of(1), -1);
        ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    }
    ck_assert_int_eq(place_of(1), 2);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    end();
}
END_TEST

/* A rank polls with a shared lock, and holds another lock meanwhile. The holder of the lock may wait for that one, so the
 * rank never stands behind the waiter. */
START_TEST(a_rank_that_passes_a_waiter_too_often_is_told_so)
{
    begin(false);
    ck_assert(ampi_win_lock_try(&lock, AMPI_LOCK_SHARED, 9));
    ck_assert_int_eq(take(0, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    for (int i = 0; i < 2 * AMPI_WIN_LOCK_PASSES_MAX; i++) {
        ck_assert_int_eq(take(1, AMPI_LOCK_SHARED, true), AMPI_LOCK_TAKEN);
        ck_assert(waiters[1].has_passed == (i >= AMPI_WIN_LOCK_PASSES_MAX));
        ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    }
    ck_assert_int_eq(take(2, AMPI_LOCK_SHARED, true), AMPI_LOCK_TAKEN); /* another rank */
    ck_assert(!waiters[2].has_passed);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert_int_eq(place_of(0), 0);
    ck_assert_int_eq(take(3, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert_int_eq(place_of(3), 1);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    end();
}
END_TEST

/* A gate is not free while it is closed or somebody waits at it; those who go through it hold it for a moment. */
START_TEST(a_gate_lets_ranks_through_between_two_that_close_it)
{
    begin(false);
    ck_assert(ampi_win_lock_is_free(&lock));
    ck_assert_int_eq(take(0, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_TAKEN);
    ck_assert(!ampi_win_lock_is_free(&lock));
    ck_assert_int_eq(take(1, AMPI_LOCK_SHARED, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(2, AMPI_LOCK_EXCLUSIVE, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(take(3, AMPI_LOCK_SHARED, false), AMPI_LOCK_QUEUED);
    ck_assert_int_eq(ampi_win_lock_holders(&lock).rank, 0);
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert(place_of(1) == 0 && n_granted == 1);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert(place_of(2) == 1 && n_granted == 2);
    ck_assert(!ampi_win_lock_is_free(&lock));
    ampi_win_lock_drop(&lock, AMPI_LOCK_EXCLUSIVE);
    ck_assert(place_of(3) == 2 && n_granted == 3);
    ampi_win_lock_drop(&lock, AMPI_LOCK_SHARED);
    ck_assert(ampi_win_lock_is_free(&lock));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("win_lock");
    TCase *tests = tcase_create("locks");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tests, waiters_get_their_turns_in_order);
    tcase_add_test(tests, exclusive_holders_of_a_group_exclude_shared_ones);
    tcase_add_test(tests, a_waiter_with_other_locks_passes_the_queue);
    tcase_add_test(tests, a_rank_that_passes_a_waiter_too_often_is_told_so);
    tcase_add_test(tests, a_gate_lets_ranks_through_between_two_that_close_it);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
