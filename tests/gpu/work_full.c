/* SPDX-License-Identifier: BSD-3-Clause */
/* A request gets room on a full GPU whenever its own data fits there, also if that is large and much small data, or data whose pins have ended, fills it;
 * one whose data never fits ends with MPI_ERR_NO_MEM. Run with +work memory:80M. */
#include "work.h"

#define MIB (1u << 18) /* elements */
#define N_SMALL 100u

static AMPI_GPU_Work work;

/* The class of the error of a request that reads two buffers. */
static int read_both(unsigned *first, unsigned n_first, unsigned *second, unsigned n_second)
{
    struct wm_task task = {
        2, 0, {{0, n_first, 1, n_first, AMPI_GPU_WORK_READ}, {0, n_second, 1, n_second, AMPI_GPU_WORK_READ}}};
    struct AMPI_GPU_Work_buffer buffers[] = {{first, n_first, MPI_UNSIGNED, AMPI_GPU_WORK_READ},
                                             {second, n_second, MPI_UNSIGNED, AMPI_GPU_WORK_READ}};
    int error, class = 0;
    MPI_Request request;

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 2, buffers, &request));
    error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Error_class(error, &class));
    return class;
}

int main(int argc, char **argv)
{
    unsigned *data;

    wtest_init(&argc, &argv);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    gtest_select(GTEST_GPU0);
    wtest_register("read", NULL, &work);
    data = mtest_alloc((size_t)N_SMALL * MIB * sizeof *data);
    memset(data, 0, (size_t)N_SMALL * MIB * sizeof *data);
    for (int round = 0; round < 2; round++) {
        MTEST_CLASS(read_both(data, N_SMALL * MIB / 2, data + N_SMALL * MIB / 2, N_SMALL * MIB / 2),
                    MPI_ERR_NO_MEM);
        for (unsigned i = 0; i < N_SMALL; i += 2)
            MTEST_OK(read_both(data + i * MIB, MIB, data + (i + 1) * MIB, MIB));
        MTEST_OK(read_both(data, 70 * MIB, data + 80 * MIB, MIB));
        MTEST_OK(AMPI_GPU_Work_invalidate(data, (MPI_Count)N_SMALL * MIB * (MPI_Count)sizeof *data));
        MTEST_OK(read_both(data, MIB, data + 30 * MIB, MIB));
        MTEST_OK(AMPI_GPU_Work_pin(data, 40 * MIB * (MPI_Count)sizeof *data));
        MTEST_OK(read_both(data, 40 * MIB, data + 80 * MIB, MIB)); /* joins the two that are pinned */
        MTEST_OK(AMPI_GPU_Work_unpin(data, 40 * MIB * (MPI_Count)sizeof *data));
        MTEST_OK(read_both(data + 45 * MIB, 50 * MIB, data + 98 * MIB, MIB));
    }
    MTEST_OK(AMPI_GPU_Work_invalidate(data, (MPI_Count)N_SMALL * MIB * (MPI_Count)sizeof *data));
    MTEST_OK(AMPI_GPU_Work_free(&work));
    free(data);
    return mtest_end();
}
