/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of messages with one tag arrive in order and intact, in both directions at once, whether the receiver is faster or
 * slower than the sender. Sizes are random, and often next to those at which messages take another way.
 *
 * usage: p2p_stream [seed [messages]]
 */
#include "mtest.h"

enum { WINDOW = 96, LARGEST = 70000, MODES = 4 };

static uint64_t sizes_state[2]; /* of the messages from here, to here */
static unsigned char *out[WINDOW], *in[WINDOW];
static MPI_Request sends[WINDOW], recvs[WINDOW];

static int size_of(uint64_t *state)
{
    static const int edges[] = {0, 256, 264, 272, 320, 1024, 4096, 8192, 16384, 65536};
    uint32_t pick = mtest_random(state);

    if (pick % 4 == 0)
        return (int)(mtest_random(state) % (pick % 32 == 0 ? LARGEST : 20000));
    pick = mtest_random(state);
    return abs(edges[pick % 100 < 97 ? pick % 9 : 9] + (int)(pick / 100 % 3) - 1);
}

static unsigned seed_of(int from, int number)
{
    return (unsigned)(from * 7 + number);
}

static void begin_send(int to, int number)
{
    int n = size_of(&sizes_state[0]), at = number % WINDOW;

    mtest_fill(out[at], (size_t)n, seed_of(mtest_rank, number));
    if (number % 17 == 3)
        MTEST_OK(MPI_Issend(out[at], n, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[at]));
    else
        MTEST_OK(MPI_Isend(out[at], n, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[at]));
}

static void end_receive(int from, int number)
{
    int n = size_of(&sizes_state[1]), at = number % WINDOW, count = -1;
    MPI_Status status;

    MTEST_OK(MPI_Wait(&recvs[at], &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    MTEST_CHECK(count == n, "message %d has %d bytes, not %d", number, count, n);
    MTEST_CHECK(mtest_differs(in[at], (size_t)n, seed_of(from, number)) < 0,
                "message %d of %d bytes is wrong", number, n);
}

/* The number of receives that are posted ahead, which differs from mode to mode. */
static int n_ahead(uint64_t *state, int mode)
{
    return mode == 0 ? 1 : mode == 1 ? 8 : mode == 2 ? WINDOW : 1 + (int)(mtest_random(state) % WINDOW);
}

static void stream(int from, int to, int n_messages, int mode, uint64_t *state)
{
    int n_sent = 0, n_send_ended = 0, n_posted = 0, n_received = 0, flag;

    while (n_received < n_messages || n_send_ended < n_messages) {
        int burst = (int)(mtest_random(state) % WINDOW), ahead = n_ahead(state, mode);
        for (; burst > 0 && n_sent < n_messages && n_sent - n_send_ended < WINDOW; burst--)
            begin_send(to, n_sent++);
        for (flag = 1; flag && n_send_ended < n_sent; n_send_ended += flag)
            MTEST_OK(MPI_Test(&sends[n_send_ended % WINDOW], &flag, MPI_STATUS_IGNORE));
        for (; n_posted < n_messages && n_posted - n_received < ahead; n_posted++)
            MTEST_OK(MPI_Irecv(in[n_posted % WINDOW], LARGEST, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                               &recvs[n_posted % WINDOW]));
        MTEST_OK(MPI_Iprobe(from, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        for (flag = 1; flag && n_received < n_posted; n_received += flag) {
            MTEST_OK(MPI_Request_get_status(recvs[n_received % WINDOW], &flag, MPI_STATUS_IGNORE));
            if (flag)
                end_receive(from, n_received);
        }
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    int n_messages = argc > 2 ? atoi(argv[2]) : 600, half = mtest_size / 2;
    int from = (mtest_rank + mtest_size - half) % mtest_size, to = (mtest_rank + half) % mtest_size;
    uint64_t state = seed * 1000003u + (unsigned)mtest_rank;

    for (int i = 0; i < WINDOW; i++) {
        out[i] = mtest_alloc(LARGEST);
        in[i] = mtest_alloc(LARGEST);
    }
    for (int mode = 0; mode < MODES; mode++) {
        sizes_state[0] = seed + (unsigned)(mtest_rank * MODES + mode);
        sizes_state[1] = seed + (unsigned)(from * MODES + mode);
        stream(from, to, n_messages, mode, &state);
    }
    for (int i = 0; i < WINDOW; i++) {
        free(out[i]);
        free(in[i]);
    }
    return mtest_end();
}
