/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the size of the guards below the ranks' stacks: large if there is room, and never at the expense of
 * ranks; and where in a page stacks begin.
 */
#include <check.h>

#include "ampi/job/job.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define ROOM_BYTES (10240 * GIB)

START_TEST(guards_are_large_up_to_20000_ranks)
{
    ck_assert_uint_eq(ampi_memory_guard_bytes(2, ROOM_BYTES, 10 * MIB), 4 * GIB);
    ck_assert_uint_eq(ampi_memory_guard_bytes(1000, ROOM_BYTES, 10 * MIB), 1 * GIB);
    ck_assert_uint_eq(ampi_memory_guard_bytes(20000, ROOM_BYTES, 10 * MIB), 32 * MIB);
}
END_TEST

START_TEST(a_million_ranks_fit)
{
    size_t guard_bytes = ampi_memory_guard_bytes(1000000, ROOM_BYTES, 2 * MIB);

    ck_assert_uint_eq(guard_bytes, 1 * MIB);
    ck_assert_uint_le((guard_bytes + 2 * MIB) * 1000000, ROOM_BYTES);
}
END_TEST

START_TEST(stacks_have_the_precedence)
{
    ck_assert_uint_eq(ampi_memory_guard_bytes(100, ROOM_BYTES, 102 * GIB), 256 * MIB);
    ck_assert_uint_eq(ampi_memory_guard_bytes(100, ROOM_BYTES, 200 * GIB), 1 * MIB);
}
END_TEST

/* All stacks at the same place of a page would compete for the same sets of a cache. */
START_TEST(few_stacks_begin_at_different_cache_lines)
{
    for (int region = 1; region < 16; region++)
        for (int other = 0; other < region; other++)
            ck_assert_uint_ne(ampi_memory_colour_bytes(64, region) / 64,
                              ampi_memory_colour_bytes(64, other) / 64);
    ck_assert_uint_lt(ampi_memory_colour_bytes(64, 63), 4096);
}
END_TEST

START_TEST(many_stacks_begin_at_a_page)
{
    for (int region = 0; region < 20000; region++)
        ck_assert_uint_eq(ampi_memory_colour_bytes(20000, region), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job_memory");
    TCase *guards = tcase_create("guards");
    SRunner *runner;
    int n_failed;

    tcase_add_test(guards, guards_are_large_up_to_20000_ranks);
    tcase_add_test(guards, a_million_ranks_fit);
    tcase_add_test(guards, stacks_have_the_precedence);
    tcase_add_test(guards, few_stacks_begin_at_different_cache_lines);
    tcase_add_test(guards, many_stacks_begin_at_a_page);
    suite_add_tcase(suite, guards);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
