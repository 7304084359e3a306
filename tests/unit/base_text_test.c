/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that lines built in signal handlers contain the added text, and never more than fits.
 */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

START_TEST(numbers_and_words)
{
    char bytes[100], expected[100];
    struct base_text text = base_text_in(bytes, sizeof bytes);

    base_text_add(&text, "a ");
    base_text_add_number(&text, LLONG_MIN);
    base_text_add(&text, " ");
    base_text_add_number(&text, 0);
    base_text_add(&text, " ");
    base_text_add_hex(&text, UINTPTR_MAX);
    snprintf(expected, sizeof expected, "a %lld 0 0x%jx", LLONG_MIN, (uintmax_t)UINTPTR_MAX);
    ck_assert_str_eq(bytes, expected);
}
END_TEST

START_TEST(too_much_is_left_out)
{
    char bytes[8] = "xxxxxx!";
    struct base_text text = base_text_in(bytes, 7);

    base_text_add(&text, "abc");
    base_text_add_number(&text, 123456789);
    base_text_add(&text, "def");
    ck_assert_str_eq(bytes, "abc123");
    ck_assert_int_eq(bytes[7], '\0');
}
END_TEST

START_TEST(a_full_text_is_still_a_line)
{
    char bytes[6], got[20] = "";
    struct base_text text = base_text_in(bytes, sizeof bytes);
    int ends[2], saved = dup(STDERR_FILENO);

    ck_assert_int_eq(pipe(ends), 0);
    base_text_add(&text, "abcdefgh");
    dup2(ends[1], STDERR_FILENO);
    base_text_write_line(&text);
    dup2(saved, STDERR_FILENO);
    ck_assert_int_eq(read(ends[0], got, sizeof got - 1), 5);
    ck_assert_str_eq(got, "abcd\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base_text");
    TCase *lines = tcase_create("lines");
    SRunner *runner;
    int n_failed;

    tcase_add_test(lines, numbers_and_words);
    tcase_add_test(lines, too_much_is_left_out);
    tcase_add_test(lines, a_full_text_is_still_a_line);
    suite_add_tcase(suite, lines);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
