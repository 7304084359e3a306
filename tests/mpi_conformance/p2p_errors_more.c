/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong arguments of matched probes, persistent, buffered and request calls return the right class. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int buf[2] = {1, 2}, flag, count;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(comm);
    MTEST_CLASS(MPI_Mprobe(mtest_size, 0, comm, &message, &status), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Improbe(0, -5, comm, &flag, &message, &status), MPI_ERR_TAG);
    message = MPI_MESSAGE_NULL;
    MTEST_CLASS2(MPI_Mrecv(buf, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Imrecv(buf, 1, MPI_INT, &message, &request), MPI_ERR_REQUEST, MPI_ERR_ARG);
    MTEST_CLASS(MPI_Send_init(buf, -1, MPI_INT, 0, 0, comm, &request), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Send_init(buf, 1, MPI_INT, mtest_size, 0, comm, &request), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Ssend_init(buf, 1, MPI_INT, 0, -5, comm, &request), MPI_ERR_TAG);
    MTEST_CLASS(MPI_Rsend_init(buf, 1, MPI_DATATYPE_NULL, 0, 0, comm, &request), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Recv_init(buf, 1, MPI_INT, mtest_size, 0, comm, &request), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Bsend(buf, 1, MPI_INT, mtest_size, 0, comm), MPI_ERR_RANK);
    request = MPI_REQUEST_NULL;
    MTEST_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Startall(1, &request), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Irecv(buf, 1, MPI_INT, mtest_rank, 1, comm, &request));
    MTEST_CLASS(MPI_Start(&request), MPI_ERR_REQUEST); /* not a persistent one */
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_CLASS(MPI_Get_count(&status, MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE);
    MTEST_CLASS2(MPI_Buffer_attach(buf, -1), MPI_ERR_ARG, MPI_ERR_BUFFER);
    MTEST_CHECK(buf[0] == 1 && buf[1] == 2, "a refused call wrote into the buffer");
    return mtest_end();
}
