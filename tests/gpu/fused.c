/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The halo of a box of doubles, 26 blocks described by subarrays, arrives in GPU memory by all ways of starting
 * many requests: it is one kernel for each rank or fewer, not one for each message ("count": checked, on the fake
 * driver, on one PE).
 */
#include <stdbool.h>

#include "device.h"
#include "fakecuda.h"

#define EDGE 6
#define OUTER (EDGE + 2)
#define CELLS (OUTER * OUTER * OUTER)
#define NEIGHBORS 26
#define ROUNDS 4

static int dims[3];
static int neighbors[NEIGHBORS]; /* the opposite of neighbor i is neighbor 25 - i */
static MPI_Datatype sends[NEIGHBORS], receives[NEIGHBORS];
static MPI_Comm comm;
static char *cells;

static int rank_at(const int *coords)
{
    int wrapped[3];

    for (int d = 0; d < 3; d++)
        wrapped[d] = (coords[d] + dims[d]) % dims[d];
    return (wrapped[0] * dims[1] + wrapped[1]) * dims[2] + wrapped[2];
}

/* The block at the side `direction` (-1, 0, 1 each), within the box or in the halo around it. */
static MPI_Datatype block_at(const int *direction, bool is_halo)
{
    int sizes[3] = {OUTER, OUTER, OUTER}, subsizes[3], starts[3];
    MPI_Datatype made;

    for (int d = 0; d < 3; d++) {
        subsizes[d] = direction[d] ? 1 : EDGE;
        starts[d] = direction[d] == 0 ? 1 : direction[d] < 0 ? !is_halo : is_halo ? EDGE + 1 : EDGE;
    }
    MTEST_OK(MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &made));
    MTEST_OK(MPI_Type_commit(&made));
    return made;
}

static void make_neighbors(void)
{
    int coords[3], n = 0;

    MTEST_OK(MPI_Dims_create(mtest_size, 3, dims));
    coords[0] = mtest_rank / (dims[1] * dims[2]);
    coords[1] = mtest_rank / dims[2] % dims[1];
    coords[2] = mtest_rank % dims[2];
    for (int i = 0; i < 27; i++) {
        int direction[3] = {i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1}, other[3];
        if (i == 13)
            continue;
        for (int d = 0; d < 3; d++)
            other[d] = coords[d] + direction[d];
        neighbors[n] = rank_at(other);
        sends[n] = block_at(direction, false);
        receives[n++] = block_at(direction, true);
    }
}

/* The edges of the graph between two ranks match in order, so the sources are listed in opposite order. */
static void make_graph(void)
{
    int sources[NEIGHBORS];

    for (int i = 0; i < NEIGHBORS; i++)
        sources[i] = neighbors[NEIGHBORS - 1 - i];
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, NEIGHBORS, sources, MPI_UNWEIGHTED, NEIGHBORS,
                                            neighbors, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
}

static double value_of(int of_rank, int round, int cell)
{
    return of_rank * 1e6 + round * 1e4 + cell;
}

static void fill(int round)
{
    double values[CELLS];

    for (int i = 0; i < CELLS; i++) {
        int x = i / (OUTER * OUTER), y = i / OUTER % OUTER, z = i % OUTER;
        bool is_inner = x > 0 && x <= EDGE && y > 0 && y <= EDGE && z > 0 && z <= EDGE;
        values[i] = is_inner ? value_of(mtest_rank, round, i) : -1;
    }
    GTEST_CU(cuMemcpyHtoD((CUdeviceptr)cells, values, sizeof values));
    GTEST_CU(cuCtxSynchronize());
}

static void check(const char *name, int round)
{
    double values[CELLS];

    GTEST_CU(cuMemcpyDtoH(values, (CUdeviceptr)cells, sizeof values));
    for (int i = 0; i < CELLS; i++) {
        int at[3] = {i / (OUTER * OUTER), i / OUTER % OUTER, i % OUTER}, from[3], direction[3], place;
        for (int d = 0; d < 3; d++) {
            direction[d] = at[d] == 0 ? -1 : at[d] == OUTER - 1 ? 1 : 0;
            from[d] = at[d] - direction[d] * EDGE;
        }
        place = (direction[0] + 1) * 9 + (direction[1] + 1) * 3 + direction[2] + 1;
        MTEST_CHECK(values[i] == value_of(place == 13 ? mtest_rank : neighbors[place - (place > 13)], round,
                                          (from[0] * OUTER + from[1]) * OUTER + from[2]),
                    "%s, round %d: cell %d is %g", name, round, i, values[i]);
    }
}

/* ---- Ways ---- */

static MPI_Request requests[2 * NEIGHBORS];

static void nonblocking(void)
{
    for (int i = 0; i < NEIGHBORS; i++)
        MTEST_OK(MPI_Irecv(cells, 1, receives[i], neighbors[i], NEIGHBORS - 1 - i, comm, &requests[i]));
    for (int i = 0; i < NEIGHBORS; i++)
        MTEST_OK(MPI_Isend(cells, 1, sends[i], neighbors[i], i, comm, &requests[NEIGHBORS + i]));
    MTEST_OK(MPI_Waitall(2 * NEIGHBORS, requests, MPI_STATUSES_IGNORE));
}

static void persistent(void)
{
    static bool is_made;

    for (int i = 0; i < NEIGHBORS && !is_made; i++) {
        MTEST_OK(MPI_Recv_init(cells, 1, receives[i], neighbors[i], NEIGHBORS - 1 - i, comm, &requests[i]));
        MTEST_OK(MPI_Send_init(cells, 1, sends[i], neighbors[i], i, comm, &requests[NEIGHBORS + i]));
    }
    is_made = true;
    MTEST_OK(MPI_Startall(2 * NEIGHBORS, requests));
    MTEST_OK(MPI_Waitall(2 * NEIGHBORS, requests, MPI_STATUSES_IGNORE));
}

/* The arguments of both collectives. */
static int counts[NEIGHBORS];
static MPI_Aint displs[NEIGHBORS];
static MPI_Datatype opposites[NEIGHBORS];

static void collective(void)
{
    MTEST_OK(MPI_Neighbor_alltoallw(cells, counts, displs, sends, cells, counts, displs, opposites, comm));
}

static void nonblocking_collective(void)
{
    MPI_Request request;

    MTEST_OK(MPI_Ineighbor_alltoallw(cells, counts, displs, sends, cells, counts, displs, opposites, comm,
                                     &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void run(const char *name, void (*exchange)(void), bool is_counted)
{
    for (int round = 0; round < ROUNDS; round++) {
        int before = 0, n_launches;
        fill(round);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (fakecuda_is_here())
            before = fakecuda_calls("cuLaunchKernel");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        exchange();
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        n_launches = fakecuda_is_here() ? fakecuda_calls("cuLaunchKernel") - before : 0;
        if (is_counted && fakecuda_is_here())
            MTEST_CHECK(n_launches >= 1 && n_launches <= (mtest_size == 1 ? 2 : mtest_size),
                        "%s: %d launches for %d ranks", name, n_launches, mtest_size);
        check(name, round);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    bool is_counted;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    is_counted = argc > 1 && strcmp(argv[1], "count") == 0;
    make_neighbors();
    make_graph();
    for (int i = 0; i < NEIGHBORS; i++) {
        counts[i] = 1;
        opposites[i] = receives[NEIGHBORS - 1 - i];
    }
    buffer =
        gtest_alloc(is_counted || mtest_rank % 2 ? GTEST_GPU0 : GTEST_GPU1, CELLS * sizeof(double), NULL);
    cells = buffer.data;
    run("Isend, Irecv", nonblocking, is_counted);
    run("Startall", persistent, is_counted);
    run("Neighbor_alltoallw", collective, is_counted);
    run("Ineighbor_alltoallw", nonblocking_collective, is_counted);
    for (int i = 0; i < 2 * NEIGHBORS; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    for (int i = 0; i < NEIGHBORS; i++) {
        MTEST_OK(MPI_Type_free(&sends[i]));
        MTEST_OK(MPI_Type_free(&receives[i]));
    }
    gtest_free(&buffer);
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
