/* SPDX-License-Identifier: BSD-3-Clause */
/* A message shorter than the receive buffer arrives with its own length; the rest of the buffer is
 * untouched. */
#include "mtest.h"

int main(int argc, char **argv)
{
    static unsigned char buf[200000];
    static const int lens[] = {0, 1, 9, 1000, 8192, 70000, 199999};
    mtest_init(&argc, &argv, 2);
    for (int i = 0; i < 7; i++) {
        int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size, count;
        unsigned char *out = mtest_alloc((size_t)lens[i]);
        MPI_Request request;
        MPI_Status status;
        mtest_fill(out, (size_t)lens[i], (unsigned)mtest_rank);
        MTEST_OK(MPI_Isend(out, lens[i], MPI_BYTE, next, 5, MPI_COMM_WORLD, &request));
        memset(buf, 0x5a, sizeof buf);
        MTEST_OK(MPI_Recv(buf, sizeof buf, MPI_BYTE, prev, 5, MPI_COMM_WORLD, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        MTEST_CHECK(count == lens[i], "count %d, expected %d", count, lens[i]);
        MTEST_CHECK(mtest_differs(buf, (size_t)lens[i], (unsigned)prev) < 0, "wrong data of %d bytes",
                    lens[i]);
        MTEST_CHECK(mtest_touched(buf + lens[i], sizeof buf - (size_t)lens[i], 0x5a) < 0,
                    "bytes behind a message of %d bytes were written", lens[i]);
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        free(out);
    }
    return mtest_end();
}
