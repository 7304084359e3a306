/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives match in the order of their initializations: ranks may start them in any order,
 * anywhere among blocking and nonblocking collectives, on intra- and intercommunicators, and free inactive
 * ones in any order. */
#include "mtest.h"

#if MPI_VERSION >= 4
enum { N_KINDS = 9, N = 2 * N_KINDS, ROUNDS = 12, MOST = 64, LARGE = 20000 };

static uint64_t seed;

/* Another sequence at every rank. */
static int random_below(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static void shuffle(int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = random_below(i + 1), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
}

/* ---- The example: two broadcasts in opposite orders ---- */

static void two_broadcasts(MPI_Comm comm)
{
    int a = mtest_rank == 0 ? 111 : 0, b = mtest_rank == 0 ? 222 : 0;
    MPI_Request requests[2];

    MTEST_OK(MPI_Bcast_init(&a, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &requests[0]));
    MTEST_OK(MPI_Bcast_init(&b, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &requests[1]));
    MTEST_OK(MPI_Start(&requests[mtest_rank % 2]));
    MTEST_OK(MPI_Start(&requests[1 - mtest_rank % 2]));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MTEST_CHECK(a == 111 && b == 222, "broadcasts gave %d and %d", a, b);
    MTEST_OK(MPI_Request_free(&requests[0]));
    MTEST_OK(MPI_Request_free(&requests[1]));
}

/* ---- Many of all kinds ---- */

struct op {
    int kind, root;
    int *in, *out;
    int counts[MOST], displs[MOST];
};
static struct op ops[N];
static MPI_Request requests[N];

static int value_of(int op, int rank, int round)
{
    return op * 1000000 + rank * 1000 + round;
}

/* Elements of a contribution: some are large. */
static int count_of(int op)
{
    return op % N_KINDS == 0 && op >= N_KINDS ? LARGE : 1 + op % 3;
}

static void initialize(int i, MPI_Comm comm, MPI_Comm ring)
{
    struct op *op = &ops[i];
    int n = count_of(i), size = mtest_size, blocks = size < 2 ? 2 : size; /* a ring has two neighbors */

    op->kind = i % N_KINDS;
    op->root = (i * 7) % size;
    op->in = calloc((size_t)(n * blocks), sizeof(int));
    op->out = calloc((size_t)(n * blocks), sizeof(int));
    for (int r = 0; r < size; r++) {
        op->counts[r] = n;
        op->displs[r] = r * n;
    }
    switch (op->kind) {
    case 0:
        MTEST_OK(MPI_Bcast_init(op->out, n, MPI_INT, op->root, comm, MPI_INFO_NULL, &requests[i]));
        break;
    case 1:
        MTEST_OK(MPI_Allreduce_init(op->in, op->out, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]));
        break;
    case 2:
        MTEST_OK(
            MPI_Allgather_init(op->in, n, MPI_INT, op->out, n, MPI_INT, comm, MPI_INFO_NULL, &requests[i]));
        break;
    case 3:
        MTEST_OK(MPI_Alltoallv_init(op->in, op->counts, op->displs, MPI_INT, op->out, op->counts, op->displs,
                                    MPI_INT, comm, MPI_INFO_NULL, &requests[i]));
        break;
    case 4:
        MTEST_OK(MPI_Scan_init(op->in, op->out, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]));
        break;
    case 5:
        MTEST_OK(MPI_Gather_init(op->in, n, MPI_INT, op->out, n, MPI_INT, op->root, comm, MPI_INFO_NULL,
                                 &requests[i]));
        break;
    case 6:
        MTEST_OK(MPI_Reduce_scatter_block_init(op->in, op->out, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                               &requests[i]));
        break;
    case 7:
        MTEST_OK(MPI_Neighbor_alltoall_init(op->in, n, MPI_INT, op->out, n, MPI_INT, ring, MPI_INFO_NULL,
                                            &requests[i]));
        break;
    default:
        MTEST_OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[i]));
    }
}

/* Before a start: every element of the block for rank r, or of the contribution. */
static void fill(int i, int round)
{
    struct op *op = &ops[i];
    int n = count_of(i);

    for (int r = 0; r < mtest_size; r++)
        for (int k = 0; k < n; k++) {
            op->in[r * n + k] = value_of(i, mtest_rank, round) + (op->kind == 3 || op->kind == 6 ? 7 * r : 0);
            op->out[r * n + k] = -1;
        }
    if (op->kind == 7) /* to the left, to the right */
        for (int k = 0; k < n; k++) {
            op->in[k] = value_of(i, mtest_rank, round);
            if (mtest_size > 1)
                op->in[n + k] = -op->in[k];
        }
    if (op->kind == 0 && mtest_rank == op->root)
        for (int k = 0; k < n; k++)
            op->out[k] = value_of(i, op->root, round);
}

static long sum_to(int i, int round, int n_ranks)
{
    long sum = 0;

    for (int r = 0; r < n_ranks; r++)
        sum += value_of(i, r, round);
    return sum;
}

static long expected(int i, int round, int block)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;

    switch (ops[i].kind) {
    case 0:
        return value_of(i, ops[i].root, round);
    case 1:
        return sum_to(i, round, mtest_size);
    case 2:
    case 5:
        return value_of(i, block, round);
    case 3:
        return value_of(i, block, round) + 7 * mtest_rank;
    case 4:
        return sum_to(i, round, mtest_rank + 1);
    case 6:
        return sum_to(i, round, mtest_size) + 7L * mtest_rank * mtest_size;
    default: /* from the left what it has sent to the right */
        return block == 0 ? -(long)value_of(i, left, round) : value_of(i, right, round);
    }
}

static void verify(int i, int round)
{
    const struct op *op = &ops[i];
    int n = count_of(i);
    int n_blocks = op->kind == 2 || op->kind == 3 || op->kind == 5 ? mtest_size : op->kind == 7 ? 2 : 1;

    if (op->kind == 8 || (op->kind == 5 && mtest_rank != op->root) || (op->kind == 7 && mtest_size < 2))
        return;
    for (int b = 0; b < n_blocks; b++)
        for (int k = 0; k < n; k++)
            if (op->out[b * n + k] != (int)expected(i, round, b)) {
                MTEST_CHECK(0, "operation %d (kind %d), round %d, block %d: %d, expected %ld", i, op->kind,
                            round, b, op->out[b * n + k], expected(i, round, b));
                return;
            }
}

/* Starts all of them in an order of this rank's own, among nonblocking ones that all have in one order. */
static void run_round(MPI_Comm comm, int round)
{
    int order[N], sums[3] = {-1, -1, -1}, ranks[3], n_other = 0;
    MPI_Request others[3];

    shuffle(order, N);
    for (int i = 0; i < N; i++) {
        while (n_other < 3 && random_below(N) < 3) {
            ranks[n_other] = mtest_rank + round + n_other;
            MTEST_OK(
                MPI_Iallreduce(&ranks[n_other], &sums[n_other], 1, MPI_INT, MPI_SUM, comm, &others[n_other]));
            n_other++;
        }
        fill(order[i], round);
        MTEST_OK(MPI_Start(&requests[order[i]]));
        if (i == N / 2 && round % 3 == 0)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (; n_other < 3; n_other++) {
        ranks[n_other] = mtest_rank + round + n_other;
        MTEST_OK(
            MPI_Iallreduce(&ranks[n_other], &sums[n_other], 1, MPI_INT, MPI_SUM, comm, &others[n_other]));
    }
    shuffle(order, N);
    for (int i = 0; i < N; i++) {
        MTEST_OK(MPI_Wait(&requests[order[i]], MPI_STATUS_IGNORE));
        verify(order[i], round);
    }
    MTEST_OK(MPI_Waitall(3, others, MPI_STATUSES_IGNORE));
    for (int k = 0; k < 3; k++)
        MTEST_CHECK(sums[k] == mtest_size * (mtest_size - 1) / 2 + mtest_size * (round + k),
                    "round %d: sum %d is %d", round, k, sums[k]);
}

static void free_op(int i)
{
    MTEST_OK(MPI_Request_free(&requests[i]));
    free(ops[i].in);
    free(ops[i].out);
}

static void many(MPI_Comm comm)
{
    int periodic = 1, order[N];
    MPI_Comm ring;

    MTEST_OK(MPI_Cart_create(comm, 1, &mtest_size, &periodic, 0, &ring));
    for (int i = 0; i < N; i++)
        initialize(i, comm, ring);
    for (int round = 0; round < ROUNDS; round++) {
        run_round(comm, round);
        if (round == ROUNDS / 2) { /* some are freed, in any order, and made again */
            shuffle(order, N);
            for (int i = 0; i < N; i++)
                if (order[i] % 3 == 0)
                    free_op(order[i]);
            for (int i = 0; i < N; i += 3)
                initialize(i, comm, ring);
        }
    }
    shuffle(order, N);
    for (int i = 0; i < N; i++)
        free_op(order[i]);
    MTEST_OK(MPI_Comm_free(&ring));
}

/* ---- Never started by some, and freed; a rank that is ahead of the others ---- */

static void unused(MPI_Comm comm)
{
    int a = -1, b = -1, in = mtest_rank;
    MPI_Request first, second;

    MTEST_OK(MPI_Allreduce_init(&in, &a, 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &first));
    if (mtest_rank % 2)
        MTEST_OK(MPI_Request_free(&first));
    MTEST_OK(MPI_Allreduce_init(&in, &b, 1, MPI_INT, MPI_MIN, comm, MPI_INFO_NULL, &second));
    MTEST_OK(MPI_Start(&second));
    MTEST_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
    MTEST_CHECK(a == -1 && b == 0, "the first gave %d, the second %d", a, b);
    if (mtest_rank % 2 == 0)
        MTEST_OK(MPI_Request_free(&first));
    MTEST_OK(MPI_Request_free(&second));
}

/* The root of broadcasts, and ranks that only contribute, may be many starts ahead. */
static void ahead(MPI_Comm comm)
{
    int value = 0, mine = 0, all[MOST];
    MPI_Request bcast, gather;

    MTEST_OK(MPI_Bcast_init(&value, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &bcast));
    MTEST_OK(
        MPI_Gather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, mtest_size - 1, comm, MPI_INFO_NULL, &gather));
    for (int round = 0; round < 40; round++) {
        if (mtest_rank == 0)
            value = round;
        MTEST_OK(MPI_Start(&bcast));
        MTEST_OK(MPI_Wait(&bcast, MPI_STATUS_IGNORE));
        MTEST_CHECK(value == round, "round %d: broadcast %d", round, value);
    }
    for (int round = 0; round < 40; round++) {
        mine = 100 * mtest_rank + round;
        MTEST_OK(MPI_Start(&gather));
        MTEST_OK(MPI_Wait(&gather, MPI_STATUS_IGNORE));
        for (int r = 0; mtest_rank == mtest_size - 1 && r < mtest_size; r++)
            MTEST_CHECK(all[r] == 100 * r + round, "round %d: gathered %d of %d", round, all[r], r);
    }
    MTEST_OK(MPI_Request_free(&bcast));
    MTEST_OK(MPI_Request_free(&gather));
}

/* ---- Intercommunicators ---- */

static void between_groups(void)
{
    int side = mtest_rank % 2, in = mtest_rank, sum = 0, all[MOST], value = -1, n_remote, want = 0;
    MPI_Comm local, inter;
    MPI_Request three[3];
    int order[3];

    if (mtest_size < 2)
        return;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    MTEST_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 5, &inter));
    MTEST_OK(MPI_Comm_remote_size(inter, &n_remote));
    MTEST_OK(MPI_Bcast_init(&value, 1, MPI_INT, side == 0 ? (mtest_rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0,
                            inter, MPI_INFO_NULL, &three[0]));
    MTEST_OK(MPI_Allgather_init(&in, 1, MPI_INT, all, 1, MPI_INT, inter, MPI_INFO_NULL, &three[1]));
    MTEST_OK(MPI_Allreduce_init(&in, &sum, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &three[2]));
    for (int r = 1 - side; r < mtest_size; r += 2)
        want += r;
    for (int round = 0; round < ROUNDS; round++) {
        value = mtest_rank == 0 ? 77 + round : -1;
        sum = 0;
        shuffle(order, 3);
        for (int i = 0; i < 3; i++)
            MTEST_OK(MPI_Start(&three[order[i]]));
        MTEST_OK(MPI_Waitall(3, three, MPI_STATUSES_IGNORE));
        MTEST_CHECK(side == 0 || value == 77 + round, "the other side's root sent %d", value);
        MTEST_CHECK(sum == want, "the other side's sum is %d, expected %d", sum, want);
        for (int i = 0; i < n_remote; i++)
            MTEST_CHECK(all[i] == 2 * i + 1 - side, "the other side's rank %d gave %d", i, all[i]);
    }
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Request_free(&three[i]));
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&local));
}

/* An assertion about starts changes nothing for those that keep to it. */
static void asserted(void)
{
    MPI_Comm comm;
    MPI_Info info;
    char value[8] = "";
    int has = 0;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "mpi_assert_strict_persistent_collective_ordering", "true"));
    MTEST_OK(MPI_Comm_set_info(comm, info));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Comm_get_info(comm, &info));
    MTEST_OK(MPI_Info_get(info, "mpi_assert_strict_persistent_collective_ordering", 7, value, &has));
    MTEST_CHECK(has && strcmp(value, "true") == 0, "the assertion is '%s'", value);
    MTEST_OK(MPI_Info_free(&info));
    ahead(comm);
    MTEST_OK(MPI_Comm_free(&comm));
}
#endif

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION >= 4
    MPI_Comm comm;
    seed = (uint64_t)mtest_rank * 77 + 1;
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    two_broadcasts(comm);
    many(comm);
    unused(comm);
    ahead(comm);
    between_groups();
    asserted();
    MTEST_OK(MPI_Comm_free(&comm));
#else
    mtest_skip("persistent collectives need MPI 4");
#endif
    return mtest_end();
}
