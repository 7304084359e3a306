/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the assignment of GPUs to PEs: block, cyclic, or by list; that impossible assignments are refused;
 * and the output of +help devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/gpu.h"
#include "ult_job.h"

static void check_devices(int n_pes, int n_devices, const char *expected)
{
    for (int pe = 0; pe < n_pes; pe++)
        ck_assert_int_eq(gpu_device_of_pe(pe, n_pes, n_devices), expected[pe] - '0');
}

START_TEST(blocks_of_pes_have_a_gpu_each)
{
    for (int is_said = 0; is_said < 2; is_said++) {
        check_devices(1, 1, "0");
        check_devices(4, 2, "0011");
        check_devices(3, 2, "001");
        check_devices(2, 4, "02");
        check_devices(8, 3, "00011122");
        check_devices(2, 0, "//"); /* -1 */
        ck_assert(gpu_assign("block"));
    }
    setenv("FAKECUDA_DEVICES", "3", 1);
    ck_assert_int_eq(gpu_device_count(), 3);
}
END_TEST

START_TEST(cyclic_gives_gpus_in_turn)
{
    ck_assert(gpu_assign("cyclic"));
    check_devices(5, 2, "01010");
    check_devices(2, 4, "01");
    check_devices(1, 0, "/");
}
END_TEST

START_TEST(a_list_says_it_for_each_pe_and_begins_again)
{
    ck_assert(gpu_assign("1,1,0"));
    check_devices(7, 2, "1101101");
    ck_assert(gpu_assign("3"));
    check_devices(2, 4, "33");
    check_devices(2, 0, "//");
}
END_TEST

START_TEST(malformed_texts_are_refused)
{
    static const char *const texts[] = {
        "",   "blocks", "Cyclic", ",",   "0,",  ",0",  "0,,1", "-1",
        "+1", " 1",     "1 ",     "1;0", "0x1", "1,a", "64",   "99999999999999999999"};
    char many[2 * GPU_ASSIGN_MAX + 2] = "0";

    for (size_t i = 0; i < BASE_COUNT(texts); i++)
        ck_assert_msg(!gpu_assign(texts[i]), "'%s' was taken", texts[i]);
    for (int i = 1; i <= GPU_ASSIGN_MAX; i++) {
        ck_assert_msg(gpu_assign(many), "%d GPUs were refused", i);
        memcpy(many + strlen(many), ",0", 3);
    }
    ck_assert(!gpu_assign(many));
}
END_TEST

START_TEST(a_gpu_that_does_not_exist_ends_the_job)
{
    ck_assert(gpu_assign("0,2"));
    ck_assert_int_eq(gpu_device_of_pe(0, 2, 2), 0);
    gpu_device_of_pe(1, 2, 2);
}
END_TEST

/* What +help devices prints for 3 devices. */
static char *printed(int n_pes, int n_ranks)
{
    static char text[1000];
    char path[] = "/tmp/heddle-gpu-XXXXXX";
    int fd = mkstemp(path), saved = dup(1);

    setenv("FAKECUDA_DEVICES", "3", 1);
    fflush(stdout);
    dup2(fd, 1);
    gpu_print_devices(n_pes, n_ranks);
    fflush(stdout);
    dup2(saved, 1);
    memset(text, 0, sizeof text);
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    unlink(path);
    close(fd);
    close(saved);
    return text;
}

START_TEST(help_says_which_pes_and_ranks_have_which_gpu)
{
    const char *text = printed(2, 9);

    ck_assert_ptr_nonnull(strstr(text, "3 GPUs"));
    ck_assert_ptr_nonnull(
        strstr(text, "GPU 0: fake GPU (test double), 256 MiB, PCI 0000:01:00.0; PE 0; ranks 0 to 4\n"));
    ck_assert_ptr_nonnull(strstr(text, "PCI 0000:02:00.0; PE 1; ranks 5 to 8\n"));
    ck_assert_ptr_nonnull(strstr(text, "PCI 0000:03:00.0; no PE\n"));
    ck_assert(gpu_assign("0,2,2,0,0"));
    text = printed(5, 10);
    ck_assert_ptr_nonnull(strstr(text, "PCI 0000:01:00.0; PEs 0, 3 to 4; ranks 0 to 1, 6 to 9\n"));
    ck_assert_ptr_nonnull(strstr(text, "PCI 0000:02:00.0; no PE\n"));
    ck_assert_ptr_nonnull(strstr(text, "PCI 0000:03:00.0; PEs 1 to 2; ranks 2 to 5\n"));
    ck_assert_ptr_nonnull(strstr(printed(5, 0), "PCI 0000:03:00.0; PEs 1 to 2\n"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_assign");
    TCase *tests = tcase_create("gpu_assign");

    tcase_add_test(tests, blocks_of_pes_have_a_gpu_each);
    tcase_add_test(tests, cyclic_gives_gpus_in_turn);
    tcase_add_test(tests, a_list_says_it_for_each_pe_and_begins_again);
    tcase_add_test(tests, malformed_texts_are_refused);
    tcase_add_exit_test(tests, a_gpu_that_does_not_exist_ends_the_job, 2);
    tcase_add_test(tests, help_says_which_pes_and_ranks_have_which_gpu);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
