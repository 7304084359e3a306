/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather and Gatherv put each rank's block at its place at the root: all roots, IN_PLACE, gaps between
 * blocks. */
#include "mcoll.h"

static const int counts[] = {0, 1, 5, 300, 5000};

static void body(MPI_Comm comm, int me, int n)
{
    for (int i = 0; i < 5 && !mcoll_takes_long(n, (size_t)counts[i] * sizeof(int)); i++) {
        for (int root = 0; root < n; root = mcoll_next_root(root, n)) {
            for (int in_place = 0; in_place < 2; in_place++) {
                int c = counts[i], round = i * 2 + in_place;
                int *mine = mtest_alloc((size_t)(c + n) * sizeof(int));
                for (int j = 0; j < c + n; j++)
                    mine[j] = mcoll_value(me, j, round);
                int *want = mcoll_everyone(comm, me, n, mine, (size_t)c * sizeof(int));
                int *got = mtest_alloc((size_t)(n * c + 1) * sizeof(int));
                for (int j = 0; j <= n * c; j++)
                    got[j] = -1;
                int here = in_place && me == root;
                if (here)
                    memcpy(got + me * c, mine, (size_t)c * sizeof(int));
                MCOLL(Gather, gather, here ? MPI_IN_PLACE : mine, c, MPI_INT, me == root ? got : NULL, c,
                      MPI_INT, root, comm);
                if (me == root)
                    MCOLL_SAME(got, want, n * c, "Gather");
                MTEST_CHECK(got[n * c] == -1, "Gather writes too far");
                free(want);
                free(got);

                /* Gatherv: rank r sends c + r elements, placed in reverse order with a gap of two. */
                int *recv_counts = mtest_alloc((size_t)n * sizeof(int)),
                    *displs = mtest_alloc((size_t)n * sizeof(int));
                int total = 0;
                for (int r = n - 1; r >= 0; r--) {
                    recv_counts[r] = c + r;
                    displs[r] = total;
                    total += c + r + 2;
                }
                int *all = mcoll_everyone(comm, me, n, mine, (size_t)(c + n) * sizeof(int));
                got = mtest_alloc((size_t)total * sizeof(int));
                want = mtest_alloc((size_t)total * sizeof(int));
                for (int j = 0; j < total; j++)
                    got[j] = want[j] = -1;
                for (int r = 0; r < n; r++)
                    memcpy(want + displs[r], all + r * (c + n), (size_t)recv_counts[r] * sizeof(int));
                if (here)
                    memcpy(got + displs[me], mine, (size_t)(c + me) * sizeof(int));
                MCOLL(Gatherv, gatherv, here ? MPI_IN_PLACE : mine, c + me, MPI_INT, got, recv_counts, displs,
                      MPI_INT, root, comm);
                if (me == root)
                    MCOLL_SAME(got, want, total, "Gatherv");
                free(mine);
                free(all);
                free(got);
                free(want);
                free(recv_counts);
                free(displs);
            }
        }
    }
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
