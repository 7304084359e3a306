/* SPDX-License-Identifier: BSD-3-Clause */
/* Bcast gives every rank the root's data: all roots, many sizes, built-in and derived types. */
#include "mcoll.h"

static const int counts[] = {0, 1, 3, 17, 256, 1025, 4096, 20000, 150000};
static int buf[150000 + 16];

static void body(MPI_Comm comm, int me, int n)
{
    MPI_Datatype strided;
    MTEST_OK(MPI_Type_vector(50, 2, 5, MPI_INT, &strided));
    MTEST_OK(MPI_Type_commit(&strided));
    for (int i = 0; i < 9; i++) {
        for (int root = 0; root<n; root += counts[i]> 5000 ? (n + 2) / 3 : 1) {
            for (int j = 0; j < counts[i] + 16; j++)
                buf[j] = me == root ? mcoll_value(root, j, i) : -1;
            MCOLL(Bcast, bcast, buf, counts[i], MPI_INT, root, comm);
            for (int j = 0; j < counts[i] + 16; j++) {
                int want = me == root || j < counts[i] ? mcoll_value(root, j, i) : -1;
                if (buf[j] != want) {
                    MTEST_CHECK(0, "count %d root %d: element %d is %d, expected %d", counts[i], root, j,
                                buf[j], want);
                    break;
                }
            }
        }
    }
    /* The root has a strided layout, the others a dense one: same signature. */
    for (int root = 0; root < n; root++) {
        for (int j = 0; j < 300; j++)
            buf[j] = me == root ? mcoll_value(root, j, 50) : -1;
        if (me == root) {
            MCOLL(Bcast, bcast, buf, 1, strided, root, comm);
        } else {
            MCOLL(Bcast, bcast, buf, 100, MPI_INT, root, comm);
            for (int j = 0; j < 100; j++)
                MTEST_CHECK(buf[j] == mcoll_value(root, j / 2 * 5 + j % 2, 50), "strided: element %d is %d",
                            j, buf[j]);
            MTEST_CHECK(buf[100] == -1, "strided: wrote too far");
        }
    }
    MTEST_OK(MPI_Type_free(&strided));
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
