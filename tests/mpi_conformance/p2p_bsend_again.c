/* SPDX-License-Identifier: BSD-3-Clause */
/* The room of buffered messages is free again when they have been received and both sides have met in a barrier. */
#include "mtest.h"

#define ROUNDS 50
#define MESSAGES 32
#define COUNT 4096

int main(int argc, char **argv)
{
    static int data[COUNT];
    int size = MESSAGES * (int)(sizeof data + MPI_BSEND_OVERHEAD), n_wrong = 0;
    void *buffer = malloc((size_t)size);

    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1, is_alone = peer >= mtest_size;
    MPI_Buffer_attach(buffer, size);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MESSAGES && mtest_rank % 2 == 0 && !is_alone; i++) {
            data[COUNT - 1] = round * MESSAGES + i;
            MTEST_OK(MPI_Bsend(data, COUNT, MPI_INT, peer, 0, MPI_COMM_WORLD));
        }
        for (int i = 0; i < MESSAGES && mtest_rank % 2 == 1; i++) {
            MPI_Recv(data, COUNT, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            n_wrong += data[COUNT - 1] != round * MESSAGES + i;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_CHECK(n_wrong == 0, "%d messages are wrong", n_wrong);
    MPI_Buffer_detach(&buffer, &size);
    free(buffer);
    return mtest_end();
}
