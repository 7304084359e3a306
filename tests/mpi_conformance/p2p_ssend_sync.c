/* SPDX-License-Identifier: BSD-3-Clause */
/* A synchronous send is not complete before its receive has started; a standard one may be. */
#include "mtest.h"

static int pending_after_tests(MPI_Request *request)
{
    int flag = 0;
    for (int i = 0; i < 200 && !flag; i++)
        MTEST_OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    return !flag;
}

int main(int argc, char **argv)
{
    static const int lens[] = {0, 8, 5000, 300000};
    mtest_init(&argc, &argv, 2);
    unsigned char *buf = mtest_alloc(300000);
    for (int i = 0; i < 4 && mtest_rank < 2; i++) {
        MPI_Request request;
        int token = 0;
        if (mtest_rank == 0) {
            mtest_fill(buf, (size_t)lens[i], 3);
            MTEST_OK(MPI_Issend(buf, lens[i], MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
            MTEST_CHECK(pending_after_tests(&request), "Issend of %d bytes ended before the receive",
                        lens[i]);
            /* The other rank looks at the message, but does not receive it: still pending. */
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(pending_after_tests(&request), "Issend of %d bytes ended after a mere probe",
                        lens[i]);
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            /* Ssend: when it returns, the receiver has started the receive that it announced. */
            token = 17;
            MTEST_OK(MPI_Ssend(&token, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
        } else {
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Recv(buf, lens[i], MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(mtest_differs(buf, (size_t)lens[i], 3) < 0, "wrong data in %d bytes", lens[i]);
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(token == 17, "Ssend brought %d", token);
        }
    }
    free(buf);
    return mtest_end();
}
