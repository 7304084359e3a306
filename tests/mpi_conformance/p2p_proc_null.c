/* SPDX-License-Identifier: BSD-3-Clause */
/* Communication with MPI_PROC_NULL succeeds at once, moves nothing and gives the standard's status. */
#include "mtest.h"

static int buf = 42;

static void check(const MPI_Status *status, const char *what)
{
    int count = -1;
    MPI_Get_count(status, MPI_INT, &count);
    MTEST_CHECK(status->MPI_SOURCE == MPI_PROC_NULL && status->MPI_TAG == MPI_ANY_TAG && count == 0,
                "%s: source %d, tag %d, count %d", what, status->MPI_SOURCE, status->MPI_TAG, count);
    MTEST_CHECK(buf == 42, "%s: the buffer changed to %d", what, buf);
}

static void soil(MPI_Status *status)
{
    memset(status, 0x77, sizeof *status);
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    int flag;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Send(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    MTEST_OK(MPI_Ssend(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    MTEST_OK(MPI_Rsend(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    soil(&status);
    MTEST_OK(MPI_Recv(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status));
    check(&status, "Recv");
    MTEST_OK(MPI_Recv(&buf, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Isend(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Issend(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Irecv(&buf, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &request));
    soil(&status);
    MTEST_OK(MPI_Wait(&request, &status));
    check(&status, "Irecv");
    MTEST_OK(MPI_Irecv(&buf, 1, MPI_INT, MPI_PROC_NULL, 4, comm, &request));
    soil(&status);
    flag = 0;
    for (int i = 0; i < 1000 && !flag; i++)
        MTEST_OK(MPI_Test(&request, &flag, &status));
    MTEST_CHECK(flag, "a receive from MPI_PROC_NULL does not end");
    check(&status, "Irecv and Test");
    soil(&status);
    MTEST_OK(MPI_Probe(MPI_PROC_NULL, 1, comm, &status));
    check(&status, "Probe");
    soil(&status);
    flag = 0;
    MTEST_OK(MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &status));
    MTEST_CHECK(flag, "Iprobe says no");
    check(&status, "Iprobe");
    soil(&status);
    MTEST_OK(
        MPI_Sendrecv(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, &buf, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status));
    check(&status, "Sendrecv");
    soil(&status);
    MTEST_OK(MPI_Sendrecv_replace(&buf, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, comm, &status));
    check(&status, "Sendrecv_replace");
    soil(&status);
    MTEST_OK(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status));
    MTEST_CHECK(message == MPI_MESSAGE_NO_PROC, "Mprobe: not MPI_MESSAGE_NO_PROC");
    check(&status, "Mprobe");
    soil(&status);
    MTEST_OK(MPI_Mrecv(&buf, 1, MPI_INT, &message, &status));
    MTEST_CHECK(message == MPI_MESSAGE_NULL, "Mrecv leaves the message");
    check(&status, "Mrecv");
    flag = 0;
    MTEST_OK(MPI_Improbe(MPI_PROC_NULL, 1, comm, &flag, &message, &status));
    MTEST_CHECK(flag && message == MPI_MESSAGE_NO_PROC, "Improbe: flag %d", flag);
    MTEST_OK(MPI_Imrecv(&buf, 1, MPI_INT, &message, &request));
    soil(&status);
    MTEST_OK(MPI_Wait(&request, &status));
    check(&status, "Imrecv");
    /* A shift along a line with open ends. */
    int left = mtest_rank ? mtest_rank - 1 : MPI_PROC_NULL;
    int right = mtest_rank + 1 < mtest_size ? mtest_rank + 1 : MPI_PROC_NULL, from_left = -5;
    MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, right, 0, &from_left, 1, MPI_INT, left, 0, comm, &status));
    MTEST_CHECK(from_left == (mtest_rank ? mtest_rank - 1 : -5), "shift brought %d", from_left);
    MTEST_CHECK(status.MPI_SOURCE == left, "shift says source %d", status.MPI_SOURCE);
    return mtest_end();
}
