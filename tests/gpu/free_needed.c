/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank allocates memory, and the GPU has none but what the rank has freed while a stream of another rank waited for a message. The
 * allocation takes it when the stream has ended ("late": the message is sent during the allocation). If the rank
 * would send the message after the allocation, that fails, and succeeds later ("never"); but not if the stream is on another GPU
 * ("apart"), nor if MPI allocates as much as was freed ("again").
 */
#include <stdbool.h>

#include "enqueue.h"

#define LARGE ((size_t)40 << 20)
#define LARGER (LARGE + LARGE / 4)

static struct etest test;
static CUdeviceptr to;

/* The second rank's stream waits for a message of this rank. */
static void await(int from)
{
    MTEST_OK(MPIX_Recv_enqueue((void *)to, 1, MPI_INT, from, 1, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (from == 1) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 2, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, 1, 1, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

static void allocate(bool is_never, bool is_apart)
{
    CUdeviceptr memory;
    CUresult result;

    GTEST_CU(cuMemAlloc(&memory, LARGE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(memory));
    if (!is_never)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 2, test.comm));
    result = cuMemAlloc(&memory, LARGER);
    MTEST_CHECK(result == (is_never && !is_apart ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS), "cuMemAlloc: %d",
                result);
    if (is_never)
        MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, 1, 1, test.comm));
    if (result != CUDA_SUCCESS)
        GTEST_CU(cuMemAlloc(&memory, LARGER));
    GTEST_CU(cuMemFree(memory));
}

static void allocate_again(void)
{
    MPI_Info info;
    void *memory;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", "cuda:device"));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) {
        MTEST_OK(MPI_Alloc_mem((MPI_Aint)LARGE, info, &memory));
        MTEST_OK(MPI_Free_mem(memory));
    }
    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, 1, 1, test.comm));
    MTEST_OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    bool is_never, is_apart, is_again;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    is_apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    is_again = argc > 1 && strcmp(argv[1], "again") == 0;
    is_never = is_apart || is_again || (argc > 1 && strcmp(argv[1], "never") == 0);
    if (is_apart && gtest_n_devices < 2)
        mtest_skip("there is one GPU here");
    if (is_apart && mtest_rank == 1)
        gtest_select(gtest_gpu(1));
    test = etest_begin(0, 0);
    GTEST_CU(cuMemAlloc(&to, sizeof(int)));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0 && is_again)
        allocate_again();
    else if (mtest_rank == 0)
        allocate(is_never, is_apart);
    else if (mtest_rank == 1)
        await(is_never ? 0 : 1);
    else
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(to));
    etest_end(&test);
    return mtest_end();
}
