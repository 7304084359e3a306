/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages and collectives as parts of explicit CUDA graphs: a captured graph is a child node between kernel nodes, once or twice,
 * also within a child, of a clone, with persistent requests and with a collective; a capture goes on in an explicit graph; streams of
 * one capture have their own messages. Every launch has the right data. Executable graphs are updated, as a whole and in a child node,
 * by other captures; an update with other nodes is refused, and the graph works as before.
 */
#include "graphs.h"

#include "mpi-ext.h"

enum { N = 900, LAUNCHES = 5 };

/* Names of the nodes of a step: the messages are one node. */
struct explicit
{
    struct etest test;
    CUdeviceptr own, from_left, from_right;
    MPI_Request requests[4]; /* persistent; MPI_REQUEST_NULL: none */
};

static struct explicit begin(void)
{
    struct explicit x;

    gtest_select(gtest_gpu(mtest_rank % gtest_n_devices));
    x.test = etest_begin(0, 0);
    x.own = etest_alloc(N);
    x.from_left = etest_alloc(N);
    x.from_right = etest_alloc(N);
    for (int i = 0; i < 4; i++)
        x.requests[i] = MPI_REQUEST_NULL;
    return x;
}

static void end(struct explicit *x)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody frees what another one's graph waits for */
    GTEST_CU(cuMemFree(x->own));
    GTEST_CU(cuMemFree(x->from_left));
    GTEST_CU(cuMemFree(x->from_right));
    etest_end(&x->test);
}

/* Nobody launches before all ranks' graphs are made. */
static CUgraphExec make(CUgraph graph)
{
    CUgraphExec exec = graph_make(graph);

    GTEST_CU(cuGraphDestroy(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return exec;
}

/* Launches it, and the data is that of n_steps from the beginning. */
static void launch(struct explicit *x, CUgraphExec exec, int n, int n_steps, const char *what)
{
    graph_launch(&x->test, exec, n);
    GTEST_CU(cuStreamSynchronize(x->test.cuda));
    etest_expect(x->own, N, halo_expected(n_steps), what);
}

/* ---- Nodes ---- */

static CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *after, size_t n_after, CUfunction function,
                              void *args, size_t args_bytes)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS params = {.func = function,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .extra = extra};
    CUgraphNode node = NULL;

    GTEST_CU(cuGraphAddKernelNode(&node, graph, after, n_after, &params));
    return node;
}

/* The kernel before the messages. */
static CUgraphNode add_update(const struct explicit *x, CUgraph graph, const CUgraphNode *after)
{
    struct gtest_update_args args = {x->own, N, 3, (unsigned)mtest_rank + 1, 0};

    return add_kernel(graph, after, after != NULL, gtest_update, &args, sizeof args);
}

/* The kernels after them; returns the last one. */
static CUgraphNode add_mixes(const struct explicit *x, CUgraph graph, const CUgraphNode *after,
                             size_t n_after)
{
    struct gtest_mix_args args = {x->own, x->from_left, N, 0};
    CUgraphNode node = add_kernel(graph, after, n_after, gtest_mix, &args, sizeof args);

    args.from = x->from_right;
    return add_kernel(graph, &node, 1, gtest_mix, &args, sizeof args);
}

static CUgraphNode add_child(CUgraph graph, const CUgraphNode *after, CUgraph child)
{
    CUgraphNode node = NULL;

    GTEST_CU(cuGraphAddChildGraphNode(&node, graph, after, after != NULL, child));
    return node;
}

/* A graph of the messages alone. */
static CUgraph capture_messages(struct explicit *x, enum halo order)
{
    graph_begin(&x->test);
    if (x->requests[0] == MPI_REQUEST_NULL) {
        halo_exchange(&x->test, order, x->own, x->from_left, x->from_right, N);
    } else {
        MTEST_OK(MPIX_Startall_enqueue(4, x->requests));
        MTEST_OK(MPIX_Waitall_enqueue(4, x->requests, MPI_STATUSES_IGNORE));
    }
    return graph_end(&x->test);
}

/* A graph of a step, whose messages are a child node: *child_out (may be NULL). */
static CUgraph make_step(struct explicit *x, enum halo order, CUgraphNode *child_out)
{
    CUgraph graph, messages = capture_messages(x, order);
    CUgraphNode node;

    GTEST_CU(cuGraphCreate(&graph, 0));
    node = add_update(x, graph, NULL);
    node = add_child(graph, &node, messages);
    if (child_out)
        *child_out = node;
    (void)add_mixes(x, graph, &node, 1);
    GTEST_CU(cuGraphDestroy(messages));
    return graph;
}

/* ---- Child graphs ---- */

static void init_persistent(struct explicit *x)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;

    MTEST_OK(MPI_Recv_init((void *)x->from_left, N, MPI_UNSIGNED, left, 1, x->test.comm, &x->requests[0]));
    MTEST_OK(MPI_Recv_init((void *)x->from_right, N, MPI_UNSIGNED, right, 2, x->test.comm, &x->requests[1]));
    MTEST_OK(MPI_Send_init((void *)x->own, N, MPI_UNSIGNED, left, 2, x->test.comm, &x->requests[2]));
    MTEST_OK(MPI_Send_init((void *)x->own, N, MPI_UNSIGNED, right, 1, x->test.comm, &x->requests[3]));
}

/* Kernel nodes before and after the messages; two executable graphs of one graph take turns. */
static void between_kernels(int is_persistent)
{
    struct explicit x = begin();
    CUgraphExec exec, second;
    CUgraph graph;

    if (is_persistent)
        init_persistent(&x);
    graph = make_step(&x, is_persistent ? RECVS_FIRST : MIXED, NULL);
    for (int i = 0; i < 4 && is_persistent; i++)
        MTEST_OK(MPI_Request_free(&x.requests[i])); /* the graph has what it needs */
    second = graph_make(graph);
    exec = make(graph);
    launch(&x, exec, LAUNCHES, LAUNCHES, "messages between kernel nodes");
    launch(&x, second, 1, LAUNCHES + 1, "a second executable graph");
    launch(&x, exec, 2, LAUNCHES + 3, "the first one again");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphExecDestroy(second));
    end(&x);
}

/* A child graph of child graphs, with one captured graph twice in order: two steps for each launch. */
static void nested(void)
{
    struct explicit x = begin();
    CUgraph graph, inner, messages = capture_messages(&x, SENDS_FIRST);
    CUgraphNode node = NULL;
    CUgraphExec exec;

    GTEST_CU(cuGraphCreate(&inner, 0));
    for (int i = 0; i < 2; i++) {
        node = add_update(&x, inner, node ? &node : NULL);
        node = add_child(inner, &node, messages);
        node = add_mixes(&x, inner, &node, 1);
    }
    GTEST_CU(cuGraphDestroy(messages));
    GTEST_CU(cuGraphCreate(&graph, 0));
    node = add_child(graph, NULL, inner);
    (void)add_child(graph, &node, inner);
    GTEST_CU(cuGraphDestroy(inner));
    exec = make(graph);
    launch(&x, exec, LAUNCHES, 4 * LAUNCHES, "messages in a child of a child");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end(&x);
}

/* Clones of a captured graph and of an explicit one, after the originals are gone. */
static void clones(void)
{
    struct explicit x = begin();
    CUgraph graph, clone, steps, of_captured;
    CUgraphExec exec, exec_of_captured;

    graph_begin(&x.test);
    halo_step(&x.test, RECVS_FIRST, x.own, x.from_left, x.from_right, N);
    graph = graph_end(&x.test);
    GTEST_CU(cuGraphClone(&of_captured, graph));
    GTEST_CU(cuGraphDestroy(graph));
    steps = make_step(&x, MIXED, NULL);
    GTEST_CU(cuGraphClone(&clone, steps));
    GTEST_CU(cuGraphDestroy(steps));
    exec_of_captured = graph_make(of_captured);
    GTEST_CU(cuGraphDestroy(of_captured));
    exec = make(clone);
    launch(&x, exec_of_captured, 2, 2, "a clone of a captured graph");
    launch(&x, exec, 3, 5, "a clone of an explicit graph");
    launch(&x, exec_of_captured, 1, 6, "a clone of a captured graph");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphExecDestroy(exec_of_captured));
    end(&x);
}

/* The sum of all ranks' numbers, between kernel nodes. */
static void collective(void)
{
    struct explicit x = begin();
    CUgraph graph, sum;
    CUgraphNode node;
    CUgraphExec exec;
    unsigned value = 0, all = 0;

    graph_begin(&x.test);
    MTEST_OK(
        MPIX_Allreduce_enqueue((void *)x.own, (void *)x.from_left, N, MPI_UNSIGNED, MPI_SUM, x.test.comm));
    sum = graph_end(&x.test);
    GTEST_CU(cuGraphCreate(&graph, 0));
    node = add_update(&x, graph, NULL);
    node = add_child(graph, &node, sum);
    (void)add_mixes(&x, graph, &node, 1);
    GTEST_CU(cuGraphDestroy(sum));
    exec = make(graph);
    graph_launch(&x.test, exec, LAUNCHES);
    GTEST_CU(cuStreamSynchronize(x.test.cuda));
    for (int i = 0; i < LAUNCHES; i++) {
        value = 3 * value + (unsigned)mtest_rank + 1;
        MTEST_OK(MPI_Allreduce(&value, &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD));
        value = 5 * (5 * value + all); /* from_right is 0 */
    }
    etest_expect(x.own, N, value, "a collective in a child graph");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end(&x);
}

/* ---- Captures into explicit graphs ---- */

/* Behind a kernel node and a child node; kernel nodes follow what was captured. */
static void into_graph(void)
{
    struct explicit x = begin();
    CUgraph graph, same, messages = capture_messages(&x, RECVS_FIRST);
    CUgraphNode node, after[8];
    const CUgraphNode *last;
    CUstreamCaptureStatus status;
    CUgraphExec exec;
    size_t n_last = 0;

    GTEST_CU(cuGraphCreate(&graph, 0));
    node = add_update(&x, graph, NULL);
    node = add_child(graph, &node, messages);
    GTEST_CU(cuGraphDestroy(messages));
    node = add_mixes(&x, graph, &node, 1);
    node = add_update(&x, graph, &node);
    GTEST_CU(cuStreamBeginCaptureToGraph(x.test.cuda, graph, &node, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    halo_exchange(&x.test, MIXED, x.own, x.from_left, x.from_right, N);
    GTEST_CU(cuStreamGetCaptureInfo(x.test.cuda, &status, NULL, &same, &last, NULL, &n_last));
    MTEST_CHECK(same == graph && n_last > 0 && n_last <= 8, "the capture's graph, or its %zu last nodes",
                n_last);
    memcpy(after, last, n_last * sizeof *last);
    GTEST_CU(cuStreamEndCapture(x.test.cuda, &same));
    MTEST_CHECK(same == graph, "the capture has another graph");
    (void)add_mixes(&x, graph, after, n_last);
    exec = make(graph);
    launch(&x, exec, LAUNCHES, 2 * LAUNCHES, "messages captured into an explicit graph");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end(&x);
}

/* A second stream joins the capture, and has messages of its own at the same time. */
static void forked(void)
{
    struct explicit x = begin();
    struct etest fork = etest_begin(0, 0);
    CUdeviceptr numbers = etest_alloc(2 * N);
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    CUevent events[2];
    CUgraphExec exec;

    for (int i = 0; i < 2; i++)
        GTEST_CU(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    graph_begin(&x.test);
    GTEST_CU(cuEventRecord(events[0], x.test.cuda));
    GTEST_CU(cuStreamWaitEvent(fork.cuda, events[0], 0));
    gtest_launch_update(numbers, N, 1, (unsigned)mtest_rank + 1, fork.cuda);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    {
        MPI_Request requests[2];
        MTEST_OK(MPIX_Irecv_enqueue((void *)(numbers + N * sizeof(unsigned)), N, MPI_UNSIGNED, before, 1,
                                    fork.comm, &requests[0]));
        MTEST_OK(MPIX_Isend_enqueue((void *)numbers, N, MPI_UNSIGNED, next, 1, fork.comm, &requests[1]));
        halo_step(&x.test, MIXED, x.own, x.from_left, x.from_right, N);
        MTEST_OK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    }
    GTEST_CU(cuEventRecord(events[1], fork.cuda));
    GTEST_CU(cuStreamWaitEvent(x.test.cuda, events[1], 0));
    exec = make(graph_end(&x.test));
    launch(&x, exec, LAUNCHES, LAUNCHES, "messages of the stream that is captured");
    etest_expect(numbers + N * sizeof(unsigned), N, LAUNCHES * ((unsigned)before + 1),
                 "messages of a stream that joins");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    for (int i = 0; i < 2; i++)
        GTEST_CU(cuEventDestroy(events[i]));
    GTEST_CU(cuMemFree(numbers));
    etest_end(&fork);
    end(&x);
}

/* ---- Updates ---- */

static void upload(struct explicit *x, CUgraphExec exec)
{
    GTEST_CU(cuGraphUpload(exec, x->test.cuda));
    GTEST_CU(cuStreamSynchronize(x->test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* All ranks' executable graphs get the messages of a new capture: all of the graph, and then its child node alone. */
static void updates(void)
{
    struct explicit x = begin();
    CUgraphExecUpdateResultInfo info;
    CUgraphNode child;
    CUgraphExec exec;
    CUgraph graph;

    graph = make_step(&x, RECVS_FIRST, NULL);
    exec = make(graph);
    launch(&x, exec, 3, 3, "before the update");
    graph = make_step(&x, RECVS_FIRST, &child);
    GTEST_CU(cuGraphExecUpdate(exec, graph, &info));
    upload(&x, exec);
    launch(&x, exec, 2, 5, "after an update");
    GTEST_CU(cuGraphExecDestroy(exec));
    exec = graph_make(graph);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    launch(&x, exec, 2, 7, "another executable graph of the updating one");
    {
        CUgraph messages = capture_messages(&x, RECVS_FIRST);
        GTEST_CU(cuGraphExecChildGraphNodeSetParams(exec, child, messages));
        GTEST_CU(cuGraphDestroy(messages));
    }
    upload(&x, exec);
    launch(&x, exec, 2, 9, "after an update of the child node");
    GTEST_CU(cuGraphDestroy(graph));

    /* Other nodes: refused by the driver, and nothing changes. */
    GTEST_CU(cuGraphCreate(&graph, 0));
    (void)add_update(&x, graph, NULL);
    MTEST_CHECK(cuGraphExecUpdate(exec, graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE &&
                    info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS,
                "the update with other nodes was not refused");
    GTEST_CU(cuGraphDestroy(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    launch(&x, exec, 2, 11, "after an update that was refused");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end(&x);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_select(gtest_gpu(mtest_rank % gtest_n_devices));
    gtest_load_kernels();
    between_kernels(0);
    between_kernels(1);
    nested();
    clones();
    collective();
    into_graph();
    forked();
    updates();
    return mtest_end();
}
