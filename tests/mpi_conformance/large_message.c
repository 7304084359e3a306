/* SPDX-License-Identifier: BSD-3-Clause */
/* One message of more than 2 GiB (int count of a larger type, and a count above INT_MAX by the _c form). */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    size_t len = ((size_t)2 << 30) + 4096;
    MPI_Datatype page;
    MPI_Status status;
    int pages = 0;
    MTEST_OK(MPI_Type_contiguous(4096, MPI_BYTE, &page));
    MTEST_OK(MPI_Type_commit(&page));
    if (mtest_rank < 2) {
        unsigned char *buf = mtest_alloc(len);
        if (mtest_rank == 0) {
            mtest_fill(buf, len, 5);
            MTEST_OK(MPI_Send(buf, (int)(len / 4096), page, 1, 0, MPI_COMM_WORLD));
#if MPI_VERSION >= 4
            MTEST_OK(MPI_Send_c(buf, (MPI_Count)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
#endif
        } else {
            buf[len - 1] = buf[0] = 0;
            MTEST_OK(MPI_Recv(buf, (int)(len / 4096), page, 0, 0, MPI_COMM_WORLD, &status));
            MTEST_OK(MPI_Get_count(&status, page, &pages));
            MTEST_CHECK(pages == (int)(len / 4096), "%d pages", pages);
            MTEST_CHECK(mtest_differs(buf, len, 5) < 0, "wrong data at %ld", mtest_differs(buf, len, 5));
            MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &pages));
            MTEST_CHECK(pages == MPI_UNDEFINED, "a count that does not fit an int is %d", pages);
#if MPI_VERSION >= 4
            MPI_Count count = 0;
            memset(buf, 0, len);
            MTEST_OK(MPI_Recv_c(buf, (MPI_Count)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status));
            MTEST_OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
            MTEST_CHECK(count == (MPI_Count)len, "count %lld", (long long)count);
            MTEST_CHECK(mtest_differs(buf, len, 5) < 0, "wrong data at %ld", mtest_differs(buf, len, 5));
#endif
        }
        free(buf);
    }
    MTEST_OK(MPI_Type_free(&page));
    return mtest_end();
}
