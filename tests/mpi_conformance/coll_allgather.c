/* SPDX-License-Identifier: BSD-3-Clause */
/* Allgather and Allgatherv give every rank all blocks in rank order or at their displacements, also in place. */
#include "mcoll.h"

static const int counts[] = {0, 1, 2, 7, 100, 2000, 20000};

static void body(MPI_Comm comm, int me, int n)
{
    int *recv_counts = mtest_alloc((size_t)n * sizeof(int)), *displs = mtest_alloc((size_t)n * sizeof(int));
    /* The last one would be a gigabyte at 64 ranks; coll_switch_points_shared has results past the caches. */
    int n_counts = n > 32 ? 6 : 7;
    for (int i = 0; i < n_counts; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            int c = counts[i], total = 0, round = i * 2 + in_place;
            int *mine = mtest_alloc((size_t)(c + n) * sizeof(int));
            for (int j = 0; j < c + n; j++)
                mine[j] = mcoll_value(me, j, round);
            int *all = mcoll_everyone(comm, me, n, mine, (size_t)(c + n) * sizeof(int));
            for (int r = n - 1; r >= 0; r--) {
                recv_counts[r] = c + (n - r);
                displs[r] = total;
                total += recv_counts[r] + 1;
            }
            int *got = mtest_alloc((size_t)(total + 1) * sizeof(int)),
                *want = mtest_alloc((size_t)(total + 1) * sizeof(int));
            for (int j = 0; j <= total; j++)
                got[j] = want[j] = -1;
            for (int r = 0; r < n; r++)
                memcpy(want + r * c, all + r * (c + n), (size_t)c * sizeof(int));
            if (in_place)
                memcpy(got + me * c, mine, (size_t)c * sizeof(int));
            MCOLL(Allgather, allgather, in_place ? MPI_IN_PLACE : mine, c, MPI_INT, got, c, MPI_INT, comm);
            MCOLL_SAME(got, want, total + 1, "Allgather");
            for (int j = 0; j <= total; j++)
                got[j] = want[j] = -1;
            for (int r = 0; r < n; r++)
                memcpy(want + displs[r], all + r * (c + n), (size_t)recv_counts[r] * sizeof(int));
            if (in_place)
                memcpy(got + displs[me], mine, (size_t)recv_counts[me] * sizeof(int));
            MCOLL(Allgatherv, allgatherv, in_place ? MPI_IN_PLACE : mine, recv_counts[me], MPI_INT, got,
                  recv_counts, displs, MPI_INT, comm);
            MCOLL_SAME(got, want, total + 1, "Allgatherv");
            free(mine);
            free(all);
            free(got);
            free(want);
        }
    }
    free(recv_counts);
    free(displs);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
