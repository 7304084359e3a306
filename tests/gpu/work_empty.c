/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers of work requests may have no bytes, as those of ranks without particles: the function gets NULL in their
 * places, and the others in theirs, on a GPU and on the CPU. Argument: "cpu" if the CPU does the work.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../mpi_conformance/mtest.h"
#include "device.h"
#include "fakecuda.h"
#include "heddle_work.h"
#include "mpi-ext.h"

#define BUFFERS 5
#define N 6

struct task {
    int counts[BUFFERS]; /* elements of each buffer */
};

static atomic_int n_on_cpu, n_on_gpu, n_wrong;

/* Adds 1 to each element. */
static void do_task(const struct task *task, int *const *buffers)
{
    for (int i = 0; i < BUFFERS; i++) {
        if ((buffers[i] != NULL) != (task->counts[i] > 0))
            atomic_fetch_add(&n_wrong, 1);
        for (int k = 0; buffers[i] && k < task->counts[i]; k++)
            buffers[i][k]++;
    }
}

static void on_cpu(const void *args, const struct AMPI_GPU_Work_block *at)
{
    atomic_fetch_add(&n_on_cpu, 1);
    do_task(args, (int *const *)at->buffers);
}

static void on_gpu(const void *args)
{
    const struct HEDDLE_Work_launch *launch = args;
    const char *table = fakecuda_alias(launch->table, 16);
    const struct HEDDLE_Work_entry *entries = (const void *)table;

    for (unsigned i = 0; i < launch->n_requests; i++) {
        const struct task *task = (const void *)(table + entries[i].args_at);
        const uint64_t *addresses = (const void *)(table + entries[i].buffers_at);
        int *buffers[BUFFERS];
        for (int j = 0; j < BUFFERS; j++)
            buffers[j] =
                addresses[j] ? fakecuda_alias(addresses[j], (size_t)task->counts[j] * sizeof(int)) : NULL;
        atomic_fetch_add(&n_on_gpu, 1);
        do_task(task, buffers);
    }
}

static AMPI_GPU_Work register_work(void)
{
    AMPI_GPU_Work work;
    CUfunction kernel;
    CUmodule module;

    fakecuda_add_kernel_of("empty_on_gpu", on_gpu, sizeof(struct HEDDLE_Work_launch));
    GTEST_CU(cuModuleLoadData(&module, "work"));
    GTEST_CU(cuModuleGetFunction(&kernel, module, "empty_on_gpu"));
    MTEST_OK(AMPI_GPU_Work_register("empty", (void *)kernel, 32, sizeof(struct task), on_cpu, &work));
    return work;
}

/* Bit i of the mask: buffer i has elements; the others have an address or none, or a type without bytes. */
static void test(AMPI_GPU_Work work, unsigned mask)
{
    int data[BUFFERS][N];
    struct AMPI_GPU_Work_buffer buffers[BUFFERS];
    struct task task;
    MPI_Datatype nothing;
    MPI_Request request;

    memset(data, 0, sizeof data);
    MTEST_OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    MTEST_OK(MPI_Type_commit(&nothing));
    for (int i = 0; i < BUFFERS; i++) {
        bool is_empty = !(mask >> i & 1);
        task.counts[i] = is_empty ? 0 : N - i % 2;
        buffers[i] = (struct AMPI_GPU_Work_buffer){data[i], task.counts[i], MPI_INT, AMPI_GPU_WORK_READWRITE};
        if (is_empty && i % 3 == 1)
            buffers[i].address = NULL;
        if (is_empty && i % 3 == 2)
            buffers[i] = (struct AMPI_GPU_Work_buffer){data[i], 3, nothing, AMPI_GPU_WORK_WRITE};
    }
    MTEST_OK(AMPI_GPU_Work_submit(work, 2, &task, BUFFERS, buffers, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    for (int i = 0; i < BUFFERS; i++)
        for (int k = 0; k < N; k++)
            MTEST_CHECK(data[i][k] == (k < task.counts[i]), "mask %x, buffer %d, element %d: %d", mask, i, k,
                        data[i][k]);
    MTEST_OK(AMPI_GPU_Work_invalidate(data, sizeof data));
    MTEST_OK(MPI_Type_free(&nothing));
}

int main(int argc, char **argv)
{
    bool is_cpu = argc > 1 && strcmp(argv[1], "cpu") == 0;
    AMPI_GPU_Work work;

    mtest_init(&argc, &argv, 1);
    if (!fakecuda_is_here())
        mtest_skip("the kernel is a function of the CPU: see examples/work_jacobi");
    gtest_init();
    work = register_work();
    for (unsigned mask = 0; mask < 1u << BUFFERS; mask++)
        test(work, mask);
    MTEST_CHECK(n_wrong == 0, "%d wrong places", n_wrong);
    MTEST_CHECK(n_on_cpu == (is_cpu ? 1 << BUFFERS : 0), "%d on the CPU, %d on the GPU", n_on_cpu, n_on_gpu);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
