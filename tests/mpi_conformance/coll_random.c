/* SPDX-License-Identifier: BSD-3-Clause */
/* A random program of collectives has the result that each rank computes alone: every rank makes the same plan from
 * the seed (operations, communicators, counts, roots, types), and knows what each rank sends. Bytes between the
 * elements and around them keep their value, and so do send buffers. Communicators are the world in several orders,
 * random parts of it, a graph and an intercommunicator; calls are blocking, or several are under way at a time and
 * end in any order.
 *
 * usage: coll_random [seed [rounds]]
 */
#include "coll_random_data.h"

/* ---- Calls ---- */

#define CALL(Name, name, ...)                                             \
    (form == MCOLL_BLOCKING      ? MPI_##Name(__VA_ARGS__)                \
     : form == MCOLL_NONBLOCKING ? MPI_I##name(__VA_ARGS__, &op->request) \
                                 : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &op->request))

static int call_reduction(struct op *op, int form)
{
    MPI_Comm comm = op->group->comm;
    MPI_Datatype type = op_type(op->reduction);
    MPI_Op what = op_of(op->reduction);
    bool in_place = op->in_place && (op->kind != REDUCE || is_root(op));
    const void *send = in_place ? MPI_IN_PLACE : op->send.got;
    void *recv = op->recv.got;

    switch (op->kind) {
    case REDUCE:
        return CALL(Reduce, reduce, send, recv, op->count, type, what, root_for(op), comm);
    case ALLREDUCE:
        return CALL(Allreduce, allreduce, send, recv, op->count, type, what, comm);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, reduce_scatter, send, recv, op->recv.counts, type, what, comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, reduce_scatter_block, send, recv, op->recv.counts[0], type, what,
                    comm);
    case SCAN:
        return CALL(Scan, scan, send, recv, op->count, type, what, comm);
    default:
        return CALL(Exscan, exscan, send, recv, op->count, type, what, comm);
    }
}

static int call_neighbors(struct op *op, int form)
{
    MPI_Comm comm = op->group->comm;
    struct side *send = &op->send, *recv = &op->recv;

    if (op->kind == NEIGHBOR_ALLGATHERV)
        return CALL(Neighbor_allgatherv, neighbor_allgatherv, send->got, send->counts[0],
                    layouts[op->send_lay].type, recv->got, recv->counts, recv->displs,
                    layouts[op->recv_lay].type, comm);
    if (op->kind == NEIGHBOR_ALLTOALLV)
        return CALL(Neighbor_alltoallv, neighbor_alltoallv, send->got, send->counts, send->displs,
                    layouts[op->send_lay].type, recv->got, recv->counts, recv->displs,
                    layouts[op->recv_lay].type, comm);
    return CALL(Neighbor_alltoallw, neighbor_alltoallw, send->got, send->counts, send->offsets, send->types,
                recv->got, recv->counts, recv->offsets, recv->types, comm);
}

static int call_move(struct op *op, int form)
{
    MPI_Comm comm = op->group->comm;
    struct side *send = &op->send, *recv = &op->recv;
    MPI_Datatype send_type = layouts[op->send_lay].type, recv_type = layouts[op->recv_lay].type;
    int root = root_for(op);
    bool in_place = op->in_place && (is_root(op) || (op->kind >= ALLGATHER && op->kind <= ALLTOALLW));
    void *from = in_place ? MPI_IN_PLACE : send->got, *to = recv->got;

    switch (op->kind) {
    case BARRIER:
        return form == MCOLL_BLOCKING      ? MPI_Barrier(comm)
               : form == MCOLL_NONBLOCKING ? MPI_Ibarrier(comm, &op->request)
                                           : MPI_Barrier_init(comm, MPI_INFO_NULL, &op->request);
    case BCAST:
        return CALL(Bcast, bcast, is_root(op) ? send->got : recv->got, op->count,
                    is_root(op) ? send_type : recv_type, root, comm);
    case GATHER:
        return CALL(Gather, gather, from, op->count, send_type, to, op->count, recv_type, root, comm);
    case GATHERV:
        return CALL(Gatherv, gatherv, from, send->counts[0], send_type, to, recv->counts, recv->displs,
                    recv_type, root, comm);
    case SCATTER:
        return CALL(Scatter, scatter, send->got, op->count, send_type, in_place ? MPI_IN_PLACE : to,
                    op->count, recv_type, root, comm);
    case SCATTERV:
        return CALL(Scatterv, scatterv, send->got, send->counts, send->displs, send_type,
                    in_place ? MPI_IN_PLACE : to, recv->counts[0], recv_type, root, comm);
    case ALLGATHER:
        return CALL(Allgather, allgather, from, op->count, send_type, to, op->count, recv_type, comm);
    case ALLGATHERV:
        return CALL(Allgatherv, allgatherv, from, send->counts[0], send_type, to, recv->counts, recv->displs,
                    recv_type, comm);
    case ALLTOALL:
        return CALL(Alltoall, alltoall, from, op->count, send_type, to, op->count, recv_type, comm);
    case ALLTOALLV:
        return CALL(Alltoallv, alltoallv, from, send->counts, send->displs, send_type, to, recv->counts,
                    recv->displs, recv_type, comm);
    case ALLTOALLW:
        return CALL(Alltoallw, alltoallw, from, send->counts, send->displs, send->types, to, recv->counts,
                    recv->displs, recv->types, comm);
    default:
        return call_neighbors(op, form);
    }
}

static bool is_reduction(const struct op *op)
{
    return op->kind >= N_MOVES && op->kind < N_KINDS;
}

static void call(struct op *op, int form)
{
    MTEST_OK(is_reduction(op) ? call_reduction(op, form) : call_move(op, form));
}

/* ---- The plan ---- */

/* Most operations are small; sizes are around those at which the library changes its ways. */
static int random_count(void)
{
    static const int bases[] = {0, 1, 2, 15, 60, 250, 1000, 2048, 4096, 8192, 16384, 33000};
    int base = bases[next(sizeof bases / sizeof *bases)], more = (int)next(7);

    return base > 2 ? base - 3 + more : base;
}

static void plan(struct op *op, const struct group *group, unsigned kind)
{
    bool is_long;

    memset(op, 0, sizeof *op);
    op->kind = (enum kind)kind;
    op->group = group;
    op->salt = next(1u << 30);
    op->count = random_count();
    op->root = (int)next(1u << 20);
    op->in_place = next(3) == 0;
    op->reduction = (int)next(N_OPS);
    op->send_lay = (int)next(N_LAYOUTS);
    op->recv_lay = (int)next(N_LAYOUTS);
    op->request = MPI_REQUEST_NULL;
    if (group->comm == MPI_COMM_NULL)
        return;
    op->root %= group->id ? group->n_peers : group->n;
    if (group->is_inter || kind >= N_KINDS)
        op->in_place = false;
    if (op->in_place && op->kind >= ALLTOALL && op->kind <= ALLTOALLW)
        op->send_lay = op->recv_lay;
    /* Every rank computes all results: not of too many elements. */
    is_long = op->kind == REDUCE_SCATTER || op->kind == REDUCE_SCATTER_BLOCK || is_alltoall(op);
    while (op->count * (is_long ? group->n * group->n_peers : group->n + group->n_peers) > 400000)
        op->count /= 2;
}

/* Behind the int of a place; MPI may change it. */
static bool is_padding(const struct op *op, size_t i)
{
    return is_reduction(op) && op->reduction == MAXLOC &&
           i % sizeof(struct place) >= offsetof(struct place, rank) + sizeof(int);
}

static bool check_side(const struct op *op, const struct side *side, const char *what)
{
    for (size_t i = 0; i < side->n_bytes; i++)
        if (side->got[i] != side->want[i] && !is_padding(op, i)) {
            MTEST_CHECK(0,
                        "%s%s, count %d, root %d, reduction %d, types %d and %d, ranks %d and %d: byte %zu "
                        "of %zu of what is %s",
                        names[op->kind], op->in_place ? " in place" : "", op->count, op->root, op->reduction,
                        op->send_lay, op->recv_lay, op->group->n, op->group->n_peers, i, side->n_bytes, what);
            return false;
        }
    return true;
}

static void free_side(struct side *side)
{
    free(side->counts);
    free(side->displs);
    free(side->lays);
    free(side->types);
    free(side->offsets);
    free(side->got);
    free(side->want);
}

enum { AT_A_TIME = 4 };

/* Ends in an order of this rank's own. */
static void wait_for(struct op *ops, int n, unsigned order)
{
    MPI_Request requests[AT_A_TIME];
    int index;

    for (int i = 0; i < n; i++)
        requests[i] = ops[i].request;
    if (order % 3 == 0) {
        MTEST_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        return;
    }
    for (int i = 0; i < n; i++) {
        if (order % 3 == 1) {
            index = (int)(order / 3 + (unsigned)i) % n;
            MTEST_OK(MPI_Wait(&requests[index], MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE));
        }
    }
}

static void run(struct op *ops, int n, int form, unsigned order)
{
    if (form == MCOLL_PERSISTENT)
        for (int k = 0; k < n; k++)
            MTEST_OK(MPI_Start(&ops[(order + (unsigned)k) % (unsigned)n].request));
    if (form != MCOLL_BLOCKING)
        wait_for(ops, n, order);
}

static void play(const struct group *group)
{
    struct op ops[AT_A_TIME];
    int n = 1 + (int)next(AT_A_TIME), form = (int)next(3), n_right = 0;
    unsigned seed = next(1u << 30);

    for (int i = 0; i < n; i++) {
        unsigned kind = group->is_graph && next(2) ? N_KINDS + next(N_ALL - N_KINDS)
                                                   : next(group->is_inter ? N_INTER : N_KINDS);
        plan(&ops[i], group, kind);
    }
    if (group->comm == MPI_COMM_NULL)
        return;
    for (int i = 0; i < n; i++) {
        if (is_reduction(&ops[i]))
            prepare_reduction(&ops[i]);
        else
            prepare_move(&ops[i]);
    }
    for (int i = 0; i < n; i++)
        call(&ops[i], form);
    run(ops, n, form, mix(seed, (unsigned)mtest_rank, 0, 0) % 100);
    for (int i = 0; i < n; i++) {
        n_right += check_side(&ops[i], &ops[i].send, "sent") && check_side(&ops[i], &ops[i].recv, "received");
        if (form == MCOLL_PERSISTENT)
            MTEST_OK(MPI_Request_free(&ops[i].request));
        free_side(&ops[i].send);
        free_side(&ops[i].recv);
    }
    MTEST_CHECK(n_right == n, "form %d, %d operations at a time", form, n);
}

enum { GROUPS = 6 };

int main(int argc, char **argv)
{
    struct group groups[GROUPS];
    long seed, rounds;

    mcoll_init(&argc, &argv, 1);
    seed = argc > 1 ? atol(argv[1]) : 1;
    rounds = argc > 2 ? atol(argv[2]) : 60;
    state = (uint64_t)seed;
    make_layouts();
    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &map_type));
    MTEST_OK(MPI_Type_commit(&map_type));
    MTEST_OK(MPI_Op_create(compose, 0, &map_op));
    for (int i = 0; i < GROUPS; i++)
        make_group(&groups[i], i);
    for (long i = 0; i < rounds; i++)
        play(&groups[next(GROUPS)]);
    for (int i = 0; i < GROUPS; i++) {
        if (groups[i].comm != MPI_COMM_NULL)
            MTEST_OK(MPI_Comm_free(&groups[i].comm));
        free(groups[i].in);
        free(groups[i].out);
    }
    MTEST_OK(MPI_Op_free(&map_op));
    MTEST_OK(MPI_Type_free(&map_type));
    for (int i = 1; i < N_LAYOUTS; i++)
        MTEST_OK(MPI_Type_free(&layouts[i].type));
    return mtest_end();
}
