/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in the order of CUDA streams (MPIX_Allreduce_enqueue, ...): they use what the kernels before them
 * wrote, the kernels behind them use the results, and the host waits for none; also with a function of the
 * program as the operation, and with members that have no CUDA stream and call the ordinary functions.
 */
#include "enqueue.h"

#define N 1000

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((unsigned *)inout)[i] += ((unsigned *)in)[i];
}

/* A sequence of all of them, where each uses the result of the one before. */
static void sequence(unsigned n)
{
    enum { STEPS = 4 };
    struct etest test = etest_begin(0, 0);
    unsigned size = (unsigned)mtest_size, rank = (unsigned)mtest_rank, value = 0;
    CUdeviceptr own = etest_alloc(n), sum = etest_alloc(n), all = etest_alloc(n * size),
                turned = etest_alloc(n * size);
    MPI_Op op;

    MTEST_OK(MPI_Op_create(add, 1, &op));
    etest_hold(&test);
    for (int step = 0; step < STEPS; step++) {
        int root = step % mtest_size;
        gtest_launch_update(own, n, 3, rank + 1, test.cuda); /* own = 3 own + rank + 1 */
        MTEST_OK(MPIX_Allreduce_enqueue((void *)own, (void *)sum, (int)n, MPI_UNSIGNED, MPI_SUM, test.comm));
        gtest_launch_update(sum, n, 2, 1, test.cuda);
        MTEST_OK(MPIX_Reduce_enqueue_c(mtest_rank == root ? MPI_IN_PLACE : (void *)sum, (void *)sum, n,
                                       MPI_UNSIGNED, step % 2 ? op : MPI_MAX, root, test.comm));
        MTEST_OK(MPIX_Bcast_enqueue((void *)sum, (int)n, MPI_UNSIGNED, root, test.comm));
        MTEST_OK(MPIX_Barrier_enqueue(test.comm));
        gtest_launch_update(sum, n, 1, rank, test.cuda);
        MTEST_OK(MPIX_Allgather_enqueue((void *)sum, (int)n, MPI_UNSIGNED, (void *)all, (int)n, MPI_UNSIGNED,
                                        test.comm));
        MTEST_OK(MPIX_Alltoall_enqueue_c((void *)all, n, MPI_UNSIGNED, (void *)turned, n, MPI_UNSIGNED,
                                         test.comm));
    }
    etest_release(&test);
    for (unsigned i = 0, mine[64] = {0}; i < STEPS; i++) {
        unsigned total = 0;
        for (unsigned r = 0; r < size; r++)
            total += mine[r] = 3 * mine[r] + r + 1;
        value = (2 * total + 1) * (i % 2 ? size : 1);
    }
    etest_expect(sum, n, value + rank, "the result of the broadcast");
    for (unsigned r = 0; r < size; r++) {
        etest_expect(all + r * n * sizeof(unsigned), n, value + r, "a block of allgather");
        etest_expect(turned + r * n * sizeof(unsigned), n, value + rank, "a block of alltoall");
    }
    MTEST_OK(MPI_Op_free(&op));
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(sum));
    GTEST_CU(cuMemFree(all));
    GTEST_CU(cuMemFree(turned));
    etest_end(&test);
}

/* Rank 0 has no CUDA stream. */
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
    mixed();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    errors();
    return mtest_end();
}
