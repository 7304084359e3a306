/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong arguments of the basic send and receive calls return the right class and change nothing. */
#include "mtest.h"

static int buf[4] = {1, 2, 3, 4};

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD, freed;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype loose;
    MPI_Status status;
    int flag, index, outcount, *tag_ub;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(comm);
    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &loose)); /* never committed */

    MTEST_CLASS(MPI_Send(buf, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_DATATYPE_NULL, 0, 0, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Send(buf, 1, loose, 0, 0, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, mtest_size, 0, comm), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, -77, 0, comm), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 0, -5, comm), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 0, MPI_ANY_TAG, comm), MPI_ERR_TAG);
    MTEST_OK(MPI_Comm_get_attr(comm, MPI_TAG_UB, &tag_ub, &flag));
    if (*tag_ub < INT32_MAX)
        MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 0, *tag_ub + 1, comm), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Ssend(buf, 1, MPI_INT, mtest_size, 0, comm), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Rsend(buf, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);

    MTEST_CLASS(MPI_Recv(buf, -1, MPI_INT, 0, 0, comm, &status), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Recv(buf, 1, MPI_DATATYPE_NULL, 0, 0, comm, &status), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Recv(buf, 1, loose, 0, 0, comm, &status), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Recv(buf, 1, MPI_INT, mtest_size, 0, comm, &status), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Recv(buf, 1, MPI_INT, 0, -5, comm, &status), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Recv(buf, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &status), MPI_ERR_COMM);

    MTEST_CLASS(MPI_Isend(buf, -1, MPI_INT, 0, 0, comm, &request), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Isend(buf, 1, MPI_INT, mtest_size, 0, comm, &request), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Issend(buf, 1, MPI_INT, 0, -9, comm, &request), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Irecv(buf, 1, loose, 0, 0, comm, &request), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Irecv(buf, 1, MPI_INT, mtest_size + 3, 0, comm, &request), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Irecv(buf, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request), MPI_ERR_COMM);

    MTEST_CLASS(MPI_Probe(mtest_size, 0, comm, &status), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Probe(0, -5, comm, &status), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Sendrecv(buf, 1, MPI_INT, mtest_size, 0, buf + 1, 1, MPI_INT, 0, 0, comm, &status),
                MPI_ERR_RANK);
    MTEST_CLASS(MPI_Sendrecv(buf, 1, MPI_INT, 0, 0, buf + 1, -1, MPI_INT, 0, 0, comm, &status),
                MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Sendrecv_replace(buf, 1, MPI_INT, 0, -5, 0, 0, comm, &status), MPI_ERR_TAG);

    MPI_Request one[1] = {MPI_REQUEST_NULL};
    MTEST_CLASS2(MPI_Waitall(-1, one, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Testall(-1, one, &flag, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Waitany(-1, one, &index, &status), MPI_ERR_COUNT, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Waitsome(-1, one, &outcount, &index, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, MPI_ERR_ARG);

    /* A freed communicator's handle is null; the errors above left nothing behind. */
    MTEST_OK(MPI_Comm_dup(comm, &freed));
    MTEST_OK(MPI_Comm_free(&freed));
    MTEST_CHECK(freed == MPI_COMM_NULL, "Comm_free leaves the handle");
    MTEST_OK(MPI_Type_free(&loose));
    MTEST_CHECK(loose == MPI_DATATYPE_NULL, "Type_free leaves the handle");
    MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status));
    MTEST_CHECK(!flag, "a refused send left a message");
    MTEST_CHECK(buf[0] == 1 && buf[1] == 2 && buf[2] == 3 && buf[3] == 4,
                "a refused call wrote into the buffer");
    int value = mtest_rank, got = -1;
    MTEST_OK(MPI_Sendrecv(&value, 1, MPI_INT, mtest_rank, 0, &got, 1, MPI_INT, mtest_rank, 0, comm, &status));
    MTEST_CHECK(got == value, "after the errors an exchange brings %d", got);
    /* Rank errors on a small communicator count its own size. */
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 1, 0, MPI_COMM_SELF), MPI_ERR_RANK);
    return mtest_end();
}
