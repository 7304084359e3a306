/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A job that ends while NCCL has, creates or destroys communicators ends soon and with its own exit code.
 * Argument:
 *
 *      kept    with a communicator that nobody freed; exit code 0
 *      freed   with one that has just been freed; exit code 3
 *      exit    exit(4) in all ranks without MPI_Finalize
 *      early   the same while NCCL connects the processes
 *      abort   MPI_Abort with 5 while NCCL connects
 */
#include "nccl.h"

#define COUNT 400000

static void sum(MPI_Comm comm, void *data)
{
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_INT, MPI_SUM, comm));
}

int main(int argc, char **argv)
{
    const char *what;
    struct gtest_buffer buffer;
    MPI_Comm comm;
    MPI_Request request;

    mtest_init(&argc, &argv, 2);
    what = argc > 1 ? argv[1] : "kept";
    nccl_init(0);
    buffer = gtest_alloc(nccl_place, COUNT * sizeof(int), NULL);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    sum(MPI_COMM_WORLD, buffer.data);
    if (strcmp(what, "early") == 0 || strcmp(what, "abort") == 0) {
        MTEST_OK(MPI_Iallreduce(MPI_IN_PLACE, buffer.data, COUNT, MPI_INT, MPI_SUM, comm, &request));
        for (int i = 0; i < 20; i++) {
            int flag;
            MTEST_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            usleep(1000);
        }
        if (strcmp(what, "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 5);
        exit(4);
    }
    sum(comm, buffer.data);
    MTEST_CHECK(nccl_count() == 2, "%llu through NCCL of 2", nccl_count());
    if (strcmp(what, "exit") == 0)
        exit(4);
    if (strcmp(what, "freed") == 0)
        MTEST_OK(MPI_Comm_free(&comm));
    if (mtest_errors)
        mtest_give_up();
    MPI_Finalize();
    return strcmp(what, "freed") == 0 ? 3 : 0;
}
