/* SPDX-License-Identifier: BSD-3-Clause */
/* Alloc_mem gives usable memory for messages, Free_mem takes it back; wrong sizes and failure are errors. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int *mem = NULL, *more = NULL;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) {
        MTEST_OK(MPI_Alloc_mem(100000 * sizeof(int), MPI_INFO_NULL, &mem));
        MTEST_OK(MPI_Alloc_mem(100000 * sizeof(int), MPI_INFO_NULL, &more));
        MTEST_CHECK(mem != NULL && more != NULL && mem != more && (uintptr_t)mem % sizeof(int) == 0,
                    "no memory");
        for (int j = 0; j < 100000; j++)
            mem[j] = mtest_rank + i + j;
        MTEST_OK(MPI_Sendrecv(mem, 100000, MPI_INT, mtest_rank, 0, more, 100000, MPI_INT, mtest_rank, 0,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_CHECK(memcmp(mem, more, 100000 * sizeof(int)) == 0, "wrong data");
        MTEST_OK(MPI_Free_mem(mem));
        MTEST_OK(MPI_Free_mem(more));
    }
    MTEST_CLASS(MPI_Alloc_mem(-1, MPI_INFO_NULL, &mem), MPI_ERR_ARG);
    return mtest_end();
}
