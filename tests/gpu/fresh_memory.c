/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What cuMemcpyHtoD has put into memory is in the first collective and the first one-sided operation on it, whichever rank's
 * PE looks at the memory first: a copy from pageable memory may return before the bytes are there. The same in memory of
 * two sizes, also where another allocation was before.
 */
#include "device.h"

#define N 1024
#define ROUNDS 12

static unsigned numbers[N], got[N];

static void expect(unsigned value, const char *what, unsigned round)
{
    MTEST_CHECK(got[0] == value && got[N - 1] == value, "round %u, %s: %u and %u instead of %u", round, what,
                got[0], got[N - 1], value);
}

/* One rank's memory gets its numbers at the last moment: a wait for an own copy would hide that nobody waits for this one. */
static int owner;

static CUdeviceptr allocate(size_t n_bytes)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAlloc(&memory, n_bytes));
    GTEST_CU(cuMemsetD32(memory, 0, N));
    GTEST_CU(cuCtxSynchronize());
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return memory;
}

static void fill(CUdeviceptr memory, unsigned value)
{
    for (int i = 0; i < N; i++)
        numbers[i] = value;
    if (mtest_rank == owner)
        GTEST_CU(cuMemcpyHtoD(memory, numbers, sizeof numbers));
}

static void reduce(size_t n_bytes, unsigned round)
{
    CUdeviceptr memory = allocate(n_bytes);

    fill(memory, round);
    MTEST_OK(MPI_Allreduce((void *)memory, got, N, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD));
    expect(round, "MPI_Allreduce", round);
    GTEST_CU(cuMemFree(memory));
}

static void gather(size_t n_bytes, unsigned round)
{
    CUdeviceptr memory = allocate(n_bytes);
    unsigned *all = mtest_alloc((size_t)mtest_size * sizeof numbers);

    fill(memory, round);
    MTEST_OK(MPI_Allgather((void *)memory, N, MPI_UNSIGNED, all, N, MPI_UNSIGNED, MPI_COMM_WORLD));
    memcpy(got, all + (size_t)owner * N, sizeof got);
    expect(round, "MPI_Allgather", round);
    free(all);
    GTEST_CU(cuMemFree(memory));
}

/* The memory of the owner, which that one has not shown to MPI. */
static void get(MPI_Win win, size_t n_bytes, unsigned round)
{
    CUdeviceptr memory = allocate(n_bytes);
    MPI_Aint at;

    MTEST_OK(MPI_Win_attach(win, (void *)memory, sizeof numbers));
    MTEST_OK(MPI_Get_address((void *)memory, &at));
    MTEST_OK(MPI_Bcast(&at, 1, MPI_AINT, owner, MPI_COMM_WORLD));
    fill(memory, round);
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get(got, N, MPI_UNSIGNED, owner, at, N, MPI_UNSIGNED, win));
    MTEST_OK(MPI_Win_fence(0, win));
    expect(round, "MPI_Get", round);
    MTEST_OK(MPI_Win_detach(win, (void *)memory));
    GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    MPI_Win win;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    MTEST_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        size_t n_bytes = round % 2 ? sizeof numbers : ((size_t)2 << 20) + 4096 * round;
        owner = (int)(round / 2) % mtest_size;
        reduce(n_bytes, round);
        gather(n_bytes, round);
        get(win, n_bytes, round);
    }
    MTEST_OK(MPI_Win_free(&win));
    return mtest_end();
}
