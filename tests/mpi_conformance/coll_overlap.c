/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks compute between start and wait of nonblocking collectives, small and large, and these progress
 * meanwhile without MPI_Test: the results are in the buffers before the requests are tested. */
#include "mtest.h"

enum { MOST = 100000, LOOKS_MOST = 100000 };

static volatile long *sum, *cast;
static volatile int *turned;
static long *mine;
static int *blocks;

/* Something that takes a while and can be checked. */
static void compute(int round)
{
    unsigned long x = (unsigned long)(mtest_rank + round) | 1, y = x;
    for (int i = 0; i < 20000; i++)
        x = x * 6364136223846793005ul + 1442695040888963407ul;
    for (int i = 0; i < 20000; i++)
        y = y * 6364136223846793005ul + 1442695040888963407ul;
    MTEST_CHECK(x == y, "computed %lx and %lx", x, y);
}

static void one_round(MPI_Comm other, int round, int count)
{
    int root = round % mtest_size, n_looks = 0, last = count - 1;
    long total = (long)mtest_size * (mtest_size + 1) / 2 + (long)mtest_size * round, casted = 1000 + round;
    MPI_Request requests[3];
    for (int i = 0; i < count; i++) {
        mine[i] = mtest_rank + 1 + round;
        sum[i] = -1;
        cast[i] = mtest_rank == root ? casted : -1;
    }
    for (int r = 0; r < mtest_size; r++) {
        blocks[r] = mtest_rank * 100 + r;
        turned[r] = -1;
    }
    MTEST_OK(MPI_Iallreduce(mine, (void *)sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Ibcast((void *)cast, count, MPI_LONG, root, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Ialltoall(blocks, 1, MPI_INT, (void *)turned, 1, MPI_INT, MPI_COMM_WORLD, &requests[2]));
    compute(round);
    /* The only calls are of another communicator's; how many a rank does depends on what it sees. */
    for (int here = 0, everywhere = 0; !everywhere && n_looks < LOOKS_MOST; n_looks++) {
        here = sum[0] == total && sum[last] == total && cast[0] == casted && cast[last] == casted;
        for (int r = 0; r < mtest_size; r++)
            here = here && turned[r] == r * 100 + mtest_rank;
        MTEST_OK(MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, other));
    }
    MTEST_CHECK(n_looks < LOOKS_MOST, "round %d: %d elements did not come: sum %ld, cast %ld", round, count,
                sum[last], cast[last]);
    MTEST_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Comm other;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    sum = mtest_alloc(MOST * sizeof *sum);
    cast = mtest_alloc(MOST * sizeof *cast);
    mine = mtest_alloc(MOST * sizeof *mine);
    turned = mtest_alloc((size_t)mtest_size * sizeof *turned);
    blocks = mtest_alloc((size_t)mtest_size * sizeof *blocks);
    for (int round = 0; round < 12; round++)
        one_round(other, round, round % 3 == 0 ? 1 : round % 3 == 1 ? 1000 : MOST);
    free((void *)sum);
    free((void *)cast);
    free(mine);
    free((void *)turned);
    free(blocks);
    MTEST_OK(MPI_Comm_free(&other));
    return mtest_end();
}
