/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffered sends: attach, detach, reuse of the whole buffer after delivery, and MPI_ERR_BUFFER when it is
 * full. */
#include "mtest.h"

enum { LEN = 1000, N = 10 };

int main(int argc, char **argv)
{
    static unsigned char out[LEN], in[LEN];
    void *addr;
    int size, packed;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    /* Without a buffer. */
    MTEST_CLASS(MPI_Bsend(out, 1, MPI_BYTE, mtest_rank, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Pack_size(LEN, MPI_BYTE, MPI_COMM_WORLD, &packed));
    int room = N * (packed + MPI_BSEND_OVERHEAD);
    char *space = mtest_alloc((size_t)room);
    MTEST_OK(MPI_Buffer_attach(space, room));
    MTEST_CLASS2(MPI_Buffer_attach(space, room), MPI_ERR_BUFFER, MPI_ERR_OTHER); /* one at a time */
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N; i++) {
            mtest_fill(out, LEN, (unsigned)(i + round));
            MTEST_OK(MPI_Bsend(out, LEN, MPI_BYTE, mtest_rank, i, MPI_COMM_WORLD));
            memset(out, 0, LEN);
        }
        /* Full; earlier messages are not harmed. */
        if (round == 1)
            MTEST_CLASS(MPI_Bsend(space, room, MPI_BYTE, mtest_rank, 99, MPI_COMM_WORLD), MPI_ERR_BUFFER);
        for (int i = N - 1; i >= 0; i--) {
            MTEST_OK(MPI_Recv(in, LEN, MPI_BYTE, mtest_rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(mtest_differs(in, LEN, (unsigned)(i + round)) < 0, "wrong data in message %d", i);
        }
    }
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    MTEST_CHECK(addr == space && size == room, "detach gives another buffer");
    /* Detach waits for delivery: afterwards the buffer may be overwritten. */
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    if (next != mtest_rank) {
        MPI_Request request;
        MTEST_OK(MPI_Irecv(in, LEN, MPI_BYTE, prev, 7, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Buffer_attach(space, room));
        mtest_fill(out, LEN, (unsigned)mtest_rank);
        MTEST_OK(MPI_Bsend(out, LEN, MPI_BYTE, next, 7, MPI_COMM_WORLD));
        MTEST_OK(MPI_Buffer_detach(&addr, &size));
        memset(space, 0xee, (size_t)room);
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MTEST_CHECK(mtest_differs(in, LEN, (unsigned)prev) < 0, "Detach did not wait for the message");
    }
    free(space);
    return mtest_end();
}
