/* SPDX-License-Identifier: BSD-3-Clause */
/* Alltoallw moves blocks of a different type, layout and byte displacement between every pair of ranks. */
#include "mcoll.h"

enum { BLOCK = 64 }; /* ints of room for each block */

static void body(MPI_Comm comm, int me, int n)
{
    MPI_Datatype strided, *stypes = mtest_alloc((size_t)n * sizeof *stypes),
                          *rtypes = mtest_alloc((size_t)n * sizeof *rtypes);
    size_t ints = (size_t)n * sizeof(int);
    int *scounts = mtest_alloc(ints), *rcounts = mtest_alloc(ints), *sdispls = mtest_alloc(ints),
        *rdispls = mtest_alloc(ints);
    int *out = mtest_alloc(ints * BLOCK), *in = mtest_alloc(ints * BLOCK), *want = mtest_alloc(ints * BLOCK);
    MTEST_OK(MPI_Type_vector(10, 1, 3, MPI_INT, &strided));
    MTEST_OK(MPI_Type_commit(&strided));
    for (int j = 0; j < n * BLOCK; j++) {
        out[j] = mcoll_value(me, j, 0);
        in[j] = want[j] = -1;
    }
    for (int r = 0; r < n; r++) {
        /* I send 10 ints, strided to odd ranks; I receive them strided from ranks divisible by three. */
        int strided_out = r % 2, strided_in = r % 3 == 0;
        stypes[r] = strided_out ? strided : MPI_INT;
        scounts[r] = strided_out ? 1 : 10;
        rtypes[r] = strided_in ? strided : MPI_INT;
        rcounts[r] = strided_in ? 1 : 10;
        sdispls[r] = (n - 1 - r) * BLOCK * (int)sizeof(int);
        rdispls[r] = r * BLOCK * (int)sizeof(int);
        for (int j = 0; j < 10; j++) {
            int at = (n - 1 - me) * BLOCK + (me % 2 ? 3 * j : j);
            want[r * BLOCK + (strided_in ? 3 * j : j)] = mcoll_value(r, at, 0);
        }
    }
    MCOLL(Alltoallw, alltoallw, out, scounts, sdispls, stypes, in, rcounts, rdispls, rtypes, comm);
    MCOLL_SAME(in, want, n * BLOCK, "Alltoallw");
    MTEST_OK(MPI_Type_free(&strided));
    free(stypes);
    free(rtypes);
    free(scounts);
    free(rcounts);
    free(sdispls);
    free(rdispls);
    free(out);
    free(in);
    free(want);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
