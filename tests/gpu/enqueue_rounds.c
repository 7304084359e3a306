/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks allocate memory, enqueue an allreduce, wait for their streams and free the memory, again and again: a free waits
 * for the rank's own stream, not for those of others, and the memory is given back when no stream waits.
 */
#include "enqueue.h"

#define N 5
#define ROUNDS 20
#define LARGE ((size_t)4 << 20)

static struct etest test;

/* Rank 0 frees its memory only when the others' streams wait in the next round. */
static void wait_for_next_round(unsigned round)
{
    for (int i = 1; i < mtest_size && round + 1 < ROUNDS; i++)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void run_round(unsigned round)
{
    unsigned numbers[N], expected = 0;
    CUdeviceptr memory, large;

    for (int i = 0; i < mtest_size; i++)
        expected += round + (unsigned)i;
    for (int i = 0; i < N; i++)
        numbers[i] = round + (unsigned)mtest_rank;
    GTEST_CU(cuMemAlloc(&memory, sizeof numbers));
    GTEST_CU(cuMemAlloc(&large, LARGE + 4096 * round));
    GTEST_CU(cuMemcpyHtoDAsync(memory, numbers, sizeof numbers, test.cuda));
    MTEST_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, (void *)memory, N, MPI_UNSIGNED, MPI_SUM, test.comm));
    if (mtest_rank > 0 && round > 0)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyDtoHAsync(numbers, memory, sizeof numbers, test.cuda));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_CHECK(numbers[0] == expected && numbers[N - 1] == expected, "round %u: %u and %u instead of %u",
                round, numbers[0], numbers[N - 1], expected);
    if (mtest_rank == 0)
        wait_for_next_round(round);
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuMemFree(large));
}

/* Alone on its GPU in a fake driver, which counts the memory in use; on real GPUs others may use it. */
static void wait_for_memory(size_t wanted)
{
    size_t n_free = 0, n_all;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    while (n_free < wanted)
        GTEST_CU(cuMemGetInfo(&n_free, &n_all));
}

int main(int argc, char **argv)
{
    size_t n_free = 0, n_all;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    test = etest_begin(0, 0);
    MTEST_OK(MPIX_Barrier_enqueue(test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (fakecuda_is_here())
        GTEST_CU(cuMemGetInfo(&n_free, &n_all));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (unsigned round = 0; round < ROUNDS; round++)
        run_round(round);
    wait_for_memory(n_free);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_end(&test);
    return mtest_end();
}
