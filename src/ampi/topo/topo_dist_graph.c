/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topo_dist_graph.c: graphs of which every rank specifies a part (MPI 5.0, section 8.5.4).
 *
 * Creation is the collective of MPI_Comm_dup and then, in the same middle stage, one pass over all members'
 * edges that counts them per rank and one that stores them. In the adjacent form each end's own list is
 * used, in its order; in the general form an edge is stored at its two ends, in the order of the members
 * that specified it.
 */
#include <string.h>

#include "ampi/coll/engine/items.h"
#include "ampi/create/comm_create.h"
#include "ampi/comm/comm_info.h"

/* A member's arguments; passed to the middle stage through args->send.buf. */
struct edge_args {
    bool is_adjacent;
    bool is_weighted;
    int n_in; /* adjacent: edges that end here; general: specified sources */
    const int *sources;
    const int *in_weights; /* general: the only weights */
    const int *degrees;    /* general: number of destinations of each source */
    int n_out;             /* adjacent: edges that begin here; general: specified edges */
    const int *destinations;
    const int *out_weights;
};

static const struct edge_args *args_of(const struct ampi_coll_slot *slot, int member)
{
    return slot->args[member]->send.buf;
}

/* ---- Middle stage ---- */

/* first[] has the counts, shifted by one; converts them to the index of each rank's first edge. */
static void sum_up(int *first, int n_ranks)
{
    for (int i = 0; i < n_ranks; i++)
        first[i + 1] += first[i];
}

static void put_edge(struct ampi_topo_edges *edges, int at, int rank, int weight)
{
    edges->ranks[at] = rank;
    if (edges->weights)
        edges->weights[at] = weight;
}

static void put_list(struct ampi_topo_edges *edges, int rank, int n, const int *ranks, const int *weights)
{
    edges->first[rank + 1] = edges->first[rank] + n;
    for (int i = 0; i < n; i++)
        put_edge(edges, edges->first[rank] + i, ranks[i], weights ? weights[i] : 1);
}

static struct ampi_topo *build_adjacent(const struct ampi_coll_slot *slot, int n_ranks, bool is_weighted)
{
    size_t n_in = 0, n_out = 0;
    struct ampi_topo *topo;

    for (int i = 0; i < n_ranks; i++) {
        n_in += (size_t)args_of(slot, i)->n_in;
        n_out += (size_t)args_of(slot, i)->n_out;
    }
    topo = ampi_topo_create_dist(n_ranks, n_in, n_out, is_weighted);
    for (int i = 0; i < n_ranks; i++) {
        const struct edge_args *given = args_of(slot, i);
        put_list(&topo->u.dist.in, i, given->n_in, given->sources, given->in_weights);
        put_list(&topo->u.dist.out, i, given->n_out, given->destinations, given->out_weights);
    }
    return topo;
}

/* Calls visit for every edge that a member specifies. */
typedef void visit_fn(struct ampi_topo_dist *dist, int source, int destination, int weight);

static void visit_edges(const struct edge_args *given, struct ampi_topo_dist *dist, visit_fn *visit)
{
    int edge = 0;

    for (int i = 0; i < given->n_in; i++) {
        for (int k = 0; k < given->degrees[i]; k++, edge++)
            visit(dist, given->sources[i], given->destinations[edge],
                  given->in_weights ? given->in_weights[edge] : 1);
    }
}

static void count_edge(struct ampi_topo_dist *dist, int source, int destination, int weight)
{
    (void)weight;
    dist->out.first[source + 1]++;
    dist->in.first[destination + 1]++;
}

/* first[] is used as the next free index, and is the next rank's first index when all are placed. */
static void place_edge(struct ampi_topo_dist *dist, int source, int destination, int weight)
{
    put_edge(&dist->out, dist->out.first[source]++, destination, weight);
    put_edge(&dist->in, dist->in.first[destination]++, source, weight);
}

static void move_back(int *first, int n_ranks)
{
    memmove(first + 1, first, (size_t)n_ranks * sizeof *first);
    first[0] = 0;
}

static struct ampi_topo *build_general(const struct ampi_coll_slot *slot, int n_ranks, bool is_weighted)
{
    size_t n_edges = 0;
    struct ampi_topo *topo;
    struct ampi_topo_dist *dist;

    for (int i = 0; i < n_ranks; i++)
        n_edges += (size_t)args_of(slot, i)->n_out;
    topo = ampi_topo_create_dist(n_ranks, n_edges, n_edges, is_weighted);
    dist = &topo->u.dist;
    for (int i = 0; i < n_ranks; i++)
        visit_edges(args_of(slot, i), dist, count_edge);
    sum_up(dist->in.first, n_ranks);
    sum_up(dist->out.first, n_ranks);
    for (int i = 0; i < n_ranks; i++)
        visit_edges(args_of(slot, i), dist, place_edge);
    move_back(dist->in.first, n_ranks);
    move_back(dist->out.first, n_ranks);
    return topo;
}

static void create_middle(struct ampi_coll_slot *slot)
{
    int n_ranks = slot->args[0]->comm->local->n_ranks;
    const struct edge_args *first = args_of(slot, 0);
    const struct ampi_comm *made;

    ampi_comm_dup_plan.middle(slot);
    made = slot->last->extra;
    if (!made)
        return;
    ampi_topo_unref(made->shared->topo); /* that of the old communicator */
    made->shared->topo = first->is_adjacent ? build_adjacent(slot, n_ranks, first->is_weighted)
                                            : build_general(slot, n_ranks, first->is_weighted);
}

/* Packs a member's arguments for other processes: the numbers, then each existing array. */
static void create_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                        struct ampi_coll_packer *out)
{
    const struct edge_args *given = args->send.buf;
    size_t n_in = (size_t)given->n_in * sizeof(int);
    size_t n_out = (size_t)given->n_out * sizeof(int);

    (void)slot;
    ampi_coll_put_bytes(out, 0, given, sizeof *given);
    ampi_coll_put_bytes(out, 1, given->sources, n_in);
    ampi_coll_put_bytes(out, 2, given->destinations, n_out);
    ampi_coll_put_bytes(out, 3, given->in_weights,
                        !given->in_weights   ? 0
                        : given->is_adjacent ? n_in
                                             : n_out);
    ampi_coll_put_bytes(out, 4, given->out_weights, given->out_weights ? n_out : 0);
    ampi_coll_put_bytes(out, 5, given->degrees, given->degrees ? n_in : 0);
}

static void create_unpack(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                          struct ampi_coll_unpacker *in)
{
    struct edge_args *given = ampi_coll_stand_in_alloc(in, sizeof *given);
    const void *arrays[6];
    size_t n_bytes;

    (void)slot;
    for (int i = 0; i < 6; i++)
        arrays[i] = ampi_coll_get(in, &n_bytes, NULL);
    memcpy(given, arrays[0], sizeof *given);
    given->sources = arrays[1];
    given->destinations = arrays[2];
    given->in_weights = given->in_weights ? arrays[3] : NULL;
    given->out_weights = given->out_weights ? arrays[4] : NULL;
    given->degrees = given->degrees ? arrays[5] : NULL;
    args->send.buf = given;
}

static const struct ampi_coll_plan create_plan = {.name = "graph creation",
                                                  .makes_comm = true,
                                                  .pack = create_pack,
                                                  .unpack = create_unpack,
                                                  .middle = create_middle};

/* ---- Each member's part ---- */

static int check_ranks(struct ampi_comm *comm, const char *what, int n, const int *ranks)
{
    if (n < 0)
        return ampi_raise(comm, MPI_ERR_ARG, "%d %s are given", n, what);
    if (n > 0 && !ranks)
        return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL", what);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->local->n_ranks)
            return ampi_raise(comm, MPI_ERR_RANK, "%s[%d] is %d, but the communicator's size is %d", what, i,
                              ranks[i], comm->local->n_ranks);
    }
    return MPI_SUCCESS;
}

/* The array, or NULL where the program gave MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY. */
static const int *weights_of(const int *weights)
{
    return weights == MPI_UNWEIGHTED || weights == MPI_WEIGHTS_EMPTY ? NULL : weights;
}

static int check_weights(struct ampi_comm *comm, const char *what, int n, const int *weights)
{
    if (n > 0 && !weights)
        return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL; use MPI_UNWEIGHTED for edges without weights",
                          what);
    if (n > 0 && weights == MPI_WEIGHTS_EMPTY)
        return ampi_raise(comm, MPI_ERR_ARG, "%s is MPI_WEIGHTS_EMPTY, but there are %d edges", what, n);
    for (int i = 0; i < n && weights_of(weights); i++) {
        if (weights[i] < 0)
            return ampi_raise(comm, MPI_ERR_ARG, "%s[%d] is %d", what, i, weights[i]);
    }
    return MPI_SUCCESS;
}

/* Checks that both forms share. */
static int check_comm(struct ampi_rank *self, struct ampi_comm *old, MPI_Info info, const MPI_Comm *newcomm)
{
    if (old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return ampi_raise(old, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!newcomm)
        return ampi_raise(old, MPI_ERR_ARG, "comm_dist_graph is NULL");
    return MPI_SUCCESS;
}

static int create(struct ampi_comm *old, struct edge_args *given, MPI_Info info, MPI_Comm *newcomm)
{
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&create_plan), .comm = old, .send = {.buf = given}};
    int error = ampi_coll_run(&args);
    struct ampi_comm *made = args.extra;

    if (error)
        return ampi_comm_raise_creation(old, error);
    made->info = ampi_comm_info_filter(NULL, ampi_info_of(old->owner, info));
    return ampi_comm_adopt(old, made, false, newcomm);
}

AMPI_EXPORT(Dist_graph_create_adjacent);
int PMPI_Dist_graph_create_adjacent(MPI_Comm comm_old, int indegree, const int sources[],
                                    const int *sourceweights, int outdegree, const int destinations[],
                                    const int *destweights, MPI_Info info, int reorder,
                                    MPI_Comm *comm_dist_graph)
{
    struct ampi_rank *self = ampi_enter("MPI_Dist_graph_create_adjacent");
    struct ampi_comm *old = ampi_comm_of(self, comm_old);
    struct edge_args given = {
        .is_adjacent = true,
        .is_weighted = sourceweights != MPI_UNWEIGHTED,
        .n_in = indegree,
        .sources = sources,
        .in_weights = weights_of(sourceweights),
        .n_out = outdegree,
        .destinations = destinations,
        .out_weights = weights_of(destweights),
    };
    int error;

    (void)reorder;
    if (!old)
        return ampi_comm_raise_invalid(comm_old);
    if ((error = check_comm(self, old, info, comm_dist_graph)) ||
        (error = check_ranks(old, "sources", indegree, sources)) ||
        (error = check_ranks(old, "destinations", outdegree, destinations)) ||
        (error = check_weights(old, "sourceweights", indegree, sourceweights)) ||
        (error = check_weights(old, "destweights", outdegree, destweights)))
        return error;
    return create(old, &given, info, comm_dist_graph);
}

/* The number of edges, which is the sum of the degrees; raises errors. */
static int check_degrees(struct ampi_comm *comm, int n, const int *degrees, int *n_edges_out)
{
    int64_t n_edges = 0;

    if (n > 0 && !degrees)
        return ampi_raise(comm, MPI_ERR_ARG, "degrees is NULL");
    for (int i = 0; i < n; i++) {
        if (degrees[i] < 0)
            return ampi_raise(comm, MPI_ERR_ARG, "degrees[%d] is %d", i, degrees[i]);
        n_edges += degrees[i];
    }
    if (n_edges > INT32_MAX)
        return ampi_raise(comm, MPI_ERR_ARG, "%lld edges are too many", (long long)n_edges);
    *n_edges_out = (int)n_edges;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Dist_graph_create);
int PMPI_Dist_graph_create(MPI_Comm comm_old, int n, const int sources[], const int degrees[],
                           const int destinations[], const int *weights, MPI_Info info, int reorder,
                           MPI_Comm *comm_dist_graph)
{
    struct ampi_rank *self = ampi_enter("MPI_Dist_graph_create");
    struct ampi_comm *old = ampi_comm_of(self, comm_old);
    struct edge_args given = {
        .is_weighted = weights != MPI_UNWEIGHTED,
        .n_in = n,
        .sources = sources,
        .in_weights = weights_of(weights),
        .degrees = degrees,
        .destinations = destinations,
    };
    int error;

    (void)reorder;
    if (!old)
        return ampi_comm_raise_invalid(comm_old);
    if ((error = check_comm(self, old, info, comm_dist_graph)) ||
        (error = check_ranks(old, "sources", n, sources)) ||
        (error = check_degrees(old, n, degrees, &given.n_out)) ||
        (error = check_ranks(old, "destinations", given.n_out, destinations)) ||
        (error = check_weights(old, "weights", given.n_out, weights)))
        return error;
    return create(old, &given, info, comm_dist_graph);
}

/* ---- Inquiry ---- */

static int look_up(struct ampi_rank *self, MPI_Comm handle, struct ampi_comm **comm_out,
                   const struct ampi_topo_dist **dist_out)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    if (!comm->shared->topo || comm->shared->topo->kind != MPI_DIST_GRAPH)
        return ampi_raise(comm, MPI_ERR_TOPOLOGY, "the communicator has no distributed graph topology");
    *comm_out = comm;
    *dist_out = &comm->shared->topo->u.dist;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Dist_graph_neighbors_count);
int PMPI_Dist_graph_neighbors_count(MPI_Comm comm, int *indegree, int *outdegree, int *weighted)
{
    const struct ampi_topo_dist *dist = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Dist_graph_neighbors_count"), comm, &object, &dist);

    if (error)
        return error;
    if (!indegree || !outdegree || !weighted)
        return ampi_raise(object, MPI_ERR_ARG, "%s is NULL",
                          !indegree   ? "indegree"
                          : outdegree ? "weighted"
                                      : "outdegree");
    *indegree = ampi_topo_in_degree(object);
    *outdegree = ampi_topo_out_degree(object);
    *weighted = dist->in.weights != NULL;
    return MPI_SUCCESS;
}

/* Copies the first edges of a rank, as many as fit. */
static void copy_edges(const struct ampi_topo_edges *edges, int rank, int n_max, int *ranks, int *weights)
{
    int first = edges->first[rank];
    int n = edges->first[rank + 1] - first;

    if (n > n_max)
        n = n_max;
    for (int i = 0; i < n; i++) {
        ranks[i] = edges->ranks[first + i];
        if (edges->weights && weights && weights_of(weights))
            weights[i] = edges->weights[first + i];
    }
}

/* True if the graph has weights but the caller gave no array for them. */
static bool lacks_weights(const struct ampi_topo_edges *edges, int rank, int n_max, const int *weights)
{
    return edges->weights && !weights && n_max > 0 && edges->first[rank + 1] > edges->first[rank];
}

AMPI_EXPORT(Dist_graph_neighbors);
int PMPI_Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int *sourceweights,
                              int maxoutdegree, int destinations[], int *destweights)
{
    const struct ampi_topo_dist *dist = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Dist_graph_neighbors"), comm, &object, &dist);

    if (error)
        return error;
    if (maxindegree < 0 || maxoutdegree < 0)
        return ampi_raise(object, MPI_ERR_ARG, "maxindegree is %d and maxoutdegree is %d", maxindegree,
                          maxoutdegree);
    if ((maxindegree > 0 && !sources) || (maxoutdegree > 0 && !destinations))
        return ampi_raise(object, MPI_ERR_ARG, "sources or destinations is NULL");
    if (lacks_weights(&dist->in, object->rank, maxindegree, sourceweights) ||
        lacks_weights(&dist->out, object->rank, maxoutdegree, destweights))
        return ampi_raise(object, MPI_ERR_ARG, "sourceweights or destweights is NULL");
    copy_edges(&dist->in, object->rank, maxindegree, sources, sourceweights);
    copy_edges(&dist->out, object->rank, maxoutdegree, destinations, destweights);
    return MPI_SUCCESS;
}
