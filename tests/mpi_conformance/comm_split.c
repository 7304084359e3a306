/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_split: colours, keys (also equal and negative ones), MPI_UNDEFINED, nested and different splits at
 * once. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm comm, inner;
    int rank, size, value;
    mtest_init(&argc, &argv, 1);
    /* Ranks in reverse. */
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -mtest_rank, &comm));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MTEST_CHECK(size == mtest_size && rank == mtest_size - 1 - mtest_rank, "reversed: rank %d of %d", rank,
                size);
    value = mtest_rank;
    MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, 0, comm));
    MTEST_CHECK(value == mtest_size - 1, "its rank 0 is world rank %d", value);
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, got = -1;
    MTEST_OK(
        MPI_Sendrecv(&mtest_rank, 1, MPI_INT, next, 0, &got, 1, MPI_INT, prev, 0, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(got == mtest_size - 1 - prev, "ring in reverse brought %d", got);
    MTEST_OK(MPI_Comm_free(&comm));

    /* Equal keys keep the old order; three colours. */
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank % 3, 7, &comm));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MTEST_CHECK(rank == mtest_rank / 3 && size == (mtest_size - mtest_rank % 3 + 2) / 3,
                "colour %d: rank %d of %d", mtest_rank % 3, rank, size);
    /* Split the part again: pairs. */
    MTEST_OK(MPI_Comm_split(comm, rank / 2, rank, &inner));
    int inner_size, sum = 0;
    MPI_Comm_size(inner, &inner_size);
    MTEST_CHECK(inner_size == (rank / 2 * 2 + 1 < size ? 2 : 1), "pair of %d", inner_size);
    value = rank;
    MTEST_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inner));
    MTEST_CHECK(sum == (inner_size == 2 ? rank / 2 * 4 + 1 : rank), "sum in the pair is %d", sum);
    MTEST_OK(MPI_Comm_free(&inner));
    MTEST_OK(MPI_Comm_free(&comm));

    /* MPI_UNDEFINED gets no communicator; a colour of one rank. */
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank == 0 ? MPI_UNDEFINED : 2 * mtest_rank, 0, &comm));
    if (mtest_rank == 0) {
        MTEST_CHECK(comm == MPI_COMM_NULL, "MPI_UNDEFINED gets a communicator");
    } else {
        MPI_Comm_size(comm, &size);
        MTEST_CHECK(size == 1, "own colour: %d ranks", size);
        MTEST_OK(MPI_Comm_free(&comm));
    }
    /* A big odd colour and extreme keys. */
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, INT32_MAX,
                            mtest_rank % 2 ? INT32_MIN + mtest_rank : INT32_MAX - mtest_rank, &comm));
    MPI_Comm_rank(comm, &rank);
    int odds = mtest_size / 2;
    MTEST_CHECK(rank == (mtest_rank % 2 ? mtest_rank / 2 : odds + (mtest_size - 1) / 2 - mtest_rank / 2),
                "extreme keys: rank %d", rank);
    /* The parent works, also while the part exists, and is freed first. */
    MTEST_OK(MPI_Barrier(comm));
    MTEST_OK(MPI_Comm_dup(comm, &inner));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Barrier(inner));
    MTEST_OK(MPI_Comm_free(&inner));
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &comm), MPI_ERR_COMM);
    return mtest_end();
}
