/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce and Allreduce combine all ranks' integers with every built-in operation: all roots, sizes and
 * IN_PLACE. */
#include "mcoll.h"

static const int counts[] = {0, 1, 2, 9, 128, 1025, 8193, 60000};

static unsigned combine(int op, unsigned a, unsigned b)
{
    switch (op) {
    case 0:
        return a + b;
    case 1:
        return a * b;
    case 2:
        return (int)a > (int)b ? a : b;
    case 3:
        return (int)a < (int)b ? a : b;
    case 4:
        return a && b;
    case 5:
        return a || b;
    case 6:
        return !a != !b;
    case 7:
        return a & b;
    case 8:
        return a | b;
    default:
        return a ^ b;
    }
}

static void body(MPI_Comm comm, int me, int n)
{
    MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX,  MPI_MIN, MPI_LAND,
                    MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    for (int i = 0; i < 8 && !mcoll_takes_long(n, (size_t)counts[i] * sizeof(int)); i++) {
        for (int op = 0; op < (counts[i] > 2000 ? 2 : 10); op++) {
            int c = counts[i];
            unsigned *mine = mtest_alloc((size_t)(c + 1) * sizeof(int)),
                     *got = mtest_alloc((size_t)(c + 1) * sizeof(int));
            unsigned *want = mtest_alloc((size_t)(c + 1) * sizeof(int)),
                     *copy = mtest_alloc((size_t)(c + 1) * sizeof(int));
            for (int j = 0; j <= c; j++)
                mine[j] = copy[j] = (unsigned)mcoll_value(me, j, i) % (op == 1 || op >= 4 ? 6 : 100000);
            unsigned *all = mcoll_everyone(comm, me, n, mine, (size_t)c * sizeof(int));
            for (int j = 0; j < c; j++) {
                want[j] = all[j];
                for (int r = 1; r < n; r++)
                    want[j] = combine(op, want[j], all[r * c + j]);
                if (n == 1)
                    want[j] = mine[j];
            }
            want[c] = 4711;
            for (int in_place = 0; in_place < 2; in_place++) {
                memcpy(got, mine, (size_t)c * sizeof(int));
                got[c] = 4711;
                MCOLL(Allreduce, allreduce, in_place ? MPI_IN_PLACE : mine, got, c, MPI_INT, ops[op], comm);
                MCOLL_SAME((int *)got, (int *)want, c + 1, "Allreduce");
                for (int root = (i + op) % n; root<n; root = c> 100 ? n : mcoll_next_root(root, n)) {
                    memcpy(got, mine, (size_t)c * sizeof(int));
                    int here = in_place && me == root;
                    MCOLL(Reduce, reduce, here ? MPI_IN_PLACE : mine, got, c, MPI_INT, ops[op], root, comm);
                    if (me == root)
                        MCOLL_SAME((int *)got, (int *)want, c + 1, "Reduce");
                }
            }
            MCOLL_SAME((int *)mine, (int *)copy, c + 1, "the send buffer");
            free(mine);
            free(got);
            free(want);
            free(copy);
            free(all);
        }
    }
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
