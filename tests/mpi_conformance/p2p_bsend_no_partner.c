/* SPDX-License-Identifier: BSD-3-Clause */
/* A buffered send completes without a receive: two ranks may both Bsend first, even large messages. */
#include "mtest.h"

enum { LEN = 1 << 20 };

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    char *space = mtest_alloc(LEN + MPI_BSEND_OVERHEAD), *out = mtest_alloc(LEN), *in = mtest_alloc(LEN);
    if (peer < mtest_size) {
        void *addr;
        int size;
        MTEST_OK(MPI_Buffer_attach(space, LEN + MPI_BSEND_OVERHEAD));
        mtest_fill(out, LEN, (unsigned)mtest_rank);
        MTEST_OK(MPI_Bsend(out, LEN, MPI_BYTE, peer, 0, MPI_COMM_WORLD));
        memset(out, 0, LEN);
        MTEST_OK(MPI_Recv(in, LEN, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_CHECK(mtest_differs(in, LEN, (unsigned)peer) < 0, "wrong data");
        MTEST_OK(MPI_Buffer_detach(&addr, &size));
    }
    free(space);
    free(out);
    free(in);
    return mtest_end();
}
