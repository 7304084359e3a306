/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned channels with random partition counts, orders of starts and of partitions: every partition that has arrived
 * holds the data of its round, also where one side is rounds ahead. */
#include "mtest.h"

#if MPI_VERSION >= 4
enum { CHANNELS = 4, ROUNDS = 120, UNIT = 60 };

static const int counts[CHANNELS][2] = {{12, 12}, {4, 6}, {15, 10}, {1, 20}}; /* partitions: send, receive */
static int len_of[CHANNELS] = {UNIT, UNIT, UNIT * 100, UNIT * 10};            /* ints */
static int out[CHANNELS][UNIT * 100], in[CHANNELS][UNIT * 100];
static int order[20];

static int content(int rank, int channel, int round, int i)
{
    return rank * 1000003 + channel * 10007 + round * 101 + i;
}

static void shuffle(int n, uint64_t *state)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(mtest_random(state) % (uint32_t)(i + 1)), hold = order[i];
        order[i] = order[j];
        order[j] = hold;
    }
}

static void check(int channel, int from, int round, int part)
{
    int each = len_of[channel] / counts[channel][1];

    for (int i = part * each; i < (part + 1) * each; i++)
        if (in[channel][i] != content(from, channel, round, i)) {
            MTEST_CHECK(0, "channel %d round %d partition %d: element %d is %d", channel, round, part, i,
                        in[channel][i]);
            return;
        }
}

/* One round of a channel's send; some of it with pauses, in which others run. */
static void send_round(int channel, int round, MPI_Request *request, uint64_t *state)
{
    int n = counts[channel][0], each = len_of[channel] / n, flag;

    shuffle(n, state);
    MTEST_OK(MPI_Start(request));
    for (int k = 0; k < n; k++) {
        int part = order[k];
        for (int i = part * each; i < (part + 1) * each; i++)
            out[channel][i] = content(mtest_rank, channel, round, i);
        MTEST_OK(MPI_Pready(part, *request));
        if (mtest_random(state) % 4 == 0)
            MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
}

static void finish_receive(int channel, int round, int from, MPI_Request *request, uint64_t *state)
{
    int n = counts[channel][1], count = -1;
    MPI_Status status;

    for (int k = 0; k < n && mtest_random(state) % 2; k++) {
        int part = (int)(mtest_random(state) % (uint32_t)n), flag;
        MTEST_OK(MPI_Parrived(*request, part, &flag));
        if (flag)
            check(channel, from, round, part);
    }
    MTEST_OK(MPI_Wait(request, &status));
    MTEST_OK(MPI_Get_count(&status, MPI_INT, &count));
    MTEST_CHECK(status.MPI_SOURCE == from && status.MPI_TAG == channel && count == len_of[channel],
                "channel %d: source %d, tag %d, count %d", channel, status.MPI_SOURCE, status.MPI_TAG, count);
    for (int part = 0; part < n; part++)
        check(channel, from, round, part);
}

int main(int argc, char **argv)
{
    MPI_Request sends[CHANNELS], recvs[CHANNELS];
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    uint64_t state = (uint64_t)mtest_rank + 3;

    for (int i = 0; i < CHANNELS; i++) {
        MTEST_OK(MPI_Psend_init(out[i], counts[i][0], len_of[i] / counts[i][0], MPI_INT, next, i,
                                MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]));
        if (i % 2)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPI_Precv_init(in[i], counts[i][1], len_of[i] / counts[i][1], MPI_INT, prev, i,
                                MPI_COMM_WORLD, MPI_INFO_NULL, &recvs[i]));
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < CHANNELS; i++) {
            int receives_first = mtest_random(&state) % 2, flag = 0;
            if (receives_first)
                MTEST_OK(MPI_Start(&recvs[i]));
            send_round(i, round, &sends[i], &state);
            if (!receives_first &&
                len_of[i] <= UNIT * 10) /* little data: the send need not wait for a receive here */
                for (int k = 0; k < 3 && !flag; k++)
                    MTEST_OK(MPI_Test(&sends[i], &flag, MPI_STATUS_IGNORE));
            if (!receives_first)
                MTEST_OK(MPI_Start(&recvs[i]));
            finish_receive(i, round, prev, &recvs[i], &state);
            MTEST_OK(MPI_Wait(&sends[i], MPI_STATUS_IGNORE));
        }
    /* The send is several rounds ahead: its data is buffered. */
    if (mtest_size > 1) {
        for (int round = 0; round < 5 && mtest_rank == 0; round++) {
            send_round(0, round, &sends[0], &state);
            MTEST_OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
        }
        if (mtest_rank == 0)
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 99, MPI_COMM_WORLD));
        if (mtest_rank == 1) {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int round = 0; round < 5; round++) {
                MTEST_OK(MPI_Start(&recvs[0]));
                finish_receive(0, round, 0, &recvs[0], &state);
            }
        }
    }
    for (int i = 0; i < CHANNELS; i++) {
        MTEST_OK(MPI_Request_free(mtest_rank % 2 ? &sends[i] : &recvs[i]));
        MTEST_OK(MPI_Request_free(mtest_rank % 2 ? &recvs[i] : &sends[i]));
    }
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("partitioned communication needs MPI 4");
    return mtest_end();
}
#endif
