/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in the order of CUDA streams (MPIX_Allreduce_enqueue, ...): they use what the kernels before them
 * wrote, the kernels behind them use the results, and the host waits for none; also with a function of the
 * program as the operation, and with members that have no CUDA stream and call the ordinary functions. Launches of graphs repeat
 * captured ones.
 */
#include "graphs.h"

#define N 1000

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((unsigned *)inout)[i] += ((unsigned *)in)[i];
}

/* Memory of a sequence of collectives. */
struct memory {
    unsigned n;
    CUdeviceptr own, sum, all, turned;
    MPI_Op op;
};

static struct memory begin_memory(unsigned n)
{
    unsigned size = (unsigned)mtest_size;
    struct memory made = {
        n, etest_alloc(n), etest_alloc(n), etest_alloc(n * size), etest_alloc(n * size), MPI_OP_NULL};

    MTEST_OK(MPI_Op_create(add, 1, &made.op));
    return made;
}

static void end_memory(struct memory *memory)
{
    MTEST_OK(MPI_Op_free(&memory->op));
    GTEST_CU(cuMemFree(memory->own));
    GTEST_CU(cuMemFree(memory->sum));
    GTEST_CU(cuMemFree(memory->all));
    GTEST_CU(cuMemFree(memory->turned));
}

/* All of them, where each uses the result of the one before. */
static void step(struct etest *test, const struct memory *memory, int root, int is_sum)
{
    unsigned n = memory->n, rank = (unsigned)mtest_rank;
    void *sum = (void *)memory->sum;

    gtest_launch_update(memory->own, n, 3, rank + 1, test->cuda); /* own = 3 own + rank + 1 */
    MTEST_OK(MPIX_Allreduce_enqueue((void *)memory->own, sum, (int)n, MPI_UNSIGNED, MPI_SUM, test->comm));
    gtest_launch_update(memory->sum, n, 2, 1, test->cuda);
    MTEST_OK(MPIX_Reduce_enqueue_c(mtest_rank == root ? MPI_IN_PLACE : sum, sum, n, MPI_UNSIGNED,
                                   is_sum ? memory->op : MPI_MAX, root, test->comm));
    MTEST_OK(MPIX_Bcast_enqueue(sum, (int)n, MPI_UNSIGNED, root, test->comm));
    MTEST_OK(MPIX_Barrier_enqueue(test->comm));
    gtest_launch_update(memory->sum, n, 1, rank, test->cuda);
    MTEST_OK(MPIX_Allgather_enqueue(sum, (int)n, MPI_UNSIGNED, (void *)memory->all, (int)n, MPI_UNSIGNED,
                                    test->comm));
    MTEST_OK(MPIX_Alltoall_enqueue_c((void *)memory->all, n, MPI_UNSIGNED, (void *)memory->turned, n,
                                     MPI_UNSIGNED, test->comm));
}

/* The results after so many steps, the last of which had is_sum. */
static void expect(const struct memory *memory, int n_steps, int is_sum)
{
    unsigned size = (unsigned)mtest_size, rank = (unsigned)mtest_rank, n = memory->n, value = 0,
             mine[64] = {0};

    for (int i = 0; i < n_steps; i++) {
        unsigned total = 0;
        for (unsigned r = 0; r < size; r++)
            total += mine[r] = 3 * mine[r] + r + 1;
        value = (2 * total + 1) * (is_sum ? size : 1);
    }
    etest_expect(memory->sum, n, value + rank, "the result of the broadcast");
    for (unsigned r = 0; r < size; r++) {
        etest_expect(memory->all + r * n * sizeof(unsigned), n, value + r, "a block of allgather");
        etest_expect(memory->turned + r * n * sizeof(unsigned), n, value + rank, "a block of alltoall");
    }
}

static void sequence(unsigned n)
{
    enum { STEPS = 4 };
    struct etest test = etest_begin(0, 0);
    struct memory memory = begin_memory(n);

    etest_hold(&test);
    for (int i = 0; i < STEPS; i++)
        step(&test, &memory, i % mtest_size, i % 2);
    etest_release(&test);
    expect(&memory, STEPS, (STEPS - 1) % 2);
    end_memory(&memory);
    etest_end(&test);
}

/* Launches of a graph with all of them, beside the same outside. */
static void captured(unsigned n)
{
    enum { LAUNCHES = 5 };
    struct etest test = etest_begin(0, 0);
    struct memory memory = begin_memory(n), other = begin_memory(n);
    CUgraphExec exec;

    graph_begin(&test);
    step(&test, &memory, mtest_size - 1, 1);
    exec = graph_end_and_make_all(&test);
    for (int i = 0; i < LAUNCHES; i++) {
        graph_launch(&test, exec, 1);
        step(&test, &other, 0, 0);
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    expect(&memory, LAUNCHES, 1);
    expect(&other, LAUNCHES, 0);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end_memory(&memory);
    end_memory(&other);
    etest_end(&test);
}

/* Rank 0 has no CUDA stream. A captured collective is a persistent one there. */
static void mixed_graph(void)
{
    enum { LAUNCHES = 3 };
    struct etest test = etest_begin(0, mtest_rank == 0);
    CUdeviceptr data = etest_alloc(N);
    unsigned host[N] = {0}, expected = 0;
    MPI_Request request;
    CUgraphExec exec = NULL;

    if (mtest_rank == 0) {
        MTEST_OK(MPI_Allreduce_init(MPI_IN_PLACE, host, N, MPI_UNSIGNED, MPI_SUM, test.comm, MPI_INFO_NULL,
                                    &request));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    } else {
        graph_begin(&test);
        gtest_launch_update(data, N, 1, (unsigned)mtest_rank, test.cuda);
        MTEST_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, (void *)data, N, MPI_UNSIGNED, MPI_SUM, test.comm));
        exec = graph_end_and_make_all(&test);
        graph_launch(&test, exec, LAUNCHES);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        expected = expected * (unsigned)mtest_size + (unsigned)(mtest_size * (mtest_size - 1) / 2);
        if (mtest_rank > 0)
            continue;
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MTEST_CHECK(host[N - 1] == expected, "a sum with graphs is %u, not %u", host[N - 1], expected);
    }
    if (mtest_rank > 0) {
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_expect(data, N, expected, "a sum with a rank without a stream");
        GTEST_CU(cuGraphExecDestroy(exec));
    } else {
        MTEST_OK(MPI_Request_free(&request));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

static void mixed(void)
{
    struct etest test = etest_begin(0, mtest_rank == 0);
    CUdeviceptr data = etest_alloc(N);
    unsigned host[N], expected = (unsigned)(mtest_size * (mtest_size + 1) / 2);

    if (mtest_rank == 0) {
        for (int i = 0; i < N; i++)
            host[i] = 1;
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, host, N, MPI_UNSIGNED, MPI_SUM, test.comm));
        MTEST_OK(MPI_Barrier(test.comm));
        for (int i = 0; i < N; i++)
            MTEST_CHECK(host[i] == expected, "element %d is %u", i, host[i]);
    } else {
        etest_hold(&test);
        gtest_launch_update(data, N, 1, (unsigned)mtest_rank + 1, test.cuda);
        MTEST_OK(MPIX_Allreduce_enqueue_c(MPI_IN_PLACE, (void *)data, N, MPI_UNSIGNED, MPI_SUM, test.comm));
        MTEST_OK(MPIX_Barrier_enqueue(test.comm));
        gtest_launch_update(data, N, 2, 0, test.cuda);
        etest_release(&test);
        etest_expect(data, N, 2 * expected, "a sum with a rank without a stream");
    }
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

static void errors(void)
{
    struct etest test = etest_begin(0, 0);
    unsigned value = 0;

    mtest_errors_return(test.comm);
    MTEST_CLASS(MPIX_Allreduce_enqueue(&value, &value, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD),
                MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Barrier_enqueue(MPI_COMM_NULL), MPI_ERR_COMM);
    MTEST_CLASS(MPIX_Bcast_enqueue(&value, 1, MPI_UNSIGNED, mtest_size, test.comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPIX_Bcast_enqueue(&value, -1, MPI_UNSIGNED, 0, test.comm), MPI_ERR_COUNT);
    MTEST_CLASS(MPIX_Allreduce_enqueue(&value, &value, 1, MPI_UNSIGNED, MPI_OP_NULL, test.comm), MPI_ERR_OP);
    etest_end(&test);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    for (unsigned n = 1; n <= 1 << 16; n *= 256)
        sequence(n);
    captured(N);
    mixed();
    mixed_graph();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    errors();
    return mtest_end();
}
