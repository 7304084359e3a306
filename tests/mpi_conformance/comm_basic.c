/* SPDX-License-Identifier: BSD-3-Clause */
/* World and self have the right size and rank; dup gives a congruent communicator with its own messages. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm dup, self_dup, many[50];
    int rank, size, result, value, flag;
    MPI_Status status;
    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(mtest_rank >= 0 && mtest_rank < mtest_size, "rank %d of %d", mtest_rank, mtest_size);
    MTEST_OK(MPI_Comm_size(MPI_COMM_SELF, &size));
    MTEST_OK(MPI_Comm_rank(MPI_COMM_SELF, &rank));
    MTEST_CHECK(size == 1 && rank == 0, "MPI_COMM_SELF: rank %d of %d", rank, size);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &self_dup));
    MTEST_OK(MPI_Comm_size(dup, &size));
    MTEST_OK(MPI_Comm_rank(dup, &rank));
    MTEST_CHECK(size == mtest_size && rank == mtest_rank, "dup: rank %d of %d", rank, size);
    MTEST_OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result));
    MTEST_CHECK(result == MPI_IDENT, "world and world: %d", result);
    MTEST_OK(MPI_Comm_compare(MPI_COMM_WORLD, dup, &result));
    MTEST_CHECK(result == MPI_CONGRUENT, "world and its dup: %d", result);
    MTEST_OK(MPI_Comm_compare(MPI_COMM_SELF, dup, &result));
    MTEST_CHECK(result == (mtest_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL), "self and the dup of world: %d",
                result);

    /* Messages of different communicators do not match each other, wildcards or not. */
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MPI_Request sends[3];
    int out[3] = {1, 2, 3};
    MTEST_OK(MPI_Isend(&out[0], 1, MPI_INT, next, 5, MPI_COMM_WORLD, &sends[0]));
    MTEST_OK(MPI_Isend(&out[1], 1, MPI_INT, next, 5, dup, &sends[1]));
    MTEST_OK(MPI_Isend(&out[2], 1, MPI_INT, 0, 5, self_dup, &sends[2]));
    MTEST_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self_dup, &status));
    MTEST_CHECK(value == 3 && status.MPI_SOURCE == 0, "on the dup of self: %d", value);
    MTEST_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &status));
    MTEST_CHECK(value == 2 && status.MPI_SOURCE == prev, "on the dup: %d", value);
    MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &flag, &status));
    MTEST_CHECK(!flag, "a message too many on the dup");
    MTEST_OK(MPI_Recv(&value, 1, MPI_INT, prev, 5, MPI_COMM_WORLD, &status));
    MTEST_CHECK(value == 1, "on world: %d", value);
    MTEST_OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));

    /* Posted on many communicators, sent in another order. */
    MPI_Request recvs[50];
    int in[50];
    for (int i = 0; i < 50; i++) {
        MTEST_OK(MPI_Comm_dup(i ? many[i - 1] : dup, &many[i]));
        in[i] = -1;
        MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, 1, many[i], &recvs[i]));
    }
    for (int i = 49; i >= 0; i--)
        MTEST_OK(MPI_Send(&i, 1, MPI_INT, next, 1, many[i]));
    MTEST_OK(MPI_Waitall(50, recvs, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 50; i++) {
        MTEST_CHECK(in[i] == i, "communicator %d got the message of %d", i, in[i]);
        MTEST_OK(MPI_Comm_free(&many[i]));
        MTEST_CHECK(many[i] == MPI_COMM_NULL, "Comm_free leaves the handle");
    }
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Comm_free(&self_dup));
    /* Context ids come back: far more than any table has room for at once. */
    for (int i = 0; i < 5000; i++) {
        MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
        MTEST_OK(MPI_Comm_free(&dup));
    }
    return mtest_end();
}
