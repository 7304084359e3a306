/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topo_graph.c: the MPI functions on graphs that every rank knows completely (MPI 5.0, sections 8.5.3,
 * 8.5.5 and 8.5.8).
 */
#include <string.h>

#include "ampi/create/comm_create.h"

static int raise_null(struct ampi_comm *comm, const char *argument)
{
    return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL", argument);
}

/* The communicator and its graph; raises MPI_ERR_COMM or MPI_ERR_TOPOLOGY. */
static int look_up(struct ampi_rank *self, MPI_Comm handle, struct ampi_comm **comm_out,
                   const struct ampi_topo_graph **graph_out)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    if (!comm->shared->topo || comm->shared->topo->kind != MPI_GRAPH)
        return ampi_raise(comm, MPI_ERR_TOPOLOGY, "the communicator has no graph topology");
    *comm_out = comm;
    *graph_out = &comm->shared->topo->u.graph;
    return MPI_SUCCESS;
}

static int check_graph(struct ampi_comm *comm, int nnodes, const int *index, const int *edges)
{
    int n_edges = 0;

    if (comm->shared->is_inter)
        return ampi_raise(comm, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (nnodes < 0 || nnodes > comm->local->n_ranks)
        return ampi_raise(comm, MPI_ERR_ARG, "nnodes is %d, but the communicator's size is %d", nnodes,
                          comm->local->n_ranks);
    if (nnodes > 0 && !index)
        return raise_null(comm, "indx");
    for (int i = 0; i < nnodes; i++) {
        if (index[i] < n_edges)
            return ampi_raise(comm, MPI_ERR_ARG, "indx[%d] is %d, less than the previous element", i,
                              index[i]);
        n_edges = index[i];
    }
    if (n_edges > 0 && !edges)
        return raise_null(comm, "edges");
    for (int i = 0; i < n_edges; i++) {
        if (edges[i] < 0 || edges[i] >= nnodes)
            return ampi_raise(comm, MPI_ERR_ARG, "edges[%d] is %d, but there are %d nodes", i, edges[i],
                              nnodes);
    }
    return MPI_SUCCESS;
}

AMPI_EXPORT(Graph_create);
int PMPI_Graph_create(MPI_Comm comm_old, int nnodes, const int indx[], const int edges[], int reorder,
                      MPI_Comm *comm_graph)
{
    struct ampi_comm *old = ampi_comm_of(ampi_enter("MPI_Graph_create"), comm_old);
    struct ampi_topo *topo;
    bool is_in;
    int error;

    (void)reorder;
    if (!old)
        return ampi_comm_raise_invalid(comm_old);
    error = check_graph(old, nnodes, indx, edges);
    if (error)
        return error;
    if (!comm_graph)
        return raise_null(old, "comm_graph");
    is_in = old->rank < nnodes;
    topo = is_in ? ampi_topo_create_graph(nnodes, indx, edges) : NULL;
    return ampi_comm_create_split(old, is_in ? 0 : MPI_UNDEFINED, old->rank, topo, NULL, comm_graph);
}

AMPI_EXPORT(Graph_map);
int PMPI_Graph_map(MPI_Comm comm, int nnodes, const int indx[], const int edges[], int *newrank)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Graph_map"), comm);
    int error;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    error = check_graph(object, nnodes, indx, edges);
    if (error)
        return error;
    if (!newrank)
        return raise_null(object, "newrank");
    *newrank = object->rank < nnodes ? object->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int edges_of(const struct ampi_topo_graph *graph)
{
    return graph->n_nodes > 0 ? graph->index[graph->n_nodes - 1] : 0;
}

AMPI_EXPORT(Graphdims_get);
int PMPI_Graphdims_get(MPI_Comm comm, int *nnodes, int *nedges)
{
    const struct ampi_topo_graph *graph = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Graphdims_get"), comm, &object, &graph);

    if (error)
        return error;
    if (!nnodes || !nedges)
        return raise_null(object, nnodes ? "nedges" : "nnodes");
    *nnodes = graph->n_nodes;
    *nedges = edges_of(graph);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Graph_get);
int PMPI_Graph_get(MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[])
{
    const struct ampi_topo_graph *graph = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Graph_get"), comm, &object, &graph);
    int n_edges;

    if (error)
        return error;
    n_edges = edges_of(graph);
    if (maxindex < graph->n_nodes || maxedges < n_edges)
        return ampi_raise(object, MPI_ERR_ARG,
                          "the arrays have room for %d nodes and %d edges, but the graph has %d and %d",
                          maxindex, maxedges, graph->n_nodes, n_edges);
    if (!indx || (n_edges > 0 && !edges))
        return raise_null(object, indx ? "edges" : "indx");
    memcpy(indx, graph->index, (size_t)graph->n_nodes * sizeof *indx);
    if (n_edges > 0)
        memcpy(edges, graph->edges, (size_t)n_edges * sizeof *edges);
    return MPI_SUCCESS;
}

/* The edges of one rank: the index of the first one, and their number. */
static int edges_of_rank(struct ampi_comm *comm, const struct ampi_topo_graph *graph, int rank,
                         int *first_out, int *n_out)
{
    if (rank < 0 || rank >= graph->n_nodes)
        return ampi_raise(comm, MPI_ERR_RANK, "the rank is %d, but the graph has %d nodes", rank,
                          graph->n_nodes);
    *first_out = rank > 0 ? graph->index[rank - 1] : 0;
    *n_out = graph->index[rank] - *first_out;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Graph_neighbors_count);
int PMPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *nneighbors)
{
    const struct ampi_topo_graph *graph = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Graph_neighbors_count"), comm, &object, &graph);
    int first, n = 0;

    if (error)
        return error;
    if (!nneighbors)
        return raise_null(object, "nneighbors");
    error = edges_of_rank(object, graph, rank, &first, &n);
    if (!error)
        *nneighbors = n;
    return error;
}

AMPI_EXPORT(Graph_neighbors);
int PMPI_Graph_neighbors(MPI_Comm comm, int rank, int maxneighbors, int neighbors[])
{
    const struct ampi_topo_graph *graph = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Graph_neighbors"), comm, &object, &graph);
    int first = 0, n = 0;

    if (!error)
        error = edges_of_rank(object, graph, rank, &first, &n);
    if (error)
        return error;
    if (maxneighbors < n)
        return ampi_raise(object, MPI_ERR_ARG, "maxneighbors is %d, but rank %d has %d neighbors",
                          maxneighbors, rank, n);
    if (n > 0 && !neighbors)
        return raise_null(object, "neighbors");
    if (n > 0)
        memcpy(neighbors, graph->edges + first, (size_t)n * sizeof *neighbors);
    return MPI_SUCCESS;
}
