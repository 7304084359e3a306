/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topo.h: process topologies (MPI 5.0, chapter 8).
 *
 * A topology is immutable, created with its communicator, and shared by the members and by duplicates.
 * Ranks are not reordered: all ranks of a process are equally close to each other.
 */
#ifndef AMPI_TOPO_H
#define AMPI_TOPO_H

#include "ampi/object/handle.h"

struct ampi_comm;

/* A grid; ranks count its points in row-major order. */
struct ampi_topo_cart {
    int n_dims;
    int *dims;
    int *periods; /* 0 or 1 */
};

/* The neighbors of node i are edges[i ? index[i - 1] : 0] .. edges[index[i] - 1], as the program gave
 * them. */
struct ampi_topo_graph {
    int n_nodes;
    int *index;
    int *edges;
};

/* One direction of a distributed graph: rank i has the edges first[i] .. first[i + 1] - 1. */
struct ampi_topo_edges {
    int *first;
    int *ranks;   /* at the other end */
    int *weights; /* NULL: unweighted */
};
struct ampi_topo_dist {
    int n_ranks;
    struct ampi_topo_edges in;
    struct ampi_topo_edges out;
};

struct ampi_topo {
    _Atomic uint32_t refs; /* communicators that have it */
    int kind;              /* MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH */
    union {
        struct ampi_topo_cart cart;
        struct ampi_topo_graph graph;
        struct ampi_topo_dist dist;
    } u;
};

/* New topologies, with one reference; the arrays are copied. */
struct ampi_topo *ampi_topo_create_cart(int n_dims, const int *dims, const int *periods);
struct ampi_topo *ampi_topo_create_graph(int n_nodes, const int *index, const int *edges);

/* A distributed graph with room for the edges; the caller fills the arrays in. */
struct ampi_topo *ampi_topo_create_dist(int n_ranks, size_t n_in, size_t n_out, bool is_weighted);

/* Both accept NULL. ref returns its argument. */
struct ampi_topo *ampi_topo_ref(struct ampi_topo *topo);
void ampi_topo_unref(struct ampi_topo *topo);

/* ---- Neighbors, for neighborhood collectives, in the order of MPI 5.0, section 8.6. 0 without a topology. ---- */

int ampi_topo_in_degree(const struct ampi_comm *comm);
int ampi_topo_out_degree(const struct ampi_comm *comm);

/* Writes as many ranks as the degree; MPI_PROC_NULL beyond the border of a grid. */
void ampi_topo_in_neighbors(const struct ampi_comm *comm, int *ranks_out);
void ampi_topo_out_neighbors(const struct ampi_comm *comm, int *ranks_out);

/* ---- Grids ---- */

/* The number of points. -1: more than an int can count. */
int ampi_cart_size(int n_dims, const int *dims);

void ampi_cart_coords(const struct ampi_topo_cart *cart, int rank, int *coords_out);

/* The rank of a point, with periodic coordinates wrapped; MPI_PROC_NULL outside the grid. */
int ampi_cart_rank(const struct ampi_topo_cart *cart, const int *coords);

/* The rank disp steps from a rank in one dimension. */
int ampi_cart_neighbor(const struct ampi_topo_cart *cart, int rank, int dim, int disp);

#endif
