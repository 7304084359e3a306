/* SPDX-License-Identifier: BSD-3-Clause */
/* A matched message can be received after its communicator was freed, without overwriting other memory. */
#include "mtest.h"

enum { ROUNDS = 40, NEW_COMMS = 8, LARGE = 100000 };

static unsigned char out[LARGE], in[LARGE];

/* Communicators that take the memory of those that are gone: each is used and freed. */
static void use_new_comms(MPI_Comm parent)
{
    MPI_Comm made[NEW_COMMS];
    int sum, one = 1;

    for (int i = 0; i < NEW_COMMS; i++)
        MTEST_OK(MPI_Comm_dup(parent, &made[i]));
    for (int i = 0; i < NEW_COMMS; i++) {
        int size;
        MPI_Comm_size(made[i], &size);
        MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[i]));
        MTEST_CHECK(sum == size, "the sum on a new communicator is %d of %d", sum, size);
        MTEST_OK(MPI_Comm_free(&made[i]));
    }
}

static void try_size(MPI_Comm parent, int dest, int source, int n_bytes, int how)
{
    MPI_Comm comm, others[NEW_COMMS];
    MPI_Request send, recv;
    MPI_Message message;
    MPI_Status status;
    int rank, flag = 0;

    MTEST_OK(MPI_Comm_dup(parent, &comm));
    MPI_Comm_rank(parent, &rank);
    mtest_fill(out, (size_t)n_bytes, (unsigned)rank);
    memset(in, 0, sizeof in);
    MTEST_OK(MPI_Isend(out, n_bytes, MPI_BYTE, dest, 3, comm, &send));
    if (how & 1)
        MTEST_OK(MPI_Mprobe(source, 3, comm, &message, &status));
    else
        while (!flag)
            MTEST_OK(MPI_Improbe(source, 3, comm, &flag, &message, &status));
    MTEST_OK(MPI_Comm_free(&comm));
    for (int i = 0; i < NEW_COMMS; i++)
        MTEST_OK(MPI_Comm_dup(parent, &others[i]));
    if (how & 2) {
        MTEST_OK(MPI_Mrecv(in, n_bytes, MPI_BYTE, &message, &status));
    } else {
        MTEST_OK(MPI_Imrecv(in, n_bytes, MPI_BYTE, &message, &recv));
        MTEST_OK(MPI_Wait(&recv, &status));
    }
    MTEST_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, (size_t)n_bytes, (unsigned)source) < 0, "%d bytes: wrong data", n_bytes);
    for (int i = 0; i < NEW_COMMS; i++)
        MTEST_OK(MPI_Comm_free(&others[i]));
    use_new_comms(parent);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 1000, LARGE};
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int round = 0; round < ROUNDS; round++) {
        try_size(MPI_COMM_WORLD, next, prev, sizes[round % 4], round / 4);
        try_size(MPI_COMM_SELF, 0, 0, sizes[round % 4], round / 4);
    }
    return mtest_end();
}
