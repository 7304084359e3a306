/* SPDX-License-Identifier: BSD-3-Clause */
/* One truncated receive among many: Waitall returns MPI_ERR_IN_STATUS, and the statuses identify the receive
 * and its error. */
#include "mtest.h"

enum { N = 150, BAD = 70 }; /* more than one set of MPI_Waitall, and not in the first */

static int in[N][4];

static void check(const MPI_Status *statuses, int first, const char *how)
{
    for (int i = 0; i < N; i++) {
        int expected = i == BAD ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
        MTEST_CHECK(mtest_class(statuses[i].MPI_ERROR) == expected, "%s: status %d has class %d, expected %d",
                    how, i, mtest_class(statuses[i].MPI_ERROR), expected);
        if (i == BAD)
            continue;
        int count;
        MPI_Get_count(&statuses[i], MPI_INT, &count);
        MTEST_CHECK(count == 2 && in[i][0] == i && in[i][1] == i * i + first, "%s: message %d is wrong", how,
                    i);
        MTEST_CHECK(statuses[i].MPI_TAG == first + i, "%s: tag %d", how, statuses[i].MPI_TAG);
    }
    MTEST_CHECK(in[BAD][1] == -1, "%s: the truncated receive wrote past its end", how);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    for (int round = 0; round < 3; round++) {
        int first = 10 * round + 1;
        if (mtest_rank == 0) {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < N; i++) {
                int out[2] = {i, i * i + first};
                MTEST_OK(MPI_Send(out, 2, MPI_INT, 1, first + i, MPI_COMM_WORLD));
            }
        } else if (mtest_rank == 1) {
            MPI_Request requests[N];
            MPI_Status statuses[N];
            int code = MPI_SUCCESS;
            for (int i = 0; i < N; i++) {
                in[i][0] = in[i][1] = -1;
                MTEST_OK(
                    MPI_Irecv(in[i], i == BAD ? 1 : 4, MPI_INT, 0, first + i, MPI_COMM_WORLD, &requests[i]));
            }
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
            if (round == 0) {
                /* An error may end Waitall early: pending requests are waited for again. */
                code = MPI_Waitall(N, requests, statuses);
                MTEST_CLASS(code, MPI_ERR_IN_STATUS);
                for (int i = 0; i < N; i++)
                    if (mtest_class(statuses[i].MPI_ERROR) == MPI_ERR_PENDING)
                        statuses[i].MPI_ERROR = MPI_Wait(&requests[i], &statuses[i]);
                check(statuses, first, "Waitall");
            } else if (round == 1) {
                int done = 0, errors = 0;
                while (done < N) {
                    int outcount, indices[N];
                    MPI_Status some[N];
                    code = MPI_Waitsome(N, requests, &outcount, indices, some);
                    MTEST_CHECK(outcount > 0, "Waitsome: outcount %d", outcount);
                    if (outcount <= 0)
                        break;
                    for (int i = 0; i < outcount; i++) {
                        if (code == MPI_SUCCESS)
                            some[i].MPI_ERROR = MPI_SUCCESS;
                        statuses[indices[i]] = some[i];
                    }
                    errors += mtest_class(code) == MPI_ERR_IN_STATUS;
                    MTEST_CHECK(code == MPI_SUCCESS || mtest_class(code) == MPI_ERR_IN_STATUS,
                                "Waitsome: class %d", mtest_class(code));
                    done += outcount;
                }
                MTEST_CHECK(errors == 1, "Waitsome reported %d errors", errors);
                check(statuses, first, "Waitsome");
            } else {
                for (int done = 0; done < N; done++) {
                    int index = -1;
                    MPI_Status one;
                    code = MPI_Waitany(N, requests, &index, &one);
                    MTEST_CHECK(index >= 0 && index < N, "Waitany: index %d", index);
                    if (index < 0)
                        break;
                    MTEST_CHECK(mtest_class(code) == (index == BAD ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
                                "Waitany: class %d for %d", mtest_class(code), index);
                    statuses[index] = one;
                    statuses[index].MPI_ERROR = code;
                }
                check(statuses, first, "Waitany");
            }
            for (int i = 0; i < N; i++)
                MTEST_CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is not null", i);
        }
    }
    return mtest_end();
}
