/* SPDX-License-Identifier: BSD-3-Clause */
/* Allreduce with every built-in operation on every type it is defined for, including the MINLOC pairs. */
#include "mtest.h"
#include <complex.h>
#include <stdbool.h>

/* Compilers need long for all of it in one function. */
#define SEPARATE __attribute__((noinline))

static SEPARATE void reduce(const void *in, void *out, MPI_Datatype type, MPI_Op op)
{
    MTEST_OK(MPI_Allreduce(in, out, 3, type, op, MPI_COMM_WORLD));
}

static SEPARATE void report(const char *what, int is_right0, int is_right1, int is_right2)
{
    MTEST_CHECK(is_right0 && is_right1 && is_right2, "%s: element %d is wrong", what,
                !is_right0   ? 0
                : !is_right1 ? 1
                             : 2);
}

#define EXPECT(mpi_type, c_type, mpi_op, first, expression)                                           \
    do {                                                                                              \
        c_type in_[3], out_[3], want_;                                                                \
        for (int i_ = 0; i_ < 3; i_++) {                                                              \
            c_type acc = 0, x;                                                                        \
            for (int r_ = 0; r_ < mtest_size; r_++) {                                                 \
                x = (c_type)((r_ * 3 + i_ + (first)) % 5);                                            \
                acc = r_ ? (c_type)(expression) : x;                                                  \
                if (r_ == mtest_rank)                                                                 \
                    in_[i_] = x;                                                                      \
            }                                                                                         \
            out_[i_] = acc; /* kept until compared */                                                 \
            want_ = acc;                                                                              \
            (void)want_;                                                                              \
        }                                                                                             \
        c_type got_[3];                                                                               \
        reduce(in_, got_, mpi_type, mpi_op);                                                          \
        report(#mpi_op " on " #mpi_type, got_[0] == out_[0], got_[1] == out_[1], got_[2] == out_[2]); \
    } while (0)

#define ARITHMETIC(mpi_type, c_type)                         \
    EXPECT(mpi_type, c_type, MPI_SUM, 0, acc + x);           \
    EXPECT(mpi_type, c_type, MPI_PROD, 1, acc *x);           \
    EXPECT(mpi_type, c_type, MPI_MAX, 0, acc > x ? acc : x); \
    EXPECT(mpi_type, c_type, MPI_MIN, 0, acc < x ? acc : x)
#define LOGICAL(mpi_type, c_type)                   \
    EXPECT(mpi_type, c_type, MPI_LAND, 0, acc &&x); \
    EXPECT(mpi_type, c_type, MPI_LOR, 0, acc || x); \
    EXPECT(mpi_type, c_type, MPI_LXOR, 0, !acc != !x)
#define BITWISE(mpi_type, c_type)                  \
    EXPECT(mpi_type, c_type, MPI_BAND, 0, acc &x); \
    EXPECT(mpi_type, c_type, MPI_BOR, 0, acc | x); \
    EXPECT(mpi_type, c_type, MPI_BXOR, 0, acc ^ x)
#define INTEGER(mpi_type, c_type)     \
    do {                              \
        ARITHMETIC(mpi_type, c_type); \
        BITWISE(mpi_type, c_type);    \
    } while (0)
#define C_INTEGER(mpi_type, c_type)                        \
    do {                                                   \
        INTEGER(mpi_type, c_type);                         \
        EXPECT(mpi_type, c_type, MPI_LAND, 0, (acc && x)); \
    } while (0)

#define PAIR(mpi_type, value_type)                                                                 \
    do {                                                                                           \
        struct {                                                                                   \
            value_type value;                                                                      \
            int index;                                                                             \
        } in_ = {(value_type)((mtest_rank * 2 + 1) % 3), mtest_rank + 10}, least_, most_;          \
        MTEST_OK(MPI_Allreduce(&in_, &least_, 1, mpi_type, MPI_MINLOC, MPI_COMM_WORLD));           \
        MTEST_OK(MPI_Allreduce(&in_, &most_, 1, mpi_type, MPI_MAXLOC, MPI_COMM_WORLD));            \
        int low_ = 0, high_ = 0;                                                                   \
        for (int r_ = 0; r_ < mtest_size; r_++) {                                                  \
            low_ = (r_ * 2 + 1) % 3 < (low_ * 2 + 1) % 3 ? r_ : low_;                              \
            high_ = (r_ * 2 + 1) % 3 > (high_ * 2 + 1) % 3 ? r_ : high_;                           \
        }                                                                                          \
        MTEST_CHECK(least_.index == low_ + 10 && least_.value == (value_type)((low_ * 2 + 1) % 3), \
                    "MINLOC on " #mpi_type ": index %d, expected %d", least_.index, low_ + 10);    \
        MTEST_CHECK(most_.index == high_ + 10 && most_.value == (value_type)((high_ * 2 + 1) % 3), \
                    "MAXLOC on " #mpi_type ": index %d, expected %d", most_.index, high_ + 10);    \
    } while (0)

static SEPARATE void integers(void)
{
    C_INTEGER(MPI_INT, int);
    C_INTEGER(MPI_LONG, long);
    C_INTEGER(MPI_SHORT, short);
}

static SEPARATE void unsigned_integers(void)
{
    C_INTEGER(MPI_UNSIGNED_SHORT, unsigned short);
    C_INTEGER(MPI_UNSIGNED, unsigned);
    C_INTEGER(MPI_UNSIGNED_LONG, unsigned long);
}

static SEPARATE void long_integers_and_characters(void)
{
    C_INTEGER(MPI_LONG_LONG, long long);
    C_INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long);
    C_INTEGER(MPI_SIGNED_CHAR, signed char);
    C_INTEGER(MPI_UNSIGNED_CHAR, unsigned char);
}

static SEPARATE void signed_sizes(void)
{
    C_INTEGER(MPI_INT8_T, int8_t);
    C_INTEGER(MPI_INT16_T, int16_t);
    C_INTEGER(MPI_INT32_T, int32_t);
    C_INTEGER(MPI_INT64_T, int64_t);
}

static SEPARATE void unsigned_sizes(void)
{
    C_INTEGER(MPI_UINT8_T, uint8_t);
    C_INTEGER(MPI_UINT16_T, uint16_t);
    C_INTEGER(MPI_UINT32_T, uint32_t);
    C_INTEGER(MPI_UINT64_T, uint64_t);
}

static SEPARATE void addresses(void)
{
    INTEGER(MPI_AINT, MPI_Aint);
    INTEGER(MPI_COUNT, MPI_Count);
    INTEGER(MPI_OFFSET, MPI_Offset);
}

static SEPARATE void floating(void)
{
    ARITHMETIC(MPI_FLOAT, float);
    ARITHMETIC(MPI_DOUBLE, double);
    ARITHMETIC(MPI_LONG_DOUBLE, long double);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    integers();
    unsigned_integers();
    long_integers_and_characters();
    signed_sizes();
    unsigned_sizes();
    addresses();
    floating();
    LOGICAL(MPI_C_BOOL, bool);
    LOGICAL(MPI_INT, int);
    BITWISE(MPI_BYTE, unsigned char);
    EXPECT(MPI_C_FLOAT_COMPLEX, float _Complex, MPI_SUM, 0, acc + x);
    EXPECT(MPI_C_DOUBLE_COMPLEX, double _Complex, MPI_SUM, 0, acc + x);
    EXPECT(MPI_C_DOUBLE_COMPLEX, double _Complex, MPI_PROD, 1, acc *x);
    double _Complex z = I, product = 0, want = 1;
    MTEST_OK(MPI_Allreduce(&z, &product, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++)
        want *= I;
    MTEST_CHECK(product == want, "the product of %d i", mtest_size);
    PAIR(MPI_2INT, int);
    PAIR(MPI_FLOAT_INT, float);
    PAIR(MPI_DOUBLE_INT, double);
    PAIR(MPI_LONG_INT, long);
    PAIR(MPI_SHORT_INT, short);
    PAIR(MPI_LONG_DOUBLE_INT, long double);
    return mtest_end();
}
