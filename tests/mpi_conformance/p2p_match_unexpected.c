/* SPDX-License-Identifier: BSD-3-Clause */
/* A receive takes the earliest unexpected message that matches it: by tag in any order, by wildcard in
 * order. */
#include "mtest.h"

enum { TAGS = 50, ROUNDS = 4 };

static int receive(int source, int tag, int *tag_out)
{
    int got = -1;
    MPI_Status status;
    MTEST_OK(MPI_Recv(&got, 1, MPI_INT, source, tag, MPI_COMM_WORLD, &status));
    *tag_out = status.MPI_TAG;
    return got;
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int tag;
    if (mtest_rank == 0) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < 2 * TAGS; i++)
                MTEST_OK(MPI_Send(&i, 1, MPI_INT, 1, 10 + i % TAGS, MPI_COMM_WORLD));
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD));
        }
    }
    for (int round = 0; round < ROUNDS && mtest_rank == 1; round++) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); /* all are here now */
        if (round == 0) {
            for (int i = TAGS - 1; i >= 0; i--) {
                int first = receive(0, 10 + i, &tag), second = receive(MPI_ANY_SOURCE, 10 + i, &tag);
                MTEST_CHECK(first == i && second == i + TAGS, "tag %d: got %d then %d", 10 + i, first,
                            second);
            }
        } else if (round == 1) {
            for (int i = 0; i < 2 * TAGS; i++) {
                int got = receive(i % 2 ? 0 : MPI_ANY_SOURCE, MPI_ANY_TAG, &tag);
                MTEST_CHECK(got == i && tag == 10 + i % TAGS, "wildcard %d got %d (tag %d)", i, got, tag);
            }
        } else if (round == 2) {
            /* Take every third tag by name first; the wildcard then sees the others, in order. */
            for (int i = 0; i < TAGS; i += 3)
                MTEST_CHECK(receive(0, 10 + i, &tag) == i, "tag %d: not its first message", 10 + i);
            for (int i = 0; i < 2 * TAGS; i++) {
                if (i < TAGS && i % 3 == 0)
                    continue;
                int got = receive(0, MPI_ANY_TAG, &tag);
                MTEST_CHECK(got == i, "wildcard got %d, expected %d", got, i);
            }
        } else {
            /* The other way: wildcards first, then tags by name. */
            for (int i = 0; i < TAGS + 7; i++)
                MTEST_CHECK(receive(0, MPI_ANY_TAG, &tag) == i, "wildcard %d out of order", i);
            for (int i = 2 * TAGS - 1; i >= TAGS + 7; i--)
                MTEST_CHECK(receive(0, 10 + i % TAGS, &tag) == i, "tag %d out of order", 10 + i % TAGS);
        }
    }
    return mtest_end();
}
