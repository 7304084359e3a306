/* SPDX-License-Identifier: BSD-3-Clause */
/* Independent work requests of all ranks of a PE are one launch, whose data comes to the GPU in one copy and stays there: the second launch needs
 * none but its table. A host that asks for one rank's data gets only that; data that many ranks ask for at the same time comes by few calls of the driver. */
#include "work.h"

#define N 500
#define RUNS_MAX 1000
#define CALLS_MAX 4 /* those that ask first are served first */

struct counts {
    int launches, in, out;
};

static struct counts count(void)
{
    return (struct counts){fakecuda_calls("cuLaunchKernel"), fakecuda_calls("cuMemcpyHtoDAsync"),
                           fakecuda_calls("cuMemcpyDtoHAsync")};
}

/* Every rank submits a request and waits. Returns the driver's calls meanwhile. */
static struct counts run(AMPI_GPU_Work work, unsigned *data)
{
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};
    struct counts before, after;
    MPI_Request request;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    before = count();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    after = count();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return (struct counts){after.launches - before.launches, after.in - before.in, after.out - before.out};
}

/* Ranks first .. end - 1 ask for their data. Returns the driver's calls for it. */
static int sync(unsigned *data, int first, int end)
{
    struct counts before, after;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    before = count();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank >= first && mtest_rank < end)
        MTEST_OK(AMPI_GPU_Work_sync(data, N * sizeof *data));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    after = count();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return after.launches - before.launches + after.out - before.out;
}

int main(int argc, char **argv)
{
    unsigned data[N], model[N], *models[] = {model};
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct counts got;
    AMPI_GPU_Work work;
    int n_runs = 0, n_first, n_others;

    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    for (unsigned i = 0; i < N; i++)
        data[i] = model[i] = i + (unsigned)mtest_rank;
    wtest_register("combined", NULL, &work);
    /* A PE that is interrupted while its ranks submit launches the oldest requests first. */
    do {
        got = run(work, data);
        wm_do(&task, models);
    } while (++n_runs < 2 || (got.launches > 1 && n_runs < RUNS_MAX));
    MTEST_CHECK(got.launches == 1, "%d launches in each of %d runs", got.launches, n_runs);
    MTEST_CHECK(got.in == 1 && got.out == 0, "the last launch has %d copies to the GPU, %d from it", got.in,
                got.out);
    n_runs = 0;
    do {
        n_first = sync(data, 0, 1);
        n_others = sync(data, 1, mtest_size);
        MTEST_CHECK(memcmp(data, model, sizeof data) == 0, "the data is wrong");
        MTEST_CHECK(n_first == 1, "%d calls for the data of rank 0", n_first);
        run(work, data);
        wm_do(&task, models);
    } while (++n_runs < RUNS_MAX && n_others > CALLS_MAX);
    MTEST_CHECK(n_others <= CALLS_MAX && (n_others > 0) == (mtest_size > 1),
                "%d calls for the data of the other ranks", n_others);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
