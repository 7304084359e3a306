/* SPDX-License-Identifier: BSD-3-Clause */
/* Every built-in C datatype has the size of its C type and carries its values, with the count in its own
 * unit. */
#include "mtest.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

static const struct {
    const char *name;
    size_t size;
} sizes[] = {
/* A list, not nested calls. */
/* clang-format off */
#define C_TYPES(X) \
    X(MPI_CHAR, char) X(MPI_SHORT, short) X(MPI_INT, int) \
    X(MPI_LONG, long) X(MPI_LONG_LONG_INT, long long) X(MPI_LONG_LONG, long long) \
    X(MPI_SIGNED_CHAR, signed char) X(MPI_UNSIGNED_CHAR, unsigned char) X(MPI_UNSIGNED_SHORT, unsigned short) \
    X(MPI_UNSIGNED, unsigned) X(MPI_UNSIGNED_LONG, unsigned long) X(MPI_UNSIGNED_LONG_LONG, unsigned long long) \
    X(MPI_FLOAT, float) X(MPI_DOUBLE, double) X(MPI_LONG_DOUBLE, long double) \
    X(MPI_WCHAR, wchar_t) X(MPI_C_BOOL, bool) X(MPI_INT8_T, int8_t) \
    X(MPI_INT16_T, int16_t) X(MPI_INT32_T, int32_t) X(MPI_INT64_T, int64_t) \
    X(MPI_UINT8_T, uint8_t) X(MPI_UINT16_T, uint16_t) X(MPI_UINT32_T, uint32_t) \
    X(MPI_UINT64_T, uint64_t) X(MPI_AINT, MPI_Aint) X(MPI_COUNT, MPI_Count) \
    X(MPI_OFFSET, MPI_Offset) X(MPI_C_COMPLEX, float _Complex) X(MPI_C_FLOAT_COMPLEX, float _Complex) \
    X(MPI_C_DOUBLE_COMPLEX, double _Complex) X(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex) X(MPI_BYTE, char)
/* clang-format on */
#define ONE_SIZE(name, c_type) {#name, sizeof(c_type)},
    C_TYPES(ONE_SIZE)};

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    /* Handles need not be compile-time constants. */
    MPI_Datatype types[] = {
#define ONE_TYPE(name, c_type) name,
        C_TYPES(ONE_TYPE)};
    for (int i = 0; i < (int)(sizeof types / sizeof types[0]); i++) {
        enum { N = 100 };
        static unsigned char out[N * 32], in[N * 32];
        int size, count;
        MPI_Aint lb, extent;
        MPI_Status status;
        size_t bytes = sizes[i].size * N;
        MTEST_OK(MPI_Type_size(types[i], &size));
        MTEST_CHECK(size == (int)sizes[i].size, "%s has size %d, expected %zu", sizes[i].name, size,
                    sizes[i].size);
        MTEST_OK(MPI_Type_get_extent(types[i], &lb, &extent));
        MTEST_CHECK(lb == 0 && extent == (MPI_Aint)sizes[i].size, "%s has lb %ld, extent %ld", sizes[i].name,
                    (long)lb, (long)extent);
        mtest_fill(out, bytes, (unsigned)mtest_rank);
        memset(in, 0, sizeof in);
        MTEST_OK(MPI_Sendrecv(out, N, types[i], next, i, in, N + 1 < N * 32 / size ? N + 1 : N, types[i],
                              prev, i, MPI_COMM_WORLD, &status));
        MTEST_OK(MPI_Get_count(&status, types[i], &count));
        MTEST_CHECK(count == N, "%s: count %d", sizes[i].name, count);
        MTEST_CHECK(mtest_differs(in, bytes, (unsigned)prev) < 0, "%s: wrong data", sizes[i].name);
    }
    return mtest_end();
}
