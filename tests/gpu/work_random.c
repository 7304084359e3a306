/* SPDX-License-Identifier: BSD-3-Clause */
/* Random work requests of all ranks on shared memory give the results of the order in which they were submitted, on GPUs, on CPUs and on both; also if
 * the GPUs have little memory (+work memory). The kernel is one of the fake driver. */
#include "../mpi_conformance/work_model.h"
#include "device.h"
#include "fakecuda.h"
#include "heddle_work.h"

/* What the combined kernel does, for all its blocks; a request's first block does its work. */
static void run_launch(const void *args)
{
    const struct HEDDLE_Work_launch *launch = args;
    const char *table = fakecuda_alias(launch->table, 16);
    const struct HEDDLE_Work_entry *entries = (const void *)table;
    unsigned next_block = 0;

    for (unsigned i = 0; table && i < launch->n_requests; i++) {
        const struct wm_task *task = (const void *)(table + entries[i].args_at);
        const uint64_t *addresses = (const void *)(table + entries[i].buffers_at);
        unsigned *buffers[WM_BUFFERS];
        for (int j = 0; j < task->n_buffers; j++) {
            const struct wm_rows *rows = &task->rows[j];
            buffers[j] =
                fakecuda_alias(addresses[j], ((rows->n - 1) * rows->stride + rows->row) * sizeof(unsigned));
            if (!buffers[j] || entries[i].first_block != next_block)
                abort();
        }
        wm_do(task, buffers);
        next_block += entries[i].n_blocks;
    }
    if (next_block != launch->n_blocks)
        abort();
}

int main(int argc, char **argv)
{
    CUfunction kernel;
    CUmodule module;

    mtest_init(&argc, &argv, 1);
    if (!fakecuda_is_here())
        mtest_skip("the kernel is a function of the CPU: see examples/work_jacobi");
    gtest_init();
    gtest_select(argc > 3 && mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0);
    fakecuda_add_kernel_of("wm_run_launch", run_launch, sizeof(struct HEDDLE_Work_launch));
    GTEST_CU(cuModuleLoadData(&module, "work"));
    GTEST_CU(cuModuleGetFunction(&kernel, module, "wm_run_launch"));
    for (int i = 0; i < 2; i++)
        MTEST_OK(AMPI_GPU_Work_register(i ? "second" : "first", (void *)kernel, 32, sizeof(struct wm_task),
                                        wm_cpu, &wm_kinds[i]));
    wm_run(4, argc > 1 ? atoi(argv[1]) : 60, argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    return mtest_end();
}
