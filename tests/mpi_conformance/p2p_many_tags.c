/* SPDX-License-Identifier: BSD-3-Clause */
/* 10,000 posted receives with distinct tags each get their own message, sent in the opposite order; tags up
 * to TAG_UB. */
#include "mtest.h"

enum { N = 10000 };

static int in[N];
static MPI_Request requests[N];

int main(int argc, char **argv)
{
    int *tag_ub = NULL, flag = 0;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
    MTEST_CHECK(flag && *tag_ub >= 32767, "MPI_TAG_UB is %d", flag ? *tag_ub : -1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < N; i++) {
        in[i] = -1;
        MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, prev, *tag_ub - i, MPI_COMM_WORLD, &requests[i]));
    }
    MTEST_OK(MPI_Sendrecv(NULL, 0, MPI_INT, prev, 3, NULL, 0, MPI_INT, next, 3, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    for (int i = N - 1; i >= 0; i--) {
        int value = mtest_rank * N + i;
        MTEST_OK(MPI_Send(&value, 1, MPI_INT, next, *tag_ub - i, MPI_COMM_WORLD));
    }
    MTEST_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(in[i] == prev * N + i, "tag %d got %d, expected %d", *tag_ub - i, in[i], prev * N + i);
    return mtest_end();
}
