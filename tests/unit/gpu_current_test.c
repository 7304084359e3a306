/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the current CUDA context is kept per ULT, and that PEs begin with their own device. On the fake
 * CUDA driver.
 */
#include <cuda.h>

#include "fakecuda.h"
#include "gpu/gpu.h"
#include "ult_job.h"

static CUcontext primary_of(int device)
{
    CUcontext context;

    ULT_CHECK(cuInit(0) == 0);
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0);
    return context;
}

static CUcontext current(void)
{
    CUcontext context = (CUcontext)&current;

    ULT_CHECK(cuCtxGetCurrent(&context) == 0);
    return context;
}

/* ULTs of one PE, each with a device of its own; every fourth with none. */
static void keep_mine(void *arg)
{
    int index = self_index();
    CUcontext mine = index % 4 == 3 ? NULL : primary_of(index % 4);

    ULT_CHECK(cuCtxSetCurrent(mine) == 0);
    for (int i = 0; i < 100; i++) {
        ult_yield();
        ULT_CHECK(current() == mine);
    }
}

START_TEST(each_ult_keeps_its_context)
{
    setenv("FAKECUDA_DEVICES", "3", 1);
    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ult_job_start(1, 8, keep_mine);
}
END_TEST

START_TEST(each_ult_keeps_its_context_on_two_pes)
{
    setenv("FAKECUDA_DEVICES", "3", 1);
    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ult_job_start(2, 16, keep_mine);
}
END_TEST

/* A ULT that sleeps for the GPU, too: the queue's context does not leak into others. */
static void change_often(void *arg)
{
    CUcontext first = primary_of(0), second = primary_of(1);

    for (int i = 0; i < 50; i++) {
        CUcontext mine = (i + self_index()) % 2 ? first : second;
        ULT_CHECK(cuCtxSetCurrent(mine) == 0);
        ult_sleep_ns(1000);
        ULT_CHECK(current() == mine);
    }
}

START_TEST(contexts_may_change)
{
    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ult_job_start(1, 3, change_often);
}
END_TEST

/* Each PE begins with the device that its block has; device 0 is what CUDA takes if there is no context. */
static void begin_with_mine(void *arg)
{
    int pe_id = ult_pe_id(ult_self()->pe);

    ult_yield();
    ULT_CHECK(current() == (pe_id < 2 ? NULL : primary_of(1)));
    ULT_CHECK(gpu_device_of_self() == pe_id / 2);
}

START_TEST(pes_begin_with_their_device)
{
    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ult_job_start(4, 8, begin_with_mine);
}
END_TEST

/* The driver is linked but not initialized: nothing is done to it. */
static void leave_alone(void *arg)
{
    ult_yield();
}

START_TEST(a_driver_that_is_not_initialized_stays_so)
{
    gpu_detect_init();
    ult_job_start(1, 2, leave_alone);
    ck_assert_int_eq(fakecuda_calls("cuInit"), 0);
    ck_assert_int_eq(fakecuda_calls("cuDevicePrimaryCtxRetain"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_current");
    TCase *tests = tcase_create("current");

    tcase_add_test(tests, each_ult_keeps_its_context);
    tcase_add_test(tests, each_ult_keeps_its_context_on_two_pes);
    tcase_add_test(tests, contexts_may_change);
    tcase_add_test(tests, pes_begin_with_their_device);
    tcase_add_test(tests, a_driver_that_is_not_initialized_stays_so);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
