/* SPDX-License-Identifier: BSD-3-Clause */
/* +work both: requests end up on the side that is much faster: on the CPU where a launch takes long, or the data's way to the GPU and back; on the GPU
 * where the CPU's function takes long. */
#include "work.h"

#include <time.h>

#define N 200
#define TOGETHER 4
#define STEPS 40
#define ROUNDS_MAX 400
#define SLOW_NS 3000000
#define MEDIUM_NS 200000 /* longer than a launch takes without the data */

static int n_on_cpu;
static bool is_cpu_slow, is_moved; /* the data, after each step */

static void take(long ns)
{
    struct timespec now, since;

    clock_gettime(CLOCK_MONOTONIC, &since);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - since.tv_sec) * 1000000000L + now.tv_nsec - since.tv_nsec < ns);
}

static void do_on_cpu(const void *args, const struct AMPI_GPU_Work_block *at)
{
    n_on_cpu++;
    if (is_cpu_slow || is_moved)
        take(is_cpu_slow ? SLOW_NS : MEDIUM_NS);
    wm_cpu(args, at);
}

static void launch_slowly(const void *args)
{
    take(SLOW_NS);
    run_launch(args);
}

/* The part of the requests that the CPU has done. */
static double do_steps(AMPI_GPU_Work work, unsigned (*data)[N], unsigned (*model)[N])
{
    struct wm_task task = {1, 5, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    MPI_Request requests[TOGETHER];

    n_on_cpu = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < TOGETHER; i++) {
            struct AMPI_GPU_Work_buffer buffer = {data[i], N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};
            unsigned *models[] = {model[i]};
            MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, &requests[i]));
            wm_do(&task, models);
        }
        MTEST_OK(MPI_Waitall(TOGETHER, requests, MPI_STATUSES_IGNORE));
        if (is_moved) {
            MTEST_OK(AMPI_GPU_Work_sync(data, TOGETHER * sizeof *data));
            MTEST_OK(AMPI_GPU_Work_invalidate(data, TOGETHER * sizeof *data));
        }
    }
    return n_on_cpu / (double)(STEPS * TOGETHER);
}

int main(int argc, char **argv)
{
    static unsigned data[TOGETHER][N], model[TOGETHER][N];
    int n_rounds = 0;
    double part, sum;
    AMPI_GPU_Work work;

    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    is_cpu_slow = argc > 1 && strcmp(argv[1], "gpu") == 0;
    is_moved = argc > 1 && strcmp(argv[1], "moved") == 0;
    wtest_register_as(is_cpu_slow || is_moved ? run_launch : launch_slowly, "both", 32, do_on_cpu, &work);
    do { /* the first round has too few requests for a choice, and the load of the machine may mislead others */
        part = do_steps(work, data, model);
        MTEST_OK(MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        sum = is_cpu_slow ? mtest_size - sum : sum;
    } while (++n_rounds < 3 || (sum < 0.9 * mtest_size && n_rounds < ROUNDS_MAX));
    MTEST_CHECK(n_rounds < ROUNDS_MAX, "%.2f of the requests are on the faster side", sum / mtest_size);
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    MTEST_CHECK(memcmp(data, model, sizeof data) == 0, "the data is wrong");
    AMPI_GPU_Work_invalidate(data, sizeof data);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
