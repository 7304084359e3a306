/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the fake CUDA driver orders streams, and waits, as CUDA's manual specifies: the other tests of
 * GPUs rely on it.
 */
#include <cuda.h>
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"
#include "gpu_fake.h"

/* The names that cuda.h has not without CUDA_API_PER_THREAD_DEFAULT_STREAM. */
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream);
CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream);
CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t n, CUstream stream);
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t n_bytes);

/* ---- Order ---- */

/* Notes whether the gate in front of it was passed. */
struct note {
    struct gate gate;
    atomic_bool is_behind;
};

static void note(void *arg)
{
    struct note *made = arg;

    made->is_behind = made->gate.is_passed;
}

/* Work in `second` waits for what `first` has. */
static void check_ordered(CUstream second, CUstream first)
{
    struct note made = {{false, false}, false};

    OK(fakecuda_launch(first, pass, &made.gate));
    OK(fakecuda_launch(second, note, &made));
    for (int i = 0; i < 100; i++) /* each query may cost a time slice */
        ck_assert_int_eq(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    made.gate.is_open = true;
    OK(cuStreamSynchronize(second));
    ck_assert(made.is_behind);
}

/* Work in `second` does not wait for what `first` has: else this never returns. */
static void check_independent(CUstream second, CUstream first)
{
    struct note made = {{false, false}, true};

    OK(fakecuda_launch(first, pass, &made.gate));
    OK(fakecuda_launch(second, note, &made));
    OK(cuStreamSynchronize(second));
    ck_assert(!made.is_behind);
    made.gate.is_open = true;
    OK(cuStreamSynchronize(first));
}

START_TEST(null_waits_for_blocking_streams_and_they_for_it)
{
    CUstream blocking, other, own;

    open_driver();
    blocking = stream_of(CU_STREAM_DEFAULT);
    other = stream_of(CU_STREAM_DEFAULT);
    own = stream_of(CU_STREAM_NON_BLOCKING);
    check_ordered(NULL, blocking);
    check_ordered(blocking, NULL);
    check_ordered(CU_STREAM_LEGACY, blocking);
    check_ordered(CU_STREAM_PER_THREAD, NULL);
    check_ordered(NULL, CU_STREAM_PER_THREAD);
    check_independent(NULL, own);
    check_independent(own, NULL);
    check_independent(other, blocking);
    check_independent(CU_STREAM_PER_THREAD, blocking);
    check_ordered(own, own);
}
END_TEST

/* ---- Streams of threads ---- */

static void *stream_id(void *id_out)
{
    OK(cuCtxSetCurrent(context));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, id_out));
    return NULL;
}

START_TEST(each_thread_has_a_stream)
{
    unsigned long long here, again, there, legacy;
    pthread_t thread;

    open_driver();
    stream_id(&here);
    stream_id(&again);
    OK(cuStreamGetId(NULL, &legacy));
    pthread_create(&thread, NULL, stream_id, &there);
    pthread_join(thread, NULL);
    ck_assert(here == again && here != there && here != legacy && there != legacy);
}
END_TEST

START_TEST(twins_take_null_for_the_threads_stream)
{
    struct gate gate = {false, false};
    CUstream own;
    CUdeviceptr memory;
    int n_before = fakecuda_calls("cuStreamQuery");

    open_driver();
    own = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc(&memory, 64));
    OK(fakecuda_launch(CU_STREAM_PER_THREAD, pass, &gate));
    ck_assert_int_eq(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(NULL)); /* nothing is in it */
    ck_assert_int_eq(cuStreamQuery_ptsz(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery_ptsz(CU_STREAM_LEGACY));
    OK(cuStreamQuery_ptsz(own));
    ck_assert_int_eq(fakecuda_calls("cuStreamQuery"), n_before + 5);
    ck_assert_int_eq(fakecuda_calls_for("cuStreamQuery", FAKECUDA_PER_THREAD), 2);
    ck_assert_int_eq(fakecuda_calls_for("cuStreamQuery", FAKECUDA_LEGACY), 2);
    ck_assert_int_eq(fakecuda_calls_for("cuStreamQuery", FAKECUDA_NON_BLOCKING), 1);
    gate.is_open = true;
    OK(cuStreamSynchronize_ptsz(NULL));
    OK(cuMemsetD32Async_ptsz(memory, 7, 4, NULL));
    OK(cuMemcpyHtoD_v2_ptds(memory, "0123456789abcde", 16));
    ck_assert_int_eq(fakecuda_works(FAKECUDA_LEGACY), 0);
    ck_assert_int_eq(fakecuda_works(FAKECUDA_PER_THREAD), 3);
}
END_TEST

START_TEST(functions_are_found_by_version_and_twin)
{
    void *function = NULL, *twin = NULL;

    open_driver();
    OK(cuGetProcAddress("cuStreamQuery", &function, 2000, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
    OK(cuGetProcAddress("cuStreamQuery", &twin, 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    ck_assert(function == (void *)cuStreamQuery && twin == (void *)cuStreamQuery_ptsz);
    OK(cuGetProcAddress("cuMemcpyHtoD", &twin, 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    ck_assert(twin == (void *)cuMemcpyHtoD_v2_ptds);
    OK(cuGetProcAddress("cuCtxSynchronize", &function, 12000, 0, NULL));
    ck_assert(function == (void *)cuCtxSynchronize);
    OK(cuGetProcAddress("cuCtxSynchronize", &function, 13000, 0, NULL));
    ck_assert(function == (void *)cuCtxSynchronize_v2);
    ck_assert_int_eq(cuGetProcAddress("cuNothing", &function, 13000, 0, NULL), CUDA_ERROR_NOT_FOUND);
}
END_TEST

/* ---- What calls wait for ---- */

/* A call waits for a stream's work, which continues meanwhile. */
#define MUST_WAIT(stream, call)                          \
    do {                                                 \
        struct gate busy_ = {false, false};              \
        int n_before_ = fakecuda_blocked_waits();        \
        OK(fakecuda_launch((stream), pass, &busy_));     \
        fakecuda_on_wait(open_gate, &busy_);             \
        OK(call);                                        \
        fakecuda_on_wait(NULL, NULL);                    \
        ck_assert(busy_.is_passed);                      \
        ck_assert(fakecuda_blocked_waits() > n_before_); \
    } while (0)

/* It does not: else it never returns. */
#define MUST_NOT_WAIT(stream, call)                  \
    do {                                             \
        struct gate busy_ = {false, false};          \
        OK(fakecuda_launch((stream), pass, &busy_)); \
        OK(call);                                    \
        ck_assert(!busy_.is_passed);                 \
        open_gate(&busy_);                           \
        OK(cuStreamSynchronize(stream));             \
    } while (0)

#define KIB_64 65536 /* are taken along */

START_TEST(copies_wait_as_the_manual_says)
{
    CUdeviceptr device, other;
    CUstream own, blocking;
    static char pageable[2 * KIB_64];
    void *pinned;

    open_driver();
    OK(cuMemAlloc(&device, sizeof pageable));
    other = device_memory();
    own = stream_of(CU_STREAM_NON_BLOCKING);
    blocking = stream_of(CU_STREAM_DEFAULT);
    OK(cuMemAllocHost(&pinned, 4096));
    MUST_NOT_WAIT(own, cuMemcpyDtoH(pageable, device, 64)); /* it is not ordered with that */
    MUST_WAIT(NULL, cuMemcpyDtoH(pageable, device, 64));
    MUST_WAIT(blocking, cuMemcpyDtoH(pageable, device, 64));
    MUST_WAIT(NULL, cuMemcpyDtoH(pinned, device, 64));
    MUST_WAIT(NULL, cuMemcpyHtoD(device, pinned, 64));
    MUST_NOT_WAIT(NULL, cuMemcpyHtoD(device, pageable, KIB_64));
    MUST_WAIT(NULL, cuMemcpyHtoD(device, pageable, KIB_64 + 1));
    MUST_NOT_WAIT(NULL, cuMemcpyDtoD(device, other, 64));
    MUST_NOT_WAIT(NULL, cuMemsetD32(device, 1, 16));
    MUST_WAIT(NULL, cuMemsetD32((CUdeviceptr)pinned, 1, 16));
    MUST_NOT_WAIT(own, cuMemcpyDtoHAsync(pinned, device, 64, own));
    MUST_NOT_WAIT(own, cuMemcpyHtoDAsync(device, pinned, 64, own));
    MUST_NOT_WAIT(own, cuMemcpyDtoDAsync(device, other, 64, own));
    MUST_NOT_WAIT(own, cuMemsetD32Async((CUdeviceptr)pinned, 1, 16, own));
    MUST_WAIT(own, cuMemcpyDtoHAsync(pageable, device, 64, own));
    MUST_NOT_WAIT(own, cuMemcpyHtoDAsync(device, pageable, KIB_64, own));
    MUST_WAIT(own, cuMemcpyHtoDAsync(device, pageable, KIB_64 + 1, own));
}
END_TEST

static CUresult fill_times(CUstream stream, CUdeviceptr device, int n)
{
    CUresult error = CUDA_SUCCESS;

    for (int i = 0; i < n && !error; i++)
        error = cuMemsetD32Async(device, 1, 16, stream);
    return error;
}

START_TEST(a_full_queue_makes_the_next_call_wait)
{
    CUdeviceptr device;
    CUstream own;

    open_driver();
    device = device_memory();
    own = stream_of(CU_STREAM_NON_BLOCKING);
    MUST_NOT_WAIT(own, fill_times(own, device, 1023));
    MUST_WAIT(own, fill_times(own, device, 1024));
}
END_TEST

/* What has no stream waits for all streams of the GPU, other contexts' included; queries never do. */
START_TEST(some_calls_wait_for_the_whole_gpu)
{
    CUdeviceptr freed, memory;
    CUmodule module;
    CUfunction function;
    CUcontext other;
    CUstream own, foreign;
    CUevent event;
    void *pinned;

    open_driver();
    own = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    foreign = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuCtxPopCurrent(NULL));
    fakecuda_add_kernel_of("add_one", add_one, sizeof(CUdeviceptr));
    for (int i = 0; i < 2; i++) {
        CUstream busy = i ? foreign : own;
        freed = device_memory();
        memory = device_memory();
        OK(cuMemAllocHost(&pinned, 64));
        MUST_WAIT(busy, cuMemFree(freed));
        MUST_WAIT(busy, cuMemFreeHost(pinned));
        MUST_WAIT(busy, cuModuleLoadData(&module, ""));
        OK(cuModuleGetFunction(&function, module, "add_one"));
        MUST_WAIT(busy, launch(function, memory, own)); /* the first loads it */
        MUST_NOT_WAIT(busy, launch(function, memory, own));
        MUST_WAIT(busy, cuModuleUnload(module));
        MUST_WAIT(busy, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        MUST_NOT_WAIT(busy, cuMemAlloc(&freed, 64));
    }
    OK(cuEventCreate(&event, 0));
    MUST_WAIT(own, cuCtxSynchronize());
    MUST_NOT_WAIT(own, cuEventRecord(event, own));
    MUST_NOT_WAIT(own, cuStreamWaitEvent(NULL, event, 0));
    OK(cuEventDestroy(event));
}
END_TEST

START_TEST(memory_can_be_made_to_make_copies_wait)
{
    CUdeviceptr device, other;
    unsigned yes = 1;

    open_driver();
    device = device_memory();
    other = device_memory();
    OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    MUST_WAIT(NULL, cuMemcpyDtoD(other, device, 64));
    MUST_WAIT(NULL, cuMemsetD32(device, 1, 16));
    MUST_NOT_WAIT(NULL, cuMemcpyDtoDAsync(other, device, 64, NULL));
    MUST_NOT_WAIT(NULL, cuMemsetD32(other, 1, 16));
}
END_TEST

/* ---- Memory that is allocated and freed in a stream ---- */

START_TEST(memory_of_pools_is_there_from_allocation_to_free)
{
    CUdeviceptr memory, next;
    CUfunction function;
    CUstream stream;
    CUmemoryPool pool, usual;
    int number = 0;

    open_driver();
    function = add_one_function();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    MUST_NOT_WAIT(stream, cuMemAllocAsync(&memory, 64, stream));
    OK(cuMemsetD32Async(memory, 5, 1, stream));
    OK(launch(function, memory, stream));
    OK(cuMemcpyDtoHAsync(&number, memory, sizeof number, stream));
    ck_assert_int_eq(number, 6);
    MUST_NOT_WAIT(stream, launch(function, memory, stream));
    MUST_NOT_WAIT(stream, cuMemFreeAsync(memory, stream));
    ck_assert_int_eq(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGetDefaultMemPool(&usual, 0));
    OK(cuMemPoolCreate(&pool, &(CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuMemAllocAsync(&next, 64, stream));
    OK(cuPointerGetAttribute(&usual, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, next));
    ck_assert(usual == pool);
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(next));
    /* A kernel that comes after the free goes wrong. */
    OK(cuMemAllocAsync(&next, 64, stream));
    OK(cuMemFreeAsync(next, stream));
    OK(launch(function, next, stream));
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

/* ---- Launches and events ---- */

START_TEST(kernels_are_launched_in_every_way)
{
    CUdeviceptr memory;
    CUmodule module;
    CUfunction function;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    void *params[] = {&memory};
    int number = 5;

    open_driver();
    fakecuda_add_kernel_of("add_one", add_one, sizeof memory);
    memory = device_memory();
    OK(cuModuleLoadData(&module, ""));
    OK(cuModuleGetFunction(&function, module, "add_one"));
    OK(cuMemcpyHtoD(memory, &number, sizeof number));
    OK(launch(function, memory, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuLaunchKernelEx(&config, function, params, NULL));
    OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params));
    OK(cuMemcpyDtoH(&number, memory, sizeof number));
    ck_assert_int_eq(number, 9);
    ck_assert_int_eq(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(fakecuda_calls_for("cuLaunchKernelEx", FAKECUDA_LEGACY), 1);
    OK(cuModuleUnload(module));
}
END_TEST

START_TEST(events_are_what_was_recorded_last)
{
    struct gate gate = {false, false};
    CUstream first, second;
    CUevent event, unrecorded;
    float ms;

    open_driver();
    first = stream_of(CU_STREAM_NON_BLOCKING);
    second = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&unrecorded, 0));
    OK(cuEventQuery(event));
    ck_assert_int_eq(cuEventElapsedTime(&ms, event, unrecorded), CUDA_ERROR_INVALID_HANDLE);
    OK(fakecuda_launch(first, pass, &gate));
    OK(cuEventRecord(event, first));
    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_NOT_READY);
    OK(cuEventRecord(event, second));
    OK(cuEventSynchronize(event));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuCtxRecordEvent(context, event)); /* all streams, so also the first */
    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuCtxWaitEvent(context, event)); /* and so does all later work */
    OK(cuEventRecord(unrecorded, second));
    ck_assert_int_eq(cuEventQuery(unrecorded), CUDA_ERROR_NOT_READY);
    gate.is_open = true;
    OK(cuEventSynchronize(unrecorded));
    OK(cuEventElapsedTime(&ms, event, unrecorded));
    OK(cuEventDestroy(event));
    ck_assert_int_eq(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(unrecorded));
}
END_TEST

static atomic_int refused;

static void call_cuda(void *arg)
{
    refused = cuStreamQuery(NULL) == CUDA_ERROR_NOT_PERMITTED;
}

START_TEST(functions_of_the_host_may_not_call_cuda)
{
    open_driver();
    OK(cuLaunchHostFunc(NULL, call_cuda, NULL));
    OK(cuStreamSynchronize(NULL));
    ck_assert_int_eq(refused, 1);
}
END_TEST

START_TEST(streams_tell_what_they_are)
{
    CUstream stream;
    CUcontext of;
    CUdevice device;
    unsigned flags;
    int priority;

    open_driver();
    ck_assert_int_eq(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
    OK(cuStreamGetFlags(stream, &flags));
    OK(cuStreamGetPriority(stream, &priority));
    OK(cuStreamGetCtx(stream, &of));
    OK(cuStreamGetDevice(stream, &device));
    ck_assert(flags == CU_STREAM_NON_BLOCKING && priority == -5 && of == context && device == 0);
    OK(cuStreamDestroy(stream));
    ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

static void wait_for_word(CUstream stream, CUdeviceptr word)
{
    OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void work_in(CUstream stream, CUdeviceptr memory)
{
    OK(cuMemsetD32Async(memory, 1, 1, stream));
}

/* A stream without work takes no connection; one with work keeps the work behind it in its connection. */
START_TEST(streams_with_work_share_connections)
{
    CUstream streams[10];
    CUdeviceptr memory, word;
    unsigned *words;

    setenv("FAKECUDA_CONNECTIONS", "1", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
    open_driver();
    memory = device_memory();
    OK(cuMemHostAlloc((void **)&words, 2 * sizeof *words, CU_MEMHOSTALLOC_DEVICEMAP));
    words[0] = words[1] = 0;
    OK(cuMemHostGetDevicePointer(&word, words, 0));
    for (int i = 0; i < 10; i++)
        streams[i] = stream_of(CU_STREAM_NON_BLOCKING);
    wait_for_word(streams[0], word);
    for (int i = 1; i < 10; i++) {
        work_in(streams[i], memory);
        OK(cuStreamSynchronize(streams[i]));
    }
    wait_for_word(streams[1], word + sizeof *words);
    work_in(streams[2], memory);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(cuStreamQuery(streams[2]), CUDA_ERROR_NOT_READY);
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    __atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 10; i++)
        OK(cuStreamSynchronize(streams[i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_fake_streams");
    TCase *tests = tcase_create("streams");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, null_waits_for_blocking_streams_and_they_for_it);
    tcase_add_test(tests, each_thread_has_a_stream);
    tcase_add_test(tests, twins_take_null_for_the_threads_stream);
    tcase_add_test(tests, functions_are_found_by_version_and_twin);
    tcase_add_test(tests, copies_wait_as_the_manual_says);
    tcase_add_test(tests, a_full_queue_makes_the_next_call_wait);
    tcase_add_test(tests, some_calls_wait_for_the_whole_gpu);
    tcase_add_test(tests, memory_can_be_made_to_make_copies_wait);
    tcase_add_test(tests, memory_of_pools_is_there_from_allocation_to_free);
    tcase_add_test(tests, kernels_are_launched_in_every_way);
    tcase_add_test(tests, events_are_what_was_recorded_last);
    tcase_add_test(tests, functions_of_the_host_may_not_call_cuda);
    tcase_add_test(tests, streams_tell_what_they_are);
    tcase_add_test(tests, streams_with_work_share_connections);
    suite_add_tcase(suite, tests);
    return fake_run_suite(suite);
}
