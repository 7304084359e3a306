/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank destroys a context of its own. Only then another rank's stream begins to wait for a message, which the first one sends after
 * the call; or the stream's wait is in a graph (argument "graph"); or the first rank captures, and the stream waits before ("capture"); or it
 * frees memory while another GPU's context is current ("memory", with a graph); or a thread destroys the context ("thread"), or frees
 * memory there ("thread own"), as the rank does ("own"), while the stream waits.
 * FAKECUDA_CALL_US lets the call take its time. It returns.
 */
#include <pthread.h>

#include "enqueue.h"

#define N 500
#define ROUNDS 3

static struct etest test;
static CUdeviceptr memory;
static CUgraphExec exec;

static void receive(void)
{
    MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
}

static void send(void)
{
    MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
}

static void capture(void (*operation)(void))
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    operation();
    GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
}

static void run(void (*operation)(void))
{
    if (exec)
        GTEST_CU(cuGraphLaunch(exec, test.cuda));
    else
        operation();
}

static void destroy_and_send(bool is_graph, bool is_memory)
{
    CUdeviceptr freed;
    CUcontext own;

    if (is_memory)
        GTEST_CU(cuMemAlloc(&freed, N));
    else
        GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    if (is_graph)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    else
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD));
    if (is_memory)
        GTEST_CU(cuCtxSetCurrent(gtest_contexts[gtest_n_devices > 1]));
    if (is_memory)
        GTEST_CU(cuMemFree(freed));
    else
        GTEST_CU(cuCtxDestroy(own));
    if (is_memory)
        GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    run(send);
}

static void destroy_in_capture(void)
{
    CUcontext own, popped;
    CUstream captured;
    CUgraph graph;

    GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    GTEST_CU(cuCtxPopCurrent(&popped));
    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuCtxDestroy(own));
    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuStreamDestroy(captured));
    send();
}

/* A context of the rank's own, which is not current, and its memory; 0: the context is destroyed. */
struct own {
    CUcontext context;
    CUdeviceptr memory;
};

static void *end_own(void *arg)
{
    struct own *own = arg;

    if (own->memory)
        GTEST_CU(cuMemFree(own->memory));
    else
        GTEST_CU(cuCtxDestroy(own->context));
    return NULL;
}

static void end_own_and_send(bool is_thread, bool is_memory)
{
    struct own own = {.memory = 0};
    CUcontext popped;
    pthread_t thread;

    GTEST_CU(cuCtxCreate(&own.context, NULL, 0, 0));
    if (is_memory)
        GTEST_CU(cuMemAlloc(&own.memory, N));
    GTEST_CU(cuCtxPopCurrent(&popped));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (is_thread) {
        MTEST_CHECK(pthread_create(&thread, NULL, end_own, &own) == 0, "pthread_create");
        pthread_join(thread, NULL);
    } else {
        end_own(&own);
    }
    send();
    GTEST_CU(cuStreamSynchronize(test.cuda));
    if (is_memory)
        GTEST_CU(cuCtxDestroy(own.context));
}

static void wait_for_message(bool is_early)
{
    if (!is_early)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    run(receive);
    if (is_early)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    bool is_memory = argc > 1 && strcmp(argv[1], "memory") == 0;
    bool is_graph = is_memory || (argc > 1 && strcmp(argv[1], "graph") == 0);
    bool is_capture = argc > 1 && strcmp(argv[1], "capture") == 0;
    bool is_thread = argc > 1 && strcmp(argv[1], "thread") == 0;
    bool is_own = argc > 1 && strcmp(argv[argc - 1], "own") == 0;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    test = etest_begin(0, 0);
    memory = etest_alloc(N);
    GTEST_CU(cuMemsetD32(memory, mtest_rank == 0 ? 7 : 0, N));
    if (is_graph)
        capture(mtest_rank == 0 ? send : receive);
    /* An instantiation may wait for a graph that the other rank launches. */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    run(mtest_rank == 0 ? send : receive);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuMemsetD32(memory, mtest_rank == 0 ? 8 + i : 0, N));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank > 0)
            wait_for_message(is_graph || is_capture || is_thread || is_own);
        else if (is_thread || is_own)
            end_own_and_send(is_thread, is_own);
        else if (is_capture)
            destroy_in_capture();
        else
            destroy_and_send(is_graph, is_memory);
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_expect(memory, N, 8 + (unsigned)i, "a message");
    }
    if (exec)
        GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(memory));
    etest_end(&test);
    return mtest_end();
}
