/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Repeated launches and copies of a rank have the same results as call by call, and go to the driver as
 * graphs if no other call interrupts them. The steps are kernels and copies in the default stream or in
 * another one; they vary, are cut short, and continue with messages, waits, queries, freed memory, other
 * streams and threads, kernels of other ranks that wait, and reads of memory that a copy fills. Arguments: the kinds of steps, all but kernel if there are
 * none; "graphs" (the number of driver calls is checked) or "none" (there are no graphs).
 */
#include <pthread.h>
#include <string.h>

#include "kernels.h"

#define N 32
#define STEPS 40
#define OPS 12

static CUdeviceptr field, other;
static unsigned *pinned, *back;
static unsigned expected[N], expected_other[N];
static CUstream stream;

static void update(unsigned factor, unsigned added)
{
    gtest_launch_update(field, N, factor, added, stream);
    for (int i = 0; i < N; i++)
        expected[i] = factor * expected[i] + added;
}

static void mix(void)
{
    gtest_launch_mix(field, other, N, stream);
    for (int i = 0; i < N; i++)
        expected[i] = 5 * expected[i] + expected_other[i];
}

static void copy_within(void)
{
    GTEST_CU(cuMemcpyDtoDAsync(other, field, sizeof expected, stream));
    memcpy(expected_other, expected, sizeof expected);
}

static void copy_in(void)
{
    GTEST_CU(cuMemcpyHtoDAsync(other, pinned, sizeof expected, stream));
    memcpy(expected_other, pinned, sizeof expected);
}

static void copy_out(void)
{
    GTEST_CU(cuMemcpyDtoHAsync(back, field, sizeof expected, stream));
}

static void wait_for_stream(void)
{
    GTEST_CU(cuStreamSynchronize(stream));
}

/* Waits, and checks the results. */
static void check(const char *kind, int step)
{
    wait_for_stream();
    MTEST_CHECK(memcmp(back, expected, sizeof expected) == 0, "%s, step %d: %u instead of %u", kind, step,
                back[0], expected[0]);
}

/* One step of OPS operations. */
static void work(int n)
{
    static void (*const operations[])(void) = {copy_in, mix, copy_within};

    for (int i = 0; i < n - 1; i++) {
        if (i % 4 == 3)
            update(3, 7);
        else
            operations[i % 3]();
    }
    copy_out();
}

/* ---- Kinds of steps ---- */

static void same(int step)
{
    work(OPS);
    check("same", step);
}

/* Two that take turns and begin alike. */
static void turns(int step)
{
    work(OPS - 2);
    update(2, step % 2 ? 3 : 5);
    copy_out();
    check("turns", step);
}

/* Deferred operations must be done before another one begins. */
static void cut(int step)
{
    work(step % 7 == 6 ? OPS / 2 : OPS);
    check("cut", step);
}

static void different(int step)
{
    work(OPS / 2);
    if (step % 5 == 4)
        update((unsigned)step, 1);
    work(OPS / 2);
    check("different", step);
}

/* A message in the midst, that the work has nothing to do with. */
static void message(int step)
{
    int rank, size, got = -1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    work(OPS / 2);
    MTEST_OK(MPI_Sendrecv(&step, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT, (rank + size - 1) % size,
                          3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CHECK(got == step, "message: %d", got);
    work(OPS / 2);
    check("message", step);
}

/* The end of a rank's work is seen by a question, an event, or the whole context's wait. */
static void ask(int step)
{
    CUevent event;

    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    work(OPS);
    if (step % 3 == 0) {
        while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
            ;
    } else if (step % 3 == 1) {
        GTEST_CU(cuCtxSynchronize());
    } else {
        GTEST_CU(cuEventRecord(event, stream));
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            ;
    }
    MTEST_CHECK(memcmp(back, expected, sizeof expected) == 0, "ask, step %d", step);
    GTEST_CU(cuEventDestroy(event));
}

/* The program looks at the memory itself, without a call of CUDA or MPI: in the middle of what it has always
 * done without a pause before. */
static void look(int step)
{
    volatile unsigned *seen = &back[N - 1];

    wait_for_stream();
    back[N - 1] = ~0u;
    update(1, 1);
    if (expected[N - 1] == ~0u)
        update(1, 1);
    for (int i = 0; i < 3; i++)
        copy_out();
    while (step % 20 == 19 && *seen == ~0u)
        ;
    for (int i = 0; i < 3; i++)
        copy_within();
    copy_out();
    check("look", step);
}

/* The memory goes, and other memory comes, at the same address perhaps. */
static void memory(int step)
{
    work(OPS);
    check("memory", step);
    if (step % 12 == 11) {
        GTEST_CU(cuMemFree(other));
        GTEST_CU(cuMemAlloc(&other, sizeof expected));
        GTEST_CU(cuMemFreeHost(pinned));
        GTEST_CU(cuMemAllocHost((void **)&pinned, sizeof expected));
        for (unsigned i = 0; i < N; i++)
            pinned[i] = i + (unsigned)step;
    }
}

/* The content of the host's memory changes from step to step. */
static void content(int step)
{
    for (unsigned i = 0; i < N; i++)
        pinned[i] = i * 3 + (unsigned)step;
    work(OPS);
    check("content", step);
}

/* Another stream in the midst. */
static void streams(int step)
{
    CUstream before = stream;
    CUstream second;

    GTEST_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    work(OPS / 2);
    wait_for_stream();
    stream = second;
    work(OPS / 2);
    wait_for_stream();
    GTEST_CU(cuStreamDestroy(second));
    stream = before;
    work(OPS);
    check("streams", step);
}

/* CUDA orders the default stream and a blocking one, without a wait of the program's. */
static void order(int step)
{
    static CUstream blocking;
    CUstream before = stream;

    if (!blocking)
        GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    wait_for_stream();
    for (int i = 0; i < 3; i++) {
        stream = NULL;
        work(OPS / 3);
        stream = blocking;
        work(OPS / 4);
    }
    stream = NULL;
    work(OPS);
    check("order", step);
    stream = before;
}

/* Work of other streams waits for an event, in the midst. */
static void event(int step)
{
    static CUstream second;
    static CUevent done;
    CUstream before = stream;

    if (!second) {
        GTEST_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
        GTEST_CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    }
    for (int i = 0; i < 2; i++) {
        CUstream other_stream = stream == before ? second : before;
        work(OPS / 2);
        GTEST_CU(cuEventRecord(done, stream));
        GTEST_CU(cuStreamWaitEvent(other_stream, done, 0));
        stream = other_stream;
    }
    work(OPS / 2);
    check("event", step);
    stream = before;
}

/* A thread of the rank waits for what the rank has launched. */
static void *wait_on_thread(void *context)
{
    GTEST_CU(cuCtxSetCurrent(context));
    wait_for_stream();
    MTEST_CHECK(memcmp(back, expected, sizeof expected) == 0, "on a thread: %u instead of %u", back[0],
                expected[0]);
    return NULL;
}

static void thread(int step)
{
    CUcontext context;
    pthread_t waiting;

    work(OPS);
    if (step < STEPS - 10) {
        check("thread", step);
        return;
    }
    GTEST_CU(cuCtxGetCurrent(&context));
    MTEST_CHECK(pthread_create(&waiting, NULL, wait_on_thread, context) == 0, "no thread");
    pthread_join(waiting, NULL);
}

static void meet(int partner)
{
    MTEST_OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, partner, 4, NULL, 0, MPI_BYTE, partner, 4, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
}

/* Meanwhile a kernel of rank 1 waits for the last step of both ranks. By name only: calls that wait for the GPU would wait for
 * it. */
static void kernel(int step)
{
    static CUstream second;
    static volatile unsigned *flag;

    if (mtest_rank == 1 && step == 0) {
        flag = gtest_flag();
        GTEST_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    }
    if (step == 0)
        meet(1 - mtest_rank); /* all streams have been created */
    if (mtest_rank == 1 && step == 0)
        gtest_launch_spin((CUdeviceptr)flag, second);
    if (step == 0)
        meet(1 - mtest_rank);
    same(step);
    if (step < STEPS - 1)
        return;
    meet(1 - mtest_rank);
    if (mtest_rank == 1) {
        *flag = 1;
        GTEST_CU(cuStreamSynchronize(second));
        GTEST_CU(cuStreamDestroy(second));
    }
    meet(1 - mtest_rank);
}

/* More than a sequence has. */
static void many(int step)
{
    work(80);
    check("many", step);
}

static const struct {
    const char *name;
    void (*run)(int step);
} kinds[] = {{"same", same},       {"turns", turns},     {"cut", cut},      {"different", different},
             {"message", message}, {"ask", ask},         {"look", look},    {"memory", memory},
             {"content", content}, {"streams", streams}, {"order", order},  {"event", event},
             {"kernel", kernel},   {"many", many},       {"thread", thread}};

static bool lacks_graphs(bool are_wanted)
{
    return are_wanted && fakecuda_is_here() && fakecuda_calls("cuGraphLaunch") == 0;
}

/* Of all ranks of the process: pauses that the machine makes cut sequences short, so not every one is a
 * graph. Without any there are more steps first. */
static void check_graphs(bool are_wanted, bool are_refused)
{
    int n;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    n = fakecuda_is_here() ? fakecuda_calls("cuGraphLaunch") : 0;
    MTEST_CHECK(!are_refused || n == 0, "%d launches of graphs", n);
    MTEST_CHECK(!lacks_graphs(are_wanted), "no graph was launched");
}

int main(int argc, char **argv)
{
    bool are_wanted = false, are_refused = false, has_names = false;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    for (int i = 1; i < argc; i++) {
        are_wanted |= strcmp(argv[i], "graphs") == 0;
        are_refused |= strcmp(argv[i], "none") == 0;
        has_names |= strcmp(argv[i], "graphs") != 0 && strcmp(argv[i], "none") != 0;
    }
    GTEST_CU(cuMemAlloc(&field, sizeof expected));
    GTEST_CU(cuMemAlloc(&other, sizeof expected));
    GTEST_CU(cuMemAllocHost((void **)&pinned, sizeof expected));
    GTEST_CU(cuMemAllocHost((void **)&back, sizeof expected));
    GTEST_CU(cuMemsetD32(field, 1, N));
    GTEST_CU(cuMemsetD32(other, 2, N));
    GTEST_CU(cuCtxSynchronize());
    for (unsigned i = 0; i < N; i++) {
        pinned[i] = i;
        expected[i] = 1;
        expected_other[i] = 2;
    }
    for (int own = 0; own < 2; own++) {
        if (own)
            GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
            bool is_named = !has_names && kinds[kind].run != kernel;
            for (int i = 1; i < argc; i++)
                is_named |= strcmp(argv[i], kinds[kind].name) == 0;
            for (int step = 0; is_named && step < STEPS; step++)
                kinds[kind].run(step);
        }
    }
    for (int step = 0; step < 20 * STEPS && lacks_graphs(are_wanted); step++)
        same(step);
    check_graphs(are_wanted, are_refused);
    return mtest_end();
}
