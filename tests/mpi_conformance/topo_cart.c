/* SPDX-License-Identifier: BSD-3-Clause */
/* Cartesian topologies: dims_create, create, get, rank, coords, shift, sub, and the errors of wrong
 * arguments. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int dims[3] = {0, 0, 0}, periods[2] = {1, 0}, got_dims[2], got_periods[2], coords[2], rank, size, kind, n;
    MPI_Comm cart, sub;
    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Dims_create(60, 3, dims));
    MTEST_CHECK(dims[0] == 5 && dims[1] == 4 && dims[2] == 3, "60 in 3: %d %d %d", dims[0], dims[1], dims[2]);
    dims[0] = 0;
    dims[1] = 2;
    dims[2] = 0;
    MTEST_OK(MPI_Dims_create(24, 3, dims));
    MTEST_CHECK(dims[0] == 4 && dims[1] == 2 && dims[2] == 3, "24 with 2 given: %d %d %d", dims[0], dims[1],
                dims[2]);
    dims[0] = 5;
    dims[1] = 0;
    MTEST_CLASS(MPI_Dims_create(24, 2, dims), MPI_ERR_DIMS);

    dims[0] = mtest_size / 2;
    dims[1] = 2;
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart));
    if (mtest_rank >= mtest_size / 2 * 2) {
        MTEST_CHECK(cart == MPI_COMM_NULL, "a rank too many got a communicator");
    } else {
        MTEST_OK(MPI_Topo_test(cart, &kind));
        MTEST_CHECK(kind == MPI_CART, "Topo_test says %d", kind);
        MTEST_OK(MPI_Cartdim_get(cart, &n));
        MTEST_CHECK(n == 2, "%d dimensions", n);
        MTEST_OK(MPI_Cart_get(cart, 2, got_dims, got_periods, coords));
        MTEST_CHECK(got_dims[0] == dims[0] && got_dims[1] == 2 && got_periods[0] && !got_periods[1],
                    "Cart_get");
        MTEST_CHECK(coords[0] == mtest_rank / 2 && coords[1] == mtest_rank % 2, "coords %d %d", coords[0],
                    coords[1]);
        MTEST_OK(MPI_Comm_size(cart, &size));
        for (int r = 0; r < size; r++) {
            MTEST_OK(MPI_Cart_coords(cart, r, 2, coords));
            MTEST_OK(MPI_Cart_rank(cart, coords, &rank));
            MTEST_CHECK(rank == r && coords[0] == r / 2 && coords[1] == r % 2, "rank %d has coords %d %d", r,
                        coords[0], coords[1]);
            coords[0] -= 3 * dims[0]; /* periodic: wraps */
            MTEST_OK(MPI_Cart_rank(cart, coords, &rank));
            MTEST_CHECK(rank == r, "wrapped coords give rank %d, expected %d", rank, r);
        }
        int source, dest, row = mtest_rank / 2, column = mtest_rank % 2;
        MTEST_OK(MPI_Cart_shift(cart, 0, 1, &source, &dest));
        MTEST_CHECK(dest == (row + 1) % dims[0] * 2 + column &&
                        source == (row + dims[0] - 1) % dims[0] * 2 + column,
                    "shift along the ring: %d %d", source, dest);
        MTEST_OK(MPI_Cart_shift(cart, 1, 1, &source, &dest));
        MTEST_CHECK(dest == (column ? MPI_PROC_NULL : mtest_rank + 1) &&
                        source == (column ? mtest_rank - 1 : MPI_PROC_NULL),
                    "shift along the open side: %d %d", source, dest);
        MTEST_OK(MPI_Cart_shift(cart, 1, -1, &source, &dest));
        MTEST_CHECK(source == (column ? MPI_PROC_NULL : mtest_rank + 1), "shift back: %d", source);
        MTEST_OK(MPI_Cart_sub(cart, (int[]){1, 0}, &sub));
        MPI_Comm_size(sub, &size);
        MPI_Comm_rank(sub, &rank);
        MTEST_OK(MPI_Cartdim_get(sub, &n));
        MTEST_CHECK(size == dims[0] && rank == row && n == 1, "column: rank %d of %d", rank, size);
        MTEST_OK(MPI_Comm_free(&sub));
        mtest_errors_return(cart);
        coords[0] = 0;
        coords[1] = 2;
        MTEST_CLASS2(MPI_Cart_rank(cart, coords, &rank), MPI_ERR_ARG, MPI_ERR_RANK);
        /* A dup keeps the topology. */
        MTEST_OK(MPI_Comm_dup(cart, &sub));
        MTEST_OK(MPI_Topo_test(sub, &kind));
        MTEST_CHECK(kind == MPI_CART, "a dup has topology %d", kind);
        MTEST_OK(MPI_Comm_free(&sub));
        MTEST_OK(MPI_Comm_free(&cart));
    }
    dims[0] = mtest_size + 1;
    dims[1] = 1;
    MTEST_CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart) != MPI_SUCCESS,
                "a grid larger than the world");
    MTEST_CLASS(MPI_Cartdim_get(MPI_COMM_WORLD, &n), MPI_ERR_TOPOLOGY);
    MTEST_OK(MPI_Topo_test(MPI_COMM_WORLD, &kind));
    MTEST_CHECK(kind == MPI_UNDEFINED, "world has topology %d", kind);
    return mtest_end();
}
