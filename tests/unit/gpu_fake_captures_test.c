/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the fake CUDA driver captures streams into graphs, launches these, and refuses the calls that a
 * capture forbids, as CUDA's manual specifies.
 */
#include <cuda.h>
#include <check.h>
#include <pthread.h>

#include "fakecuda.h"
#include "gpu_fake.h"

#define IS(call, error) ck_assert_int_eq((int)(call), (int)(error))

static CUgraph end_capture(CUstream stream)
{
    CUgraph graph = NULL;

    OK(cuStreamEndCapture(stream, &graph));
    ck_assert(graph);
    return graph;
}

/* The capture of a stream has become invalid, and ends so. */
static void check_invalid(CUstream stream)
{
    CUstreamCaptureStatus status;
    CUgraph graph = (CUgraph)1;

    OK(cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    IS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert(!graph);
    OK(cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static int number_at(CUdeviceptr memory)
{
    int number;

    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&number, memory, sizeof number));
    return number;
}

/* ---- What is captured ---- */

START_TEST(captured_work_is_done_at_each_launch)
{
    CUdeviceptr memory, copy;
    CUfunction function;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[8];
    CUgraphNodeType type;
    size_t n = 8;

    open_driver();
    memory = device_memory();
    copy = device_memory();
    function = add_one_function();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD32(memory, 100, 1));
    OK(cuMemsetD32(copy, 1, 1));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, memory, stream));
    OK(launch(function, memory, stream));
    OK(cuMemcpyDtoDAsync(copy, memory, 4, stream));
    OK(cuMemsetD32Async(memory + 4, 9, 1, stream));
    graph = end_capture(stream);
    ck_assert_int_eq(number_at(memory), 100);
    OK(cuGraphGetNodes(graph, nodes, &n));
    ck_assert_int_eq(n, 4);
    OK(cuGraphNodeGetType(nodes[2], &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 1; i <= 3; i++) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        ck_assert_int_eq(number_at(copy), 100 + 2 * i);
    }
    ck_assert_int_eq(number_at(memory + 4), 9);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec)); /* the launches are done all the same */
    ck_assert_int_eq(number_at(copy), 110);
}
END_TEST

START_TEST(graphs_have_memory_of_their_own)
{
    CUdeviceptr memory, copy;
    CUfunction function;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;

    open_driver();
    copy = device_memory();
    function = add_one_function();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&memory, 64, stream));
    OK(cuMemsetD32Async(memory, 5, 1, stream));
    OK(launch(function, memory, stream));
    OK(cuMemcpyDtoDAsync(copy, memory, 4, stream));
    OK(cuMemFreeAsync(memory, stream));
    graph = end_capture(stream);
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cuMemsetD32(copy, 0, 1));
        OK(cuCtxSynchronize());
        OK(cuGraphLaunch(exec, stream));
        ck_assert_int_eq(number_at(copy), 6);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}
END_TEST

START_TEST(events_fork_and_join_captures)
{
    CUdeviceptr memory;
    CUfunction function;
    CUstream first, second;
    CUstreamCaptureStatus status;
    CUevent fork, join;
    CUgraph graph;
    CUgraphNode nodes[4];
    size_t n;

    open_driver();
    memory = device_memory();
    function = add_one_function();
    first = stream_of(CU_STREAM_NON_BLOCKING);
    second = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&fork, 0));
    OK(cuEventCreate(&join, 0));
    for (int is_joined = 0; is_joined < 2; is_joined++) {
        OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(launch(function, memory, first));
        OK(cuEventRecord(fork, first));
        OK(cuStreamWaitEvent(second, fork, 0));
        OK(cuStreamIsCapturing(second, &status));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(launch(function, memory, second));
        OK(launch(function, memory, first));
        IS(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        OK(cuEventRecord(join, second));
        if (is_joined) {
            OK(cuStreamWaitEvent(first, join, 0));
            OK(launch(function, memory, first));
            graph = end_capture(first);
        } else {
            IS(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        OK(cuStreamIsCapturing(second, &status));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    }
    n = 4;
    OK(cuGraphGetNodes(graph, nodes, &n));
    ck_assert_int_eq(n, 4);
    n = 0;
    OK(cuGraphNodeGetDependencies(nodes[3], NULL, NULL, &n));
    ck_assert_int_eq(n, 2);
    IS(cuEventQuery(join), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
}
END_TEST

START_TEST(captures_do_not_mix_with_other_work)
{
    CUstream first, second;
    CUevent outside, inside;

    open_driver();
    first = stream_of(CU_STREAM_NON_BLOCKING);
    second = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&outside, 0));
    OK(cuEventCreate(&inside, 0));
    OK(cuEventRecord(outside, second));
    OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuStreamWaitEvent(first, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    check_invalid(first);
    OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(inside, first));
    IS(cuStreamWaitEvent(second, inside, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    check_invalid(first);
    check_invalid(second);
    IS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuEventDestroy(outside));
    OK(cuEventDestroy(inside));
}
END_TEST

/* ---- What is forbidden ---- */

START_TEST(a_captured_stream_cannot_be_waited_for)
{
    CUstream stream;

    open_driver();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    check_invalid(stream);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
    OK(cuStreamQuery(stream));
}
END_TEST

START_TEST(the_stream_null_is_not_used_beside_a_captured_blocking_stream)
{
    CUdeviceptr memory;
    CUstream blocking, own;

    open_driver();
    memory = device_memory();
    blocking = stream_of(CU_STREAM_DEFAULT);
    own = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuMemsetD8Async(memory, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    check_invalid(blocking);
    OK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(memory, 1, 1, NULL));
    cuGraphDestroy(end_capture(own));
}
END_TEST

/* What another thread finds: the error of cuMemAlloc in a mode of its own, and of ending the capture of a
 * stream. */
struct other {
    CUstreamCaptureMode mode;
    CUstream stream;
    int allocated, ended;
};

static void *act_elsewhere(void *arg)
{
    struct other *other = arg;
    CUdeviceptr memory;
    CUgraph graph;

    OK(cuCtxSetCurrent(context));
    OK(cuThreadExchangeStreamCaptureMode(&other->mode));
    other->allocated = (int)cuMemAlloc(&memory, 64);
    other->ended = (int)cuStreamEndCapture(other->stream, &graph);
    if (!other->allocated)
        OK(cuMemFree(memory));
    if (!other->ended)
        OK(cuGraphDestroy(graph));
    return NULL;
}

static struct other elsewhere(CUstream stream, CUstreamCaptureMode mode)
{
    struct other other = {.mode = mode, .stream = stream};
    pthread_t thread;

    pthread_create(&thread, NULL, act_elsewhere, &other);
    pthread_join(thread, NULL);
    ck_assert_int_eq(other.mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* that it had */
    return other;
}

START_TEST(other_threads_are_forbidden_what_the_modes_say)
{
    static const struct {
        CUstreamCaptureMode captures, other;
        CUresult allocated, ended;
    } cases[] = {
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_SUCCESS,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS, CUDA_SUCCESS},
    };
    CUstream stream;

    open_driver();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct other other;
        OK(cuStreamBeginCapture(stream, cases[i].captures));
        other = elsewhere(stream, cases[i].other);
        IS(other.allocated, cases[i].allocated);
        IS(other.ended, cases[i].ended);
        if (other.allocated)
            check_invalid(stream);
        else if (other.ended)
            cuGraphDestroy(end_capture(stream));
    }
}
END_TEST

START_TEST(the_own_thread_may_do_all_if_relaxed)
{
    CUdeviceptr memory;
    CUstream stream;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    open_driver();
    stream = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    IS(cuMemAlloc(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemFree(memory));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuGraphDestroy(end_capture(stream));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_fake_captures");
    TCase *tests = tcase_create("captures");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, captured_work_is_done_at_each_launch);
    tcase_add_test(tests, graphs_have_memory_of_their_own);
    tcase_add_test(tests, events_fork_and_join_captures);
    tcase_add_test(tests, captures_do_not_mix_with_other_work);
    tcase_add_test(tests, a_captured_stream_cannot_be_waited_for);
    tcase_add_test(tests, the_stream_null_is_not_used_beside_a_captured_blocking_stream);
    tcase_add_test(tests, other_threads_are_forbidden_what_the_modes_say);
    tcase_add_test(tests, the_own_thread_may_do_all_if_relaxed);
    suite_add_tcase(suite, tests);
    return fake_run_suite(suite);
}
