/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank can send to itself, in every order of posting, small and large, on MPI_COMM_WORLD and
 * MPI_COMM_SELF. */
#include "mtest.h"

static unsigned char out[500000], in[500000];

static void exchange(MPI_Comm comm, int me, int len)
{
    MPI_Request send, recv;
    MPI_Status status;
    int count, flag = 0;
    for (int kind = 0; kind < 5; kind++) {
        mtest_fill(out, (size_t)len, (unsigned)(kind + me));
        memset(in, 0, (size_t)len);
        switch (kind) {
        case 0: /* the send first */
            MTEST_OK(MPI_Isend(out, len, MPI_BYTE, me, 3, comm, &send));
            MTEST_OK(MPI_Recv(in, len, MPI_BYTE, me, 3, comm, &status));
            MTEST_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            break;
        case 1: /* the receive first, a synchronous send */
            MTEST_OK(MPI_Irecv(in, len, MPI_BYTE, MPI_ANY_SOURCE, 3, comm, &recv));
            MTEST_OK(MPI_Ssend(out, len, MPI_BYTE, me, 3, comm));
            MTEST_OK(MPI_Wait(&recv, &status));
            break;
        case 2:
            MTEST_OK(
                MPI_Sendrecv(out, len, MPI_BYTE, me, 3, in, len, MPI_BYTE, me, MPI_ANY_TAG, comm, &status));
            break;
        case 3: /* a probe in between */
            MTEST_OK(MPI_Isend(out, len, MPI_BYTE, me, 3, comm, &send));
            while (!flag)
                MTEST_OK(MPI_Iprobe(me, 3, comm, &flag, &status));
            MPI_Get_count(&status, MPI_BYTE, &count);
            MTEST_CHECK(count == len, "probe says %d bytes, expected %d", count, len);
            MTEST_OK(MPI_Recv(in, len, MPI_BYTE, me, 3, comm, &status));
            MTEST_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            break;
        case 4: /* both nonblocking, ended by polling */
            MTEST_OK(MPI_Issend(out, len, MPI_BYTE, me, 3, comm, &send));
            MTEST_OK(MPI_Irecv(in, len, MPI_BYTE, me, 3, comm, &recv));
            for (flag = 0; !flag;)
                MTEST_OK(MPI_Test(&recv, &flag, &status));
            for (flag = 0; !flag;)
                MTEST_OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
            break;
        }
        MPI_Get_count(&status, MPI_BYTE, &count);
        MTEST_CHECK(count == len && status.MPI_SOURCE == me && status.MPI_TAG == 3,
                    "kind %d: status %d %d %d", kind, status.MPI_SOURCE, status.MPI_TAG, count);
        MTEST_CHECK(mtest_differs(in, (size_t)len, (unsigned)(kind + me)) < 0,
                    "kind %d: wrong data of %d bytes", kind, len);
    }
}

int main(int argc, char **argv)
{
    static const int lens[] = {0, 1, 4096, 66000, 500000};
    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < 5; i++) {
        exchange(MPI_COMM_WORLD, mtest_rank, lens[i]);
        exchange(MPI_COMM_SELF, 0, lens[i]);
    }
    return mtest_end();
}
