/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter and Scatterv give each rank its block of the root's buffer: all roots, IN_PLACE, gaps between
 * blocks. */
#include "mcoll.h"

static const int counts[] = {0, 1, 5, 300, 5000};

static void body(MPI_Comm comm, int me, int n)
{
    int *send_counts = mtest_alloc((size_t)n * sizeof(int)), *displs = mtest_alloc((size_t)n * sizeof(int));
    for (int i = 0; i < 5 && !mcoll_takes_long(n, (size_t)counts[i] * sizeof(int)); i++) {
        for (int root = 0; root < n; root = mcoll_next_root(root, n)) {
            for (int in_place = 0; in_place < 2; in_place++) {
                int c = counts[i], total = 0, here = in_place && me == root;
                for (int r = n - 1; r >= 0; r--) {
                    send_counts[r] = c + r;
                    displs[r] = total;
                    total += c + r + 2;
                }
                int *out = mtest_alloc((size_t)total * sizeof(int)),
                    *got = mtest_alloc((size_t)(c + n + 1) * sizeof(int));
                int *want = mtest_alloc((size_t)(c + n + 1) * sizeof(int));
                for (int j = 0; j < total; j++)
                    out[j] = mcoll_value(root, j, i);
                for (int j = 0; j <= c + n; j++) {
                    got[j] = -1;
                    want[j] = j < c && !here ? mcoll_value(root, me * c + j, i) : -1;
                }
                MCOLL(Scatter, scatter, me == root ? out : NULL, c, MPI_INT, here ? MPI_IN_PLACE : got, c,
                      MPI_INT, root, comm);
                MCOLL_SAME(got, want, c + n + 1, "Scatter");
                for (int j = 0; j <= c + n; j++) {
                    got[j] = -1;
                    want[j] = j < c + me && !here ? mcoll_value(root, displs[me] + j, i) : -1;
                }
                MCOLL(Scatterv, scatterv, me == root ? out : NULL, send_counts, displs, MPI_INT,
                      here ? MPI_IN_PLACE : got, c + me, MPI_INT, root, comm);
                MCOLL_SAME(got, want, c + n + 1, "Scatterv");
                for (int j = 0; j < total; j++)
                    if (out[j] != mcoll_value(root, j, i)) {
                        MTEST_CHECK(0, "the send buffer changed at %d", j);
                        break;
                    }
                free(out);
                free(got);
                free(want);
            }
        }
    }
    free(send_counts);
    free(displs);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
