/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Several communicators use NCCL at once, and each process begins with another one; in some processes some
 * buffers are in host memory. All results are right, nothing hangs, communicators can be freed at any time,
 * and NCCL is used if all buffers are in device memory.
 */
#include "nccl.h"

#define N_COMMS 3
#define N_ROUNDS 6
#define COUNT 40000

static void fill(int *image, int round, int k, int rank)
{
    for (int i = 0; i < COUNT; i++)
        image[i] = i % 1000 + 7 * round + 3 * k + rank;
}

static void check(const struct gtest_buffer *buffer, int round, int k, const char *what)
{
    int *image = mtest_alloc(COUNT * sizeof *image);
    long differs;

    for (int i = 0; i < COUNT; i++)
        image[i] = mtest_size * (i % 1000 + 7 * round + 3 * k) + mtest_size * (mtest_size - 1) / 2;
    differs = gtest_differs(buffer, image);
    MTEST_CHECK(differs == -1, "%s, round %d, communicator %d: wrong at byte %ld", what, round, k, differs);
    free(image);
}

/* All communicators at once; each process begins with another. */
static void rotate(MPI_Comm *comms, int n, int round, enum gtest_place place)
{
    struct gtest_buffer send[N_COMMS], recv[N_COMMS];
    MPI_Request requests[N_COMMS];
    int *image = mtest_alloc(COUNT * sizeof *image);

    for (int k = 0; k < n; k++) {
        fill(image, round, k, mtest_rank);
        send[k] = gtest_alloc(place, COUNT * sizeof *image, image);
        recv[k] = gtest_alloc(place, COUNT * sizeof *image, NULL);
    }
    for (int i = 0; i < n; i++) {
        int k = (i + nccl_proc) % n;
        MTEST_OK(MPI_Iallreduce(send[k].data, recv[k].data, COUNT, MPI_INT, MPI_SUM, comms[k], &requests[k]));
    }
    MTEST_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < n; k++) {
        check(&recv[k], round, k, "each begins with another communicator");
        gtest_free(&send[k]);
        gtest_free(&recv[k]);
    }
    free(image);
}

/* Several operations on one communicator under way. */
static void pile_up(MPI_Comm comm, int round)
{
    struct gtest_buffer recv[N_COMMS];
    MPI_Request requests[N_COMMS];
    int *image = mtest_alloc(COUNT * sizeof *image);

    for (int k = 0; k < N_COMMS; k++) {
        fill(image, round, k, mtest_rank);
        recv[k] = gtest_alloc(nccl_place, COUNT * sizeof *image, image);
        MTEST_OK(MPI_Iallreduce(MPI_IN_PLACE, recv[k].data, COUNT, MPI_INT, MPI_SUM, comm, &requests[k]));
    }
    MTEST_OK(MPI_Waitall(N_COMMS, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < N_COMMS; k++) {
        check(&recv[k], round, k, "several under way");
        gtest_free(&recv[k]);
    }
    free(image);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[N_COMMS], once;
    unsigned long long before;

    mtest_init(&argc, &argv, 2);
    nccl_init(0);
    for (int k = 0; k < N_COMMS; k++)
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]));
    for (int round = 0; round < N_ROUNDS; round++)
        rotate(comms, N_COMMS, round, nccl_place);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    before = nccl_count();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < N_ROUNDS; round++) /* host memory in the last process: refused */
        rotate(comms, 1, round, nccl_proc == nccl_n_procs - 1 ? GTEST_HOST : nccl_place);
    MTEST_CHECK(nccl_count() == before, "%llu through NCCL, though a process has no GPU's buffers",
                nccl_count() - before);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < N_ROUNDS; round++)
        pile_up(comms[1], round);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(nccl_count() - before == N_ROUNDS * N_COMMS, "%llu through NCCL of %d", nccl_count() - before,
                N_ROUNDS * N_COMMS);
    for (int round = 0; round < 3; round++) {
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &once));
        rotate(&once, 1, round, nccl_place);
        MTEST_OK(MPI_Comm_free(&once));
    }
    for (int k = 0; k < N_COMMS; k++)
        MTEST_OK(MPI_Comm_free(&comms[k]));
    return mtest_end();
}
