/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op_kernels.c: the loops of the predefined reduction operations (MPI 5.0, sections 6.9.2 to 6.9.4).
 *
 * One function per (operation, basic type), made by X-macros: a list names the basic types of a class with
 * their C types, a macro per class makes the loops of all operations that the class allows, and fills in
 * their places in the table. Which classes allow what is table 6.9.2 of the standard:
 *
 *      integer   MAX MIN SUM PROD, bitwise, logical
 *      real      MAX MIN SUM PROD
 *      complex   SUM PROD
 *      logical   logical
 *      byte      bitwise
 *      pair      MINLOC MAXLOC
 *
 * Integers wrap around: they are added and multiplied as unsigned, so no input is undefined behaviour. A
 * logical result is 0 or 1; any other value than 0 counts as true. Complex numbers are multiplied by the
 * schoolbook formula.
 *
 * Called through struct ampi_op by op.c and the collectives.
 */
#include "ampi/op/op.h"

/* gcc's -O2 leaves loops of unknown length scalar. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* One body for plain x86-64, one for AVX2, chosen when the library is loaded: 1.6 to 3 times as fast while
 * the operands are in the L1 cache (45 and 25 GB/s against 73 for sums of double and int32). The same
 * instructions in the same order per element, so the same results. Sanitizers are not ready yet when such
 * choices are made. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
#define INT128(X) X(INT128, int128, uint128)
#define LOGICAL128(X) X(LOGICAL128, uint128)
#else
#define INT128(X)
#define LOGICAL128(X)
#endif

#ifdef __FLT16_MANT_DIG__
#define FLOAT16(X) X(FLOAT16, _Float16)
#else
#define FLOAT16(X)
#endif

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 float128;
#define FLOAT128(X) X(FLOAT128, float128)
#else
#define FLOAT128(X)
#endif

/* ---- The classes: X(basic type, C type of an element, ...) ---- */

/* Third: the unsigned type to calculate in, int at least, lest the product of two shorts overflow an int. */
#define INTEGERS(X)               \
    X(INT8, int8_t, unsigned)     \
    X(INT16, int16_t, unsigned)   \
    X(INT32, int32_t, uint32_t)   \
    X(INT64, int64_t, uint64_t)   \
    INT128(X)                     \
    X(UINT8, uint8_t, unsigned)   \
    X(UINT16, uint16_t, unsigned) \
    X(UINT32, uint32_t, uint32_t) \
    X(UINT64, uint64_t, uint64_t)

#define REALS(X)                \
    FLOAT16(X)                  \
    X(FLOAT, float)             \
    X(DOUBLE, double)           \
    X(LONG_DOUBLE, long double) \
    FLOAT128(X)

#define LOGICALS(X)        \
    X(LOGICAL8, uint8_t)   \
    X(LOGICAL16, uint16_t) \
    X(LOGICAL32, uint32_t) \
    X(LOGICAL64, uint64_t) \
    LOGICAL128(X)

/* bool as the byte that it is: a buffer may hold values that no bool has. */
#define BOOLS(X) X(BOOL, uint8_t)

#define BYTES(X) X(BYTE, uint8_t, unsigned)

/* X(basic type, C type of the value, of the index). */
#define PAIRS(X)                         \
    X(FLOAT_INT, float, int)             \
    X(DOUBLE_INT, double, int)           \
    X(LONG_INT, long, int)               \
    X(2INT, int, int)                    \
    X(SHORT_INT, short, int)             \
    X(LONG_DOUBLE_INT, long double, int) \
    X(2FLOAT, float, float)              \
    X(2DOUBLE, double, double)

/* ---- Loops: b = a op b for each element, a the left operand ---- */

#define LOOP(name, T, expr)                                                  \
    static inline __attribute__((always_inline)) T one_##name(T a, T b)      \
    {                                                                        \
        return (expr);                                                       \
    }                                                                        \
    FOR_EACH_CPU static void name(const void *in, void *inout, size_t count) \
    {                                                                        \
        const T *restrict a = in;                                            \
        T *restrict b = inout;                                               \
        for (size_t i = 0; i < count; i++)                                   \
            b[i] = one_##name(a[i], b[i]);                                   \
    }

/* The same and, for many inputs, one that reads four at a time: the intermediate result, which would be
 * loaded and stored once for each of them, stays in a register. */
#define LOOPS(name, T, expr)                                                                         \
    LOOP(name, T, expr)                                                                              \
    FOR_EACH_CPU static void name##_4(const void *const ins[4], void *inout, size_t count)           \
    {                                                                                                \
        const T *restrict a0 = ins[0], *restrict a1 = ins[1];                                        \
        const T *restrict a2 = ins[2], *restrict a3 = ins[3];                                        \
        T *restrict b = inout;                                                                       \
        for (size_t i = 0; i < count; i++)                                                           \
            b[i] = one_##name(a3[i], one_##name(a2[i], one_##name(a1[i], one_##name(a0[i], b[i])))); \
    }

#define ARITHMETIC_LOOPS(basic, T, U)        \
    LOOPS(sum_##basic, T, (T)((U)a + (U)b))  \
    LOOPS(prod_##basic, T, (T)((U)a * (U)b)) \
    LOOPS(min_##basic, T, a < b ? a : b)     \
    LOOPS(max_##basic, T, a > b ? a : b)

#define BITWISE_LOOPS(basic, T, U)    \
    LOOP(band_##basic, T, (T)(a & b)) \
    LOOP(bor_##basic, T, (T)(a | b))  \
    LOOP(bxor_##basic, T, (T)(a ^ b))

#define LOGICAL_LOOPS(basic, T)                     \
    LOOP(land_##basic, T, (T)((a != 0) & (b != 0))) \
    LOOP(lor_##basic, T, (T)((a != 0) | (b != 0)))  \
    LOOP(lxor_##basic, T, (T)((a != 0) ^ (b != 0)))

#define FORTRAN_LOGICAL_LOOPS(basic, T)   \
    LOOP(land_##basic, T, (T)(a ? b : 0)) \
    LOOP(lor_##basic, T, (T)(a ? a : b))  \
    LOOP(lxor_##basic, T, (T)(a ? (b ? 0 : a) : b))

#define INTEGER_LOOPS(basic, T, U) \
    ARITHMETIC_LOOPS(basic, T, U)  \
    BITWISE_LOOPS(basic, T, U)     \
    LOGICAL_LOOPS(basic, T)

#define REAL_LOOPS(basic, T) ARITHMETIC_LOOPS(basic, T, T)

#define COMPLEX_LOOPS(basic, T)                                                 \
    static void sum_COMPLEX_##basic(const void *in, void *inout, size_t count)  \
    {                                                                           \
        sum_##basic(in, inout, 2 * count);                                      \
    }                                                                           \
    struct complex_##basic {                                                    \
        T re, im;                                                               \
    };                                                                          \
    static void prod_COMPLEX_##basic(const void *in, void *inout, size_t count) \
    {                                                                           \
        const struct complex_##basic *restrict a = in;                          \
        struct complex_##basic *restrict b = inout;                             \
        for (size_t i = 0; i < count; i++) {                                    \
            T re = a[i].re * b[i].re - a[i].im * b[i].im;                       \
            T im = a[i].re * b[i].im + a[i].im * b[i].re;                       \
            b[i].re = re;                                                       \
            b[i].im = im;                                                       \
        }                                                                       \
    }

/* Of equal values the smaller index wins. */
#define PAIR_LOOP(name, struct_pair, is_before)                               \
    static void name(const void *in, void *inout, size_t count)               \
    {                                                                         \
        const struct_pair *restrict a = in;                                   \
        struct_pair *restrict b = inout;                                      \
        for (size_t i = 0; i < count; i++) {                                  \
            if (a[i].value is_before b[i].value) {                            \
                b[i].value = a[i].value;                                      \
                b[i].index = a[i].index;                                      \
            } else if (a[i].value == b[i].value && a[i].index < b[i].index) { \
                b[i].index = a[i].index;                                      \
            }                                                                 \
        }                                                                     \
    }

#define PAIR_LOOPS(basic, V, I)                       \
    struct pair_##basic {                             \
        V value;                                      \
        I index;                                      \
    };                                                \
    PAIR_LOOP(minloc_##basic, struct pair_##basic, <) \
    PAIR_LOOP(maxloc_##basic, struct pair_##basic, >)

INTEGERS(INTEGER_LOOPS)
REALS(REAL_LOOPS)
REALS(COMPLEX_LOOPS)
LOGICALS(FORTRAN_LOGICAL_LOOPS)
BOOLS(LOGICAL_LOOPS)
BYTES(BITWISE_LOOPS)
PAIRS(PAIR_LOOPS)

/* ---- Tables ---- */

#define ARITHMETIC_ENTRIES(basic)                                                                       \
    [AMPI_OP_SUM][AMPI_BASIC_##basic] = sum_##basic, [AMPI_OP_PROD][AMPI_BASIC_##basic] = prod_##basic, \
    [AMPI_OP_MIN][AMPI_BASIC_##basic] = min_##basic, [AMPI_OP_MAX][AMPI_BASIC_##basic] = max_##basic,
#define BITWISE_ENTRIES(basic, T, U)                                                                    \
    [AMPI_OP_BAND][AMPI_BASIC_##basic] = band_##basic, [AMPI_OP_BOR][AMPI_BASIC_##basic] = bor_##basic, \
    [AMPI_OP_BXOR][AMPI_BASIC_##basic] = bxor_##basic,
#define LOGICAL_ENTRIES(basic, T)                                                                       \
    [AMPI_OP_LAND][AMPI_BASIC_##basic] = land_##basic, [AMPI_OP_LOR][AMPI_BASIC_##basic] = lor_##basic, \
    [AMPI_OP_LXOR][AMPI_BASIC_##basic] = lxor_##basic,
#define INTEGER_ENTRIES(basic, T, U) \
    ARITHMETIC_ENTRIES(basic)        \
    BITWISE_ENTRIES(basic, T, U)     \
    LOGICAL_ENTRIES(basic, T)
#define REAL_ENTRIES(basic, T) ARITHMETIC_ENTRIES(basic)
#define COMPLEX_ENTRIES(basic, T)                                    \
    [AMPI_OP_SUM][AMPI_BASIC_COMPLEX_##basic] = sum_COMPLEX_##basic, \
    [AMPI_OP_PROD][AMPI_BASIC_COMPLEX_##basic] = prod_COMPLEX_##basic,
#define PAIR_ENTRIES(basic, V, I)                          \
    [AMPI_OP_MINLOC][AMPI_BASIC_##basic] = minloc_##basic, \
    [AMPI_OP_MAXLOC][AMPI_BASIC_##basic] = maxloc_##basic,

const ampi_op_kernel_fn ampi_op_kernels[AMPI_OP_KIND_COUNT][AMPI_BASIC_COUNT] = {
    INTEGERS(INTEGER_ENTRIES) REALS(REAL_ENTRIES) REALS(COMPLEX_ENTRIES) LOGICALS(LOGICAL_ENTRIES)
        BOOLS(LOGICAL_ENTRIES) BYTES(BITWISE_ENTRIES) PAIRS(PAIR_ENTRIES)};

#define ENTRIES_4(basic)                                   \
    [AMPI_OP_SUM][AMPI_BASIC_##basic] = sum_##basic##_4,   \
    [AMPI_OP_PROD][AMPI_BASIC_##basic] = prod_##basic##_4, \
    [AMPI_OP_MIN][AMPI_BASIC_##basic] = min_##basic##_4,   \
    [AMPI_OP_MAX][AMPI_BASIC_##basic] = max_##basic##_4,
#define INTEGER_ENTRIES_4(basic, T, U) ENTRIES_4(basic)
#define REAL_ENTRIES_4(basic, T) ENTRIES_4(basic)

const ampi_op_kernel_4_fn ampi_op_kernels_4[AMPI_OP_KIND_COUNT][AMPI_BASIC_COUNT] = {
    INTEGERS(INTEGER_ENTRIES_4) REALS(REAL_ENTRIES_4)};

#define STRIDE3(basic, T, U) [AMPI_BASIC_##basic] = sizeof(T),
#define STRIDE2(basic, T) [AMPI_BASIC_##basic] = sizeof(T),
#define STRIDE_COMPLEX(basic, T) [AMPI_BASIC_COMPLEX_##basic] = sizeof(struct complex_##basic),
#define STRIDE_PAIR(basic, V, I) [AMPI_BASIC_##basic] = sizeof(struct pair_##basic),

const unsigned char ampi_op_stride_bytes[AMPI_BASIC_COUNT] = {INTEGERS(STRIDE3) REALS(STRIDE2) REALS(
    STRIDE_COMPLEX) LOGICALS(STRIDE2) BOOLS(STRIDE2) BYTES(STRIDE3) PAIRS(STRIDE_PAIR)};
