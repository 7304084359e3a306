/* SPDX-License-Identifier: BSD-3-Clause */
/* A message longer than its receive is MPI_ERR_TRUNCATE, writes nothing past the buffer and harms nothing
 * else. */
#include "mtest.h"

enum { GUARD = 4096, MOST = 400000 };

static unsigned char buf[MOST + GUARD];

static void check_guard(int room, const char *how)
{
    long bad = mtest_touched(buf + room, GUARD, 0xcd);
    MTEST_CHECK(bad < 0, "%s: byte %ld behind a buffer of %d bytes was written", how, bad, room);
}

int main(int argc, char **argv)
{
    static const int lens[] = {1, 2, 64, 5000, 70000, MOST};
    static const char *const how[] = {"unexpected Recv", "unexpected Irecv", "expected Irecv",
                                      "expected, any source"};
    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    int peer = mtest_rank ^ 1;
    for (int i = 0; i < 6 && peer < mtest_size; i++) {
        for (int kind = 0; kind < 4; kind++) {
            int room = lens[i] == 1 || kind == 1 ? 0 : lens[i] - 1 - (kind == 3 ? lens[i] / 2 - 1 : 0),
                token = i;
            MPI_Request request;
            if (mtest_rank & 1) {
                memset(buf, 0xcd, sizeof buf);
                int code = MPI_SUCCESS;
                if (kind >= 2) {
                    MTEST_OK(MPI_Irecv(buf, room, MPI_BYTE, kind == 3 ? MPI_ANY_SOURCE : peer, 1,
                                       MPI_COMM_WORLD, &request));
                    MTEST_OK(MPI_Send(&token, 1, MPI_INT, peer, 2, MPI_COMM_WORLD));
                    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
                } else {
                    MTEST_OK(MPI_Recv(&token, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    if (kind == 0) {
                        code = MPI_Recv(buf, room, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    } else {
                        code = MPI_Irecv(buf, room, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
                        if (code == MPI_SUCCESS)
                            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
                    }
                }
                MTEST_CHECK(mtest_class(code) == MPI_ERR_TRUNCATE, "%s of %d bytes into %d: class %d",
                            how[kind], lens[i], room, mtest_class(code));
                check_guard(room, how[kind]);
                /* The long message is consumed, the next one arrives. */
                token = -1;
                MTEST_OK(MPI_Recv(&token, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                MTEST_CHECK(token == 4711 + i, "%s: after truncation %d came", how[kind], token);
                check_guard(room, how[kind]);
            } else {
                MPI_Request next;
                mtest_fill(buf, (size_t)lens[i], 1);
                if (kind >= 2)
                    MTEST_OK(MPI_Recv(&token, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                MTEST_OK(MPI_Isend(buf, lens[i], MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request));
                token = 4711 + i;
                MTEST_OK(MPI_Isend(&token, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &next));
                int go = 0;
                if (kind < 2)
                    MTEST_OK(MPI_Send(&go, 1, MPI_INT, peer, 3, MPI_COMM_WORLD));
                /* Whether the sender hears of it is left open; it must end. */
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                MTEST_OK(MPI_Wait(&next, MPI_STATUS_IGNORE));
            }
        }
    }
    return mtest_end();
}
