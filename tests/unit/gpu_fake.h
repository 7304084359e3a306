/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_fake.h: common parts of the tests of the fake CUDA driver itself. They call it directly, without the
 * library.
 */
#ifndef GPU_FAKE_H
#define GPU_FAKE_H

#include <cuda.h>
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fakecuda.h"

#define OK(call) ck_assert_int_eq((int)(call), 0)

static CUcontext context;

static inline void open_driver(void)
{
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

/* ---- Work that takes as long as the test likes ---- */

struct gate {
    atomic_bool is_open;
    atomic_bool is_passed;
};

static inline void pass(void *arg)
{
    struct gate *gate = arg;

    while (!gate->is_open)
        sched_yield();
    gate->is_passed = true;
}

static inline void open_gate(void *arg)
{
    ((struct gate *)arg)->is_open = true;
}

static inline CUstream stream_of(unsigned flags)
{
    CUstream stream;

    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUdeviceptr device_memory(void)
{
    CUdeviceptr memory;

    OK(cuMemAlloc(&memory, 4096));
    return memory;
}

/* ---- A kernel ---- */

static inline void add_one(const void *args)
{
    int *number = fakecuda_alias(*(const uintptr_t *)args, sizeof(int));

    if (number)
        ++*number;
}

static inline CUresult launch(CUfunction function, CUdeviceptr argument, CUstream stream)
{
    size_t n_bytes = sizeof argument;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &argument, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};

    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
}

/* The kernel add_one, which takes the address of an int. */
static inline CUfunction add_one_function(void)
{
    static CUmodule module; /* never unloaded; leak checkers find it here */
    CUfunction function;

    fakecuda_add_kernel_of("add_one", add_one, sizeof(CUdeviceptr));
    OK(cuModuleLoadData(&module, ""));
    OK(cuModuleGetFunction(&function, module, "add_one"));
    return function;
}

static inline int fake_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_failed;

    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}

#endif
