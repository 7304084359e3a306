/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows where a request of +work both goes: to the CPU or the GPU, by what each has to do before, the request's own time, and the data that would have
 * to move.
 */
#include <check.h>

#include "ampi/work/choice.h"

#define US 1e3
#define KB 1000
#define MB 1000000
#define BYTE_NS 0.1 /* unless the case has another value */

static const struct {
    const char *what;
    bool is_cpu;
    struct ampi_work_situation situation;
} cases[] = {
    {"a short one, GPU idle: a launch takes longer", true, {.gpu_queue_ns = US, .cpu_ns = 2 * US}},
    {"a long one, GPU idle", false, {.gpu_queue_ns = 5 * US, .cpu_ns = 100 * US}},
    {"a long one, the GPU is busy for longer",
     true,
     {.gpu_queue_ns = 500 * US, .cpu_ns = 100 * US, .is_gpu_busy = true}},
    {"the same, the PE is busy, too",
     false,
     {.gpu_queue_ns = 500 * US, .cpu_queue_ns = 450 * US, .cpu_ns = 100 * US, .is_gpu_busy = true}},
    {"the PE is busy for less",
     true,
     {.gpu_queue_ns = 500 * US, .cpu_queue_ns = 300 * US, .cpu_ns = 100 * US, .is_gpu_busy = true}},
    {"only the GPU has the data: 1 MB takes 110 us",
     false,
     {.gpu_queue_ns = 100 * US, .cpu_ns = 20 * US, .from_gpu_bytes = MB, .is_gpu_busy = true}},
    {"the same, but the queue is longer than the copy",
     true,
     {.gpu_queue_ns = 200 * US, .cpu_ns = 20 * US, .from_gpu_bytes = MB, .is_gpu_busy = true}},
    {"the same, but copies from the GPU are slower",
     false,
     {.gpu_queue_ns = 200 * US,
      .cpu_ns = 20 * US,
      .from_gpu_bytes = MB,
      .out_byte_ns = 0.2,
      .is_gpu_busy = true}},
    {"both have the data", true, {.gpu_queue_ns = 100 * US, .cpu_ns = 20 * US, .is_gpu_busy = true}},
    {"only the host has the data", true, {.gpu_queue_ns = US, .cpu_ns = 100 * US, .to_gpu_bytes = MB}},
    {"little of it", false, {.gpu_queue_ns = US, .cpu_ns = 100 * US, .to_gpu_bytes = KB}},
    {"the GPU's copy of the result would be useless",
     false,
     {.gpu_queue_ns = 100 * US, .cpu_ns = 20 * US, .stale_bytes = MB, .is_gpu_busy = true}},
    {"the first one, GPU idle", false, {.gpu_queue_ns = US}},
    {"the first one, GPU busy: an experiment", true, {.gpu_queue_ns = 50 * US, .is_gpu_busy = true}},
    {"the second one, during the experiment",
     false,
     {.gpu_queue_ns = 50 * US, .is_gpu_busy = true, .is_tried = true}},
    {"an experiment whose data would move for longer than the GPU is busy",
     false,
     {.gpu_queue_ns = 50 * US, .from_gpu_bytes = MB, .is_gpu_busy = true}},
};

START_TEST(a_request_goes_where_it_ends_first)
{
    struct ampi_work_situation situation = cases[_i].situation;

    situation.in_byte_ns = situation.in_byte_ns > 0 ? situation.in_byte_ns : BYTE_NS;
    situation.out_byte_ns = situation.out_byte_ns > 0 ? situation.out_byte_ns : BYTE_NS;
    ck_assert_msg(ampi_work_cpu_ends_first(&situation) == cases[_i].is_cpu, "%s", cases[_i].what);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work_choice");
    TCase *tests = tcase_create("choice");
    SRunner *runner;
    int n_failed;

    tcase_add_loop_test(tests, a_request_goes_where_it_ends_first, 0, (int)BASE_COUNT(cases));
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
