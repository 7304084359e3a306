/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that ULTs of a PE take turns in the order in which they became ready, that a ULT continues with its
 * local variables, registers and errno, that it blocks until it is made ready, that functions that jump back return as
 * others do, and that it lends its core where PEs share cores.
 */
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cores.h"
#include "ult_job.h"

static int order[1000];
static int n_order;

static void note_order(int what)
{
    if (n_order < (int)BASE_COUNT(order))
        order[n_order++] = what;
}

static void yield_in_turn(void *arg)
{
    for (int i = 0; i < 10; i++) {
        note_order((int)(intptr_t)arg);
        ult_yield();
    }
}

START_TEST(yielding_goes_round)
{
    n_order = 0;
    ult_job_start(1, 7, yield_in_turn);
    ck_assert_int_eq(n_order, 70);
    for (int i = 0; i < 70; i++)
        ck_assert_int_eq(order[i], i % 7);
}
END_TEST

/* Enough values to fill all registers, on a stack that others must not touch. */
static uint64_t mix(uint64_t seed, int depth)
{
    uint64_t a = seed * 3, b = a ^ 0x5555, c = b * 7, d = c + 11, e = d * 13, f = e ^ a, g = f + b, h = g * c;
    double x = (double)(seed % 1000) / 3.0;
    char text[64];

    snprintf(text, sizeof text, "%llu", (unsigned long long)h);
    if (ult_self())
        ult_yield();
    if (depth > 0)
        h ^= mix(seed + 1, depth - 1);
    for (const char *p = text; *p; p++)
        h = h * 31 + (uint64_t)*p;
    return a + b * c + d * e + f * g + h + (uint64_t)(x * 1000);
}

static uint64_t wanted[50];

static void keep_values(void *arg)
{
    int i = (int)(intptr_t)arg;

    ULT_CHECK(mix((uint64_t)i, 20) == wanted[i]);
}

START_TEST(locals_and_registers_survive)
{
    for (int i = 0; i < 50; i++) {
        struct ult *before = ult_current;
        ult_current = NULL;
        wanted[i] = mix((uint64_t)i, 20);
        ult_current = before;
    }
    ult_job_start(1, 50, keep_values);
    ult_job_start(2, 50, keep_values);
}
END_TEST

static void keep_errno(void *arg)
{
    errno = 1000 + (int)(intptr_t)arg;
    for (int i = 0; i < 5; i++) {
        ult_yield();
        ULT_CHECK(errno == 1000 + (int)(intptr_t)arg);
    }
}

START_TEST(errno_belongs_to_the_ult)
{
    ult_job_start(1, 5, keep_errno);
    ult_job_start(2, 5, keep_errno);
}
END_TEST

/* Some arguments are on the stack, and the result fills both registers for results. */
struct two {
    long sum, product;
};

ULT_JUMPS_BACK BASE_NOINLINE static struct two yield_times(int n, long a, long b, long c, long d, long e,
                                                           long f, long g)
{
    for (int i = 0; i < n; i++)
        ult_yield();
    return (struct two){a + b + c + d + e + f + g, a * b * c * d * e * f * g};
}

/* Returns by the jump after yields, and by a return without. */
static void return_often(void *arg)
{
    long a = (long)(intptr_t)arg;

    for (int i = 0; i < 100; i++) {
        struct two got = yield_times(i % 3, a, 2, 3, 4, 5, i, 7);
        ULT_CHECK(got.sum == a + 21 + i && got.product == a * 840 * i);
#ifndef __clang__ /* which has no attribute for the jump */
        ULT_CHECK(!ult_has_switched);
#endif
    }
}

START_TEST(jumping_back_is_returning)
{
    ult_job_start(1, 5, return_often);
    ult_job_start(2, 5, return_often);
}
END_TEST

static void check_alignment(void *arg)
{
    _Alignas(16) volatile char local[16] = {0};
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    (void)arg;
    local[0] = 1;
    /* Behind the call the frame begins at 16n: the return address and the old frame pointer lie there. */
    ULT_CHECK(frame % 16 == 0 && (uintptr_t)local % 16 == 0);
    ULT_CHECK((char *)frame > ult_self()->stack_lo && (char *)frame < ult_self()->stack_hi);
}

START_TEST(stacks_are_aligned_and_ours)
{
    ult_job_start(1, 3, check_alignment);
}
END_TEST

/* ULT 0 blocks; the others make it ready, one per round, and it says when it runs. */
static void block_or_wake(void *arg)
{
    int i = (int)(intptr_t)arg;

    if (i == 0) {
        for (int round = 1; round < job.n_ults; round++) {
            ult_suspend();
            note_order(-round);
        }
        return;
    }
    while (job.ults[0].state != ULT_BLOCKED)
        ult_yield();
    note_order(i);
    ult_ready(&job.ults[0]);
    ULT_CHECK(job.ults[0].state == ULT_READY && ult_self()->state == ULT_RUNNING);
}

START_TEST(blocked_until_ready)
{
    n_order = 0;
    ult_job_start(1, 5, block_or_wake);
    ck_assert_int_eq(n_order, 8);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(order[2 * i], i + 1);
        ck_assert_int_eq(order[2 * i + 1], -(i + 1));
    }
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(job.ults[i].state, ULT_ENDED);
}
END_TEST

/* The first one ends the sleep of the others, except for one that sleeps briefly. */
static void sleep_or_end(void *arg)
{
    int i = (int)(intptr_t)arg;

    if (i > 0) {
        ult_sleep_ns(i == 3 ? 1000000 : (uint64_t)1000000000 * 3600);
        note_order(i);
        return;
    }
    for (int k = 1; k < job.n_ults; k++)
        while (job.ults[k].state != ULT_BLOCKED && !n_order)
            ult_yield();
    ult_end_sleep(ult_self()); /* no effect */
    ult_end_sleep(&job.ults[2]);
    ult_end_sleep(&job.ults[2]);
    while (n_order < 2) /* the one that wakes by itself may be before it */
        ult_yield();
    ult_end_sleep(&job.ults[1]);
    ult_end_sleep(&job.ults[4]);
}

START_TEST(a_sleep_that_is_ended)
{
    n_order = 0;
    ult_job_start(1, 5, sleep_or_end);
    ck_assert_int_eq(n_order, 4);
    ck_assert_int_eq(order[0] + order[1], 2 + 3);
    ck_assert_int_eq(order[2], 1);
    ck_assert_int_eq(order[3], 4);
}
END_TEST

/* ThreadSanitizer knows 8,128 threads, and ULTs are such to it. */
#if defined(ULT_TSAN)
#define N_MANY 5000
#else
#define N_MANY 10000
#endif

static atomic_int n_ran;

static void count(void *arg)
{
    (void)arg;
    ult_yield();
    atomic_fetch_add(&n_ran, 1);
    if (self_index() % 2)
        ult_end();
}

START_TEST(many_ults)
{
    atomic_store(&n_ran, 0);
    ult_job_start(3, N_MANY, count);
    ck_assert_int_eq(atomic_load(&n_ran), N_MANY);
    ck_assert_uint_ge(ult_pe_switches(ult_pe_get(0)), N_MANY * 2 / 3);
}
END_TEST

START_TEST(pes_without_ults)
{
    atomic_store(&n_ran, 0);
    ult_job_start(4, 1, count);
    ck_assert_int_eq(atomic_load(&n_ran), 1);
}
END_TEST

static __thread int n_lent;

int sched_yield(void)
{
    n_lent++;
    return (int)syscall(SYS_sched_yield);
}

/* What MPI_Test in a loop does. */
static void yield_often(void *arg)
{
    int n_before = n_lent;

    (void)arg;
    for (int i = 0; i < 1000; i++)
        ult_yield();
    note_order(n_lent - n_before);
}

/* Another PE may need the core: the one that these ULTs wait for. */
START_TEST(yielding_lends_the_core_to_other_pes)
{
    n_order = 0;
    ult_job_start(base_usable_cores() + 1, 1, yield_often);
    ck_assert_int_gt(order[0], 0);
}
END_TEST

START_TEST(yielding_keeps_a_core_of_its_own)
{
    n_order = 0;
    ult_job_start(1, 1, yield_often);
    ck_assert_int_eq(order[0], 0);
}
END_TEST

START_TEST(a_thread_that_becomes_a_ult)
{
    static struct ult u;

    ult_job_init(1, NULL);
    ult_job_adopt_caller(&u);
    ck_assert_ptr_eq(ult_self(), &u);
    ult_yield();
    ult_sleep_ns(1000);
    ck_assert_int_eq(ult_progress(), 0);
    ck_assert_int_eq(u.state, ULT_RUNNING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_switch");
    TCase *tcase = tcase_create("switch");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, yielding_goes_round);
    tcase_add_test(tcase, locals_and_registers_survive);
    tcase_add_test(tcase, errno_belongs_to_the_ult);
    tcase_add_test(tcase, jumping_back_is_returning);
    tcase_add_test(tcase, stacks_are_aligned_and_ours);
    tcase_add_test(tcase, blocked_until_ready);
    tcase_add_test(tcase, a_sleep_that_is_ended);
    tcase_add_test(tcase, many_ults);
    tcase_add_test(tcase, pes_without_ults);
    tcase_add_test(tcase, yielding_lends_the_core_to_other_pes);
    tcase_add_test(tcase, yielding_keeps_a_core_of_its_own);
    tcase_add_test(tcase, a_thread_that_becomes_a_ult);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
