/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_random_data.h: the buffers of an operation of coll_random.c, and the result that each rank computes alone.
 */
#ifndef COLL_RANDOM_DATA_H
#define COLL_RANDOM_DATA_H

#include "coll_random_groups.h"

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

/* The v and w forms sometimes have equal counts and types, and blocks that follow one another. */
static bool is_equal(const struct op *op)
{
    return op->salt % 3 == 0;
}

static bool is_w(const struct op *op)
{
    return op->kind == ALLTOALLW || op->kind == NEIGHBOR_ALLTOALLW;
}

static bool has_one_type(const struct op *op)
{
    return !is_w(op) || (is_equal(op) && op->salt / 64 % 4);
}

static bool has_gaps(const struct op *op)
{
    return op->salt / 4 % 2 || !has_one_type(op);
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
    if (is_equal(op) && (op->salt / 8 % 8 || from != 1) && /* sometimes with one exception */
        (op->salt / 8 % 8 != 1 || from + to != op->group->n + op->group->n_peers - 2))
        return op->count;
    return mix(op->salt, (unsigned)from, (unsigned)to, 3) % 4 == 0
               ? 0
               : (int)(mix(op->salt, (unsigned)from, (unsigned)to, 4) % (unsigned)(op->count + 1));
}

static int value(const struct op *op, int from, int to, int i)
{
    return (int)mix(op->salt, (unsigned)from, (unsigned)to, (unsigned)i);
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
        side->lays[i] =
            has_one_type(op) ? lay : (int)(mix(op->salt, (unsigned)op->in_place, (unsigned)i, 9) % N_LAYOUTS);
}

/* Blocks with these counts: one after the other, or, in the v and w forms, with gaps and from the last to the first. */
static void lay_out(const struct op *op, struct side *side, bool is_v)
{
    size_t at = 0;

    for (int k = 0; k < side->n; k++) {
        int i = is_v && op->salt % 2 ? side->n - 1 - k : k;
        const struct layout *layout = &layouts[side->lays[i]];
        if (is_w(op) && has_gaps(op))
            at = (at + 15) & ~(size_t)7;
        else if (is_v && i % 2 && has_gaps(op))
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

#endif
