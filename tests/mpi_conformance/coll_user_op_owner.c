/* SPDX-License-Identifier: BSD-3-Clause */
/* A user's reduction function runs as the rank that passed it: with its globals, its thread_local variables
 * and its rank, also if the operation was deferred behind earlier ones and starts while others run, on parts
 * of long vectors, and at the root of an intercommunicator's reduction. */
#include "mtest.h"

enum { N_OPS = 14, LONG = 20000, ROUNDS = 6 };

static int my_rank = -1;
static __thread int my_rank_tls = -1;
static int n_wrong, n_calls;

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int rank = -2;
    (void)type;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != my_rank || my_rank_tls != my_rank)
        n_wrong++;
    n_calls++;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* More than can be under way; `late` comes when all others have started theirs. */
static void test_deferred(MPI_Op op, int late, int len)
{
    static int in[N_OPS][LONG], out[N_OPS][LONG];
    MPI_Request requests[N_OPS];
    int want = mtest_size * (mtest_size + 1) / 2;

    if (mtest_rank == late)
        for (int i = 1; i < mtest_size; i++)
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < N_OPS; i++) {
        for (int j = 0; j < len; j++)
            in[i][j] = (mtest_rank + 1) * (i + 1);
        if (i % 3 == 2)
            MTEST_OK(MPI_Iscan(in[i], out[i], len, MPI_INT, op, MPI_COMM_WORLD, &requests[i]));
        else
            MTEST_OK(MPI_Iallreduce(in[i], out[i], len, MPI_INT, op, MPI_COMM_WORLD, &requests[i]));
    }
    if (mtest_rank != late)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, late, 3, MPI_COMM_WORLD));
    /* Some poll, some wait. */
    if (mtest_rank % 3 == 1) {
        for (int flag = 0; !flag;)
            MTEST_OK(MPI_Testall(N_OPS, requests, &flag, MPI_STATUSES_IGNORE));
    } else {
        MTEST_OK(MPI_Waitall(N_OPS, requests, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < N_OPS; i++) {
        int mine = i % 3 == 2 ? (mtest_rank + 1) * (mtest_rank + 2) / 2 : want;
        for (int j = 0; j<len; j += len> 1 ? len - 1 : 1)
            MTEST_CHECK(out[i][j] == mine * (i + 1), "operation %d, element %d: %d", i, j, out[i][j]);
    }
}

/* The others of the root's group pass no operation, and may come last. */
static void test_inter(MPI_Op op)
{
    MPI_Comm half, inter;
    int side = mtest_rank % 2, rank, n_remote, sum = -1, want = 0;

    if (mtest_size < 2)
        return;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
    MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter));
    MPI_Comm_rank(half, &rank);
    MPI_Comm_remote_size(inter, &n_remote);
    for (int i = 0; i < n_remote; i++)
        want += 2 * i + 2; /* world ranks 1, 3, ..., plus 1 */
    for (int round = 0; round < ROUNDS; round++) {
        int mine = mtest_rank + 1, root = side == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
        if (rank % 2 == round % 2)
            for (int flag, i = 0; i < 3; i++)
                MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, 9, half, &flag, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Reduce(&mine, &sum, 1, MPI_INT, op, root, inter));
        if (root == MPI_ROOT)
            MTEST_CHECK(sum == want, "intercommunicator, round %d: %d, expected %d", round, sum, want);
    }
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv)
{
    MPI_Op op;

    mtest_init(&argc, &argv, 1);
    my_rank = my_rank_tls = mtest_rank;
    MTEST_OK(MPI_Op_create(add, 1, &op));
    for (int round = 0; round < ROUNDS; round++) {
        test_deferred(op, round % mtest_size, 1 + 5 * round);
        test_deferred(op, (mtest_size - 1) / (round + 1), LONG);
    }
    test_inter(op);
    MTEST_CHECK(n_wrong == 0, "%d of %d calls were made as another rank", n_wrong, n_calls);
    MTEST_OK(MPI_Op_free(&op));
    return mtest_end();
}
