/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the seam to a machine is complete: a second machine, written from machine.h alone, delivers
 * headers and data, lets data be kept and released or fetched, and reports the completion of sends.
 */
#include <check.h>

#include "machine_loopback.h"

static struct {
    int n_handled;
    int n_done;
    bool keeps;
    struct machine_data last;
    unsigned char last_header;
    int last_pe;
} seen;

static bool handle(int pe_id, const void *header, size_t header_bytes, const struct machine_data *data)
{
    ck_assert_uint_eq(header_bytes, 1);
    seen.n_handled++;
    seen.last = *data;
    seen.last_header = *(const unsigned char *)header;
    seen.last_pe = pe_id;
    return seen.keeps || !data->bytes;
}

static void done(void *arg, int result)
{
    ck_assert_ptr_eq(arg, &seen);
    ck_assert_int_eq(result, MACHINE_DONE);
    seen.n_done++;
}

static void set_up(void)
{
    static const struct machine_client client = {.handle = handle};
    struct machine_place place;
    const char *error = NULL;

    memset(&seen, 0, sizeof seen);
    ck_assert(loopback_machine.attach(&place, &error));
    ck_assert_int_eq(place.n_procs, 1);
    ck_assert(loopback_machine.open(2, &client, &error));
}

START_TEST(little_data_comes_with_its_header)
{
    unsigned char header = 7;

    ck_assert_int_eq(loopback_machine.send(0, 0, 1, &header, 1, "abc", 3, MACHINE_HOST, done, &seen),
                     MACHINE_DONE);
    ck_assert(!loopback_machine.arm(1));
    ck_assert_int_eq(loopback_machine.poll(0), 0);
    ck_assert_int_eq(loopback_machine.poll(1), 1);
    ck_assert_int_eq(seen.last_pe, 1);
    ck_assert_int_eq(seen.last_header, 7);
    ck_assert_uint_eq(seen.last.n_bytes, 3);
    ck_assert_int_eq(seen.n_done, 0); /* send said that it was done */
    ck_assert_int_eq(loopback.n_live, 0);
    ck_assert(loopback_machine.arm(1));
}
END_TEST

START_TEST(kept_data_lives_until_it_is_released)
{
    unsigned char header = 1;

    seen.keeps = true;
    ck_assert_int_eq(loopback_machine.send(0, 0, 0, &header, 1, "xyz", 3, MACHINE_HOST, done, &seen),
                     MACHINE_DONE);
    loopback_machine.poll(0);
    ck_assert(seen.last.can_keep);
    ck_assert_mem_eq(seen.last.bytes, "xyz", 3);
    ck_assert_int_eq(loopback.n_live, 1);
    loopback_machine.release(0, seen.last.token);
    ck_assert_int_eq(loopback.n_live, 0);
}
END_TEST

START_TEST(large_data_is_fetched)
{
    static unsigned char from[5000], to[5000];
    unsigned char header = 2;

    memset(from, 42, sizeof from);
    ck_assert_int_eq(loopback_machine.send(0, 0, 0, &header, 1, from, sizeof from, MACHINE_HOST, done, &seen),
                     MACHINE_PENDING);
    loopback_machine.poll(0);
    ck_assert_ptr_null(seen.last.bytes);
    ck_assert_int_eq(seen.n_done, 0);
    ck_assert_int_eq(loopback_machine.fetch(0, 0, seen.last.token, to, sizeof to, MACHINE_HOST, done, &seen),
                     MACHINE_DONE);
    ck_assert_int_eq(seen.n_done, 1);
    ck_assert_mem_eq(from, to, sizeof to);
    ck_assert_int_eq(loopback.n_live, 0);
}
END_TEST

START_TEST(nobody_is_there)
{
    unsigned char header = 3;

    ck_assert_int_eq(loopback_machine.n_pes_of(1), -1);
    ck_assert_int_eq(loopback_machine.send(0, 1, 0, &header, 1, NULL, 0, MACHINE_HOST, done, &seen),
                     MACHINE_PEER_FAILED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("machine");
    TCase *tests = tcase_create("loopback");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, little_data_comes_with_its_header);
    tcase_add_test(tests, kept_data_lives_until_it_is_released);
    tcase_add_test(tests, large_data_is_fetched);
    tcase_add_test(tests, nobody_is_there);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
