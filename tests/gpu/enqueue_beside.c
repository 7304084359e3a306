/* SPDX-License-Identifier: BSD-3-Clause
 *
 * While a rank's stream waits for an enqueued receive, other calls of CUDA do not wait for that stream: rank 1 enqueues the
 * receive, a rank makes the calls that the argument names, and rank 0 enqueues the send only then. On a GPU, and with FAKECUDA_LOCKS,
 * such calls wait for all work of the GPU inside the driver.
 */
#include "enqueue.h"

#define N 500
#define LARGE 100000

static struct etest test;
static CUdeviceptr memory, other;
static CUstream urgent;
static CUfunction fresh;
static void *pinned;

/* ---- What rank 0 does meanwhile ---- */

/* The first transfers of the PE. */
static void transfer(void)
{
    unsigned *host = mtest_alloc(LARGE * sizeof *host);
    CUdeviceptr device;

    memset(host, 1, LARGE * sizeof *host);
    GTEST_CU(cuMemAlloc(&device, LARGE * sizeof *host));
    MTEST_OK(MPI_Sendrecv(host, LARGE, MPI_UNSIGNED, 0, 0, (void *)device, LARGE, MPI_UNSIGNED, 0, 0,
                          MPI_COMM_SELF, MPI_STATUS_IGNORE));
    etest_expect(device, LARGE, 0x01010101, "a transfer");
    free(host);
}

/* More than the library has in store: it uses those again that were destroyed, but not with their work, their order or their
 * attributes. */
static void create_streams(void)
{
    CUstreamAttrValue sent = {.syncPolicy = CU_SYNC_POLICY_YIELD}, got;
    volatile unsigned *flag = gtest_flag();
    unsigned long long id, last_id = 0;
    int least, greatest, priority;
    unsigned flags;
    CUstream made;

    GTEST_CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    for (int i = 0; i < 60; i++) {
        CUdeviceptr own = i % 3 ? other : memory;
        int wanted = i % 4 == 3 ? -(i / 4 % (1 - greatest)) : 0;
        /* The driver takes priorities beyond its own, too. */
        int given = wanted == 0 ? i % 3 : wanted == greatest ? greatest - i % 3 : wanted;
        GTEST_CU(
            cuStreamCreateWithPriority(&made, i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, given));
        GTEST_CU(cuStreamGetPriority(made, &priority));
        GTEST_CU(cuStreamGetId(made, &id));
        MTEST_CHECK(priority == wanted, "stream %d: priority %d instead of %d", i, priority, wanted);
        MTEST_CHECK(id > last_id, "stream %d: id %llu after %llu", i, id, last_id);
        last_id = id;
        GTEST_CU(cuStreamGetFlags(made, &flags));
        MTEST_CHECK(flags == (i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), "stream %d: flags", i);
        GTEST_CU(cuStreamGetAttribute(made, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
        MTEST_CHECK(got.syncPolicy != CU_SYNC_POLICY_YIELD, "stream %d has the attributes of another", i);
        gtest_launch_update(own, N, 1, 0, made);
        GTEST_CU(cuStreamSynchronize(made));
        if (i == 3)
            GTEST_CU(cuStreamSetAttribute(made, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &sent));
        if (i == 10)
            gtest_launch_spin((CUdeviceptr)flag, made); /* its work continues */
        GTEST_CU(cuStreamDestroy(made));
    }
    *flag = 1;
    GTEST_CU(cuCtxSynchronize());
    GTEST_CU(cuMemFreeHost((void *)flag));
}

/* They become a graph, in a stream of that priority. */
static void repeat_launches(void)
{
    for (int i = 0; i < 200; i++) {
        for (unsigned k = 0; k < 6; k++)
            gtest_launch_update(other, N, 1, k, urgent);
        GTEST_CU(cuStreamSynchronize(urgent));
    }
}

static void launch_first(void)
{
    struct gtest_update_args args = {other, N, 1, 1, 0};

    GTEST_CU(gtest_launch(fresh, &args, sizeof args, test.cuda));
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

static void free_memory(void)
{
    etest_expect(other, N, 0, "before it is freed");
    gtest_launch_update(other, N, 1, 1, test.cuda);
    GTEST_CU(cuMemFree(other));
    MTEST_CHECK(cuStreamQuery(test.cuda) == CUDA_SUCCESS,
                "memory was freed before the rank's own work was done");
    GTEST_CU(cuMemFreeHost(pinned));
    MTEST_CHECK(cuMemFree(memory + 4) == CUDA_ERROR_INVALID_VALUE, "an address inside of memory was freed");
}

/* ---- What rank 1 does, whose stream waits ---- */

/* A graph without operations of MPI, captured in the stream that waits and in one that does not. */
static void instantiate(void)
{
    CUstream streams[] = {test.cuda, CU_STREAM_PER_THREAD};
    CUgraphExec exec;
    CUgraph graph;

    for (int i = 0; i < 2; i++) {
        GTEST_CU(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
        gtest_launch_update(other, N, 1, 1, streams[i]);
        GTEST_CU(cuStreamEndCapture(streams[i], &graph));
        GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
        GTEST_CU(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
        GTEST_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        etest_expect(other, N, (unsigned)i + 1, "a launch");
    }
}

/* Behind the receive. */
static void launch_behind(void)
{
    struct gtest_update_args args = {other, N, 1, 1, 0};

    GTEST_CU(gtest_launch(fresh, &args, sizeof args, test.cuda));
}

static const struct way {
    const char *name;
    void (*call)(void);
    int rank; /* that makes the calls */
} ways[] = {
    {"transfer", transfer, 0},
    {"create_streams", create_streams, 0},
    {"repeat_launches", repeat_launches, 0},
    {"launch_first", launch_first, 0},
    {"free", free_memory, 0},
    {"instantiate", instantiate, 1},
    {"launch_behind", launch_behind, 1},
};

/* ---- The ranks ---- */

static void set_up(void)
{
    CUmodule module;

    test = etest_begin(0, 0);
    memory = etest_alloc(N);
    other = etest_alloc(N);
    GTEST_CU(cuMemAllocHost(&pinned, 64));
    GTEST_CU(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -1));
    GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
    GTEST_CU(cuModuleGetFunction(&fresh, module, "gtest_update"));
    if (mtest_rank == 0)
        GTEST_CU(cuMemsetD32(memory, 7, N));
    GTEST_CU(cuCtxSynchronize());
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void run(const struct way *way)
{
    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        if (way->rank == 1)
            way->call();
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
    } else if (mtest_rank == 0) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (way->rank == 0)
            way->call();
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    if (mtest_rank < 2)
        etest_expect(memory, N, 7, way->name);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    size_t i = 0;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    set_up();
    while (i < sizeof ways / sizeof *ways && strcmp(ways[i].name, name) != 0)
        i++;
    if (i < sizeof ways / sizeof *ways)
        run(&ways[i]);
    MTEST_CHECK(i < sizeof ways / sizeof *ways, "there is no way \"%s\"", name);
    return mtest_end();
}
