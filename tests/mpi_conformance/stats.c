/* SPDX-License-Identifier: BSD-3-Clause */
/* +stats counts the messages, bytes and collectives of each rank, and the time in sleep. The numbers are in testlist. */
#include "mtest.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    static char data[100000];
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Request request;
    MPI_Message message;
    MPI_Session session;

    if (strcmp(what, "session") == 0) {
        MTEST_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        MTEST_OK(MPI_Session_finalize(&session));
        return mtest_errors > 0;
    }
    mtest_init(&argc, &argv, 2);
    for (int i = 0; i < 3; i++) {
        if (mtest_rank == 0)
            MTEST_OK(MPI_Send(data, 100, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        else if (mtest_rank == 1)
            MTEST_OK(MPI_Recv(data, 200, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Isend(data, sizeof data, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Irecv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Send(data, 4, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Mprobe(0, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Mrecv(data, 4, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(what, "sleep") == 0)
        usleep(300000);
    return mtest_end();
}
