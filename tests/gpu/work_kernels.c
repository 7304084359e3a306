/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank frees its kind and unloads its module: the other ranks' requests of the same kind go on with their own kernels. */
#include "work.h"

#define N 100

static void change(AMPI_GPU_Work work, unsigned *data, unsigned *model)
{
    struct wm_task task = {1, 3, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};
    MPI_Request request;

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    wm_do(&task, &model);
}

int main(int argc, char **argv)
{
    unsigned data[N] = {0}, model[N] = {0};
    AMPI_GPU_Work work;
    CUfunction kernel;
    CUmodule module;

    wtest_init(&argc, &argv);
    gtest_select(GTEST_GPU0);
    fakecuda_add_kernel_of("wm_run_launch", run_launch, sizeof(struct HEDDLE_Work_launch));
    GTEST_CU(cuModuleLoadData(&module, "work"));
    GTEST_CU(cuModuleGetFunction(&kernel, module, "wm_run_launch"));
    for (int order = 0; order < 2; order++) { /* in which the ranks register */
        for (int i = 0; i < mtest_size; i++) {
            if (mtest_rank == (order ? mtest_size - 1 - i : i))
                MTEST_OK(AMPI_GPU_Work_register("kernels", (void *)kernel, 32, sizeof(struct wm_task), NULL,
                                                &work));
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        change(work, data, model);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0) {
            MTEST_OK(AMPI_GPU_Work_free(&work));
            GTEST_CU(cuModuleUnload(module));
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank > 0)
            change(work, data, model);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank > 0)
            MTEST_OK(AMPI_GPU_Work_free(&work));
        if (mtest_rank == 0) {
            GTEST_CU(cuModuleLoadData(&module, "work"));
            GTEST_CU(cuModuleGetFunction(&kernel, module, "wm_run_launch"));
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    MTEST_CHECK(memcmp(data, model, sizeof data) == 0, "the data is wrong");
    return mtest_end();
}
