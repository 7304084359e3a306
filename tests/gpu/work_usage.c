/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of MPI_Alloc_mem that a request which is not done uses is not freed; when it is freed, its data on the GPU is dropped. With +check usage,
 * requests of two ranks that write the same bytes at the same time are reported; those of one rank, or one after the other, are not. */
#include "work.h"

#define N 1000

static AMPI_GPU_Work work;

static void submit(unsigned *data, MPI_Request *request)
{
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, request));
}

static unsigned *allocate(unsigned value)
{
    unsigned *data = NULL;

    MTEST_OK(MPI_Alloc_mem(N * sizeof *data, MPI_INFO_NULL, &data));
    for (int i = 0; i < N; i++)
        data[i] = value;
    return data;
}

static void test_free(void)
{
    for (unsigned round = 0; round < 20; round++) {
        unsigned *data = allocate(round);
        MPI_Request request;
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            fakecuda_hold_kernels(true);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        submit(data, &request);
        MTEST_CLASS(MPI_Free_mem(data), MPI_ERR_BASE);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            fakecuda_hold_kernels(false);
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Free_mem(data));
        data = allocate(7); /* often at the same address */
        MTEST_OK(AMPI_GPU_Work_sync(data, N * sizeof *data));
        MTEST_CHECK(data[0] == 7 && data[N - 1] == 7, "round %u: freed data has come back from the GPU",
                    round);
        MTEST_OK(MPI_Free_mem(data));
    }
}

/* Both ranks write to rank 0's data. */
static void test_both_write(int is_together)
{
    unsigned *data = allocate(0), *shared = data;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    MTEST_OK(MPI_Bcast(&shared, sizeof shared, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (mtest_rank == 0)
        fakecuda_hold_kernels(is_together);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size && i < 2; i++) {
        for (int j = 0; j < 2 && mtest_rank == i; j++)
            submit(shared, &requests[j]);
        if (!is_together)
            MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (mtest_rank == 0)
        fakecuda_hold_kernels(false);
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Free_mem(data));
}

int main(int argc, char **argv)
{
    wtest_init(&argc, &argv);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    gtest_select(GTEST_GPU0);
    wtest_register("change", NULL, &work);
    test_free();
    test_both_write(argc > 1 && strcmp(argv[1], "together") == 0);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
