/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random work in three streams, in stream NULL and in the thread's stream has the same result as in program
 * order: events and waits order all work that CUDA does not order by itself (stream NULL and blocking
 * streams, and the work within a stream). The ranks of a PE do this at once, and exchange messages.
 * Arguments: the seed, and how many steps.
 */
#include "kernels.h"

#define N 64
#define BUFFERS 6

enum { OF_NULL, BLOCKING_A, BLOCKING_B, NON_BLOCKING, OF_THREAD, SHORT_LIVED, STREAMS };

static CUstream streams[STREAMS];
static CUdeviceptr buffers[BUFFERS];
static unsigned expected[BUFFERS][N];
static unsigned *pinned; /* N for each step: a copy may read them late */
static uint64_t state;
static int step;

static unsigned draw(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % n);
}

/* ---- What is ordered with what: clocks ---- */

/* seen[s][t]: how many operations of stream t are done when the latest of s is; [STREAMS]: the host. */
static unsigned seen[STREAMS + 1][STREAMS];
static unsigned written[BUFFERS][STREAMS],
    used[BUFFERS][STREAMS]; /* by which of a stream's operations last */

static void join(int later, int earlier)
{
    for (int t = 0; t < STREAMS; t++)
        if (seen[later][t] < seen[earlier][t])
            seen[later][t] = seen[earlier][t];
}

/* An operation that is queued now comes behind these. */
static void join_implied(int stream)
{
    join(stream, STREAMS);
    if (stream == OF_NULL)
        for (int t = 0; t < STREAMS; t++)
            if (t != NON_BLOCKING)
                join(OF_NULL, t);
    if (stream != OF_NULL && stream != NON_BLOCKING)
        join(stream, OF_NULL);
}

static bool is_behind(int stream, const unsigned *operations)
{
    for (int t = 0; t < STREAMS; t++)
        if (t != stream && seen[stream][t] < operations[t])
            return false;
    return true;
}

/* ---- Ordering by the program ---- */

static void wait_for_stream(int stream)
{
    if (stream == SHORT_LIVED || draw(3) == 0) { /* which is gone */
        GTEST_CU(cuCtxSynchronize());
        for (int t = 0; t < STREAMS; t++)
            join(STREAMS, t);
        return;
    }
    if (draw(2)) {
        GTEST_CU(cuStreamSynchronize(streams[stream]));
    } else {
        CUresult result;
        while ((result = cuStreamQuery(streams[stream])) == CUDA_ERROR_NOT_READY)
            ;
        GTEST_CU(result);
    }
    join(STREAMS, stream);
}

static void order_by_event(int stream, int behind)
{
    CUevent event;

    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    join_implied(behind);
    seen[behind][behind]++;
    GTEST_CU(cuEventRecord(event, streams[behind]));
    if (draw(2)) {
        GTEST_CU(cuStreamWaitEvent(streams[stream], event, 0));
        join(stream, behind);
    } else {
        GTEST_CU(cuEventSynchronize(event));
        join(STREAMS, behind);
    }
    GTEST_CU(cuEventDestroy(event));
}

/* The operations that must be complete before the next one of a stream, which uses a buffer. */
static void order(int stream, int buffer, bool is_write)
{
    const unsigned *before = is_write ? used[buffer] : written[buffer];

    join_implied(stream);
    for (int t = 0; t < STREAMS; t++)
        if (t != stream && seen[stream][t] < before[t]) {
            if (t == SHORT_LIVED || draw(4) == 0)
                wait_for_stream(t);
            else
                order_by_event(stream, t);
            join_implied(stream);
        }
    MTEST_CHECK(is_behind(stream, before), "the test has not ordered stream %d", stream);
}

static void note(int stream, int buffer, bool is_write)
{
    used[buffer][stream] = seen[stream][stream];
    if (is_write)
        written[buffer][stream] = seen[stream][stream];
}

/* ---- A blocking stream that is destroyed as soon as it has its work ---- */

static void make_short_lived(void)
{
    if (seen[STREAMS][SHORT_LIVED] < seen[SHORT_LIVED][SHORT_LIVED]) { /* another one's work is not done */
        GTEST_CU(cuCtxSynchronize());
        for (int t = 0; t < STREAMS; t++)
            join(STREAMS, t);
    }
    GTEST_CU(cuStreamCreate(&streams[SHORT_LIVED], CU_STREAM_DEFAULT));
}

/* ---- Operations: on the GPU, and at once on the CPU ---- */

static void launch_update(CUstream stream, CUdeviceptr to, unsigned factor, unsigned added)
{
    struct gtest_update_args args = {to, N, factor, added, 0};
    size_t args_bytes = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};

    if (draw(2))
        gtest_launch_update(to, N, factor, added, stream);
    else
        GTEST_CU(cuLaunchKernelEx(&config, gtest_update, NULL, extra));
}

static void update(int stream, int buffer)
{
    unsigned factor = 1 + draw(9), added = draw(1000);

    launch_update(streams[stream], buffers[buffer], factor, added);
    for (int i = 0; i < N; i++)
        expected[buffer][i] = factor * expected[buffer][i] + added;
}

static void mix(int stream, int to, int from)
{
    gtest_launch_mix(buffers[to], buffers[from], N, streams[stream]);
    for (int i = 0; i < N; i++)
        expected[to][i] = 5 * expected[to][i] + expected[from][i];
}

static void copy(int stream, int to, int from)
{
    if (stream == OF_NULL && draw(2))
        GTEST_CU(cuMemcpyDtoD(buffers[to], buffers[from], sizeof expected[0]));
    else
        GTEST_CU(cuMemcpyDtoDAsync(buffers[to], buffers[from], sizeof expected[0], streams[stream]));
    memcpy(expected[to], expected[from], sizeof expected[0]);
}

static void set(int stream, int buffer)
{
    unsigned value = draw(100000);

    if (stream == OF_NULL && draw(2))
        GTEST_CU(cuMemsetD32(buffers[buffer], value, N));
    else
        GTEST_CU(cuMemsetD32Async(buffers[buffer], value, N, streams[stream]));
    for (int i = 0; i < N; i++)
        expected[buffer][i] = value;
}

static void put(int stream, int buffer)
{
    unsigned pageable[N], *from = draw(2) ? pageable : pinned + (size_t)step * N;

    for (int i = 0; i < N; i++)
        from[i] = expected[buffer][i] = draw(100000);
    if (stream == OF_NULL && draw(2)) /* what follows cannot rely on a wait */
        GTEST_CU(cuMemcpyHtoD(buffers[buffer], from, sizeof pageable));
    else
        GTEST_CU(cuMemcpyHtoDAsync(buffers[buffer], from, sizeof pageable, streams[stream]));
    memset(pageable, 0xff, sizeof pageable);
}

static void read_back(int stream, int buffer)
{
    unsigned pageable[N];
    int i;

    if (stream == OF_NULL && draw(2))
        GTEST_CU(cuMemcpyDtoH(pageable, buffers[buffer], sizeof pageable));
    else
        GTEST_CU(cuMemcpyDtoHAsync(pageable, buffers[buffer], sizeof pageable, streams[stream]));
    for (i = 0; i < N && pageable[i] == expected[buffer][i]; i++)
        ;
    MTEST_CHECK(i == N, "step %d, stream %d, buffer %d: number %d is %u instead of %u", step, stream, buffer,
                i, pageable[i < N ? i : 0], expected[buffer][i < N ? i : 0]);
}

/* A message to the next rank. */
static void ring(void)
{
    int to = (mtest_rank + 1) % mtest_size, from = (mtest_rank + mtest_size - 1) % mtest_size, got = -1;

    MTEST_OK(
        MPI_Sendrecv(&step, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CHECK(got == step, "ring: %d instead of %d", got, step);
}

/* In memory that is the stream's for a while. */
static void update_elsewhere(int stream, int buffer)
{
    unsigned factor = 1 + draw(9), added = draw(1000);
    CUdeviceptr scratch;

    GTEST_CU(cuMemAllocAsync(&scratch, sizeof expected[0], streams[stream]));
    GTEST_CU(cuMemcpyDtoDAsync(scratch, buffers[buffer], sizeof expected[0], streams[stream]));
    launch_update(streams[stream], scratch, factor, added);
    GTEST_CU(cuMemcpyDtoDAsync(buffers[buffer], scratch, sizeof expected[0], streams[stream]));
    GTEST_CU(cuMemFreeAsync(scratch, streams[stream]));
    for (int i = 0; i < N; i++)
        expected[buffer][i] = factor * expected[buffer][i] + added;
}

/* Captured, while other ranks do as they like, and launched. */
static void update_by_graph(int stream, int buffer)
{
    unsigned factor = 1 + draw(9), added = draw(1000), n_launches = 1 + draw(3);
    CUgraph graph;
    CUgraphExec exec;
    CUstream captured;

    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_update(captured, buffers[buffer], factor, added);
    ring(); /* all ranks come here at the same step */
    GTEST_CU(cuMemsetD32Async(buffers[buffer], added, 1, captured));
    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuStreamDestroy(captured));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
    for (unsigned k = 0; k < n_launches; k++) {
        GTEST_CU(cuGraphLaunch(exec, streams[stream]));
        for (int i = 0; i < N; i++)
            expected[buffer][i] = i == 0 ? added : factor * expected[buffer][i] + added;
    }
    GTEST_CU(cuGraphExecDestroy(exec)); /* its launches are done all the same */
}

static void one_step(void)
{
    int stream = (int)draw(STREAMS), what = (int)draw(8), to = (int)draw(BUFFERS), from = (int)draw(BUFFERS);
    bool has_source = (what == 1 || what == 2) && from != to, is_read = what == 5 && step % 16 != 7;

    if (stream == SHORT_LIVED)
        make_short_lived();
    order(stream, to, !is_read);
    if (has_source)
        order(stream, from, false);
    order(stream, to, !is_read);
    seen[stream][stream]++;
    switch (has_source || what == 0 || what > 2 ? what : 0) {
    case 0:
        update(stream, to);
        break;
    case 1:
        mix(stream, to, from);
        break;
    case 2:
        copy(stream, to, from);
        break;
    case 3:
        set(stream, to);
        break;
    case 4:
        put(stream, to);
        break;
    case 5:
        read_back(stream, to);
        break;
    case 6:
        update_elsewhere(stream, to);
        break;
    default:
        update(stream, to);
        break;
    }
    if (step % 16 == 7)
        update_by_graph(stream, to);
    if (stream == SHORT_LIVED)
        GTEST_CU(cuStreamDestroy(streams[stream]));
    note(stream, to, !is_read);
    if (has_source)
        note(stream, from, false);
}

static void set_up(int n_steps)
{
    void *address;

    GTEST_CU(cuStreamCreate(&streams[BLOCKING_A], CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreateWithPriority(&streams[BLOCKING_B], CU_STREAM_DEFAULT, -1));
    GTEST_CU(cuStreamCreate(&streams[NON_BLOCKING], CU_STREAM_NON_BLOCKING));
    streams[OF_THREAD] = CU_STREAM_PER_THREAD;
    GTEST_CU(cuMemAllocHost(&address, (size_t)n_steps * N * sizeof *pinned));
    pinned = address;
    for (int i = 0; i < BUFFERS; i++) {
        GTEST_CU(cuMemAlloc(&buffers[i], sizeof expected[0]));
        GTEST_CU(cuMemsetD32(buffers[i], 0, N));
    }
    GTEST_CU(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    int n_steps = argc > 2 ? atoi(argv[2]) : 400;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    state = 88172645463325252u + 7919 * seed + 104729 * (uint64_t)mtest_rank;
    set_up(n_steps);
    for (step = 0; step < n_steps; step++) {
        one_step();
        if (step % 8 == 7)
            ring();
    }
    for (int i = 0; i < BUFFERS; i++) {
        wait_for_stream((int)draw(STREAMS));
        GTEST_CU(cuCtxSynchronize());
        read_back(OF_NULL, i);
    }
    return mtest_end();
}
