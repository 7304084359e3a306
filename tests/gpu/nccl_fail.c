/* SPDX-License-Identifier: BSD-3-Clause
 *
 * NCCL fails during an operation (the fake NCCL, in one process): only this operation is an error, in all
 * processes; later ones work without NCCL. "fatal": errors end the job.
 */
#include "nccl.h"

#define COUNT 40000
#define N_ROUNDS 6

int main(int argc, char **argv)
{
    int *image, n_failed = 0, n_all;
    unsigned long long after = 0;

    mtest_init(&argc, &argv, 2);
    if (!getenv("FAKENCCL_FAIL"))
        mtest_skip("the fake NCCL is to be told what fails");
    nccl_init(0);
    if (argc < 2 || strcmp(argv[1], "fatal") != 0)
        MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    image = mtest_alloc(COUNT * sizeof *image);
    for (int round = 0; round < N_ROUNDS; round++) {
        struct gtest_buffer recv = gtest_alloc(nccl_place, COUNT * sizeof *image, NULL);
        int error, size = mtest_size;
        for (int i = 0; i < COUNT; i++)
            image[i] = i + mtest_rank;
        gtest_set(&recv, image);
        error = MPI_Allreduce(MPI_IN_PLACE, recv.data, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MTEST_CHECK(error == MPI_SUCCESS || mtest_class(error) == MPI_ERR_OTHER, "class %d",
                    mtest_class(error));
        for (int i = 0; i < COUNT; i++)
            image[i] = size * i + size * (size - 1) / 2;
        MTEST_CHECK(error || gtest_differs(&recv, image) == -1, "round %d is wrong", round);
        if (error)
            after = nccl_count();
        n_failed += error != MPI_SUCCESS;
        gtest_free(&recv);
    }
    MTEST_CHECK(n_failed == 1, "%d operations failed", n_failed);
    MTEST_CHECK(nccl_count() == after, "NCCL was used after it had failed");
    MTEST_OK(MPI_Allreduce(&n_failed, &n_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(n_all == mtest_size, "%d errors of %d ranks", n_all, mtest_size);
    free(image);
    return mtest_end();
}
