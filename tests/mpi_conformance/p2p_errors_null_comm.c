/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_COMM_NULL is MPI_ERR_COMM in every point-to-point call, raised on MPI_COMM_SELF's error handler. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm no = MPI_COMM_NULL;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int buf[2] = {1, 2}, flag;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, 0, 0, no), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Recv(buf, 1, MPI_INT, 0, 0, no, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Isend(buf, 1, MPI_INT, 0, 0, no, &request), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Irecv(buf, 1, MPI_INT, 0, 0, no, &request), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Probe(0, 0, no, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Iprobe(0, 0, no, &flag, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Mprobe(0, 0, no, &message, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Improbe(0, 0, no, &flag, &message, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Sendrecv(buf, 1, MPI_INT, 0, 0, buf + 1, 1, MPI_INT, 0, 0, no, &status), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Send_init(buf, 1, MPI_INT, 0, 0, no, &request), MPI_ERR_COMM);
    /* A null peer does not excuse the communicator. */
    MTEST_CLASS(MPI_Send(buf, 1, MPI_INT, MPI_PROC_NULL, 0, no), MPI_ERR_COMM);
    return mtest_end();
}
