/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_random_groups.h: the kinds of operations, the random numbers, the types, operations of reductions and
 * communicators of coll_random.c, equal at all ranks.
 */
#ifndef COLL_RANDOM_GROUPS_H
#define COLL_RANDOM_GROUPS_H

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

enum { N_LAYOUTS = 4 };
static struct layout layouts[N_LAYOUTS] = {
    {MPI_INT, 0, 4}, {MPI_DATATYPE_NULL, 8, 12}, {MPI_DATATYPE_NULL, 0, 8}, {MPI_DATATYPE_NULL, 4, 4}};

static void make_layouts(void)
{
    for (int i = 1; i < N_LAYOUTS; i++) {
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

#endif
