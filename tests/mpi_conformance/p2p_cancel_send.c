/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancel removes a send that waits for its receive, and Wait returns; a matched send completes. */
#include "mtest.h"

enum { LARGE = 300000 };

static unsigned char out[3][LARGE], in[LARGE];
static int next, prev;

static int is_cancelled(MPI_Request *request)
{
    MPI_Status status;
    int flag = -1;

    MTEST_OK(MPI_Wait(request, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    return flag;
}

static void tell(int what, int to)
{
    MTEST_OK(MPI_Send(&what, 1, MPI_INT, to, 99, MPI_COMM_WORLD));
}

static int hear(int from)
{
    int what = -1;

    MTEST_OK(MPI_Recv(&what, 1, MPI_INT, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return what;
}

static void receive(int n_bytes, int tag, unsigned seed, MPI_Comm comm)
{
    MTEST_OK(MPI_Recv(in, n_bytes, MPI_BYTE, prev, tag, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, (size_t)n_bytes, seed) < 0, "%d bytes, tag %d: wrong data", n_bytes, tag);
}

/* Three sends with one tag; the one in the middle is taken back, if it still waits. */
static void try_middle(int n_bytes, int is_sync, int probe_first)
{
    MPI_Request requests[3];
    MPI_Comm comm;
    int flag = 0, gone, prev_gone;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < 3; i++) {
        mtest_fill(out[i], (size_t)n_bytes, (unsigned)i);
        MTEST_OK((is_sync ? MPI_Issend : MPI_Isend)(out[i], n_bytes, MPI_BYTE, next, 5, comm, &requests[i]));
    }
    while (probe_first && !flag) /* a probe does not take it */
        MTEST_OK(MPI_Iprobe(prev, 5, comm, &flag, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(comm));
    MTEST_OK(MPI_Cancel(&requests[1]));
    MTEST_CHECK(requests[1] != MPI_REQUEST_NULL, "Cancel frees the request");
    gone = is_cancelled(&requests[1]);
    MTEST_CHECK(gone || !is_sync, "%d bytes: a synchronous send without a receive is not cancelled", n_bytes);
    memset(out[1], 0xee, (size_t)n_bytes);
    tell(gone, next);
    prev_gone = hear(prev);
    for (int i = 0; i < 3; i++)
        if (i != 1 || !prev_gone)
            receive(n_bytes, 5, (unsigned)i, comm);
    MTEST_OK(MPI_Iprobe(prev, 5, comm, &flag, MPI_STATUS_IGNORE));
    MTEST_CHECK(!flag, "one message too many");
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Comm_free(&comm));
}

/* One that a matched probe has taken is too late to cancel, and so is one that has been received. */
static void try_matched(int n_bytes)
{
    MPI_Request requests[2];
    MPI_Message message;

    mtest_fill(out[0], (size_t)n_bytes, 7);
    MTEST_OK(MPI_Issend(out[0], n_bytes, MPI_BYTE, next, 6, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Issend(out[0], n_bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Mprobe(prev, 6, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    receive(n_bytes, 7, 7, MPI_COMM_WORLD);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Cancel(&requests[0]));
    MTEST_OK(MPI_Cancel(&requests[1]));
    memset(in, 0, sizeof in);
    MTEST_OK(MPI_Mrecv(in, n_bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, (size_t)n_bytes, 7) < 0, "wrong data in a matched message");
    MTEST_CHECK(!is_cancelled(&requests[0]), "a message that a probe has taken was cancelled");
    MTEST_CHECK(!is_cancelled(&requests[1]), "a message that was received was cancelled");
}

/* Cancelling ends one start of a persistent send. */
static void try_persistent(int n_bytes)
{
    MPI_Request request;

    mtest_fill(out[0], (size_t)n_bytes, 9);
    MTEST_OK(MPI_Ssend_init(out[0], n_bytes, MPI_BYTE, next, 8, MPI_COMM_WORLD, &request));
    for (int round = 0; round < 3; round++) {
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Cancel(&request));
        MTEST_OK(MPI_Cancel(&request));
        MTEST_CHECK(is_cancelled(&request), "round %d: a persistent send is not cancelled", round);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPI_Start(&request));
        receive(n_bytes, 8, 9, MPI_COMM_WORLD);
        MTEST_CHECK(!is_cancelled(&request), "round %d: a send that was received is cancelled", round);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MTEST_OK(MPI_Request_free(&request));
}

/* Neither the communicator nor the request is needed until the end. */
static void try_freed(int n_bytes)
{
    MPI_Comm comm;
    MPI_Request requests[2];
    int flag;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Issend(out[0], n_bytes, MPI_BYTE, next, 1, comm, &requests[0]));
    MTEST_OK(MPI_Issend(out[0], n_bytes, MPI_BYTE, next, 1, comm, &requests[1]));
    MTEST_OK(MPI_Cancel(&requests[1]));
    MTEST_OK(MPI_Request_free(&requests[1]));
    MTEST_OK(MPI_Cancel(&requests[0]));
    MTEST_CHECK(is_cancelled(&requests[0]), "%d bytes: not cancelled", n_bytes);
    MTEST_OK(MPI_Barrier(comm));
    MTEST_OK(MPI_Barrier(comm));
    MTEST_OK(MPI_Iprobe(prev, 1, comm, &flag, MPI_STATUS_IGNORE));
    MTEST_CHECK(!flag, "a cancelled message is there");
    MTEST_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 5000, LARGE};
    mtest_init(&argc, &argv, 1);
    next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < 4; i++) {
        for (int how = 0; how < 4; how++)
            try_middle(sizes[i], how & 1, how >> 1);
        try_matched(sizes[i]);
        try_persistent(sizes[i]);
        try_freed(sizes[i]);
    }
    return mtest_end();
}
