/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel that stays on the GPU runs small requests whose data is there without launches, all blocks of each once: also those that it has left without
 * doing, beside calls that wait for the GPU, and in the order of other requests of the same bytes. Run with +gpu service:1000. */
#include "work.h"

#define BLOCKS 5u
#define N (BLOCKS * 3)
#define ROUNDS_MAX 1000
#define WANTED 100 /* orders */

/* A block adds to its part of the buffer. */
static void add(const void *args, const uint64_t *addresses, unsigned block, unsigned n_blocks)
{
    const struct wm_task *task = args;
    unsigned *data = fakecuda_alias(addresses[0], N * sizeof *data);

    for (unsigned i = block; data && i < N; i += n_blocks)
        data[i] = data[i] * 3 + task->added;
}

static void run_add(const void *args)
{
    wtest_run(args, add);
}

static AMPI_GPU_Work adds, changes; /* the kernel of the second one does not stay */
static unsigned data[N], model[N];

static void submit(AMPI_GPU_Work work, unsigned added, unsigned n_blocks, MPI_Request *request)
{
    struct wm_task task = {1, added, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};
    unsigned *models[] = {model};

    MTEST_OK(AMPI_GPU_Work_submit(work, (int)n_blocks, &task, 1, &buffer, request));
    if (work == changes)
        wm_do(&task, models);
    for (unsigned i = 0; i < N && work == adds; i++)
        model[i] = model[i] * 3 + added;
}

static void run(AMPI_GPU_Work work, unsigned added, unsigned n_blocks)
{
    MPI_Request request;

    submit(work, added, n_blocks, &request);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void check(const char *when)
{
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    MTEST_CHECK(memcmp(data, model, sizeof data) == 0, "%s: the data is wrong", when);
}

/* The blocks that kernels which stay have done, of all ranks: one rank's kernel serves the others. */
static int count_orders(void)
{
    int own = atomic_load(&wtest_n_orders), all;

    MTEST_OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

/* Small requests, one after another, until kernels that stay have done some. waits: a call that waits for the GPU comes in between. */
static void run_until(bool waits, const char *when)
{
    int before = count_orders(), n_orders = 0, n_rounds = 0;

    while (n_orders < WANTED && n_rounds++ < ROUNDS_MAX) {
        for (unsigned i = 0; i < BLOCKS * 4; i++)
            run(adds, i, 1 + i % BLOCKS);
        if (waits)
            GTEST_CU(cuCtxSynchronize());
        n_orders = count_orders() - before;
    }
    MTEST_CHECK(n_orders >= WANTED, "%s: only %d blocks without launches", when, n_orders);
    check(when);
}

/* Requests of the same bytes that no rank waits for in between. */
static void run_mixed(void)
{
    MPI_Request requests[6];

    for (int round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 6; i++)
            submit(i % 3 == 2 ? changes : adds, i, 1 + i, &requests[i]);
        MTEST_OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
        run(adds, 1, 1);
    }
    check("mixed");
}

int main(int argc, char **argv)
{
    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    wtest_register_as(run_add, "adds", 32 | AMPI_GPU_WORK_STAYS, NULL, &adds);
    wtest_register("changes", NULL, &changes);
    for (unsigned i = 0; i < N; i++)
        data[i] = model[i] = i + (unsigned)mtest_rank;
    run_until(false, "alone");
    run_until(true, "beside waits");
    for (int i = 0; i < 5; i++) {
        atomic_store(&wtest_is_deaf, true);
        run_until(false, "missed");
    }
    run_mixed();
    MTEST_OK(AMPI_GPU_Work_free(&adds));
    MTEST_OK(AMPI_GPU_Work_free(&changes));
    return mtest_end();
}
