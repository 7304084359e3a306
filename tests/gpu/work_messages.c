/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of MPI bring and drop the data of work requests when they use it: MPI_Pready, its range and its list, not MPI_Start of a partitioned send;
 * collectives between neighbors, which may be more than the ranks. */
#include "work.h"

#define N 600

static AMPI_GPU_Work work;

/* A request writes to all of the data, on the GPU alone; model: the same data. */
static void change(unsigned *data, unsigned added, unsigned *model)
{
    struct wm_task task = {1, added, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};
    MPI_Request request;

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    wm_do(&task, &model);
}

static void check_partitions(void)
{
    static const int listed[] = {5, 4};
    unsigned data[N] = {0}, model[N] = {0}, got[N] = {0};
    MPI_Request requests[2];

    MTEST_OK(MPI_Psend_init(data, 6, N / 6, MPI_UNSIGNED, mtest_rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[0]));
    MTEST_OK(MPI_Precv_init(got, 6, N / 6, MPI_UNSIGNED, mtest_rank, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[1]));
    for (unsigned round = 0; round < 3; round++) {
        MTEST_OK(MPI_Startall(2, requests));
        change(data, round, model);
        MTEST_OK(MPI_Pready(0, requests[0]));
        MTEST_OK(MPI_Pready_range(1, 3, requests[0]));
        MTEST_OK(MPI_Pready_list(2, listed, requests[0]));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MTEST_CHECK(memcmp(got, model, sizeof got) == 0, "round %u: the partitions have other data", round);
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
}

/* A rank alone is its own neighbor in each of 6 directions; blocks of opposite directions change places. */
static void swap(unsigned *to, const unsigned *from)
{
    for (int i = 0; i < 6; i++)
        memcpy(to + i * N / 6, from + (i ^ 1) * N / 6, N / 6 * sizeof *to);
}

static void check_neighbors(void)
{
    static const int sizes[3] = {1, 1, 1}, is_periodic[3] = {1, 1, 1};
    unsigned data[N] = {0}, model[N] = {0}, got[N] = {0}, expected[N] = {0};
    MPI_Comm grid;

    MTEST_OK(MPI_Cart_create(MPI_COMM_SELF, 3, sizes, is_periodic, 0, &grid));
    change(data, 1, model);
    change(got, 2, expected); /* so that the GPU has a copy, which becomes wrong */
    MTEST_OK(MPI_Neighbor_alltoall(data, N / 6, MPI_UNSIGNED, got, N / 6, MPI_UNSIGNED, grid));
    swap(expected, model);
    MTEST_CHECK(memcmp(got, expected, sizeof got) == 0, "the neighbors' blocks have other data");
    change(got, 3, expected);
    MTEST_OK(AMPI_GPU_Work_sync(got, sizeof got));
    MTEST_CHECK(memcmp(got, expected, sizeof got) == 0, "the GPU did not see what was received");
    MTEST_OK(MPI_Comm_free(&grid));
}

int main(int argc, char **argv)
{
    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    wtest_register("change", NULL, &work);
    check_partitions();
    check_neighbors();
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
