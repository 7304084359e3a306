/* SPDX-License-Identifier: BSD-3-Clause */
/* Distributed graphs and neighborhood collectives: blocks go to and come from the neighbours in the given
 * order. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm graph, cart, general;
    int in[2], out[2], indegree, outdegree, weighted, got[6];
    mtest_init(&argc, &argv, 3);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    out[0] = next;
    out[1] = prev;
    in[0] = prev;
    in[1] = next;
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, in, (int[]){5, 6}, 2, out, (int[]){7, 8},
                                            MPI_INFO_NULL, 0, &graph));
    MTEST_OK(MPI_Dist_graph_neighbors_count(graph, &indegree, &outdegree, &weighted));
    MTEST_CHECK(indegree == 2 && outdegree == 2 && weighted, "degrees %d %d", indegree, outdegree);
    int sources[2], dests[2], sweights[2], dweights[2], kind;
    MTEST_OK(MPI_Dist_graph_neighbors(graph, 2, sources, sweights, 2, dests, dweights));
    MTEST_CHECK(sources[0] == prev && sources[1] == next && dests[0] == next && dests[1] == prev &&
                    sweights[1] == 6 && dweights[0] == 7,
                "neighbours %d %d -> %d %d", sources[0], sources[1], dests[0], dests[1]);
    MTEST_OK(MPI_Topo_test(graph, &kind));
    MTEST_CHECK(kind == MPI_DIST_GRAPH, "Topo_test says %d", kind);
    MTEST_OK(MPI_Neighbor_allgather(&mtest_rank, 1, MPI_INT, got, 1, MPI_INT, graph));
    MTEST_CHECK(got[0] == prev && got[1] == next, "Neighbor_allgather: %d %d", got[0], got[1]);
    int send[2] = {10 * mtest_rank, 10 * mtest_rank + 1};
    MTEST_OK(MPI_Neighbor_alltoall(send, 1, MPI_INT, got, 1, MPI_INT, graph));
    MTEST_CHECK(got[0] == 10 * prev && got[1] == 10 * next + 1, "Neighbor_alltoall: %d %d", got[0], got[1]);
    MPI_Request request;
    got[0] = got[1] = -1;
    MTEST_OK(MPI_Ineighbor_alltoall(send, 1, MPI_INT, got, 1, MPI_INT, graph, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(got[0] == 10 * prev && got[1] == 10 * next + 1, "Ineighbor_alltoall: %d %d", got[0], got[1]);
    int counts[2] = {1, 1}, displs[2] = {3, 1};
    memset(got, 0xff, sizeof got);
    MTEST_OK(MPI_Neighbor_allgatherv(&mtest_rank, 1, MPI_INT, got, counts, displs, MPI_INT, graph));
    MTEST_CHECK(got[3] == prev && got[1] == next && got[0] == -1 && got[2] == -1, "Neighbor_allgatherv");
    memset(got, 0xff, sizeof got);
    MTEST_OK(
        MPI_Neighbor_alltoallv(send, counts, (int[]){1, 0}, MPI_INT, got, counts, displs, MPI_INT, graph));
    MTEST_CHECK(got[3] == 10 * prev + 1 && got[1] == 10 * next, "Neighbor_alltoallv: %d %d", got[3], got[1]);
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Aint sbytes[2] = {0, sizeof(int)}, rbytes[2] = {4 * sizeof(int), 0};
    memset(got, 0xff, sizeof got);
    MTEST_OK(MPI_Neighbor_alltoallw(send, counts, sbytes, types, got, counts, rbytes, types, graph));
    MTEST_CHECK(got[4] == 10 * prev && got[0] == 10 * next + 1, "Neighbor_alltoallw: %d %d", got[4], got[0]);
    MTEST_OK(MPI_Comm_free(&graph));

    /* General form: rank 0 describes all edges, i -> i+1. */
    int n = mtest_rank == 0 ? mtest_size : 0, *from = mtest_alloc((size_t)mtest_size * sizeof(int));
    int *degrees = mtest_alloc((size_t)mtest_size * sizeof(int)),
        *to = mtest_alloc((size_t)mtest_size * sizeof(int));
    for (int i = 0; i < mtest_size; i++) {
        from[i] = i;
        degrees[i] = 1;
        to[i] = (i + 1) % mtest_size;
    }
    MTEST_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, from, degrees, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &general));
    MTEST_OK(MPI_Dist_graph_neighbors_count(general, &indegree, &outdegree, &weighted));
    MTEST_CHECK(indegree == 1 && outdegree == 1 && !weighted, "general: degrees %d %d weighted %d", indegree,
                outdegree, weighted);
    MTEST_OK(MPI_Neighbor_allgather(&mtest_rank, 1, MPI_INT, got, 1, MPI_INT, general));
    MTEST_CHECK(got[0] == prev, "general: got %d", got[0]);
    MTEST_OK(MPI_Comm_free(&general));

    /* A line: the ends have MPI_PROC_NULL, whose blocks stay as they are. Order: left, right. */
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &mtest_size, (int[]){0}, 0, &cart));
    got[0] = got[1] = -1;
    MTEST_OK(MPI_Neighbor_allgather(&mtest_rank, 1, MPI_INT, got, 1, MPI_INT, cart));
    MTEST_CHECK(got[0] == (mtest_rank ? mtest_rank - 1 : -1) && got[1] == (next ? mtest_rank + 1 : -1),
                "line: %d %d", got[0], got[1]);
    got[0] = got[1] = -1;
    MTEST_OK(MPI_Neighbor_alltoall(send, 1, MPI_INT, got, 1, MPI_INT, cart));
    MTEST_CHECK(got[0] == (mtest_rank ? 10 * (mtest_rank - 1) + 1 : -1) &&
                    got[1] == (next ? 10 * (mtest_rank + 1) : -1),
                "line alltoall: %d %d", got[0], got[1]);
    MTEST_OK(MPI_Comm_free(&cart));
    free(from);
    free(degrees);
    free(to);
    return mtest_end();
}
