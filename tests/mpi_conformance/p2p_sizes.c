/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking send and receive carry every size from 0 bytes to 4 MiB unchanged, whether the send or the receive
 * comes first. */
#include "mtest.h"

#define GUARD 64
#define MOST (4 << 20)

static const int sizes[] = {
    0,      1,      2,       3,       7,       8,       9,       15,       16,     17,     31,
    32,     33,     63,      64,      65,      100,     127,     128,      129,    255,    256,
    257,    511,    512,     513,     1000,    1023,    1024,    1025,     2047,   2048,   2049,
    4000,   4095,   4096,    4097,    8191,    8192,    8193,    9999,     16383,  16384,  16385,
    32767,  32768,  32769,   65535,   65536,   65537,   100000,  131071,   131072, 131073, 262144,
    262145, 524288, 1000003, 1048575, 1048576, 1048577, 2097152, MOST - 1, MOST};
static unsigned char *send_buf, *recv_buf;

static void send_one(int peer, int len, int tag)
{
    mtest_fill(send_buf, (size_t)len, (unsigned)(mtest_rank + tag));
    MTEST_OK(MPI_Send(send_buf, len, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    /* The buffer is ours again: overwriting it must not reach the receiver. */
    memset(send_buf, 0xee, (size_t)len);
}

static void recv_one(int peer, int len, int tag)
{
    MPI_Status status;
    int count;
    memset(recv_buf, 0xab, (size_t)len + GUARD);
    MTEST_OK(MPI_Recv(recv_buf, len, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    MTEST_CHECK(count == len, "count %d, expected %d", count, len);
    MTEST_CHECK(status.MPI_SOURCE == peer && status.MPI_TAG == tag,
                "status says source %d tag %d, expected %d %d", status.MPI_SOURCE, status.MPI_TAG, peer, tag);
    long bad = mtest_differs(recv_buf, (size_t)len, (unsigned)(peer + tag));
    MTEST_CHECK(bad < 0, "%d bytes: byte %ld is wrong", len, bad);
    bad = mtest_touched(recv_buf + len, GUARD, 0xab);
    MTEST_CHECK(bad < 0, "%d bytes: byte %ld behind the buffer was written", len, bad);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    send_buf = mtest_alloc(MOST + GUARD);
    recv_buf = mtest_alloc(MOST + GUARD);
    for (int i = 0; peer < mtest_size && i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
        /* Ping-pong: with the roles changed the receiver is sometimes first, sometimes late. */
        if (mtest_rank < peer) {
            send_one(peer, sizes[i], i);
            recv_one(peer, sizes[i], i);
        } else {
            recv_one(peer, sizes[i], i);
            send_one(peer, sizes[i], i);
        }
    }
    /* Surely unexpected: the receiver first gets a later message of another tag. */
    for (int i = 0; peer < mtest_size && i < 40; i++) {
        if (mtest_rank < peer) {
            MPI_Request request;
            mtest_fill(send_buf, (size_t)sizes[i], (unsigned)(mtest_rank + i));
            MTEST_OK(MPI_Isend(send_buf, sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &request));
            MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, peer, 1000, MPI_COMM_WORLD));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, peer, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            recv_one(peer, sizes[i], i);
        }
    }
    free(send_buf);
    free(recv_buf);
    return mtest_end();
}
