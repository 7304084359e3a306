/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that come while the GPU is full become few launches, however often all ranks wait meanwhile: at most two of a kind are under way before, and
 * the rest goes together. A rank that tests a single request again and again, and so never waits, sees it done, also if other ranks
 * always have something to do. */
#include "work.h"

#include <unistd.h>

#define N 20
#define STEPS 16
/* At most: two before, two with a full table (of 512 requests), what has come with each of these, and the last. */
#define LAUNCHES 7
#define MANY_BLOCKS 1000000 /* more than a GPU runs at a time */

static AMPI_GPU_Work work;

static void submit(unsigned *data, int n_blocks, MPI_Request *request)
{
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};

    MTEST_OK(AMPI_GPU_Work_submit(work, n_blocks, &task, 1, &buffer, request));
}

static void check_data(unsigned *data, unsigned n_requests)
{
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    unsigned model[N] = {0}, *models[] = {model};

    for (unsigned i = 0; i < n_requests; i++)
        wm_do(&task, models);
    MTEST_OK(AMPI_GPU_Work_sync(data, N * sizeof *data));
    MTEST_CHECK(memcmp(data, model, sizeof model) == 0, "the data is wrong");
    MTEST_OK(AMPI_GPU_Work_invalidate(data, N * sizeof *data));
}

static void test_alone(void)
{
    unsigned data[N] = {0};
    MPI_Request request;
    int is_done = 0;

    submit(data, 1, &request);
    while (!is_done)
        MTEST_OK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
    check_data(data, 1);
}

/* The others sync other data or test, so that the PE is never without a ready rank, and always has a new operation. */
static void test_beside_others(void)
{
    unsigned data[N] = {0};
    MPI_Request request;
    int is_done = 0;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        submit(data, 1, &request);
    else
        MTEST_OK(MPI_Irecv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    while (!is_done) {
        if (mtest_rank % 2)
            MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
        MTEST_OK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
    }
    for (int i = 1; mtest_rank == 0 && i < mtest_size; i++)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD));
    check_data(data, mtest_rank == 0);
}

static void test_full(void)
{
    static unsigned data[STEPS + 1][N];
    MPI_Request requests[STEPS + 1];
    int before, n_launches;

    before = wtest_count_launches();
    fakecuda_hold_kernels(true);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    requests[STEPS] = MPI_REQUEST_NULL;
    if (mtest_rank == 0)
        submit(data[STEPS], MANY_BLOCKS, &requests[STEPS]);
    for (int i = 0; i < STEPS; i++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        usleep(200); /* so that PEs idle */
        submit(data[i], 1, &requests[i]);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    fakecuda_hold_kernels(false);
    MTEST_OK(MPI_Waitall(STEPS + 1, requests, MPI_STATUSES_IGNORE));
    n_launches = wtest_count_launches() - before;
    MTEST_CHECK(n_launches <= LAUNCHES, "%d requests in %d launches", STEPS * mtest_size + 1, n_launches);
    for (int i = 0; i < STEPS + (mtest_rank == 0); i++)
        check_data(data[i], 1);
}

int main(int argc, char **argv)
{
    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    wtest_register("change", wm_cpu, &work);
    test_alone();
    test_beside_others();
    test_full();
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
