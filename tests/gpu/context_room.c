/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank destroys a context with more than half of the GPU's memory while another rank's stream waits for a message, and creates
 * the next one: the memory of the first is there again once the message has come. A third rank sends it, after a while.
 * Argument "freed": the rank has freed memory of its first context, too, which is given back as late.
 */
#include "enqueue.h"

#define N 100
#define ROUNDS 3
#define WORK_S 0.1

static void use_contexts(CUdeviceptr freed)
{
    CUcontext context;
    CUdeviceptr memory;
    size_t n_free, n_all;

    GTEST_CU(cuMemGetInfo(&n_free, &n_all));
    if (freed)
        GTEST_CU(cuMemFree(freed));
    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuCtxCreate(&context, NULL, 0, 0));
        GTEST_CU(cuMemAlloc(&memory, n_free / 16 * 9));
        GTEST_CU(cuCtxDestroy(context));
    }
}

static void work(void)
{
    int flag;

    for (double end = MPI_Wtime() + WORK_S; MPI_Wtime() < end;)
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    struct etest test;
    CUdeviceptr memory, freed;

    mtest_init(&argc, &argv, 3);
    gtest_init();
    memory = etest_alloc(N);
    freed = argc > 1 && mtest_rank == 1 ? etest_alloc(N) : 0;
    test = etest_begin(0, 0);
    if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 2, 1, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1)
        use_contexts(freed);
    if (mtest_rank == 2) {
        work();
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 1, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuMemFree(memory));
    etest_end(&test);
    return mtest_end();
}
