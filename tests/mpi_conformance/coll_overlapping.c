/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on disjoint and overlapping communicators run at once, in different orders, without mixing. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm row, column, dup;
    int sum;
    mtest_init(&argc, &argv, 2);
    int width = 2, x = mtest_rank % width, y = mtest_rank / width, me, n;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, y, x, &row));
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, x, y, &column));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    for (int round = 0; round < 50; round++) {
        /* Rows run ahead of each other by different amounts. */
        for (int i = 0; i <= y % 3; i++) {
            MPI_Comm_size(row, &n);
            int one = 1;
            MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, row));
            MTEST_CHECK(sum == n, "row: %d", sum);
        }
        int value = round * 100 + y;
        MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, 0, column));
        MTEST_CHECK(value == round * 100, "column: %d", value);
        MPI_Comm_rank(column, &me);
        MPI_Comm_size(column, &n);
        MTEST_OK(MPI_Scan(&me, &sum, 1, MPI_INT, MPI_SUM, column));
        MTEST_CHECK(sum == me * (me + 1) / 2, "column scan: %d", sum);
        if (round % 10 == 0) {
            MTEST_OK(
                MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, round % 20 ? dup : MPI_COMM_WORLD));
            MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "world: %d", sum);
        }
    }
    MTEST_OK(MPI_Comm_free(&row));
    MTEST_OK(MPI_Comm_free(&column));
    MTEST_OK(MPI_Comm_free(&dup));
    return mtest_end();
}
