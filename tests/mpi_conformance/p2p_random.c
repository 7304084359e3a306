/* SPDX-License-Identifier: BSD-3-Clause */
/* Heavy random traffic: every rank sends to random ranks with random sizes, tags and modes, and all of it
 * arrives intact. */
#include "mtest.h"

enum { PER_PAIR = 12, MOST_RANKS = 64 };

static size_t size_of(int from, int to, int i)
{
    uint64_t state = (uint64_t)from * 1000003u + (uint64_t)to * 7919u + (uint64_t)i * 31u + 17u;
    mtest_random(&state);
    uint32_t pick = mtest_random(&state);
    size_t limit = pick % 10 < 6 ? 200 : pick % 10 < 9 ? 10000 : 150000;
    return mtest_random(&state) % limit;
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    int n = mtest_size < MOST_RANKS ? mtest_size : MOST_RANKS, total = n * PER_PAIR;
    if (mtest_rank < n) {
        MPI_Request *sends = mtest_alloc((size_t)total * sizeof *sends),
                    *recvs = mtest_alloc((size_t)total * sizeof *recvs);
        unsigned char **outs = mtest_alloc((size_t)total * sizeof *outs),
                      **ins = mtest_alloc((size_t)total * sizeof *ins);
        uint64_t state = (uint64_t)mtest_rank + 99;
        int *order = mtest_alloc((size_t)total * sizeof *order);
        for (int i = 0; i < total; i++) {
            int other = i % n, number = i / n;
            size_t len = size_of(mtest_rank, other, number), room = size_of(other, mtest_rank, number);
            outs[i] = mtest_alloc(len);
            ins[i] = mtest_alloc(room + 8);
            mtest_fill(outs[i], len, (unsigned)(mtest_rank * 3 + other * 5 + number));
            memset(ins[i] + room, 0x3c, 8);
            order[i] = i;
            recvs[i] = MPI_REQUEST_NULL;
        }
        for (int i = total - 1; i > 0; i--) {
            int j = (int)(mtest_random(&state) % (uint32_t)(i + 1)), hold = order[i];
            order[i] = order[j];
            order[j] = hold;
        }
        /* Receives in random order, half before the sends, half among them; tags name the number. */
        for (int k = 0; k < total + total / 2; k++) {
            if (k < total / 2 || k % 2) {
                int r = k < total / 2 ? k : total / 2 + (k - total / 2) / 2;
                if (r < total && recvs[order[r]] == MPI_REQUEST_NULL) {
                    int i = order[r];
                    MTEST_OK(MPI_Irecv(ins[i], (int)size_of(i % n, mtest_rank, i / n), MPI_BYTE, i % n, i / n,
                                       MPI_COMM_WORLD, &recvs[i]));
                }
            }
        }
        for (int k = 0; k < total; k++) {
            int i = order[total - 1 - k], to = i % n, number = i / n;
            int len = (int)size_of(mtest_rank, to, number);
            if (mtest_random(&state) % 3 == 0)
                MTEST_OK(MPI_Issend(outs[i], len, MPI_BYTE, to, number, MPI_COMM_WORLD, &sends[k]));
            else
                MTEST_OK(MPI_Isend(outs[i], len, MPI_BYTE, to, number, MPI_COMM_WORLD, &sends[k]));
        }
        for (int i = 0; i < total; i++)
            if (recvs[i] == MPI_REQUEST_NULL)
                MTEST_OK(MPI_Irecv(ins[i], (int)size_of(i % n, mtest_rank, i / n), MPI_BYTE, i % n, i / n,
                                   MPI_COMM_WORLD, &recvs[i]));
        MTEST_OK(MPI_Waitall(total, recvs, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Waitall(total, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < total; i++) {
            int from = i % n, number = i / n;
            size_t len = size_of(from, mtest_rank, number);
            MTEST_CHECK(mtest_differs(ins[i], len, (unsigned)(from * 3 + mtest_rank * 5 + number)) < 0,
                        "message %d of rank %d (%zu bytes) is wrong", number, from, len);
            MTEST_CHECK(mtest_touched(ins[i] + len, 8, 0x3c) < 0, "message %d of rank %d wrote past its end",
                        number, from);
            free(outs[i]);
            free(ins[i]);
        }
        free(sends);
        free(recvs);
        free(outs);
        free(ins);
        free(order);
    }
    return mtest_end();
}
