/* SPDX-License-Identifier: BSD-3-Clause */
/* Data that comes by messages and is read by work requests again and again keeps its places on the GPU: no request asks the driver how much memory is
 * free. */
#include "work.h"

#define N 500
#define TILES 8
#define ROUNDS 5

static unsigned tiles[TILES][N], result[TILES][N], model[TILES][N];

/* The rank gets new tiles by a message from itself, and a request per tile reads them. */
static void run(AMPI_GPU_Work work, unsigned round)
{
    static unsigned sent[TILES][N];
    MPI_Request requests[TILES];

    for (unsigned i = 0; i < TILES * N; i++)
        sent[i / N][i % N] = model[i / N][i % N] = round * 1000 + i;
    MTEST_OK(MPI_Sendrecv(sent, TILES * N, MPI_UNSIGNED, mtest_rank, 0, tiles, TILES * N, MPI_UNSIGNED,
                          mtest_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < TILES; i++) {
        struct wm_task task = {
            2, 5, {{0, N, 1, N, AMPI_GPU_WORK_READ}, {0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
        struct AMPI_GPU_Work_buffer buffers[] = {{tiles[i], N, MPI_UNSIGNED, AMPI_GPU_WORK_READ},
                                                 {result[i], N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE}};
        MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 2, buffers, &requests[i]));
    }
    MTEST_OK(MPI_Waitall(TILES, requests, MPI_STATUSES_IGNORE));
}

static void add_to_model(unsigned (*expected)[N])
{
    struct wm_task task = {2, 5, {{0, N, 1, N, AMPI_GPU_WORK_READ}, {0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};

    for (int i = 0; i < TILES; i++) {
        unsigned *buffers[] = {model[i], expected[i]};
        wm_do(&task, buffers);
    }
}

int main(int argc, char **argv)
{
    static unsigned expected[TILES][N];
    int n_asked = 0;
    AMPI_GPU_Work work;

    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    wtest_register("received", NULL, &work);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run(work, round);
        add_to_model(expected);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (round == 0)
            n_asked = fakecuda_calls("cuMemGetInfo");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MTEST_CHECK(fakecuda_calls("cuMemGetInfo") == n_asked, "%d calls of cuMemGetInfo in the last %d rounds",
                fakecuda_calls("cuMemGetInfo") - n_asked, ROUNDS - 1);
    MTEST_OK(AMPI_GPU_Work_sync(result, sizeof result));
    MTEST_CHECK(memcmp(result, expected, sizeof result) == 0, "the result is wrong");
    AMPI_GPU_Work_invalidate(tiles, sizeof tiles);
    AMPI_GPU_Work_invalidate(result, sizeof result);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
