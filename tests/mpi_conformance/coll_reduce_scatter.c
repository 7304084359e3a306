/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce_scatter and Reduce_scatter_block give each rank its part of the combined vector, also in place, zero
 * counts. */
#include "mcoll.h"

static const int counts[] = {0, 1, 3, 200, 6000};

static void body(MPI_Comm comm, int me, int n)
{
    int *recv_counts = mtest_alloc((size_t)n * sizeof(int));
    for (int i = 0; i < 5 && !mcoll_takes_long(n, (size_t)counts[i] * 8 * sizeof(int)); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int block = 0; block < 2; block++) {
                int c = counts[i], total = 0, start = 0;
                for (int r = 0; r < n; r++) {
                    recv_counts[r] = block ? c : r % 3 == 1 ? 0 : c + r;
                    start += r < me ? recv_counts[r] : 0;
                    total += recv_counts[r];
                }
                int *mine = mtest_alloc((size_t)(total + 1) * sizeof(int)),
                    *got = mtest_alloc((size_t)(total + 1) * sizeof(int));
                int *want = mtest_alloc((size_t)(total + 1) * sizeof(int));
                for (int j = 0; j < total; j++)
                    mine[j] = (me * 1237 + j * 17 + i) % 10007;
                int *all = mcoll_everyone(comm, me, n, mine, (size_t)total * sizeof(int));
                for (int j = 0; j < recv_counts[me]; j++) {
                    want[j] = 0;
                    for (int r = 0; r < n; r++)
                        want[j] += all[r * total + start + j];
                }
                for (int j = 0; j < total; j++)
                    got[j] = in_place ? mine[j] : -1;
                got[total] = -2;
                if (block)
                    MCOLL(Reduce_scatter_block, reduce_scatter_block, in_place ? MPI_IN_PLACE : mine, got, c,
                          MPI_INT, MPI_SUM, comm);
                else
                    MCOLL(Reduce_scatter, reduce_scatter, in_place ? MPI_IN_PLACE : mine, got, recv_counts,
                          MPI_INT, MPI_SUM, comm);
                MCOLL_SAME(got, want, recv_counts[me], block ? "Reduce_scatter_block" : "Reduce_scatter");
                MTEST_CHECK(got[total] == -2, "wrote past the buffer");
                if (!in_place)
                    MTEST_CHECK(total == recv_counts[me] || got[recv_counts[me]] == -1,
                                "wrote past its own part");
                free(mine);
                free(got);
                free(want);
                free(all);
            }
        }
    }
    free(recv_counts);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
