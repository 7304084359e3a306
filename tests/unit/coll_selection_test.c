/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The selection table of the collectives: a valid HEDDLE_COLL changes the named entry only, and an invalid one
 * changes nothing.
 */
#include "ampi/coll/engine/selection.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"

static struct ampi_coll_selection before[AMPI_COLL_KIND_COUNT];

static void setup(void)
{
    memcpy(before, ampi_coll_selections, sizeof before);
}

static void teardown(void)
{
    memcpy(ampi_coll_selections, before, sizeof before);
}

/* All entries but one are as they were. */
static void assert_unchanged_but(int changed)
{
    for (int kind = 0; kind < AMPI_COLL_KIND_COUNT; kind++)
        if (kind != changed) {
            ck_assert_uint_eq(ampi_coll_selections[kind].share_from, before[kind].share_from);
            ck_assert_uint_eq(ampi_coll_selections[kind].pack_to, before[kind].pack_to);
        }
}

START_TEST(every_kind_has_an_entry)
{
    for (int kind = 0; kind < AMPI_COLL_KIND_COUNT; kind++) {
        ck_assert_ptr_nonnull(ampi_coll_selections[kind].name);
        ck_assert_ptr_nonnull(ampi_coll_selections[kind].counted);
        ck_assert_uint_le(ampi_coll_selections[kind].pack_to, AMPI_COLL_PACK_BYTES);
    }
}
END_TEST

START_TEST(one_entry)
{
    ck_assert(ampi_coll_override("allreduce:12K"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ALLREDUCE].share_from, 12 << 10);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ALLREDUCE].pack_to, before[AMPI_COLL_ALLREDUCE].pack_to);
    assert_unchanged_but(AMPI_COLL_ALLREDUCE);
}
END_TEST

START_TEST(both_numbers)
{
    ck_assert(ampi_coll_override("bcast:inf:0"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_BCAST].share_from, SIZE_MAX);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_BCAST].pack_to, 0);
    assert_unchanged_but(AMPI_COLL_BCAST);
}
END_TEST

START_TEST(three_numbers)
{
    ck_assert(ampi_coll_override("alltoall:8K:0:1K"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ALLTOALL].large_from, 1024);
    /* the number decides between few processes, too */
    ck_assert_int_eq(ampi_coll_selections[AMPI_COLL_ALLTOALL].few, AMPI_BETWEEN_ANY);
    assert_unchanged_but(AMPI_COLL_ALLTOALL);
}
END_TEST

/* More processes than cores turn the single copy off where many pass data on, unless the user has asked for it. A
 * process that is bound to some cores has these, however many processes there are. */
START_TEST(fit_to_the_node)
{
    ampi_coll_selection_fit(1);
    assert_unchanged_but(-1);
    ampi_coll_selection_fit(1 << 20);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ONE_COPY].large_from,
                      base_core_share(1 << 20) == 0 ? SIZE_MAX : before[AMPI_COLL_ONE_COPY].large_from);
    assert_unchanged_but(AMPI_COLL_ONE_COPY);
    ck_assert(ampi_coll_override("one-copy:16K:0:16K"));
    ampi_coll_selection_fit(1 << 20);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ONE_COPY].large_from, 16 << 10);
}
END_TEST

START_TEST(five_numbers)
{
    ck_assert(ampi_coll_override("allreduce:16K:64:128K:2M:3M"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_ALLREDUCE].far_from, 3 << 20);
    assert_unchanged_but(AMPI_COLL_ALLREDUCE);
}
END_TEST

START_TEST(four_numbers)
{
    ck_assert(ampi_coll_override("bcast:16K:64:128K:2M"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_BCAST].nccl_from, 2 << 20);
    assert_unchanged_but(AMPI_COLL_BCAST);
}
END_TEST

START_TEST(several_entries)
{
    ck_assert(ampi_coll_override("scan:1m:8,reduce:2G"));
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_SCAN].share_from, 1 << 20);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_SCAN].pack_to, 8);
    ck_assert_uint_eq(ampi_coll_selections[AMPI_COLL_REDUCE].share_from, (size_t)2 << 30);
}
END_TEST

static const char *const malformed[] = {
    "bcast",
    "bcast:",
    "bcast:x",
    "bcast:-1",
    "bcast:1T",
    "bcast:1KK",
    "bcast:1:",
    "bcast:1:65",
    "bcast:1:2:3:4:5:6",
    "bcast:1:2:",
    "bcas:1",
    "bcasts:1",
    ":1",
    "bcast:1,,scan:1",
    "bcast:1,scan",
    "scan:1,bcast:99999999999999999999999999",
};

START_TEST(malformed_changes_nothing)
{
    ck_assert(!ampi_coll_override(malformed[_i]));
    assert_unchanged_but(-1);
}
END_TEST

START_TEST(print_names_every_operation)
{
    char text[8192];
    FILE *file = tmpfile();
    int kept = dup(STDOUT_FILENO);
    size_t n_bytes;

    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    ampi_coll_print_selection();
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(file);
    n_bytes = fread(text, 1, sizeof text - 1, file);
    text[n_bytes] = '\0';
    fclose(file);
    for (int kind = 0; kind < AMPI_COLL_KIND_COUNT; kind++)
        ck_assert_ptr_nonnull(strstr(text, ampi_coll_selections[kind].name));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll_selection");
    TCase *tcase = tcase_create("all");
    SRunner *runner;
    int n_failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, every_kind_has_an_entry);
    tcase_add_test(tcase, one_entry);
    tcase_add_test(tcase, both_numbers);
    tcase_add_test(tcase, three_numbers);
    tcase_add_test(tcase, four_numbers);
    tcase_add_test(tcase, five_numbers);
    tcase_add_test(tcase, fit_to_the_node);
    tcase_add_test(tcase, several_entries);
    tcase_add_loop_test(tcase, malformed_changes_nothing, 0, (int)BASE_COUNT(malformed));
    tcase_add_test(tcase, print_names_every_operation);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
