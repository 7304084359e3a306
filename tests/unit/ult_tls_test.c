/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the program's thread_local bytes move with the ULT, on every PE, and that others stay.
 */
#include <string.h>

#include "ult_job.h"

static __thread int small = 7;
static __thread char large[5000];
static __thread int not_swapped;
static char saved[40][sizeof large + sizeof small];

static void use_variables(void *arg)
{
    int i = (int)(intptr_t)arg;

    ULT_CHECK(small == 1000 + i && large[0] == (char)i && large[sizeof large - 1] == 0);
    memset(large, i + 1, sizeof large);
    not_swapped++;
    for (int round = 0; round < 10; round++) {
        small = i * 100 + round;
        ult_yield();
        ULT_CHECK(small == i * 100 + round);
        ULT_CHECK(large[0] == (char)(i + 1) && large[sizeof large - 1] == (char)(i + 1));
    }
}

START_TEST(variables_go_with_the_ult)
{
    char *thread_pointer = __builtin_thread_pointer();
    struct ult_tls_region regions[2] = {{(char *)&small - thread_pointer, sizeof small},
                                        {large - thread_pointer, sizeof large}};

    ult_tls_set_regions(regions, 2);
    ck_assert_uint_eq(ult_tls_total_bytes(), sizeof small + sizeof large);
    small = 7;
    for (int i = 0; i < 40; i++) {
        int first = 1000 + i;
        memset(saved[i], 0, sizeof saved[i]);
        memcpy(saved[i], &first, sizeof first);
        saved[i][sizeof first] = (char)i;
        job.ults[i].tls_save = (unsigned char *)saved[i];
    }
    not_swapped = 0;
    ult_job_start(_i, 40, use_variables);
    if (_i == 1)
        ck_assert_int_eq(not_swapped, 40);
    ck_assert_int_eq(((int *)(void *)saved[39])[0], 3909);
}
END_TEST

START_TEST(nothing_to_swap)
{
    ult_tls_set_regions(NULL, 0);
    ck_assert_uint_eq(ult_tls_total_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_tls");
    TCase *tcase = tcase_create("tls");

    tcase_add_loop_test(tcase, variables_go_with_the_ult, 1, 4);
    tcase_add_test(tcase, nothing_to_swap);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
