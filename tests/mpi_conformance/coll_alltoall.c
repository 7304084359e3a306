/* SPDX-License-Identifier: BSD-3-Clause */
/* Alltoall and Alltoallv: block j of rank i becomes block i of rank j, also in place and with zero counts. */
#include "mcoll.h"

static const int counts[] = {0, 1, 3, 50, 1500};

/* How many elements rank `from` sends to rank `to`; symmetric when IN_PLACE asks for it. */
static int amount(int from, int to, int c, int symmetric)
{
    if ((from + to) % 3 == 2)
        return 0;
    return c + (symmetric ? from + to : from * 2 + to);
}

static void body(MPI_Comm comm, int me, int n)
{
    size_t ints = (size_t)n * sizeof(int);
    int *send_counts = mtest_alloc(ints), *recv_counts = mtest_alloc(ints), *sdispls = mtest_alloc(ints);
    int *rdispls = mtest_alloc(ints);
    for (int i = 0; i < 5; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            int c = counts[i], stotal = 0, rtotal = 0;
            for (int r = 0; r < n; r++) {
                int peer = n - 1 - r; /* blocks in reverse order */
                send_counts[peer] = amount(me, peer, c, in_place);
                recv_counts[peer] = amount(peer, me, c, in_place);
                sdispls[peer] = stotal;
                rdispls[peer] = rtotal;
                stotal += send_counts[peer] + 1;
                rtotal += recv_counts[peer] + 1;
            }
            if (in_place) { /* there is but one buffer and one layout */
                memcpy(rdispls, sdispls, ints);
            }
            int most = (stotal > rtotal ? stotal : rtotal) + n * c;
            int *out = mtest_alloc((size_t)most * sizeof(int)), *in = mtest_alloc((size_t)most * sizeof(int));
            int *want = mtest_alloc((size_t)most * sizeof(int));
            for (int j = 0; j < most; j++) {
                out[j] = mcoll_value(me, j, i);
                in[j] = want[j] = -1;
            }
            for (int r = 0; r < n; r++)
                for (int j = 0; j < c; j++) {
                    want[r * c + j] = mcoll_value(r, me * c + j, i);
                    if (in_place)
                        in[r * c + j] = out[r * c + j];
                }
            MCOLL(Alltoall, alltoall, in_place ? MPI_IN_PLACE : out, c, MPI_INT, in, c, MPI_INT, comm);
            MCOLL_SAME(in, want, most, "Alltoall");

            /* Value j of the block from r to me is told by (r, me, j): no need to know r's displacements. */
            for (int j = 0; j < most; j++)
                in[j] = want[j] = out[j] = -1;
            for (int r = 0; r < n; r++) {
                for (int j = 0; j < send_counts[r]; j++)
                    (in_place ? in : out)[sdispls[r] + j] = mcoll_value(me, r * 5000 + j, i);
                for (int j = 0; j < recv_counts[r]; j++)
                    want[rdispls[r] + j] = mcoll_value(r, me * 5000 + j, i);
            }
            MCOLL(Alltoallv, alltoallv, in_place ? MPI_IN_PLACE : out, send_counts, sdispls, MPI_INT, in,
                  recv_counts, rdispls, MPI_INT, comm);
            MCOLL_SAME(in, want, most, "Alltoallv");
            free(out);
            free(in);
            free(want);
        }
    }
    free(send_counts);
    free(recv_counts);
    free(sdispls);
    free(rdispls);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
