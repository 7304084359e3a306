/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank may register memory that ranks share (MPI_Win_allocate_shared), all of it or its own part, as processes may: it stays
 * registered until the last rank has unregistered it, and errors are those of the rank's own calls. With an argument, each rank
 * is a process.
 */
#include "device.h"

#define PART 65536 /* a multiple of the page's size */

static int is_registered(void *address)
{
    CUmemorytype type = 0;

    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

/* All ranks register. Rank `first` is the first to do so and the first to unregister. */
static void check(char *mine, size_t n_bytes, char *probe, int first)
{
    if (mtest_rank != first)
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemHostRegister(mine, n_bytes, CU_MEMHOSTREGISTER_PORTABLE));
    if (mtest_rank == first)
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(cuMemHostRegister(mine, n_bytes, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                "rank %d has registered memory twice", mtest_rank);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == first) {
        GTEST_CU(cuMemHostUnregister(mine));
        MTEST_CHECK(cuMemHostUnregister(mine) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                    "rank %d has unregistered memory twice", mtest_rank);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(is_registered(probe), "rank %d: memory of other ranks is not registered any more",
                mtest_rank);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank != first)
        GTEST_CU(cuMemHostUnregister(mine));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(!is_registered(probe), "rank %d: memory is still registered", mtest_rank);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* All ranks at once, often. A copy shows that the memory is registered in between. */
static void check_together(char *all, size_t n_bytes, int is_all)
{
    CUdeviceptr device;
    char byte;

    GTEST_CU(cuMemAlloc(&device, n_bytes));
    for (int i = 0; i < 200; i++) {
        char *from = is_all ? all : all + (size_t)mtest_rank * PART;
        all[(size_t)mtest_rank * PART] = (char)i;
        GTEST_CU(cuMemHostRegister(from, is_all ? n_bytes : PART, 0));
        MTEST_CHECK(is_registered(all + (size_t)mtest_rank * PART), "round %d: not registered", i);
        GTEST_CU(cuMemcpyHtoDAsync(device, all + (size_t)mtest_rank * PART, PART, NULL));
        GTEST_CU(cuStreamSynchronize(NULL));
        GTEST_CU(cuMemHostUnregister(from));
        GTEST_CU(cuMemcpyDtoH(&byte, device, 1));
        MTEST_CHECK(byte == (char)i, "round %d: got %d", i, byte);
    }
    GTEST_CU(cuMemFree(device));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(!is_registered(all), "memory is still registered");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    char *mine, *all;
    MPI_Aint n_bytes;
    int unit;
    MPI_Win win;

    int is_apart = argc > 1; /* each rank in a process, with registrations of its own */

    mtest_init(&argc, &argv, 2);
    gtest_init();
    MTEST_OK(MPI_Win_allocate_shared(PART, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    MTEST_OK(MPI_Win_shared_query(win, 0, &n_bytes, &unit, &all));
    n_bytes = (MPI_Aint)mtest_size * PART;
    if (!is_apart) {
        for (int first = 0; first < mtest_size; first++)
            check(all, (size_t)n_bytes, all, first);
        /* Rank 0 registers all of it first, the others their parts within. */
        check(mtest_rank == 0 ? all : mine, mtest_rank == 0 ? (size_t)n_bytes : PART, all + n_bytes - PART,
              0);
    }
    check_together(all, (size_t)n_bytes, 1);
    check_together(all, (size_t)n_bytes, 0);
    MTEST_OK(MPI_Win_free(&win));
    return mtest_end();
}
