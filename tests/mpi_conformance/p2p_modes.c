/* SPDX-License-Identifier: BSD-3-Clause */
/* All send modes, blocking and nonblocking, deliver their data in order with every size. */
#include "mtest.h"

enum { MODES = 8, MOST = 300000 };

static const int lens[] = {0, 1, 100, 4096, 20000, 65537, MOST};
static unsigned char buffer_space[2 * MOST + 2 * MPI_BSEND_OVERHEAD];
static unsigned char send_buf[MOST], recv_buf[MOST];
static int isends_started; /* private per rank */

static void send_in_mode(int mode, int len, int dest, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (mode) {
    case 0:
        MTEST_OK(MPI_Send(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD));
        break;
    case 1:
        MTEST_OK(MPI_Ssend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD));
        break;
    case 2:
        MTEST_OK(MPI_Rsend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD));
        break;
    case 3:
        MTEST_OK(MPI_Bsend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD));
        memset(send_buf, 0, (size_t)len);
        break;
    case 4:
        MTEST_OK(MPI_Isend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &request));
        break;
    case 5:
        MTEST_OK(MPI_Issend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &request));
        break;
    case 6:
        MTEST_OK(MPI_Irsend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &request));
        break;
    case 7:
        MTEST_OK(MPI_Ibsend(send_buf, len, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &request));
        break;
    }
    if (mode >= 4) {
        isends_started++;
        MTEST_CHECK(request != MPI_REQUEST_NULL, "mode %d gives no request", mode);
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MTEST_CHECK(request == MPI_REQUEST_NULL, "MPI_Wait leaves the request in mode %d", mode);
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    MTEST_OK(MPI_Buffer_attach(buffer_space, sizeof buffer_space));
    for (int mode = 0; mode < MODES && peer < mtest_size; mode++) {
        for (int i = 0; i < 7; i++) {
            int tag = mode * 10 + i;
            if (mtest_rank & 1) {
                MPI_Request request;
                MPI_Status status;
                int count;
                memset(recv_buf, 0, sizeof recv_buf);
                MTEST_OK(MPI_Irecv(recv_buf, lens[i], MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
                MTEST_OK(
                    MPI_Send(NULL, 0, MPI_BYTE, peer, 999, MPI_COMM_WORLD)); /* "the receive is posted" */
                MTEST_OK(MPI_Wait(&request, &status));
                MPI_Get_count(&status, MPI_BYTE, &count);
                MTEST_CHECK(count == lens[i], "mode %d: count %d, expected %d", mode, count, lens[i]);
                MTEST_CHECK(mtest_differs(recv_buf, (size_t)lens[i], (unsigned)tag) < 0,
                            "mode %d: wrong data in %d bytes", mode, lens[i]);
            } else {
                mtest_fill(send_buf, (size_t)lens[i], (unsigned)tag);
                MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, peer, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                send_in_mode(mode, lens[i], peer, tag);
            }
        }
    }
    if (peer < mtest_size)
        MTEST_CHECK(isends_started == (mtest_rank & 1 ? 0 : 28),
                    "a global counts %d, expected its own rank's number", isends_started);
    void *addr;
    int size;
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    MTEST_CHECK(addr == buffer_space && size == (int)sizeof buffer_space,
                "detach returns another buffer or size");
    return mtest_end();
}
