/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A capture affects only the capturing rank: two of three ranks of a PE capture in mode GLOBAL, interleaved
 * with other ranks, while each third rank allocates and frees memory, copies in its stream NULL and waits for
 * the GPU. The launched graphs then do the captured work. With the argument "refused": calls that CUDA
 * forbids to the capturing rank are refused, and invalidate its captures or not as CUDA says. "destroyed": a rank that has destroyed a stream while it was
 * captured captures no longer: a free that waits for another rank's kernel lets that rank run.
 */
#include "kernels.h"

#define N 500
#define ROUNDS 5

static CUdeviceptr memory, other;
static CUstream stream, second;
static CUevent forked, joined;

static void let_others_run(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_numbers(CUdeviceptr where, unsigned expected, const char *what)
{
    static unsigned numbers[N];

    GTEST_CU(cuMemcpyDtoH(numbers, where, sizeof numbers));
    MTEST_CHECK(numbers[0] == expected && numbers[N - 1] == expected, "%s: %u and %u instead of %u", what,
                numbers[0], numbers[N - 1], expected);
}

/* ---- Ranks that capture: memory = 2 * memory + 1, other = 3 * memory of before, on two streams ---- */

static CUgraph capture(CUstreamCaptureMode mode)
{
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;

    GTEST_CU(cuStreamBeginCapture(stream, mode));
    let_others_run();
    GTEST_CU(cuMemcpyDtoDAsync(other, memory, N * sizeof(unsigned), stream));
    GTEST_CU(cuEventRecord(forked, stream));
    GTEST_CU(cuStreamWaitEvent(second, forked, 0));
    gtest_launch_update(other, N, 3, 0, second);
    let_others_run();
    GTEST_CU(cuStreamIsCapturing(second, &status));
    MTEST_CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "the second stream is not captured: %d", status);
    gtest_launch_update(memory, N, 2, 1, stream);
    GTEST_CU(cuEventRecord(joined, second));
    GTEST_CU(cuStreamWaitEvent(stream, joined, 0));
    let_others_run();
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuStreamIsCapturing(second, &status));
    MTEST_CHECK(graph && status == CU_STREAM_CAPTURE_STATUS_NONE, "the capture has not ended: %d", status);
    return graph;
}

static void capture_and_launch(CUstreamCaptureMode mode)
{
    CUgraph graph;
    CUgraphExec exec;
    size_t n_nodes = 0;

    GTEST_CU(cuMemsetD32Async(memory, 1, N, stream));
    GTEST_CU(cuStreamSynchronize(stream));
    graph = capture(mode);
    check_numbers(memory, 1, "nothing was launched");
    GTEST_CU(cuGraphGetNodes(graph, NULL, &n_nodes));
    MTEST_CHECK(n_nodes == 3, "the graph has %zu nodes instead of 3", n_nodes);
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    let_others_run();
    GTEST_CU(cuGraphLaunch(exec, stream));
    GTEST_CU(cuGraphLaunch(exec, stream));
    GTEST_CU(cuStreamSynchronize(stream));
    check_numbers(memory, 7, "two launches");
    check_numbers(other, 9, "two launches, second stream");
    GTEST_CU(cuGraphLaunch(exec, NULL));
    GTEST_CU(cuStreamSynchronize(NULL));
    check_numbers(memory, 15, "a launch in NULL");
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphDestroy(graph));
}

/* ---- Ranks that do all else meanwhile ---- */

static void use_everything(void)
{
    static unsigned numbers[N];
    CUdeviceptr own;
    void *pinned;

    GTEST_CU(cuMemAlloc(&own, sizeof numbers));
    GTEST_CU(cuMemAllocHost(&pinned, sizeof numbers));
    for (int i = 0; i < N; i++)
        numbers[i] = 5;
    GTEST_CU(cuMemcpyHtoD(own, numbers, sizeof numbers));
    gtest_launch_update(own, N, 2, 1, NULL);
    check_numbers(own, 11, "beside captures");
    GTEST_CU(cuMemcpyDtoHAsync(pinned, own, sizeof numbers, stream));
    GTEST_CU(cuCtxSynchronize());
    MTEST_CHECK(((unsigned *)pinned)[N - 1] == 11, "beside captures: %u instead of 11",
                ((unsigned *)pinned)[N - 1]);
    GTEST_CU(cuEventRecord(forked, NULL));
    GTEST_CU(cuEventSynchronize(forked));
    GTEST_CU(cuStreamQuery(NULL));
    GTEST_CU(cuMemFreeHost(pinned));
    GTEST_CU(cuMemFree(own));
}

static void run_beside(void)
{
    for (int i = 0; i < 4; i++) { /* as often as those that capture let others run */
        use_everything();
        let_others_run();
    }
}

/* ---- What the rank itself may not do ---- */

static CUstream used; /* NULL or CU_STREAM_LEGACY */

static CUresult by_work(void)
{
    return cuMemsetD32Async(memory, 1, N, used);
}

static CUresult by_copy(void)
{
    static unsigned numbers[N];

    return cuMemcpyDtoH(numbers, memory, sizeof numbers);
}

static CUresult by_query(void)
{
    return cuStreamQuery(used);
}

static CUresult by_wait(void)
{
    return cuStreamSynchronize(used);
}

static CUresult by_event(void)
{
    return cuEventRecord(joined, used);
}

static CUresult by_captured_event(void)
{
    GTEST_CU(cuEventRecord(forked, second));
    return cuStreamWaitEvent(used, forked, 0);
}

static CUresult by_context(void)
{
    return cuCtxSynchronize();
}

static CUresult by_state(void)
{
    CUstreamCaptureStatus status;

    return cuStreamIsCapturing(used, &status);
}

static CUresult by_info(void)
{
    CUstreamCaptureStatus status;

    return cuStreamGetCaptureInfo(used, &status, NULL, NULL, NULL, NULL, NULL);
}

static CUresult by_flags(void)
{
    unsigned flags;

    return cuStreamGetFlags(used, &flags);
}

static CUresult by_priority(void)
{
    int priority;

    return cuStreamGetPriority(used, &priority);
}

static CUresult by_capture(void)
{
    return cuStreamBeginCapture(used, CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* Calls beside the capture of a blocking stream and of a non-blocking one: their results, and whether they leave the
 * captures valid (seen on an H200, driver 580). */
static const struct {
    const char *name;
    CUresult (*call)(void);
    CUresult blocking, other;
    bool leaves_blocking, leaves_other;
} calls[] = {
    {"work", by_work, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"a copy", by_copy, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"a query", by_query, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"a wait", by_wait, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"an event", by_event, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"a capture", by_capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     false, true},
    {"its flags", by_flags, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"its priority", by_priority, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, false, true},
    {"a question", by_state, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, true, true},
    {"another question", by_info, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, true, true},
    {"a wait for the context", by_context, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false, false},
    {"a wait for a captured event", by_captured_event, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, true,
     false},
};

/* An invalidated capture refuses more work until it ends, and yields nothing. */
static void check_beside(CUstream captured, int i, CUresult wanted, bool is_left)
{
    CUstreamCaptureStatus status,
        wanted_status = is_left ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    CUresult result, later = is_left ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    const char *of = captured == second ? "non-blocking" : "blocking";
    CUgraph graph = NULL;

    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuMemsetD32Async(memory, 1, N, captured));
    if (i == 0)
        let_others_run();
    result = calls[i].call();
    MTEST_CHECK(result == wanted, "%s beside the capture of a %s stream: %d", calls[i].name, of, result);
    GTEST_CU(cuStreamIsCapturing(captured, &status));
    MTEST_CHECK(status == wanted_status, "%s, %s: the status is %d", calls[i].name, of, status);
    result = cuMemsetD32Async(memory, 1, N, captured);
    MTEST_CHECK(result == later, "%s, %s: more work: %d", calls[i].name, of, result);
    result = cuStreamEndCapture(captured, &graph);
    MTEST_CHECK(result == later && !graph == !is_left, "%s, %s: the end: %d", calls[i].name, of, result);
    if (graph)
        GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuMemsetD32Async(memory, 1, N, used));
    GTEST_CU(cuStreamSynchronize(captured));
    GTEST_CU(cuCtxSynchronize());
}

static void check_default_stream(CUstream blocking)
{
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        for (int k = 0; k < 2; k++) {
            used = k ? CU_STREAM_LEGACY : NULL;
            if (calls[i].call != by_captured_event)
                check_beside(blocking, i, calls[i].blocking, calls[i].leaves_blocking);
            check_beside(second, i, calls[i].other, calls[i].leaves_other);
        }
}

static void check_refused(void)
{
    CUgraph graph = NULL;
    CUresult result;
    CUstream blocking;

    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    let_others_run();
    result = cuStreamSynchronize(stream);
    MTEST_CHECK(result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a captured stream could be waited for: %d",
                result);
    result = cuStreamEndCapture(stream, &graph);
    MTEST_CHECK(result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was not invalid: %d", result);
    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    check_default_stream(blocking);
    result = cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
    MTEST_CHECK(result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "NULL could be captured: %d", result);
    GTEST_CU(cuMemsetD32Async(memory, 1, N, NULL));
    GTEST_CU(cuStreamDestroy(blocking));
    GTEST_CU(cuCtxSynchronize());
}

/* ---- A capture that ends with its stream ---- */

static void destroy_captured(void)
{
    CUstream captured;

    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuStreamDestroy(captured));
    let_others_run(); /* rank 0's kernel runs */
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(other));
}

static void run_kernel_meanwhile(void)
{
    volatile unsigned *flag = gtest_flag();

    gtest_launch_spin((CUdeviceptr)flag, NULL);
    let_others_run();
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    *flag = 1;
    GTEST_CU(cuCtxSynchronize());
}

static void set_up(void)
{
    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuMemAlloc(&other, N * sizeof(unsigned)));
    GTEST_CU(cuStreamCreate(&stream, mtest_rank % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
}

int main(int argc, char **argv)
{
    static const CUstreamCaptureMode modes[] = {
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    bool is_refused;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    set_up();
    if (argc > 1 && strcmp(argv[1], "destroyed") == 0) {
        if (mtest_rank == 0)
            run_kernel_meanwhile();
        else
            destroy_captured();
        return mtest_end();
    }
    is_refused = argc > 1 && strcmp(argv[1], "refused") == 0;
    for (int round = 0; round < ROUNDS && !is_refused; round++) {
        let_others_run();
        if (mtest_rank % 3 == 2)
            run_beside();
        else
            capture_and_launch(modes[(round + mtest_rank / 3) % 3]);
    }
    let_others_run();
    if (is_refused && mtest_rank % 3 == 2) {
        for (int i = 0; i < 5; i++) { /* as check_refused */
            use_everything();
            let_others_run();
        }
    } else if (is_refused) {
        check_refused();
    }
    return mtest_end();
}
