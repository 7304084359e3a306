/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank whose receive buffer is too short in a collective gets MPI_ERR_TRUNCATE, nothing is written behind
 * the buffer, the other ranks get their data, and the following collectives are right. */
#include "mcoll.h"

enum { N = 16, UNTOUCHED = -77 };

static int in[N * 64], out[N * 64], counts[64], displs[64], short_counts[64];
static MPI_Comm comm;
static int victim;

/* Calls it in the form that is tested; the victim is told. */
#define CALL(what, Name, name, ...)                                                           \
    do {                                                                                      \
        MPI_Request request_ = MPI_REQUEST_NULL;                                              \
        int code_ = MPI_SUCCESS, round_ = 0;                                                  \
        if (mcoll_form == MCOLL_BLOCKING)                                                     \
            code_ = MPI_##Name(__VA_ARGS__);                                                  \
        else if (mcoll_form == MCOLL_NONBLOCKING)                                             \
            MTEST_OK(MPI_I##name(__VA_ARGS__, &request_));                                    \
        else                                                                                  \
            MTEST_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_));               \
        do {                                                                                  \
            if (mcoll_form == MCOLL_PERSISTENT)                                               \
                MTEST_OK(MPI_Start(&request_));                                               \
            if (mcoll_form != MCOLL_BLOCKING)                                                 \
                code_ = MPI_Wait(&request_, MPI_STATUS_IGNORE);                               \
            MTEST_CHECK(mtest_class(code_) == (is_victim() ? MPI_ERR_TRUNCATE : MPI_SUCCESS), \
                        what ": class %d in round %d", mtest_class(code_), round_);           \
        } while (mcoll_form == MCOLL_PERSISTENT && ++round_ < 3);                             \
        if (request_ != MPI_REQUEST_NULL)                                                     \
            MTEST_OK(MPI_Request_free(&request_));                                            \
    } while (0)

static int is_victim(void)
{
    return mtest_rank == victim;
}

/* out: blocks of n elements in a row, but the victim's have room for room elements each. */
static void check(const char *what, int n_blocks, int n, int to_rank, int only)
{
    int sum = -1, room = is_victim() ? n / 2 : n;

    for (int b = 0; b < n_blocks && (only < 0 || only == mtest_rank); b++)
        for (int k = 0; k < n && !is_victim(); k++)
            MTEST_CHECK(out[b * n + k] == b * 1000 + (to_rank ? mtest_rank * n : 0) + k,
                        "%s: block %d element %d is %d", what, b, k, out[b * n + k]);
    for (int i = n_blocks * room; i < N * 64; i++)
        if (out[i] != UNTOUCHED) {
            MTEST_CHECK(0, "%s: element %d behind the buffer was written", what, i);
            break;
        }
    for (int i = 0; i < N * 64; i++)
        out[i] = UNTOUCHED;
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "the sum after %s is %d", what, sum);
}

static void test(int n)
{
    int room = is_victim() ? n / 2 : n, size = mtest_size;
    int *v = is_victim() ? short_counts : counts;

    for (int r = 0; r < size; r++) {
        counts[r] = n;
        short_counts[r] = n / 2;
        displs[r] = r * room;
        for (int k = 0; k < n; k++)
            in[r * n + k] = mtest_rank * 1000 + r * n + k;
    }
    CALL("alltoall", Alltoall, alltoall, in, n, MPI_INT, out, room, MPI_INT, comm);
    check("alltoall", size, n, 1, -1);
    for (int k = 0; k < n; k++)
        in[k] = mtest_rank * 1000 + k;
    CALL("allgather", Allgather, allgather, in, n, MPI_INT, out, room, MPI_INT, comm);
    check("allgather", size, n, 0, -1);
    CALL("allgatherv", Allgatherv, allgatherv, in, n, MPI_INT, out, v, displs, MPI_INT, comm);
    check("allgatherv", size, n, 0, -1);
    CALL("gather", Gather, gather, in, n, MPI_INT, out, room, MPI_INT, victim, comm);
    check("gather", mtest_rank == victim ? size : 0, n, 0, victim);
    for (int r = 0; r < size; r++)
        for (int k = 0; k < n; k++)
            in[r * n + k] = r * n + k;
    CALL("scatter", Scatter, scatter, in, n, MPI_INT, out, room, MPI_INT, victim, comm);
    check("scatter", 1, n, 1, -1);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < N * 64; i++)
        out[i] = UNTOUCHED;
    for (victim = 0; victim < mtest_size; victim += victim + 1) {
        test(2);
        test(N);
    }
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
