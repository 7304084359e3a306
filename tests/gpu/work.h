/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work.h: the combined kernel of the tests' work requests, as a function of the fake driver.
 */
#ifndef GPU_TEST_WORK_H
#define GPU_TEST_WORK_H

#include <stdatomic.h>

#include "../mpi_conformance/work_model.h"
#include "device.h"
#include "fakecuda.h"
#include "heddle_work.h"

static atomic_int wtest_n_launches; /* with this rank's kernel */

/* What the combined kernel does, for all its blocks; a request's first block does its work. */
static inline void run_launch(const void *args)
{
    const struct HEDDLE_Work_launch *launch = args;
    const char *table = fakecuda_alias(launch->table, 16);
    const struct HEDDLE_Work_entry *entries = (const void *)table;
    unsigned next_block = 0;

    atomic_fetch_add(&wtest_n_launches, 1);
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

/* The launches of work requests so far that are done, by all ranks. The library launches kernels of its own, which copy. */
static inline int wtest_count_launches(void)
{
    int own = atomic_load(&wtest_n_launches), all;

    MTEST_OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

static inline void wtest_init(int *argc, char ***argv)
{
    mtest_init(argc, argv, 1);
    if (!fakecuda_is_here())
        mtest_skip("the kernel is a function of the CPU: see examples/work_jacobi");
    gtest_init();
}

/* For the current GPU; run: what a launch does. */
static inline void wtest_register_as(void (*run)(const void *args), const char *name,
                                     AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    CUfunction kernel;
    CUmodule module;

    fakecuda_add_kernel_of("wm_run_launch", run, sizeof(struct HEDDLE_Work_launch));
    GTEST_CU(cuModuleLoadData(&module, "work"));
    GTEST_CU(cuModuleGetFunction(&kernel, module, "wm_run_launch"));
    MTEST_OK(AMPI_GPU_Work_register(name, (void *)kernel, 32, sizeof(struct wm_task), cpu, work));
}

static inline void wtest_register(const char *name, AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    wtest_register_as(run_launch, name, cpu, work);
}

#endif
