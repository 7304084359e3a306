/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that are submitted together and need three times the GPU's memory run in parts, with the data of all right. One that needs more than the GPU has
 * runs on the CPU, or ends with MPI_ERR_NO_MEM if the CPU cannot do it. Arguments: cpu: it can. Run with FAKECUDA_MEMORY_MIB=64. */
#include "work.h"

#define N (1u << 18) /* elements of a request */
#define MANY 200u

static AMPI_GPU_Work work;
static unsigned *data, *model;

/* A request that changes n elements from `first` on. */
static void submit(unsigned first, unsigned n, MPI_Request *request)
{
    struct wm_task task = {1, first, {{0, n, 1, n, AMPI_GPU_WORK_READWRITE}}};
    struct AMPI_GPU_Work_buffer buffer = {data + first, n, MPI_UNSIGNED, AMPI_GPU_WORK_READWRITE};

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, request));
}

static void change_model(unsigned first, unsigned n)
{
    struct wm_task task = {1, first, {{0, n, 1, n, AMPI_GPU_WORK_READWRITE}}};
    unsigned *changed = model + first;

    wm_do(&task, &changed);
}

int main(int argc, char **argv)
{
    MPI_Request requests[MANY];
    bool has_cpu;
    int error;

    wtest_init(&argc, &argv);
    has_cpu = argc > 1 && strcmp(argv[1], "cpu") == 0;
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    gtest_select(GTEST_GPU0);
    wtest_register("parts", has_cpu ? wm_cpu : NULL, &work);
    data = mtest_alloc((size_t)MANY * N * sizeof *data);
    model = mtest_alloc((size_t)MANY * N * sizeof *model);
    for (unsigned i = 0; i < MANY * N; i++)
        data[i] = model[i] = i;
    for (unsigned i = 0; i < MANY; i++) {
        submit(i * N, N, &requests[i]);
        change_model(i * N, N);
    }
    MTEST_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    submit(0, MANY * N, &requests[0]);
    error = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    if (has_cpu) {
        MTEST_OK(error);
        change_model(0, MANY * N);
    } else {
        MTEST_CLASS(error, MPI_ERR_NO_MEM);
    }
    MTEST_OK(AMPI_GPU_Work_sync(data, (MPI_Count)MANY * N * (MPI_Count)sizeof *data));
    MTEST_CHECK(memcmp(data, model, (size_t)MANY * N * sizeof *data) == 0, "the data is wrong");
    MTEST_OK(AMPI_GPU_Work_invalidate(data, (MPI_Count)MANY * N * (MPI_Count)sizeof *data));
    MTEST_OK(AMPI_GPU_Work_free(&work));
    free(data);
    free(model);
    return mtest_end();
}
