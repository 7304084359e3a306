/* SPDX-License-Identifier: BSD-3-Clause */
/* A random program of collectives has the result that each rank computes alone: every rank makes the same plan from
 * the seed (operations, communicators, counts, roots, types), and knows what each rank sends. Bytes between the
 * elements and around them keep their value, and so do send buffers. Communicators are the world in several orders,
 * random parts of it, a graph and an intercommunicator; calls are blocking, or several are under way at a time and
 * end in any order.
 *
 * usage: coll_random [seed [rounds]]
 */
#include <stdbool.h>
#include <stddef.h>

#include "mcoll.h"

enum kind {
    BARRIER,
    BCAST,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    N_MOVES, /* the next ones reduce */
    REDUCE = N_MOVES,
    ALLREDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    N_INTER, /* the next ones are not for intercommunicators */
    SCAN = N_INTER,
    EXSCAN,
    N_KINDS,
    NEIGHBOR_ALLGATHERV = N_KINDS, /* on the graph alone */
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    N_ALL
};

static const char *const names[] = {"barrier",
                                    "bcast",
                                    "gather",
                                    "gatherv",
                                    "scatter",
                                    "scatterv",
                                    "allgather",
                                    "allgatherv",
                                    "alltoall",
                                    "alltoallv",
                                    "alltoallw",
                                    "reduce",
                                    "allreduce",
                                    "reduce_scatter",
                                    "reduce_scatter_block",
                                    "scan",
                                    "exscan",
                                    "neighbor gather",
                                    "neighbor alltoallv",
                                    "neighbor alltoallw"};

/* ---- Random numbers, equal at all ranks ---- */

static uint64_t state;

static unsigned next(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* A number that depends on all arguments. */
static unsigned mix(unsigned a, unsigned b, unsigned c, unsigned d)
{
    uint64_t sum =
        a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + c * 0x165667b19e3779f9u + d * 0x27d4eb2f165667c5u;

    sum = (sum ^ sum >> 31) * 0xd6e8feb86659fd93u;
    return (unsigned)(sum >> 32);
}

/* ---- Types of one int: layouts of equal signature ---- */

struct layout {
    MPI_Datatype type;
    int at, extent; /* the position of the int, and of the next one, in bytes */
};

static struct layout layouts[3] = {{MPI_INT, 0, 4}, {MPI_DATATYPE_NULL, 8, 12}, {MPI_DATATYPE_NULL, 0, 8}};

static void make_layouts(void)
{
    for (int i = 1; i < 3; i++) {
        int one = 1;
        MPI_Aint at = layouts[i].at;
        MPI_Datatype type = MPI_INT, moved;
        MTEST_OK(MPI_Type_create_struct(1, &one, &at, &type, &moved));
        MTEST_OK(MPI_Type_create_resized(moved, 0, layouts[i].extent, &layouts[i].type));
        MTEST_OK(MPI_Type_commit(&layouts[i].type));
        MTEST_OK(MPI_Type_free(&moved));
    }
}

/* ---- Reductions ---- */

/* x -> a x + b modulo a prime: does not commute. */
struct map {
    int a, b;
};
#define PRIME 32749

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct map *f = in, *g = inout;

    (void)type;
    for (int i = 0; i < *len; i++)
        g[i] = (struct map){(int)((long)f[i].a * g[i].a % PRIME),
                            (int)(((long)g[i].a * f[i].b + g[i].b) % PRIME)};
}

struct place { /* of MPI_DOUBLE_INT: with padding */
    double value;
    int rank;
};

static MPI_Datatype map_type;
static MPI_Op map_op;

enum { SUM, BXOR, MAXLOC, COMPOSE, N_OPS };
static const int op_bytes[] = {sizeof(int), sizeof(uint64_t), sizeof(struct place), sizeof(struct map)};

static MPI_Datatype op_type(int op)
{
    return op == SUM ? MPI_INT : op == BXOR ? MPI_UINT64_T : op == MAXLOC ? MPI_DOUBLE_INT : map_type;
}

static MPI_Op op_of(int op)
{
    return op == SUM ? MPI_SUM : op == BXOR ? MPI_BXOR : op == MAXLOC ? MPI_MAXLOC : map_op;
}

/* ---- Communicators ---- */

struct group {
    MPI_Comm comm;
    int me, n;     /* this side */
    int n_peers;   /* the side that data comes from */
    int id, peers; /* of the first rank of this side and of the other: ranks of both sides differ */
    bool is_inter, is_graph;
    int n_in, n_out, *in, *out; /* the graph's neighbors */
};

static bool has_edge(int from, int to)
{
    return mix(77, (unsigned)from, (unsigned)to, 0) % 3 == 0;
}

static void make_graph(struct group *group)
{
    group->is_graph = true;
    group->in = mtest_alloc((size_t)mtest_size * sizeof(int));
    group->out = mtest_alloc((size_t)mtest_size * sizeof(int));
    for (int i = 0; i < mtest_size; i++) {
        if (has_edge(i, mtest_rank))
            group->in[group->n_in++] = i;
        if (has_edge(mtest_rank, i))
            group->out[group->n_out++] = i;
    }
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, group->n_in, group->in, MPI_UNWEIGHTED,
                                            group->n_out, group->out, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                            &group->comm));
}

static void make_inter(struct group *group, unsigned cut)
{
    bool is_second = mtest_rank > (int)cut;
    MPI_Comm side;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, is_second, 0, &side));
    MTEST_OK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, is_second ? 0 : (int)cut + 1, 5, &group->comm));
    MTEST_OK(MPI_Comm_free(&side));
    group->is_inter = true;
    group->id = is_second ? 1000 : 0;
    group->peers = 1000 - group->id;
}

/* Random parts of the world, in random order: ranks are spread unevenly over processes. */
static void make_group(struct group *group, int number)
{
    unsigned keys = next(1u << 30), cut = mtest_size > 1 ? next((unsigned)mtest_size - 1) : 0;
    int color = 0, key = 0;

    memset(group, 0, sizeof *group);
    if (number == 1 && mtest_size > 1) {
        make_inter(group, cut);
    } else if (number == 2) {
        make_graph(group);
    } else {
        if (number > 3 && mix(keys, (unsigned)mtest_rank, 1, 0) % 3 == 0 && mtest_rank != (int)cut)
            color = MPI_UNDEFINED;
        if (number == 3 || number == 5)
            key = number == 3 ? -mtest_rank : (int)(mix(keys, (unsigned)mtest_rank, 2, 0) % 1000);
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, color, key, &group->comm));
    }
    if (group->comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(group->comm, &group->me);
    MPI_Comm_size(group->comm, &group->n);
    group->n_peers = group->n;
    if (group->is_inter)
        MPI_Comm_remote_size(group->comm, &group->n_peers);
}

/* ---- Operations ---- */

/* A buffer of blocks; `want` is what it has to be in the end. */
struct side {
    int n, *counts, *displs, *lays;
    MPI_Datatype *types;
    MPI_Aint *offsets; /* of the blocks, in bytes */
    size_t n_bytes;
    char *got, *want;
};

struct op {
    enum kind kind;
    unsigned salt;
    int count;     /* the largest of a block */
    int root;      /* of the first side, on an intercommunicator */
    bool in_place; /* where that is allowed */
    int reduction, send_lay, recv_lay;
    const struct group *group;
    struct side send, recv;
    MPI_Request request;
};

static bool is_root(const struct op *op)
{
    return op->group->id == 0 && op->group->me == op->root;
}

/* The root as this rank has to name it. */
static int root_for(const struct op *op)
{
    if (!op->group->is_inter)
        return op->root;
    return op->group->id ? op->root : is_root(op) ? MPI_ROOT : MPI_PROC_NULL;
}

/* This rank exchanges data with the root. */
static bool has_root(const struct op *op)
{
    return !op->group->is_inter || op->group->id;
}

/* The number of elements from a rank to another, by their ids. */
static int count_of(const struct op *op, int from, int to)
{
    switch (op->kind) {
    case GATHERV:
    case ALLGATHERV:
    case NEIGHBOR_ALLGATHERV:
        to = 0;
        break;
    case SCATTERV:
        from = 0;
        break;
    case ALLTOALLV:
    case ALLTOALLW:
        if (op->in_place && from > to) {
            int other = from;
            from = to;
            to = other;
        }
        break;
    case NEIGHBOR_ALLTOALLV:
    case NEIGHBOR_ALLTOALLW:
        break;
    default:
        return op->count;
    }
    return mix(op->salt, (unsigned)from, (unsigned)to, 3) % 4 == 0
               ? 0
               : (int)(mix(op->salt, (unsigned)from, (unsigned)to, 4) % (unsigned)(op->count + 1));
}

static int value(const struct op *op, int from, int to, int i)
{
    return (int)mix(op->salt, (unsigned)from, (unsigned)to, (unsigned)i);
}

static bool is_w(const struct op *op)
{
    return op->kind == ALLTOALLW || op->kind == NEIGHBOR_ALLTOALLW;
}

static void make_side(const struct op *op, struct side *side, int n, int lay)
{
    size_t n_ints = (size_t)n + 1;

    side->n = n;
    side->counts = mtest_alloc(n_ints * sizeof(int));
    side->displs = mtest_alloc(n_ints * sizeof(int));
    side->lays = mtest_alloc(n_ints * sizeof(int));
    side->types = mtest_alloc(n_ints * sizeof(MPI_Datatype));
    side->offsets = mtest_alloc(n_ints * sizeof(MPI_Aint));
    for (int i = 0; i < n; i++)
        side->lays[i] = is_w(op) ? (int)(mix(op->salt, (unsigned)op->in_place, (unsigned)i, 9) % 3) : lay;
}

/* Blocks with these counts: one after the other, or, in the v and w forms, with gaps and from the last to the first. */
static void lay_out(const struct op *op, struct side *side, bool is_v)
{
    size_t at = 0;

    for (int k = 0; k < side->n; k++) {
        int i = is_v && op->salt % 2 ? side->n - 1 - k : k;
        const struct layout *layout = &layouts[side->lays[i]];
        if (is_w(op))
            at = (at + 7) & ~(size_t)7;
        else if (is_v && i % 2)
            at += (size_t)layout->extent;
        side->offsets[i] = (MPI_Aint)at;
        side->displs[i] = is_w(op) ? (int)at : (int)at / layout->extent;
        side->types[i] = layout->type;
        at += (size_t)side->counts[i] * (size_t)layout->extent;
    }
    side->n_bytes = at + 16;
    side->got = mtest_alloc(side->n_bytes);
    side->want = mtest_alloc(side->n_bytes);
    memset(side->got, 0x5a, side->n_bytes);
    memset(side->want, 0x5a, side->n_bytes);
}

static void set(char *memory, const struct side *side, int block, int i, int to)
{
    const struct layout *layout = &layouts[side->lays[block]];

    memcpy(memory + side->offsets[block] + (size_t)i * (size_t)layout->extent + layout->at, &to, sizeof to);
}

static int peer_id(const struct op *op, int peer)
{
    return op->group->is_inter ? op->group->peers + peer : peer;
}

static int own_id(const struct op *op)
{
    return op->group->id + op->group->me;
}

/* The data of gathers and bcasts is the same for all ranks. */
static bool is_to_all(const struct op *op)
{
    return op->kind == BCAST || op->kind == GATHER || op->kind == GATHERV || op->kind == ALLGATHER ||
           op->kind == ALLGATHERV || op->kind == NEIGHBOR_ALLGATHERV;
}

/* Sets the block that this rank sends to a peer's id. */
static void set_sent(const struct op *op, struct side *side, int block, int to)
{
    int key = is_to_all(op) ? 0 : to;

    for (int i = 0; i < side->counts[block]; i++) {
        set(side->got, side, block, i, value(op, own_id(op), key, i));
        set(side->want, side, block, i, value(op, own_id(op), key, i));
    }
}

static void set_expected(const struct op *op, struct side *side, int block, int from)
{
    int key = is_to_all(op) ? 0 : own_id(op);

    for (int i = 0; i < side->counts[block]; i++)
        set(side->want, side, block, i, value(op, from, key, i));
}

/* What a rank has in a block before an operation in place. */
static void set_in_place(const struct op *op, struct side *side, int block, int to)
{
    int key = is_to_all(op) ? 0 : to;

    for (int i = 0; i < side->counts[block]; i++)
        set(side->got, side, block, i, value(op, own_id(op), key, i));
}

/* ---- Moves ---- */

static bool is_alltoall(const struct op *op)
{
    return op->kind >= ALLTOALL && op->kind <= ALLTOALLW;
}

static bool is_v(const struct op *op)
{
    return op->kind == GATHERV || op->kind == SCATTERV || op->kind == ALLGATHERV || op->kind == ALLTOALLV ||
           op->kind == ALLTOALLW || op->kind >= NEIGHBOR_ALLGATHERV;
}

/* Numbers of blocks: whether this rank sends one, or one to each; and receives. */
static int n_sent(const struct op *op)
{
    const struct group *group = op->group;

    switch (op->kind) {
    case BARRIER:
        return 0;
    case BCAST:
        return is_root(op);
    case GATHER:
    case GATHERV:
        return has_root(op) && !(op->in_place && is_root(op));
    case SCATTER:
    case SCATTERV:
        return is_root(op) ? group->n_peers : 0;
    case ALLGATHER:
    case ALLGATHERV:
        return !op->in_place;
    case NEIGHBOR_ALLGATHERV:
        return 1;
    case NEIGHBOR_ALLTOALLV:
    case NEIGHBOR_ALLTOALLW:
        return group->n_out;
    default:
        return op->in_place ? 0 : group->n_peers;
    }
}

static int n_received(const struct op *op)
{
    const struct group *group = op->group;

    switch (op->kind) {
    case BARRIER:
        return 0;
    case BCAST:
        return has_root(op) && !is_root(op);
    case GATHER:
    case GATHERV:
        return is_root(op) ? group->n_peers : 0;
    case SCATTER:
    case SCATTERV:
        return has_root(op) && !(op->in_place && is_root(op));
    case NEIGHBOR_ALLGATHERV:
    case NEIGHBOR_ALLTOALLV:
    case NEIGHBOR_ALLTOALLW:
        return group->n_in;
    default:
        return group->n_peers;
    }
}

static int id_to(const struct op *op, int block)
{
    return op->group->is_graph && op->kind >= NEIGHBOR_ALLGATHERV && op->kind != NEIGHBOR_ALLGATHERV
               ? op->group->out[block]
               : peer_id(op, block);
}

static int id_from(const struct op *op, int block)
{
    if (op->kind >= NEIGHBOR_ALLGATHERV)
        return op->group->in[block];
    return op->kind == BCAST || op->kind == SCATTER || op->kind == SCATTERV ? op->root : peer_id(op, block);
}

static void prepare_move(struct op *op)
{
    struct side *send = &op->send, *recv = &op->recv;

    make_side(op, send, n_sent(op), op->send_lay);
    make_side(op, recv, n_received(op), op->recv_lay);
    for (int i = 0; i < send->n; i++)
        send->counts[i] = count_of(op, own_id(op), is_to_all(op) ? 0 : id_to(op, i));
    for (int i = 0; i < recv->n; i++)
        recv->counts[i] = count_of(op, id_from(op, i), is_to_all(op) ? 0 : own_id(op));
    lay_out(op, send, is_v(op));
    lay_out(op, recv, is_v(op));
    for (int i = 0; i < send->n; i++)
        set_sent(op, send, i, id_to(op, i));
    for (int i = 0; i < recv->n; i++) {
        set_expected(op, recv, i, id_from(op, i));
        if (op->in_place && (is_alltoall(op) || id_from(op, i) == own_id(op)) && op->kind != SCATTER &&
            op->kind != SCATTERV)
            set_in_place(op, recv, i, id_from(op, i));
    }
}

/* ---- Reductions ---- */

static int n_elems(const struct op *op)
{
    const struct group *group = op->group;

    if (op->kind == REDUCE_SCATTER || op->kind == REDUCE_SCATTER_BLOCK)
        return op->count * group->n * (group->is_inter ? group->n_peers : 1);
    return op->count;
}

/* The elements of a rank's block of the result. The counts of the two sides of an intercommunicator add up to the
 * same. */
static int block_of(const struct op *op, int rank, int *from_out)
{
    const struct group *group = op->group;
    int each = n_elems(op) / group->n;
    int shift = op->kind == REDUCE_SCATTER && op->salt % 3 ? (int)(op->salt % (unsigned)(each + 1)) : 0;

    /* Even ranks give some elements to the next one. */
    *from_out = each * rank - (rank % 2 ? shift : 0);
    return rank % 2 ? each + shift : rank + 1 < group->n ? each - shift : each;
}

static void set_element(const struct op *op, char *to, int from, int i)
{
    unsigned random = mix(op->salt, (unsigned)from, (unsigned)i, 8);

    if (op->reduction == SUM)
        *(int *)(void *)to = (int)(random % 100000);
    else if (op->reduction == BXOR)
        *(uint64_t *)(void *)to = (uint64_t)random << 20 | (unsigned)i;
    else if (op->reduction == MAXLOC)
        *(struct place *)(void *)to = (struct place){random % 7, from};
    else
        *(struct map *)(void *)to = (struct map){(int)(random % (PRIME - 1) + 1), (int)(random / 7 % PRIME)};
}

static void combine(const struct op *op, char *sum, char *next_one)
{
    struct place *most = (void *)sum, *other = (void *)next_one;
    struct map first = *(struct map *)(void *)sum;
    int one = 1;

    if (op->reduction == SUM) {
        *(int *)(void *)sum += *(int *)(void *)next_one;
    } else if (op->reduction == BXOR) {
        *(uint64_t *)(void *)sum ^= *(uint64_t *)(void *)next_one;
    } else if (op->reduction == MAXLOC) {
        if (other->value > most->value)
            *most = *other;
    } else {
        memcpy(sum, next_one, sizeof first);
        compose(&first, sum, &one, NULL);
    }
}

/* Element i of the result of ranks first .. last. */
static void set_result(const struct op *op, char *to, int first, int last, int i)
{
    _Alignas(16) char other[sizeof(struct place)];

    set_element(op, to, first, i);
    for (int rank = first + 1; rank <= last; rank++) {
        set_element(op, other, rank, i);
        combine(op, to, other);
    }
}

static void alloc_side(struct side *side, size_t n_bytes)
{
    side->n_bytes = n_bytes + 16;
    side->got = mtest_alloc(side->n_bytes);
    side->want = mtest_alloc(side->n_bytes);
    memset(side->got, 0x5a, side->n_bytes);
    memset(side->want, 0x5a, side->n_bytes);
}

static void prepare_reduction(struct op *op)
{
    const struct group *group = op->group;
    bool is_scan = op->kind == SCAN || op->kind == EXSCAN;
    bool is_scattered = op->kind == REDUCE_SCATTER || op->kind == REDUCE_SCATTER_BLOCK;
    bool in_place = op->in_place && (op->kind != REDUCE || is_root(op));
    bool has_result = op->kind == REDUCE ? is_root(op) : op->kind != EXSCAN || group->me > 0;
    int first = group->is_inter ? group->peers : 0, last = first + group->n_peers - 1;
    int from = 0, count = n_elems(op), size = op_bytes[op->reduction];

    alloc_side(&op->send, (size_t)n_elems(op) * (size_t)size);
    alloc_side(&op->recv, (size_t)n_elems(op) * (size_t)size);
    for (int i = 0; i < n_elems(op); i++)
        set_element(op, op->send.got + (size_t)i * (size_t)size, own_id(op), i);
    memcpy(op->send.want, op->send.got, op->send.n_bytes);
    if (in_place) {
        memcpy(op->recv.got, op->send.got, op->send.n_bytes);
        memcpy(op->recv.want, op->send.got, op->send.n_bytes);
    }
    if (is_scan)
        last = group->me - (op->kind == EXSCAN);
    if (is_scattered) {
        op->recv.counts = mtest_alloc((size_t)group->n * sizeof(int));
        for (int i = 0; i < group->n; i++)
            op->recv.counts[i] = block_of(op, i, &from);
        count = block_of(op, group->me, &from);
    }
    for (int i = 0; i < count && has_result; i++)
        set_result(op, op->recv.want + (size_t)i * (size_t)size, first, last, from + i);
    if (is_scattered && in_place) /* MPI says nothing of the rest of the buffer */
        op->recv.n_bytes = (size_t)count * (size_t)size;
}

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
    op->send_lay = (int)next(3);
    op->recv_lay = (int)next(3);
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
    for (int i = 1; i < 3; i++)
        MTEST_OK(MPI_Type_free(&layouts[i].type));
    return mtest_end();
}
