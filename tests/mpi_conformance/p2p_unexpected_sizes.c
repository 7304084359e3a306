/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrive before their receives keep their bytes, at sizes around every power of two up to 1
 * MiB. */
#include "mtest.h"

enum { SIZE_MAX_LOG = 20, AROUND = 64, STEP = 8, PER_POWER = 2 * AROUND / STEP + 1 };

static size_t size_of(int power, int i)
{
    return ((size_t)1 << power) - AROUND + (size_t)(i * STEP);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    unsigned char *buf = malloc(((size_t)1 << SIZE_MAX_LOG) + AROUND);
    for (int power = 6; power <= SIZE_MAX_LOG; power++) {
        /* Each rank sends to the next one, which looks for nothing before all have sent. */
        int next = (mtest_rank + 1) % mtest_size, last = (mtest_rank + mtest_size - 1) % mtest_size;
        MPI_Request requests[PER_POWER];
        unsigned char *sent[PER_POWER];
        for (int i = 0; i < PER_POWER; i++) {
            size_t n = size_of(power, i);
            sent[i] = malloc(n ? n : 1);
            mtest_fill(sent[i], n, (unsigned)(mtest_rank + i));
            MTEST_OK(MPI_Isend(sent[i], (int)n, MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[i]));
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = PER_POWER - 1; i >= 0; i--) {
            size_t n = size_of(power, i);
            MPI_Status status;
            int count = -1;
            MTEST_OK(MPI_Recv(buf, (int)n, MPI_BYTE, last, i, MPI_COMM_WORLD, &status));
            MPI_Get_count(&status, MPI_BYTE, &count);
            MTEST_CHECK(count == (int)n, "got %d bytes of %zu", count, n);
            MTEST_CHECK(mtest_differs(buf, n, (unsigned)(last + i)) < 0, "%zu bytes: byte %ld differs", n,
                        mtest_differs(buf, n, (unsigned)(last + i)));
        }
        MTEST_OK(MPI_Waitall(PER_POWER, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PER_POWER; i++)
            free(sent[i]);
    }
    free(buf);
    return mtest_end();
}
