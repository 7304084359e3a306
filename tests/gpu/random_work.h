/* SPDX-License-Identifier: BSD-3-Clause
 *
 * random_work.h: the model of enqueue_random.c: a plan that all ranks draw, the contents of all ranks' buffers, what comes
 * before what in a rank's streams, and computations.
 */
#ifndef GPU_TEST_RANDOM_WORK_H
#define GPU_TEST_RANDOM_WORK_H

#include <pthread.h>

#include "enqueue.h"

#define WORDS_MAX 5000
#define RANKS_MAX 16
#define PENDING_MAX 8

/* The last one is replaced at times. */
enum { OF_NULL, BLOCKING, NON_BLOCKING, OF_THREAD, NEW, STREAMS };
#define HOST STREAMS
#define COMMS 3 /* of the first streams */

enum {
    FIRST,
    SECOND,
    THIRD,
    FOURTH,
    FIFTH,
    SENT,
    RECEIVED,
    BUFFERS
}; /* the last ones are those of persistent requests */
static const unsigned lengths[BUFFERS] = {16, 200, 900, 1500, WORDS_MAX, 300, 300};

static unsigned contents[RANKS_MAX][BUFFERS][WORDS_MAX]; /* of all ranks, as they should be */
static CUdeviceptr buffers[BUFFERS];
static CUstream streams[STREAMS];
static int is_blocking[STREAMS] = {1, 1, 0, 1, 1};
static MPI_Comm comms[COMMS];
static CUcontext context;
static const char *features = "";
static int step;

static int has(char feature)
{
    return !strchr(features, feature);
}

/* ---- Random numbers: of all ranks, and of this one ---- */

static uint64_t plan_state, own_state;

static unsigned next_of(uint64_t *state, unsigned n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)((*state >> 20) % n);
}

static unsigned plan(unsigned n)
{
    return next_of(&plan_state, n);
}

static unsigned own(unsigned n)
{
    return next_of(&own_state, n);
}

/* ---- What comes before what: seen[s][t]: number of operations of stream t that are over when the latest one of s is ---- */

static unsigned seen[STREAMS + 1][STREAMS];
static unsigned written[BUFFERS][STREAMS], used[BUFFERS][STREAMS];

static void join(int later, const unsigned *earlier)
{
    for (int t = 0; t < STREAMS; t++)
        if (seen[later][t] < earlier[t])
            seen[later][t] = earlier[t];
}

static void join_all(void)
{
    for (int t = 0; t < STREAMS; t++)
        join(HOST, seen[t]);
}

/* By CUDA's rules. */
static void join_implied(int stream)
{
    join(stream, seen[HOST]);
    for (int t = 0; t < STREAMS && stream == OF_NULL; t++)
        if (is_blocking[t])
            join(OF_NULL, seen[t]);
    if (stream != OF_NULL && is_blocking[stream])
        join(stream, seen[OF_NULL]);
}

static void wait_for_stream(int stream)
{
    CUresult result = CUDA_ERROR_NOT_READY;

    switch (own(4)) {
    case 0:
        GTEST_CU(cuCtxSynchronize());
        join_all();
        return;
    case 1:
        while (result == CUDA_ERROR_NOT_READY)
            result = cuStreamQuery(streams[stream]);
        GTEST_CU(result);
        break;
    default:
        GTEST_CU(cuStreamSynchronize(streams[stream]));
        break;
    }
    join(HOST, seen[stream]);
}

static void order_by_event(int stream, int behind)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    CUevent event;

    GTEST_CU(cuEventCreate(&event, own(2) ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
    join_implied(behind);
    seen[behind][behind]++;
    GTEST_CU(cuEventRecord(event, streams[behind]));
    switch (stream == HOST ? 1 + own(2) : own(3)) {
    case 0:
        GTEST_CU(cuStreamWaitEvent(streams[stream], event, 0));
        join(stream, seen[behind]);
        break;
    case 1:
        while (result == CUDA_ERROR_NOT_READY)
            result = cuEventQuery(event);
        GTEST_CU(result);
        join(HOST, seen[behind]);
        break;
    default:
        GTEST_CU(cuEventSynchronize(event));
        join(HOST, seen[behind]);
        break;
    }
    GTEST_CU(cuEventDestroy(event));
}

static void note(int stream, int buffer, int is_write)
{
    used[buffer][stream] = seen[stream][stream];
    if (is_write)
        written[buffer][stream] = seen[stream][stream];
}

/* ---- Messages under way ---- */

struct pending {
    MPI_Request request;
    int stream, buffer, is_write;
    unsigned seen[STREAMS]; /* when it was enqueued */
};
static struct pending pending[PENDING_MAX];
static int n_pending;

/* By the stream, or by the host. A stream need not wait for what is complete: the wait orders nothing else. */
static void finish(int i)
{
    struct pending *which = &pending[i];
    MPI_Status status;
    int flag = 0;

    switch (own(4)) {
    case 0:
        while (!flag)
            MTEST_OK(MPI_Test(&which->request, &flag, &status));
        join(HOST, which->seen);
        break;
    case 1:
        MTEST_OK(MPI_Wait(&which->request, MPI_STATUS_IGNORE));
        join(HOST, which->seen);
        break;
    default:
        MTEST_OK(MPIX_Wait_enqueue(&which->request, MPI_STATUS_IGNORE));
        seen[which->stream][which->stream]++;
        note(which->stream, which->buffer, which->is_write);
        break;
    }
    *which = pending[--n_pending];
}

/* All that use a buffer; -1: all. */
static void finish_those(int buffer, int is_write)
{
    for (int i = n_pending; i-- > 0;)
        if (buffer < 0 || (pending[i].buffer == buffer && (is_write || pending[i].is_write)))
            finish(i);
}

/* The next operation of a stream (or of the host) uses a buffer. */
static void order(int stream, int buffer, int is_write)
{
    const unsigned *before = is_write ? used[buffer] : written[buffer];

    finish_those(buffer, is_write);
    if (stream != HOST)
        join_implied(stream);
    for (int t = 0; t < STREAMS; t++)
        if (t != stream && seen[stream][t] < before[t]) {
            if (own(4) == 0)
                wait_for_stream(t);
            else
                order_by_event(stream, t);
            if (stream != HOST)
                join_implied(stream);
        }
}

/* ---- Computing ---- */

enum { UPDATE, MIX, COPY, SET, PUT, READ, SCRATCH, CALL, COMPUTATIONS };

struct computation {
    int what, stream, to, from;
    unsigned factor, added;
};

static struct computation plan_computation(void)
{
    struct computation made = {(int)plan(COMPUTATIONS), (int)plan(STREAMS), (int)plan(BUFFERS),
                               (int)plan(BUFFERS),      1 + plan(9),        plan(1000)};

    if (made.to == made.from && (made.what == MIX || made.what == COPY))
        made.what = UPDATE;
    return made;
}

static unsigned shorter(int a, int b)
{
    return lengths[a] < lengths[b] ? lengths[a] : lengths[b];
}

static void simulate(const struct computation *c, unsigned (*of)[WORDS_MAX])
{
    unsigned n = c->what == MIX || c->what == COPY ? shorter(c->to, c->from) : lengths[c->to];

    for (unsigned i = 0; i < n; i++)
        switch (c->what) {
        case UPDATE:
        case SCRATCH:
            of[c->to][i] = c->factor * of[c->to][i] + c->added;
            break;
        case MIX:
            of[c->to][i] = 5 * of[c->to][i] + of[c->from][i];
            break;
        case COPY:
            of[c->to][i] = of[c->from][i];
            break;
        case SET:
            of[c->to][i] = c->added;
            break;
        case PUT:
            of[c->to][i] = c->added + i;
            break;
        }
}

/* Puts numbers into the buffer; the memory may be used again at once. */
static void put(const struct computation *c, CUstream stream)
{
    static unsigned numbers[WORDS_MAX];
    size_t n_bytes = lengths[c->to] * sizeof *numbers;

    for (unsigned i = 0; i < lengths[c->to]; i++)
        numbers[i] = c->added + i;
    if (c->stream == OF_NULL && own(2))
        GTEST_CU(cuMemcpyHtoD(buffers[c->to], numbers, n_bytes));
    else
        GTEST_CU(cuMemcpyHtoDAsync(buffers[c->to], numbers, n_bytes, stream));
    memset(numbers, 0xff, n_bytes);
}

static void expect(const unsigned *got, int buffer)
{
    const unsigned *expected = contents[mtest_rank][buffer];
    unsigned i = 0;

    while (i < lengths[buffer] && got[i] == expected[i])
        i++;
    MTEST_CHECK(i == lengths[buffer], "step %d, buffer %d: number %u is %u instead of %u", step, buffer, i,
                got[i < WORDS_MAX ? i : 0], expected[i < WORDS_MAX ? i : 0]);
}

static void read_back(int stream, int buffer)
{
    static unsigned got[WORDS_MAX];
    size_t n_bytes = lengths[buffer] * sizeof *got;

    if (stream == OF_NULL && own(2))
        GTEST_CU(cuMemcpyDtoH(got, buffers[buffer], n_bytes));
    else
        GTEST_CU(cuMemcpyDtoHAsync(got, buffers[buffer], n_bytes, streams[stream]));
    expect(got, buffer);
}

static void update_elsewhere(const struct computation *c, CUstream stream)
{
    size_t n_bytes = lengths[c->to] * sizeof(unsigned);
    CUdeviceptr scratch;

    GTEST_CU(cuMemAllocAsync(&scratch, n_bytes, stream));
    GTEST_CU(cuMemcpyDtoDAsync(scratch, buffers[c->to], n_bytes, stream));
    gtest_launch_update(scratch, lengths[c->to], c->factor, c->added, stream);
    GTEST_CU(cuMemcpyDtoDAsync(buffers[c->to], scratch, n_bytes, stream));
    GTEST_CU(cuMemFreeAsync(scratch, stream));
}

static volatile unsigned n_called;
static unsigned n_calls;

static void count(void *unused)
{
    (void)unused;
    (void)__atomic_add_fetch(&n_called, 1, __ATOMIC_RELAXED);
}

static void submit(const struct computation *c, CUstream stream)
{
    switch (c->what) {
    case UPDATE:
        gtest_launch_update(buffers[c->to], lengths[c->to], c->factor, c->added, stream);
        break;
    case MIX:
        gtest_launch_mix(buffers[c->to], buffers[c->from], shorter(c->to, c->from), stream);
        break;
    case COPY:
        GTEST_CU(cuMemcpyDtoDAsync(buffers[c->to], buffers[c->from], 4 * shorter(c->to, c->from), stream));
        break;
    case SET:
        GTEST_CU(cuMemsetD32Async(buffers[c->to], c->added, lengths[c->to], stream));
        break;
    case PUT:
        put(c, stream);
        break;
    case READ:
        read_back(c->stream, c->to);
        break;
    case SCRATCH:
        update_elsewhere(c, stream);
        break;
    case CALL:
        n_calls++;
        GTEST_CU(cuLaunchHostFunc(stream, count, NULL));
        break;
    }
}

static void compute(const struct computation *c)
{
    int is_write = c->what != READ && c->what != CALL, has_source = c->what == MIX || c->what == COPY;

    order(c->stream, c->to, is_write);
    if (has_source) { /* which may be ordered by waits in the stream of `to` */
        order(c->stream, c->from, 0);
        order(c->stream, c->to, is_write);
    }
    seen[c->stream][c->stream]++;
    submit(c, streams[c->stream]);
    note(c->stream, c->to, is_write);
    if (has_source)
        note(c->stream, c->from, 0);
}

static void *compute_in_thread(void *computation)
{
    GTEST_CU(cuCtxSetCurrent(context));
    compute(computation);
    return NULL;
}

/* Each rank's own computation. A thread has another stream of its own, so it uses one that all have. */
static void compute_all(int is_threaded)
{
    for (int rank = 0; rank < mtest_size; rank++) {
        struct computation c = plan_computation();
        pthread_t thread;
        if (is_threaded && c.stream == OF_THREAD)
            c.stream = OF_NULL;
        if (rank == mtest_rank && is_threaded) {
            GTEST_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
            join(HOST, seen[OF_THREAD]);
            MTEST_CHECK(pthread_create(&thread, NULL, compute_in_thread, &c) == 0, "no thread");
            pthread_join(thread, NULL);
        } else if (rank == mtest_rank) {
            compute(&c);
        }
        simulate(&c, contents[rank]);
    }
}

#endif
