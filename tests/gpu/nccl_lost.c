/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process fails while NCCL combines large vectors of all processes: the others get an error and
 * continue among themselves, through NCCL if there are several. "late": the fake NCCL reports an error before
 * the failure is known; the error is the same.
 */
#include <mpi-ext.h>
#include <signal.h>

#include "nccl.h"

#define COUNT 400000
#define LATE_US 200000

int main(int argc, char **argv)
{
    struct gtest_buffer recv;
    MPI_Comm near;
    int error = MPI_SUCCESS, is_late = argc > 1 && strcmp(argv[1], "late") == 0, fails, near_size, *image;
    unsigned long long before;

    mtest_init(&argc, &argv, 3);
    nccl_init(0);
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    fails = nccl_proc == nccl_n_procs - 1;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, fails, mtest_rank, &near));
    MTEST_OK(MPI_Comm_size(near, &near_size));
    image = mtest_alloc(COUNT * sizeof *image);
    memset(image, 0, COUNT * sizeof *image);
    recv = gtest_alloc(nccl_place, COUNT * sizeof *image, image);
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, recv.data, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(nccl_count() == 3, "%llu through NCCL of 3", nccl_count());
    for (int i = 0; error == MPI_SUCCESS; i++) { /* the runner ends a program that hangs */
        MPI_Request request;
        error = MPI_Iallreduce(MPI_IN_PLACE, recv.data, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (fails && is_late)
            usleep(LATE_US);
        if (fails && (is_late || i == 2)) /* the others' GPUs may be waiting for it */
            kill(getpid(), SIGKILL);
        if (error == MPI_SUCCESS)
            error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MTEST_CHECK(mtest_class(error) == MPI_ERR_PROC_FAILED || mtest_class(error) == MPI_ERR_PROC_ABORTED,
                "class %d after the failure", mtest_class(error));
    before = nccl_count();
    for (int i = 0; i < COUNT; i++)
        image[i] = 1;
    gtest_set(&recv, image);
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, recv.data, COUNT, MPI_INT, MPI_SUM, near));
    for (int i = 0; i < COUNT; i++)
        image[i] = near_size;
    MTEST_CHECK(gtest_differs(&recv, image) == -1, "a sum of the survivors is wrong");
    MTEST_CHECK(nccl_count() - before == (nccl_n_procs > 2), "%llu through NCCL among the survivors",
                nccl_count() - before);
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &mtest_errors, 1, MPI_INT, MPI_SUM, near));
    if (mtest_errors == 0)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
