/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of topologies: no dimensions, more ranks than the grid has, periodic shifts, weights that are
 * MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY, graphs with repeated and self edges, partly given dimensions. */
#include "mtest.h"

static void check_cart(void)
{
    MPI_Comm c, sub, sub0;
    int dims[3] = {mtest_size, 1, 1}, periods[3] = {1, 0, 1}, n, s, d, r, coords[3], keep0[3] = {0, 0, 0},
        keep1[3] = {0, 1, 1}, topo, rank;
    int none = 0;
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 0, &none, &none, 0, &c));
    if (mtest_rank == 0) {
        MTEST_CHECK(c != MPI_COMM_NULL, "no dimensions: null at rank 0");
        MTEST_OK(MPI_Cartdim_get(c, &n));
        MTEST_CHECK(n == 0, "dims %d", n);
        MPI_Comm_size(c, &n);
        MTEST_CHECK(n == 1, "size %d", n);
        MTEST_OK(MPI_Cart_get(c, 0, NULL, NULL, NULL));
        MTEST_OK(MPI_Cart_rank(c, NULL, &r));
        MTEST_CHECK(r == 0, "rank");
        MTEST_OK(MPI_Cart_coords(c, 0, 0, NULL));
        MPI_Topo_test(c, &topo);
        MTEST_CHECK(topo == MPI_CART, "topo");
        MPI_Comm_free(&c);
    } else
        MTEST_CHECK(c == MPI_COMM_NULL, "no dimensions: not null");
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &c));
    MPI_Comm_rank(c, &rank);
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    MTEST_OK(MPI_Cart_shift(c, 0, 1, &s, &d));
    MTEST_CHECK(s == (rank + mtest_size - 1) % mtest_size && d == (rank + 1) % mtest_size, "shift %d %d", s,
                d);
    MTEST_OK(MPI_Cart_shift(c, 0, -mtest_size - 2, &s, &d));
    MTEST_CHECK(d == ((rank - 2) % mtest_size + mtest_size) % mtest_size && s == (rank + 2) % mtest_size,
                "far shift %d %d", s, d);
    MTEST_OK(MPI_Cart_shift(c, 0, 0, &s, &d));
    MTEST_CHECK(s == rank && d == rank, "shift 0");
    MTEST_OK(MPI_Cart_shift(c, 1, 0, &s, &d));
    MTEST_CHECK(s == rank && d == rank, "shift 0 not periodic %d %d", s, d);
    MTEST_OK(MPI_Cart_shift(c, 1, 1, &s, &d));
    MTEST_CHECK(s == MPI_PROC_NULL && d == MPI_PROC_NULL, "off the end");
    MTEST_OK(MPI_Cart_shift(c, 2, 1, &s, &d));
    MTEST_CHECK(s == rank && d == rank, "periodic 1");
    MTEST_CLASS2(MPI_Cart_shift(c, 3, 1, &s, &d), MPI_ERR_ARG, MPI_ERR_DIMS);
    MTEST_CLASS2(MPI_Cart_shift(c, -1, 1, &s, &d), MPI_ERR_ARG, MPI_ERR_DIMS);
    coords[0] = -1;
    coords[1] = 0;
    coords[2] = 5;
    MTEST_OK(MPI_Cart_rank(c, coords, &r));
    MTEST_CHECK(r == mtest_size - 1, "periodic coords %d", r);
    coords[1] = 1;
    MTEST_CLASS2(MPI_Cart_rank(c, coords, &r), MPI_ERR_ARG, MPI_ERR_RANK);
    MTEST_CLASS(MPI_Cart_coords(c, mtest_size, 3, coords), MPI_ERR_RANK);
    coords[0] = coords[1] = coords[2] = -7;
    MTEST_OK(MPI_Cart_coords(c, rank, 3, coords));
    MTEST_CHECK(coords[0] == rank && coords[1] == 0, "coords");
    MTEST_OK(MPI_Cart_sub(c, keep0, &sub0));
    MPI_Comm_size(sub0, &n);
    MTEST_CHECK(n == 1, "sub without dimensions %d", n);
    MTEST_OK(MPI_Cartdim_get(sub0, &n));
    MTEST_CHECK(n == 0, "sub dims %d", n);
    MPI_Comm_free(&sub0);
    MTEST_OK(MPI_Cart_sub(c, keep1, &sub));
    MTEST_OK(MPI_Cartdim_get(sub, &n));
    MTEST_CHECK(n == 2, "sub dims %d", n);
    int sd[2], sp[2], sc[2];
    MTEST_OK(MPI_Cart_get(sub, 2, sd, sp, sc));
    MTEST_CHECK(sd[0] == 1 && sp[0] == 0 && sp[1] == 1 && sc[1] == 0, "sub get");
    MPI_Comm_free(&sub);
    MTEST_CLASS(MPI_Graphdims_get(c, &s, &d), MPI_ERR_TOPOLOGY);
    MTEST_CLASS(MPI_Cartdim_get(MPI_COMM_WORLD, &s), MPI_ERR_TOPOLOGY);
    MTEST_CLASS(MPI_Dist_graph_neighbors_count(c, &s, &d, &r), MPI_ERR_TOPOLOGY);
    MPI_Comm dup;
    MPI_Comm_dup(c, &dup);
    MPI_Topo_test(dup, &topo);
    MTEST_CHECK(topo == MPI_CART, "dup loses its topology");
    MPI_Comm_free(&dup);
    MPI_Comm_split(c, 0, 0, &dup);
    MPI_Topo_test(dup, &topo);
    MTEST_CHECK(topo == MPI_UNDEFINED, "split keeps a topology");
    MPI_Comm_free(&dup);
    MPI_Comm_free(&c);
    dims[0] = mtest_size + 1;
    MTEST_CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &c) != MPI_SUCCESS,
                "grid larger than the communicator");
    dims[0] = 0;
    int code = MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &c);
    MTEST_CHECK(code != MPI_SUCCESS || 1, "zero dimension");
    dims[0] = -1;
    MTEST_CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &c) != MPI_SUCCESS,
                "negative dimension");
    if (mtest_size > 1) {
        dims[0] = mtest_size - 1;
        MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &c));
        MTEST_CHECK((c == MPI_COMM_NULL) == (mtest_rank == mtest_size - 1), "one rank too many");
        if (c != MPI_COMM_NULL)
            MPI_Comm_free(&c);
        dims[0] = mtest_size - 1;
        MTEST_OK(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &r));
        MTEST_CHECK(r == MPI_UNDEFINED || (r >= 0 && r < mtest_size - 1), "map %d", r);
    }
}

static void check_dims(void)
{
    int d[3];
#define DIMS(nn, a, b, c, x, y, z)       \
    d[0] = a;                            \
    d[1] = b;                            \
    d[2] = c;                            \
    MTEST_OK(MPI_Dims_create(nn, 3, d)); \
    MTEST_CHECK(d[0] == x && d[1] == y && d[2] == z, "dims of %d: %d %d %d", nn, d[0], d[1], d[2])
    DIMS(6, 0, 0, 1, 3, 2, 1);
    DIMS(7, 0, 0, 0, 7, 1, 1);
    DIMS(6, 0, 3, 0, 2, 3, 1);
    DIMS(1, 0, 0, 0, 1, 1, 1);
    DIMS(12, 0, 0, 0, 3, 2, 2);
    DIMS(60, 0, 0, 0, 5, 4, 3);
    DIMS(24, 2, 3, 4, 2, 3, 4);
    DIMS(1024, 0, 0, 0, 16, 8, 8);
    d[0] = 0;
    d[1] = 3;
    d[2] = 0;
    MTEST_CLASS2(MPI_Dims_create(7, 3, d), MPI_ERR_DIMS, MPI_ERR_ARG);
    d[0] = -1;
    MTEST_CLASS2(MPI_Dims_create(7, 1, d), MPI_ERR_DIMS, MPI_ERR_ARG);
    d[0] = 2;
    MTEST_CHECK(MPI_Dims_create(7, 1, d) != MPI_SUCCESS, "2 of 7");
    MTEST_OK(MPI_Dims_create(1, 0, NULL));
    MTEST_CHECK(MPI_Dims_create(0, 1, d) != MPI_SUCCESS || 1, "0 nodes");
}

static void check_graphs(void)
{
    MPI_Comm g;
    int in, out, w, left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size,
                    n, e;
    int src[3] = {left, left, mtest_rank}, dst[3] = {right, right, mtest_rank}, sw[3] = {1, 2, 3},
        dw[3] = {1, 2, 3}, gs[4], gsw[4], gd[4], gdw[4];
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, src, sw, 3, dst, dw, MPI_INFO_NULL, 0, &g));
    MTEST_OK(MPI_Dist_graph_neighbors_count(g, &in, &out, &w));
    MTEST_CHECK(in == 3 && out == 3 && w, "counts %d %d %d", in, out, w);
    MTEST_OK(MPI_Dist_graph_neighbors(g, 3, gs, gsw, 3, gd, gdw));
    for (int i = 0; i < 3; i++)
        MTEST_CHECK(gs[i] == src[i] && gsw[i] == sw[i] && gd[i] == dst[i] && gdw[i] == dw[i], "edge %d", i);
    int send[3] = {mtest_rank * 10, mtest_rank * 10 + 1, mtest_rank * 10 + 2}, recv[3];
    MTEST_OK(MPI_Neighbor_alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, g));
    MTEST_CHECK(recv[0] == left * 10 && recv[1] == left * 10 + 1 && recv[2] == mtest_rank * 10 + 2,
                "alltoall with repeated edges %d %d %d", recv[0], recv[1], recv[2]);
    MPI_Comm_free(&g);
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, src, MPI_UNWEIGHTED, 1, dst, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &g));
    MTEST_OK(MPI_Dist_graph_neighbors_count(g, &in, &out, &w));
    MTEST_CHECK(in == 1 && out == 1 && !w, "unweighted %d %d %d", in, out, w);
    gsw[0] = 77;
    MTEST_OK(MPI_Dist_graph_neighbors(g, 1, gs, gsw, 1, gd, MPI_UNWEIGHTED));
    MTEST_CHECK(gs[0] == left && gd[0] == right, "neighbors");
    MPI_Comm_free(&g);
    /* one rank without edges gives MPI_WEIGHTS_EMPTY where others have weights */
    int lone = mtest_rank == 0;
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, lone ? 0 : 1, &mtest_rank,
                                            lone ? MPI_WEIGHTS_EMPTY : sw, lone ? 0 : 1, &mtest_rank,
                                            lone ? MPI_WEIGHTS_EMPTY : dw, MPI_INFO_NULL, 0, &g));
    MTEST_OK(MPI_Dist_graph_neighbors_count(g, &in, &out, &w));
    MTEST_CHECK(in == !lone && out == !lone && w, "weights empty: %d %d %d", in, out, w);
    MPI_Comm_free(&g);
    /* all edges told by rank 0 */
    int *s0 = mtest_alloc(sizeof(int) * (size_t)mtest_size),
        *deg = mtest_alloc(sizeof(int) * (size_t)mtest_size),
        *d0 = mtest_alloc(sizeof(int) * 2 * (size_t)mtest_size),
        *w0 = mtest_alloc(sizeof(int) * 2 * (size_t)mtest_size);
    for (int i = 0; i < mtest_size; i++) {
        s0[i] = i;
        deg[i] = 2;
        d0[2 * i] = (i + 1) % mtest_size;
        d0[2 * i + 1] = i;
        w0[2 * i] = 10 + i;
        w0[2 * i + 1] = 20 + i;
    }
    MTEST_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, mtest_rank == 0 ? mtest_size : 0, s0, deg, d0,
                                   mtest_rank == 0 ? w0 : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &g));
    MTEST_OK(MPI_Dist_graph_neighbors_count(g, &in, &out, &w));
    MTEST_CHECK(in == 2 && out == 2 && w, "general %d %d", in, out);
    MTEST_OK(MPI_Dist_graph_neighbors(g, 2, gs, gsw, 2, gd, gdw));
    for (int i = 0; i < 2; i++) {
        MTEST_CHECK(gdw[i] == (gd[i] == mtest_rank && !(mtest_size == 1 && i == 0) ? 20 : 10) + mtest_rank,
                    "weight out %d", gdw[i]);
    }
    MPI_Comm_free(&g);
    MTEST_CLASS2(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &mtest_size, MPI_UNWEIGHTED, 0, NULL,
                                                MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &g),
                 MPI_ERR_RANK, MPI_ERR_ARG);
    /* graph: a ring with self edges, and a graph without nodes */
    int *index = mtest_alloc(sizeof(int) * (size_t)mtest_size),
        *edges = mtest_alloc(sizeof(int) * 3 * (size_t)mtest_size);
    for (int i = 0; i < mtest_size; i++) {
        index[i] = 3 * (i + 1);
        edges[3 * i] = (i + 1) % mtest_size;
        edges[3 * i + 1] = i;
        edges[3 * i + 2] = (i + mtest_size - 1) % mtest_size;
    }
    MTEST_OK(MPI_Graph_create(MPI_COMM_WORLD, mtest_size, index, edges, 0, &g));
    MTEST_OK(MPI_Graphdims_get(g, &n, &e));
    MTEST_CHECK(n == mtest_size && e == 3 * mtest_size, "graph dims %d %d", n, e);
    MTEST_OK(MPI_Graph_neighbors_count(g, mtest_rank, &n));
    MTEST_CHECK(n == 3, "graph neighbours");
    int nb[3] = {-1, -1, -1};
    MTEST_CLASS(MPI_Graph_neighbors(g, mtest_rank, 2, nb), MPI_ERR_ARG);
    MTEST_CHECK(nb[0] == -1, "room for two");
    (void)nb;
    int all[3];
    MTEST_OK(MPI_Neighbor_allgather(&mtest_rank, 1, MPI_INT, all, 1, MPI_INT, g));
    MTEST_CHECK(all[0] == right && all[1] == mtest_rank && all[2] == left, "gathered");
    MPI_Comm_free(&g);
    MTEST_OK(MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &g));
    MTEST_CHECK(g == MPI_COMM_NULL, "graph without nodes");
    MTEST_CHECK(MPI_Graph_create(MPI_COMM_WORLD, mtest_size + 1, index, edges, 0, &g) != MPI_SUCCESS,
                "graph larger than the communicator");
    edges[0] = -1;
    MTEST_CHECK(MPI_Graph_create(MPI_COMM_WORLD, mtest_size, index, edges, 0, &g) != MPI_SUCCESS,
                "negative edge");
    free(s0);
    free(deg);
    free(d0);
    free(w0);
    free(index);
    free(edges);
    /* MPI_PROC_NULL neighbours of a grid leave their blocks alone */
    MPI_Comm c;
    int dims[1] = {mtest_size}, per[1] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, per, 0, &c);
    int rb[2] = {-5, -5}, sb[2] = {mtest_rank, mtest_rank + 100};
    MTEST_OK(MPI_Neighbor_alltoall(sb, 1, MPI_INT, rb, 1, MPI_INT, c));
    MTEST_CHECK(rb[0] == (mtest_rank ? mtest_rank - 1 + 100 : -5) &&
                    rb[1] == (mtest_rank < mtest_size - 1 ? mtest_rank + 1 : -5),
                "grid neighbours %d %d", rb[0], rb[1]);
    MPI_Comm_free(&c);
    per[0] = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, per, 0, &c);
    MTEST_OK(MPI_Neighbor_alltoall(sb, 1, MPI_INT, rb, 1, MPI_INT, c));
    MTEST_CHECK(rb[0] == left + 100 && rb[1] == right, "periodic grid %d %d", rb[0], rb[1]);
    MPI_Comm_free(&c);
}

/* How many ranks are on this rank's host; those of them that come before it in *before_out. */
static int ranks_of_host(int *before_out)
{
    char mine[MPI_MAX_PROCESSOR_NAME] = "", *all = malloc((size_t)mtest_size * sizeof mine);
    int n = 0, length;
    MPI_Get_processor_name(mine, &length);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < mtest_size; rank++) {
        if (rank == mtest_rank)
            *before_out = n;
        n += strcmp(all + (size_t)rank * sizeof mine, mine) == 0;
    }
    free(all);
    return n;
}

static void check_split_type(void)
{
    MPI_Comm c, d;
    int n, before = 0, n_here = ranks_of_host(&before);
    MPI_Info info;
    char v[200];
    int flag, len = sizeof v, r;
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -mtest_rank, MPI_INFO_NULL, &c));
    MPI_Comm_rank(c, &r);
    MPI_Comm_size(c, &n);
    MTEST_CHECK(n == n_here && r == n - 1 - before, "shared %d of %d", r, n);
    MPI_Comm_free(&c);
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &c));
    MTEST_CHECK(c == MPI_COMM_NULL, "undefined");
    MTEST_CLASS2(MPI_Comm_split_type(MPI_COMM_WORLD, 4711, 0, MPI_INFO_NULL, &c), MPI_ERR_ARG, MPI_ERR_ARG);
    MPI_Info_create(&info);
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &c));
    int depth = 0;
    while (c != MPI_COMM_NULL && depth++ < 20) {
        int m;
        MPI_Comm_size(c, &n);
        MTEST_OK(MPI_Info_get_string(info, "mpi_hw_resource_type", &len, v, &flag));
        MTEST_CHECK(flag, "no resource type");
        MTEST_OK(MPI_Comm_split_type(c, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &d));
        if (d != MPI_COMM_NULL) {
            MPI_Comm_size(d, &m);
            MTEST_CHECK(m < n, "not a proper subset: %d of %d", m, n);
        }
        MPI_Comm_free(&c);
        c = d;
    }
    MTEST_CHECK(depth < 20, "no end");
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &c));
    MTEST_CHECK(c != MPI_COMM_NULL, "guided, shared memory");
    MPI_Comm_size(c, &n);
    MTEST_CHECK(n == n_here, "guided %d", n);
    MPI_Comm_free(&c);
    MPI_Info_set(info, "mpi_hw_resource_type", "no such thing");
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &c));
    MTEST_CHECK(c == MPI_COMM_NULL, "guided, unknown");
    MPI_Info_free(&info);
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, MPI_INFO_NULL, &c));
    if (c != MPI_COMM_NULL)
        MPI_Comm_free(&c);
    MTEST_OK(MPI_Get_hw_resource_info(&info));
    int nk;
    MTEST_OK(MPI_Info_get_nkeys(info, &nk));
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_cart();
    check_dims();
    check_graphs();
    check_split_type();
    return mtest_end();
}
