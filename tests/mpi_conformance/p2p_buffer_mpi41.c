/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI 4.1: buffers of a communicator and automatic ones, Buffer_flush, and
 * Request_get_status_any/some/all. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    static char space[4096 + MPI_BSEND_OVERHEAD], out[4096], in[4096];
    MPI_Comm comm;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    void *addr;
    int size, flag, index, outcount, indices[2];
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mtest_errors_return(comm);
    MTEST_OK(MPI_Comm_attach_buffer(comm, space, sizeof space));
    mtest_fill(out, sizeof out, 1);
    MTEST_OK(MPI_Bsend(out, sizeof out, MPI_BYTE, mtest_rank, 0, comm));
    MTEST_CLASS(MPI_Bsend(out, sizeof out, MPI_BYTE, mtest_rank, 0, comm), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Bsend(out, 1, MPI_BYTE, mtest_rank, 0, MPI_COMM_WORLD),
                MPI_ERR_BUFFER); /* another one's buffer */
    MTEST_OK(MPI_Recv(in, sizeof in, MPI_BYTE, mtest_rank, 0, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, sizeof in, 1) < 0, "wrong data");
    MTEST_OK(MPI_Comm_flush_buffer(comm));
    MTEST_OK(MPI_Comm_detach_buffer(comm, &addr, &size));
    MTEST_CHECK(addr == space && size == (int)sizeof space, "another buffer comes back");
    MTEST_OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    for (int i = 0; i < 50; i++)
        MTEST_OK(MPI_Bsend(out, sizeof out, MPI_BYTE, mtest_rank, i, MPI_COMM_WORLD));
    for (int i = 0; i < 50; i++)
        MTEST_OK(MPI_Recv(in, sizeof in, MPI_BYTE, mtest_rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Buffer_flush());
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    MTEST_CHECK(addr == MPI_BUFFER_AUTOMATIC && size == 0, "detach of the automatic buffer: size %d", size);
    MTEST_OK(MPI_Comm_free(&comm));

    MTEST_OK(MPI_Irecv(in, 10, MPI_BYTE, mtest_rank, 100, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Irecv(in + 10, 10, MPI_BYTE, mtest_rank, 101, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Request_get_status_any(2, requests, &index, &flag, statuses));
    MTEST_CHECK(!flag, "done without a message");
    MTEST_OK(MPI_Send(out, 10, MPI_BYTE, mtest_rank, 101, MPI_COMM_WORLD));
    for (flag = 0; !flag;)
        MTEST_OK(MPI_Request_get_status_any(2, requests, &index, &flag, statuses));
    MTEST_CHECK(index == 1 && statuses[0].MPI_TAG == 101 && requests[1] != MPI_REQUEST_NULL, "index %d",
                index);
    MTEST_OK(MPI_Request_get_status_some(2, requests, &outcount, indices, statuses));
    MTEST_CHECK(outcount == 1 && indices[0] == 1, "some: %d", outcount);
    MTEST_OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    MTEST_CHECK(!flag, "all: done after one of two");
    MTEST_OK(MPI_Send(out, 10, MPI_BYTE, mtest_rank, 100, MPI_COMM_WORLD));
    for (flag = 0; !flag;)
        MTEST_OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    MTEST_CHECK(statuses[0].MPI_TAG == 100 && requests[0] != MPI_REQUEST_NULL, "all: tag %d",
                statuses[0].MPI_TAG);
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
#else
    mtest_skip("needs MPI 4.1");
#endif
    return mtest_end();
}
