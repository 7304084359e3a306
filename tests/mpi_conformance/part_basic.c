/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication: partitions that become ready in any order arrive; different partition counts;
 * many rounds. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION >= 4
    enum { PARTS = 8, LEN = 500 };
    static int out[PARTS * LEN], in[PARTS * LEN];
    MPI_Request requests[2];
    int flag, next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int variant = 0; variant < 3; variant++) {
        int rparts = variant == 0 ? PARTS : variant == 1 ? PARTS / 2 : PARTS * 2;
        MTEST_OK(MPI_Precv_init(in, rparts, PARTS * LEN / rparts, MPI_INT, prev, variant, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &requests[0]));
        MTEST_OK(MPI_Psend_init(out, PARTS, LEN, MPI_INT, next, variant, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &requests[1]));
        for (int round = 0; round < 10; round++) {
            memset(in, 0xff, sizeof in);
            MTEST_OK(MPI_Startall(2, requests));
            for (int k = 0; k < PARTS; k++) {
                int part = (k * 3 + mtest_rank) % PARTS;
                for (int i = 0; i < LEN; i++)
                    out[part * LEN + i] = mtest_rank * 7 + round + part * LEN + i;
                if (round % 3 == 0) {
                    MTEST_OK(MPI_Pready(part, requests[1]));
                } else if (round % 3 == 1) {
                    MTEST_OK(MPI_Pready_range(part, part, requests[1]));
                } else {
                    MTEST_OK(MPI_Pready_list(1, &part, requests[1]));
                }
            }
            for (int part = rparts - 1; part >= 0 && round % 2; part--) {
                for (flag = 0; !flag;)
                    MTEST_OK(MPI_Parrived(requests[0], part, &flag));
                int first = part * (PARTS * LEN / rparts);
                MTEST_CHECK(in[first] == prev * 7 + round + first, "partition %d arrived with %d", part,
                            in[first]);
            }
            MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < PARTS * LEN; i++)
                if (in[i] != prev * 7 + round + i) {
                    MTEST_CHECK(0, "variant %d round %d: element %d is %d", variant, round, i, in[i]);
                    break;
                }
        }
        MTEST_OK(MPI_Request_free(&requests[0]));
        MTEST_OK(MPI_Request_free(&requests[1]));
    }
#else
    mtest_skip("partitioned communication needs MPI 4");
#endif
    return mtest_end();
}
