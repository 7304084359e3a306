/* SPDX-License-Identifier: BSD-3-Clause */
/* The _c forms with small counts behave like the int forms: messages, types, statuses, collectives. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION >= 4
    static int out[1000], in[1000];
    MPI_Datatype type;
    MPI_Status status;
    MPI_Request request;
    MPI_Count count, size, lb, extent;
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < 1000; i++)
        out[i] = mtest_rank * 1000 + i;
    MTEST_OK(MPI_Irecv_c(in, 1000, MPI_INT, prev, 0, MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Send_c(out, 1000, MPI_INT, next, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_Get_count_c(&status, MPI_INT, &count));
    MTEST_CHECK(count == 1000 && in[999] == prev * 1000 + 999, "count %lld", (long long)count);
    MTEST_OK(MPI_Type_vector_c(10, 2, 5, MPI_INT, &type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Type_size_c(type, &size));
    MTEST_OK(MPI_Type_get_extent_c(type, &lb, &extent));
    MTEST_CHECK(size == 80 && lb == 0 && extent == 188, "size %lld extent %lld", (long long)size,
                (long long)extent);
    MTEST_OK(MPI_Sendrecv_c(out, 1, type, next, 1, in, 20, MPI_INT, prev, 1, MPI_COMM_WORLD, &status));
    MTEST_CHECK(in[19] == prev * 1000 + 46, "strided: %d", in[19]);
    MTEST_OK(MPI_Type_free(&type));
    /* A type of more than 2^31 bytes: no memory is touched, only its size asked for. */
    MTEST_OK(MPI_Type_contiguous_c((MPI_Count)3 << 30, MPI_INT, &type));
    MTEST_OK(MPI_Type_size_c(type, &size));
    MTEST_CHECK(size == (MPI_Count)12 << 30, "size %lld", (long long)size);
    int small = 0;
    MTEST_OK(MPI_Type_size(type, &small));
    MTEST_CHECK(small == MPI_UNDEFINED, "a size that does not fit an int is %d", small);
    MTEST_OK(MPI_Type_free(&type));
    int sum[2], value[2] = {1, mtest_rank};
    MTEST_OK(MPI_Allreduce_c(value, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(sum[0] == mtest_size && sum[1] == mtest_size * (mtest_size - 1) / 2, "Allreduce_c: %d %d",
                sum[0], sum[1]);
    value[0] = mtest_rank ? -1 : 5;
    MTEST_OK(MPI_Bcast_c(value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    MTEST_CHECK(value[0] == 5, "Bcast_c: %d", value[0]);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Send_c(out, -1, MPI_INT, next, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
#else
    mtest_skip("large counts need MPI 4");
#endif
    return mtest_end();
}
