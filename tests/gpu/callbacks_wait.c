/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A host function in a stream waits for a message, which another rank of the PE sends when its own work on the GPU is done:
 * the function's thread waits for the PE's events, but may not look at the GPU. "deadlock": a deadlock is found when a host function
 * that runs longer than the ranks has ended.
 */
#include "kernels.h"

#define ROUNDS 5
#define COMPUTE_NS 2000000

static void CUDA_CB ask(void *arg)
{
    MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
    MPI_Recv(arg, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Keeps the PE long enough for a thread that waits in MPI to fall asleep. */
static void compute(void)
{
    double until = MPI_Wtime() + COMPUTE_NS * 1e-9;

    while (MPI_Wtime() < until)
        ;
}

static void CUDA_CB compute_long(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        compute();
}

static void answer(CUstream stream, int round)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAlloc(&memory, 4));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    compute();
    GTEST_CU(cuMemsetD8Async(memory, 1, 4, stream));
    GTEST_CU(cuStreamSynchronize(stream));
    MTEST_OK(MPI_Send(&round, 1, MPI_INT, 0, 4, MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    CUstream stream;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(2);
    gtest_init();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (argc > 1) {
        GTEST_CU(cuLaunchHostFunc(stream, compute_long, NULL));
        MPI_Recv(NULL, 0, MPI_INT, mtest_rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < ROUNDS; i++) {
        int got = -1;
        if (mtest_rank == 1) {
            answer(stream, i);
        } else if (mtest_rank == 0) {
            GTEST_CU(cuLaunchHostFunc(stream, ask, &got));
            GTEST_CU(cuStreamSynchronize(stream));
            MTEST_CHECK(got == i, "round %d: got %d", i, got);
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return mtest_end();
}
