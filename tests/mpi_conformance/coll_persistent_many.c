/* SPDX-License-Identifier: BSD-3-Clause */
/* Hundreds of persistent collectives on two communicators that overlap. All ranks start the same random subset of them,
 * each in an order of its own, and some come late. Then all free a random subset and initialize others. A rank may be
 * several initializations and starts ahead of the others. Every result is compared with the model.
 *
 * usage: coll_persistent_many [seed [live [rounds]]]
 */
#include "mtest.h"

#include <stdbool.h>

#if MPI_VERSION >= 4
enum { N_COMMS = 2 };

static MPI_Comm comms[N_COMMS]; /* the world, and the world in reverse with its last rank missing */
static int ranks[N_COMMS], sizes[N_COMMS];

struct op {
    MPI_Request request;
    bool is_freed;
    int comm, kind, root;
    unsigned salt;     /* different for each initialization */
    int round;         /* of the last start */
    int in, out, *all; /* all: of an allgather, by rank */
};
static struct op *ops;
static int n_ops;

/* Two sequences: the common one, which is equal at all ranks, and the rank's own. */
static uint64_t common, own;

static int next(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

static int value_of(const struct op *op, int rank)
{
    return (int)((op->salt * 31 + (unsigned)op->round * 7 + (unsigned)rank * 3) % 100000);
}

static void initialize(struct op *op)
{
    MPI_Comm comm;

    op->comm = next(&common, N_COMMS);
    op->kind = next(&common, 4);
    op->root = next(&common, mtest_size - op->comm);
    op->salt = (unsigned)next(&common, 1 << 20);
    op->request = MPI_REQUEST_NULL;
    comm = comms[op->comm];
    if (comm == MPI_COMM_NULL)
        return;
    op->all = realloc(op->all, (size_t)sizes[op->comm] * sizeof(int));
    switch (op->kind) {
    case 0:
        MTEST_OK(
            MPI_Allreduce_init(&op->in, &op->out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &op->request));
        break;
    case 1:
        MTEST_OK(MPI_Bcast_init(ranks[op->comm] == op->root ? &op->in : &op->out, 1, MPI_INT, op->root, comm,
                                MPI_INFO_NULL, &op->request));
        break;
    case 2:
        MTEST_OK(
            MPI_Allgather_init(&op->in, 1, MPI_INT, op->all, 1, MPI_INT, comm, MPI_INFO_NULL, &op->request));
        break;
    default:
        MTEST_OK(MPI_Scan_init(&op->in, &op->out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &op->request));
    }
}

static void start(struct op *op, int round)
{
    op->round = round;
    op->in = value_of(op, ranks[op->comm]);
    op->out = -1;
    for (int i = 0; i < sizes[op->comm]; i++)
        op->all[i] = -1;
    MTEST_OK(MPI_Start(&op->request));
}

static void check(const struct op *op)
{
    int rank = ranks[op->comm], n_summed = op->kind == 0 ? sizes[op->comm] : rank + 1, sum = 0;

    for (int i = 0; i < n_summed; i++)
        sum += value_of(op, i);
    if (op->kind == 1)
        MTEST_CHECK(rank == op->root || op->out == value_of(op, op->root),
                    "round %d: broadcast %d, expected %d", op->round, op->out, value_of(op, op->root));
    else if (op->kind != 2)
        MTEST_CHECK(op->out == sum, "round %d: the sum of kind %d is %d, expected %d", op->round, op->kind,
                    op->out, sum);
    for (int i = 0; op->kind == 2 && i < sizes[op->comm]; i++)
        MTEST_CHECK(op->all[i] == value_of(op, i), "round %d: gathered %d of rank %d, expected %d", op->round,
                    op->all[i], i, value_of(op, i));
}

/* This rank's part of a common random subset, in an order of its own; returns its size. will_free: marks the subset. */
static int choose(int *chosen, int per_mille, bool will_free)
{
    int n = 0;

    for (int i = 0; i < n_ops; i++) {
        if (next(&common, 1000) >= per_mille)
            continue;
        ops[i].is_freed = will_free;
        if (ops[i].request != MPI_REQUEST_NULL)
            chosen[n++] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        int k = next(&own, i + 1), old = chosen[i];
        chosen[i] = chosen[k];
        chosen[k] = old;
    }
    return n;
}

/* Ends in an order of this rank: all at once, or one by one. */
static void wait_for(const int *chosen, int n)
{
    MPI_Request *requests = mtest_alloc((size_t)(n + 1) * sizeof *requests);

    for (int i = 0; i < n; i++)
        requests[i] = ops[chosen[i]].request;
    if (next(&own, 2)) {
        MTEST_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int i = n - 1; i >= 0; i--)
            MTEST_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < n; i++)
        check(&ops[chosen[i]]);
    free(requests);
}

static void play(int round)
{
    int *chosen = mtest_alloc((size_t)n_ops * sizeof *chosen);
    int n = choose(chosen, round % 3 == 0 ? 1000 : 300, false);

    if (next(&own, 4) == 0) /* late */
        for (int i = 0, flag; i < 20; i++)
            MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++)
        start(&ops[chosen[i]], round);
    wait_for(chosen, n);
    n = choose(chosen, 200, true);
    for (int i = 0; i < n; i++)
        MTEST_OK(MPI_Request_free(&ops[chosen[i]].request));
    for (int i = 0; i < n_ops; i++)
        if (ops[i].is_freed) {
            ops[i].is_freed = false;
            initialize(&ops[i]);
        }
    free(chosen);
}

static void make_comms(void)
{
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD,
                            mtest_rank > 0 && mtest_rank == mtest_size - 1 ? MPI_UNDEFINED : 0, -mtest_rank,
                            &comms[1]));
    for (int i = 0; i < N_COMMS; i++)
        if (comms[i] != MPI_COMM_NULL) {
            MTEST_OK(MPI_Comm_rank(comms[i], &ranks[i]));
            MTEST_OK(MPI_Comm_size(comms[i], &sizes[i]));
        }
}

int main(int argc, char **argv)
{
    int rounds;

    mtest_init(&argc, &argv, 2);
    common = argc > 1 ? (uint64_t)atol(argv[1]) : 1;
    own = common * 1000 + (uint64_t)mtest_rank;
    n_ops = argc > 2 ? atoi(argv[2]) : 200;
    rounds = argc > 3 ? atoi(argv[3]) : 10;
    make_comms();
    ops = mtest_alloc((size_t)n_ops * sizeof *ops);
    memset(ops, 0, (size_t)n_ops * sizeof *ops);
    for (int i = 0; i < n_ops; i++)
        initialize(&ops[i]);
    for (int round = 0; round < rounds; round++)
        play(round);
    for (int i = 0; i < n_ops; i++) {
        if (ops[i].request != MPI_REQUEST_NULL)
            MTEST_OK(MPI_Request_free(&ops[i].request));
        free(ops[i].all);
    }
    free(ops);
    for (int i = 0; i < N_COMMS; i++)
        if (comms[i] != MPI_COMM_NULL)
            MTEST_OK(MPI_Comm_free(&comms[i]));
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("needs MPI 4");
    return 0;
}
#endif
