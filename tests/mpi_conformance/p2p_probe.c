/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe and Iprobe report the message a receive would get, by name or wildcard, and do not remove it. */
#include "mtest.h"

int main(int argc, char **argv)
{
    static int buf[50000];
    static const int counts[] = {0, 1, 17, 2000, 50000};
    MPI_Status status, again;
    int flag, count;
    mtest_init(&argc, &argv, 2);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    /* Nothing there: no. */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    flag = 1;
    MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    MTEST_CHECK(!flag, "Iprobe finds a message where none was sent");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 5; i++) {
        MPI_Request request;
        int *out = mtest_alloc((size_t)counts[i] * sizeof *out);
        for (int j = 0; j < counts[i]; j++)
            out[j] = mtest_rank + j;
        MTEST_OK(MPI_Isend(out, counts[i], MPI_INT, next, 20 + i, MPI_COMM_WORLD, &request));
        /* A blocking probe with wildcards, then a look with the exact envelope, then one with a wrong one. */
        MTEST_OK(MPI_Probe(MPI_ANY_SOURCE, i % 2 ? MPI_ANY_TAG : 20 + i, MPI_COMM_WORLD, &status));
        MPI_Get_count(&status, MPI_INT, &count);
        MTEST_CHECK(status.MPI_SOURCE == prev && status.MPI_TAG == 20 + i && count == counts[i],
                    "Probe: source %d tag %d count %d", status.MPI_SOURCE, status.MPI_TAG, count);
        flag = 0;
        MTEST_OK(MPI_Iprobe(prev, 20 + i, MPI_COMM_WORLD, &flag, &again));
        MTEST_CHECK(flag && again.MPI_TAG == 20 + i, "Iprobe does not see what Probe saw");
        flag = 1;
        MTEST_OK(MPI_Iprobe(prev, 19, MPI_COMM_WORLD, &flag, &again));
        MTEST_CHECK(!flag, "Iprobe finds tag 19, which nobody sends");
        flag = 1;
        if (prev != mtest_rank)
            MTEST_OK(MPI_Iprobe(mtest_rank, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag, "Iprobe finds a message of the wrong source");
        MTEST_OK(MPI_Recv(buf, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &again));
        for (int j = 0; j < counts[i]; j++)
            if (buf[j] != prev + j) {
                MTEST_CHECK(0, "element %d of %d is %d", j, counts[i], buf[j]);
                break;
            }
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        free(out);
    }
    /* Several waiting messages: a wildcard probe shows the first one, a named one its own. */
    if (mtest_rank == 0) {
        for (int i = 0; i < 10; i++)
            MTEST_OK(MPI_Send(&i, 1, MPI_INT, 1, 50 + i, MPI_COMM_WORLD));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 99, MPI_COMM_WORLD));
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Probe(0, 57, MPI_COMM_WORLD, &status));
        MTEST_CHECK(status.MPI_TAG == 57, "Probe of tag 57 shows %d", status.MPI_TAG);
        for (int i = 0; i < 10; i++) {
            int value = -1;
            MTEST_OK(MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            MTEST_CHECK(status.MPI_TAG == 50 + i, "wildcard probe %d shows tag %d", i, status.MPI_TAG);
            MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            MTEST_CHECK(value == i, "receive after probe %d got %d", i, value);
        }
    }
    return mtest_end();
}
