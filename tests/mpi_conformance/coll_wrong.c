/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of a collective that disagree between ranks: the last rank passes another root, operation, size
 * or type, as the argument says, or first gets an error and takes no part. The report names the rank and its
 * argument. In one process roots and sizes are compared always; the rest, and other processes', with +check usage. */
#include "mtest.h"

#define LARGE 100000

static int in[64 * 8], out[64 * 8], large[LARGE], large_out[LARGE];

/* The root's broadcast has been sent before the last rank calls anything; if is_odd, that is a gather. */
static void call_late(int is_odd, MPI_Comm comm)
{
    MPI_Request request;

    if (mtest_rank == mtest_size - 1)
        MPI_Recv(in, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
    if (is_odd)
        MPI_Igather(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm, &request);
    else
        MPI_Ibcast(out, 1, MPI_INT, 0, comm, &request);
    if (mtest_rank == 0)
        MPI_Send(in, 1, MPI_INT, mtest_size - 1, 0, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The last rank waits in a broadcast before rank 0 calls one; if is_odd, in a large one, as its root. */
static void call_early(int is_odd, MPI_Comm comm)
{
    MPI_Request request;

    if (mtest_rank == 0)
        MPI_Recv(in, 1, MPI_INT, mtest_size - 1, 0, comm, MPI_STATUS_IGNORE);
    MPI_Ibcast(large, is_odd ? LARGE : 1, MPI_INT, is_odd ? mtest_size - 1 : 0, comm, &request);
    if (mtest_rank == mtest_size - 1)
        MPI_Send(in, 1, MPI_INT, 0, 0, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void call(const char *what, int is_odd, MPI_Comm comm)
{
    int counts[64], displs[64];

    for (int r = 0; r < mtest_size; r++) {
        counts[r] = 1;
        displs[r] = r;
    }
    if (strcmp(what, "root") == 0)
        MPI_Bcast(out, 1, MPI_INT, is_odd ? 1 : 0, comm);
    else if (strcmp(what, "gather-root") == 0)
        MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, is_odd ? 1 : 0, comm);
    else if (strcmp(what, "gather-self") == 0)
        MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, is_odd ? mtest_size - 1 : 0, comm);
    else if (strcmp(what, "barrier") == 0 && is_odd)
        MPI_Barrier(comm);
    else if (strcmp(what, "barrier") == 0)
        MPI_Bcast(out, 1, MPI_INT, 0, comm);
    else if (strcmp(what, "late") == 0)
        call_late(is_odd, comm);
    else if (strcmp(what, "early-root") == 0)
        call_early(is_odd, comm);
    else if (strcmp(what, "op") == 0)
        MPI_Allreduce(in, out, 1, MPI_INT, is_odd ? MPI_MAX : MPI_SUM, comm);
    else if (strcmp(what, "type") == 0)
        MPI_Allreduce(in, out, 1, is_odd ? MPI_FLOAT : MPI_INT, MPI_SUM, comm);
    else if (strcmp(what, "scan") == 0)
        MPI_Scan(in, out, is_odd ? 2 : 1, MPI_INT, MPI_SUM, comm);
    else if (strcmp(what, "bcast") == 0)
        MPI_Bcast(out, is_odd ? 2 : 1, MPI_INT, 0, comm);
    else if (strcmp(what, "gather") == 0)
        MPI_Gather(in, is_odd ? 1 : 2, MPI_INT, out, 2, MPI_INT, 0, comm);
    else if (strcmp(what, "scatter") == 0)
        MPI_Scatter(in, 2, MPI_INT, out, is_odd ? 3 : 2, MPI_INT, 0, comm);
    else if (strcmp(what, "allgather") == 0)
        MPI_Allgather(in, is_odd ? 1 : 2, MPI_INT, out, 2, MPI_INT, comm);
    else if (strcmp(what, "alltoall") == 0)
        MPI_Alltoall(in, is_odd ? 1 : 2, MPI_INT, out, 2, MPI_INT, comm);
    else if (strcmp(what, "reduce") == 0)
        MPI_Reduce(in, out, is_odd ? 2 : 1, MPI_INT, MPI_SUM, 0, comm);
    else if (strcmp(what, "allreduce") == 0)
        MPI_Allreduce(in, out, is_odd ? 2 : 1, MPI_INT, MPI_SUM, comm);
    else if (strcmp(what, "large-bcast") == 0)
        MPI_Bcast(large, is_odd ? LARGE : LARGE - 1, MPI_INT, 0, comm);
    else if (strcmp(what, "large-allgather") == 0)
        MPI_Allgather(large, is_odd ? LARGE / 64 - 1 : LARGE / 64, MPI_INT, large_out, LARGE / 64, MPI_INT,
                      comm);
    else if (strcmp(what, "types") == 0) /* other counts of another type, but the same data */
        MPI_Bcast(out, is_odd ? 1 : 2, is_odd ? MPI_2INT : MPI_INT, 0, comm);
    else if (strcmp(what, "allgatherv") == 0)
        MPI_Allgatherv(in, is_odd ? 0 : 1, MPI_INT, out, counts, displs, MPI_INT, comm);
    else if (strcmp(what, "alltoallv") == 0) {
        counts[0] = is_odd ? 0 : 1;
        MPI_Request request;
        MPI_Ialltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "ibcast") == 0) {
        MPI_Request request;
        MPI_Ibcast(out, is_odd ? 2 : 1, MPI_INT, 0, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "neighbor") == 0) {
        int periodic = 1;
        MPI_Comm ring;
        MPI_Cart_create(comm, 1, &mtest_size, &periodic, 0, &ring);
        MPI_Neighbor_allgather(in, is_odd ? 1 : 2, MPI_INT, out, 2, MPI_INT, ring);
    } else { /* refused: an error that is ignored */
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Allgather(in, is_odd ? -1 : 1, MPI_INT, out, 1, MPI_INT, comm);
        if (strcmp(what, "refused") == 0)
            MPI_Barrier(comm);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;

    mtest_init(&argc, &argv, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    call(argv[1], 0, comm); /* right: nothing is reported */
    printf("right\n");
    fflush(stdout);
    call(argv[1], mtest_rank == mtest_size - 1, comm);
    MPI_Comm_free(&comm);
    return mtest_end();
}
