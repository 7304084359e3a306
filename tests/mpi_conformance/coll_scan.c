/* SPDX-License-Identifier: BSD-3-Clause */
/* Scan and Exscan give prefix results in rank order; Exscan does not change rank 0's buffer. */
#include "mcoll.h"

static const int counts[] = {0, 1, 4, 500, 20000};

static void body(MPI_Comm comm, int me, int n)
{
    for (int i = 0; i < 5 && !mcoll_takes_long(n, (size_t)counts[i] * sizeof(int)); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int max = 0; max < 2; max++) {
                int c = counts[i];
                int *mine = mtest_alloc((size_t)(c + 1) * sizeof(int)),
                    *got = mtest_alloc((size_t)(c + 1) * sizeof(int));
                int *want = mtest_alloc((size_t)(c + 1) * sizeof(int));
                for (int j = 0; j <= c; j++)
                    mine[j] = (me * 37 + j * 11 + i) % 101;
                int *all = mcoll_everyone(comm, me, n, mine, (size_t)c * sizeof(int));
                for (int exclusive = 0; exclusive < 2; exclusive++) {
                    int last = exclusive ? me - 1 : me;
                    for (int j = 0; j < c; j++) {
                        want[j] = last < 0 ? (in_place ? mine[j] : -1) : all[j];
                        for (int r = 1; r <= last; r++)
                            want[j] = !max                       ? want[j] + all[r * c + j]
                                      : want[j] > all[r * c + j] ? want[j]
                                                                 : all[r * c + j];
                    }
                    for (int j = 0; j < c; j++)
                        got[j] = in_place ? mine[j] : -1;
                    got[c] = want[c] = 4711;
                    if (exclusive)
                        MCOLL(Exscan, exscan, in_place ? MPI_IN_PLACE : mine, got, c, MPI_INT,
                              max ? MPI_MAX : MPI_SUM, comm);
                    else
                        MCOLL(Scan, scan, in_place ? MPI_IN_PLACE : mine, got, c, MPI_INT,
                              max ? MPI_MAX : MPI_SUM, comm);
                    MCOLL_SAME(got, want, c + 1, exclusive ? "Exscan" : "Scan");
                }
                free(mine);
                free(got);
                free(want);
                free(all);
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
