/* SPDX-License-Identifier: BSD-3-Clause */
/* A send is cancelled or received also if its destination has freed the communicator meanwhile: before the
 * message arrived, while it waited, or after it was received. */
#include "mtest.h"

enum { LARGE = 300000 };

static unsigned char out[LARGE], in[LARGE];

static void tell(int to)
{
    MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, to, 99, MPI_COMM_WORLD));
}

static void hear(int from)
{
    MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

enum when { BEFORE_IT_COMES, WHILE_IT_WAITS, AFTER_RECEIVE };

static void send_and_cancel(MPI_Comm comm, int to, int n_bytes, int is_sync, enum when when)
{
    MPI_Request request;
    MPI_Status status;
    int flag = -1;

    if (when == BEFORE_IT_COMES)
        hear(to);
    MTEST_OK((is_sync ? MPI_Issend : MPI_Isend)(out, n_bytes, MPI_BYTE, to, 1, comm, &request));
    tell(to);
    if (when != BEFORE_IT_COMES)
        hear(to);
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    if (when == AFTER_RECEIVE)
        MTEST_CHECK(!flag, "%d bytes: a message that was received is cancelled", n_bytes);
    else
        MTEST_CHECK(flag || !is_sync, "%d bytes, case %d: not cancelled", n_bytes, (int)when);
    MTEST_OK(MPI_Comm_free(&comm));
}

static void receive_and_free(MPI_Comm comm, int from, int n_bytes, enum when when)
{
    int flag = 0;

    if (when == AFTER_RECEIVE) {
        MTEST_OK(MPI_Recv(in, n_bytes, MPI_BYTE, from, 1, comm, MPI_STATUS_IGNORE));
        MTEST_CHECK(mtest_differs(in, (size_t)n_bytes, 5) < 0, "%d bytes: wrong data", n_bytes);
    }
    while (when == WHILE_IT_WAITS && !flag)
        MTEST_OK(MPI_Iprobe(from, 1, comm, &flag, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Comm_free(&comm));
    if (when == BEFORE_IT_COMES)
        tell(from);
    hear(from);
    if (when != BEFORE_IT_COMES)
        tell(from);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 5000, LARGE};
    MPI_Comm comm;

    mtest_init(&argc, &argv, 2);
    mtest_fill(out, LARGE, 5);
    for (int i = 0; i < 4 * 2 * 3; i++) {
        int last = mtest_size - 1, n_bytes = sizes[i % 4], is_sync = i / 4 % 2;
        enum when when = (enum when)(i / 8);
        if (when == BEFORE_IT_COMES && !is_sync)
            continue; /* wrong: no rank can receive it, and it may be too late to cancel it */
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (mtest_rank == 0)
            send_and_cancel(comm, last, n_bytes, is_sync, when);
        else if (mtest_rank == last)
            receive_and_free(comm, 0, n_bytes, when);
        else
            MTEST_OK(MPI_Comm_free(&comm));
    }
    /* Later messages are in order. */
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Barrier(comm));
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
