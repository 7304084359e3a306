/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topo.c: topology objects and their neighbors (MPI 5.0, chapter 8). Creating communicators with one is in
 * topo_create.c; the functions on grids and graphs are in topo_cart.c, topo_graph.c and topo_dist_graph.c.
 */
#include "ampi/comm/topo.h"

#include <string.h>

#include "ampi/comm/comm.h"
#include "base/log.h"

static struct ampi_topo *create(int kind)
{
    struct ampi_topo *topo = base_calloc(1, sizeof *topo, "a topology");

    atomic_init(&topo->refs, 1);
    topo->kind = kind;
    return topo;
}

static int *copy_ints(const int *values, size_t n)
{
    int *copy = base_malloc((n + 1) * sizeof *copy, "a topology");

    if (n > 0)
        memcpy(copy, values, n * sizeof *copy);
    return copy;
}

struct ampi_topo *ampi_topo_create_cart(int n_dims, const int *dims, const int *periods)
{
    struct ampi_topo *topo = create(MPI_CART);

    topo->u.cart.n_dims = n_dims;
    topo->u.cart.dims = copy_ints(dims, (size_t)n_dims);
    topo->u.cart.periods = copy_ints(periods, (size_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        topo->u.cart.periods[i] = periods[i] != 0;
    return topo;
}

struct ampi_topo *ampi_topo_create_graph(int n_nodes, const int *index, const int *edges)
{
    struct ampi_topo *topo = create(MPI_GRAPH);

    topo->u.graph.n_nodes = n_nodes;
    topo->u.graph.index = copy_ints(index, (size_t)n_nodes);
    topo->u.graph.edges = copy_ints(edges, n_nodes > 0 ? (size_t)index[n_nodes - 1] : 0);
    return topo;
}

static void create_edges(struct ampi_topo_edges *edges, int n_ranks, size_t n_edges, bool is_weighted)
{
    edges->first = base_calloc((size_t)n_ranks + 1, sizeof(int), "a topology");
    edges->ranks = base_calloc(n_edges + 1, sizeof(int), "a topology");
    if (is_weighted)
        edges->weights = base_calloc(n_edges + 1, sizeof(int), "a topology");
}

struct ampi_topo *ampi_topo_create_dist(int n_ranks, size_t n_in, size_t n_out, bool is_weighted)
{
    struct ampi_topo *topo = create(MPI_DIST_GRAPH);

    topo->u.dist.n_ranks = n_ranks;
    create_edges(&topo->u.dist.in, n_ranks, n_in, is_weighted);
    create_edges(&topo->u.dist.out, n_ranks, n_out, is_weighted);
    return topo;
}

struct ampi_topo *ampi_topo_ref(struct ampi_topo *topo)
{
    if (topo)
        atomic_fetch_add_explicit(&topo->refs, 1, memory_order_relaxed);
    return topo;
}

static void free_edges(struct ampi_topo_edges *edges)
{
    free(edges->first);
    free(edges->ranks);
    free(edges->weights);
}

void ampi_topo_unref(struct ampi_topo *topo)
{
    if (!topo || atomic_fetch_sub_explicit(&topo->refs, 1, memory_order_acq_rel) != 1)
        return;
    switch (topo->kind) {
    case MPI_CART:
        free(topo->u.cart.dims);
        free(topo->u.cart.periods);
        break;
    case MPI_GRAPH:
        free(topo->u.graph.index);
        free(topo->u.graph.edges);
        break;
    default:
        free_edges(&topo->u.dist.in);
        free_edges(&topo->u.dist.out);
        break;
    }
    free(topo);
}

/* ---- Grids ---- */

int ampi_cart_size(int n_dims, const int *dims)
{
    int64_t size = 1;

    for (int i = 0; i < n_dims; i++) {
        size *= dims[i];
        if (size > INT32_MAX)
            return -1;
    }
    return (int)size;
}

void ampi_cart_coords(const struct ampi_topo_cart *cart, int rank, int *coords_out)
{
    for (int i = cart->n_dims - 1; i >= 0; i--) {
        coords_out[i] = rank % cart->dims[i];
        rank /= cart->dims[i];
    }
}

int ampi_cart_rank(const struct ampi_topo_cart *cart, const int *coords)
{
    int rank = 0;

    for (int i = 0; i < cart->n_dims; i++) {
        int coord = coords[i];
        if (coord < 0 || coord >= cart->dims[i]) {
            if (!cart->periods[i])
                return MPI_PROC_NULL;
            coord %= cart->dims[i];
            coord += coord < 0 ? cart->dims[i] : 0;
        }
        rank = rank * cart->dims[i] + coord;
    }
    return rank;
}

int ampi_cart_neighbor(const struct ampi_topo_cart *cart, int rank, int dim, int disp)
{
    int64_t stride = 1, coord, target;

    for (int i = cart->n_dims - 1; i > dim; i--)
        stride *= cart->dims[i];
    coord = rank / stride % cart->dims[dim];
    target = coord + disp;
    if (target < 0 || target >= cart->dims[dim]) {
        if (!cart->periods[dim])
            return MPI_PROC_NULL;
        target %= cart->dims[dim];
        target += target < 0 ? cart->dims[dim] : 0;
    }
    return (int)(rank + (target - coord) * stride);
}

/* ---- Neighbors ---- */

/* The index of a node's first edge. */
static int graph_begin(const struct ampi_topo_graph *graph, int rank)
{
    return rank > 0 ? graph->index[rank - 1] : 0;
}

static int degree(const struct ampi_comm *comm, bool is_out)
{
    const struct ampi_topo *topo = comm->shared->topo;
    const struct ampi_topo_edges *edges;

    if (!topo)
        return 0;
    switch (topo->kind) {
    case MPI_CART:
        return 2 * topo->u.cart.n_dims;
    case MPI_GRAPH:
        return topo->u.graph.index[comm->rank] - graph_begin(&topo->u.graph, comm->rank);
    default:
        edges = is_out ? &topo->u.dist.out : &topo->u.dist.in;
        return edges->first[comm->rank + 1] - edges->first[comm->rank];
    }
}

static void neighbors(const struct ampi_comm *comm, bool is_out, int *ranks_out)
{
    const struct ampi_topo *topo = comm->shared->topo;
    const struct ampi_topo_edges *edges;
    size_t n_bytes = (size_t)degree(comm, is_out) * sizeof(int);

    if (n_bytes == 0)
        return;
    switch (topo->kind) {
    case MPI_CART:
        for (int i = 0; i < topo->u.cart.n_dims; i++) {
            ranks_out[2 * i] = ampi_cart_neighbor(&topo->u.cart, comm->rank, i, -1);
            ranks_out[2 * i + 1] = ampi_cart_neighbor(&topo->u.cart, comm->rank, i, 1);
        }
        break;
    case MPI_GRAPH:
        memcpy(ranks_out, topo->u.graph.edges + graph_begin(&topo->u.graph, comm->rank), n_bytes);
        break;
    default:
        edges = is_out ? &topo->u.dist.out : &topo->u.dist.in;
        memcpy(ranks_out, edges->ranks + edges->first[comm->rank], n_bytes);
        break;
    }
}

int ampi_topo_in_degree(const struct ampi_comm *comm)
{
    return degree(comm, false);
}

int ampi_topo_out_degree(const struct ampi_comm *comm)
{
    return degree(comm, true);
}

void ampi_topo_in_neighbors(const struct ampi_comm *comm, int *ranks_out)
{
    neighbors(comm, false, ranks_out);
}

void ampi_topo_out_neighbors(const struct ampi_comm *comm, int *ranks_out)
{
    neighbors(comm, true, ranks_out);
}

AMPI_EXPORT(Topo_test);
int PMPI_Topo_test(MPI_Comm comm, int *status)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Topo_test"), comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!status)
        return ampi_raise(object, MPI_ERR_ARG, "status is NULL");
    *status = object->shared->topo ? object->shared->topo->kind : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
