/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a process has more context ids than 2^20, all different.
 */
#include <check.h>
#include <stdlib.h>

#include "ampi/comm/comm.h"

#define N_IDS (3u << 20)

START_TEST(more_than_a_million)
{
    unsigned char *is_used = calloc(2 * N_IDS, 1);
    uint32_t n_wrong = 0;

    for (uint32_t i = 0; i < N_IDS; i++) {
        uint32_t id = ampi_comm_context_alloc();
        if (id == 0 || id >= 2 * N_IDS || is_used[id])
            n_wrong++;
        else
            is_used[id] = 1;
    }
    ck_assert_uint_eq(n_wrong, 0);
    free(is_used);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("context ids");
    TCase *cases = tcase_create("all");
    SRunner *runner;
    int n_failed;

    tcase_add_test(cases, more_than_a_million);
    suite_add_tcase(suite, cases);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
