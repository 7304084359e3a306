/* SPDX-License-Identifier: BSD-3-Clause */
/* A freed active request still completes: the send arrives, and the handle is null at once. */
#include "mtest.h"

enum { N = 50, LEN = 2000 };

static int out[N][LEN], in[LEN];

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < N; i++) {
        MPI_Request request;
        for (int j = 0; j < LEN; j++)
            out[i][j] = mtest_rank * 100 + i + j;
        MTEST_OK(MPI_Isend(out[i], i % 3 ? LEN : 1, MPI_INT, next, i, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Request_free(&request));
        MTEST_CHECK(request == MPI_REQUEST_NULL, "Request_free leaves the handle");
    }
    for (int i = N - 1; i >= 0; i--) {
        int len = i % 3 ? LEN : 1;
        MTEST_OK(MPI_Recv(in, LEN, MPI_INT, prev, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int j = 0; j < len; j++)
            if (in[j] != prev * 100 + i + j) {
                MTEST_CHECK(0, "message %d element %d is %d", i, j, in[j]);
                break;
            }
    }
    /* A freed receive: completion shows through a later message of the same sender. */
    MPI_Request request;
    in[0] = -1;
    MTEST_OK(MPI_Irecv(in, 1, MPI_INT, prev, 500, MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Request_free(&request));
    int value = 77 + mtest_rank;
    MTEST_OK(MPI_Send(&value, 1, MPI_INT, next, 500, MPI_COMM_WORLD));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Sendrecv(NULL, 0, MPI_INT, next, 501, NULL, 0, MPI_INT, prev, 501, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(in[0] == 77 + prev, "the freed receive has %d", in[0]);
    /* Freeing null is an error. */
    mtest_errors_return(MPI_COMM_WORLD);
    request = MPI_REQUEST_NULL;
    MTEST_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    return mtest_end();
}
