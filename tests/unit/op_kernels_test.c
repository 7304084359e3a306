/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that every built-in operation computes its definition on every basic type that the standard allows,
 * for lengths around the vector sizes, and is refused on every other type.
 */
#include <check.h>
#include <complex.h>
#include <limits.h>
#include <stdio.h>

#include "ampi/op/op.h"
#include "datatype_rank.h"

#define N_MAX 133

static unsigned random_state = 12345;

static unsigned next_random(void)
{
    random_state = random_state * 1103515245u + 12345u;
    return random_state >> 16;
}

/* Runs one kernel on values made by `make` and compares each result with `want`, a function of a[i] and
 * old[i]. */
#define CHECK_KERNEL(kind, basic, T, make, want)                                                        \
    do {                                                                                                \
        ampi_op_kernel_fn kernel = ampi_op_kernels[AMPI_OP_##kind][AMPI_BASIC_##basic];                 \
        T in[N_MAX], inout[N_MAX + 1], old[N_MAX + 1];                                                  \
        ck_assert_msg(kernel != NULL, #kind " is missing on " #basic);                                  \
        ck_assert_uint_eq(ampi_op_stride_bytes[AMPI_BASIC_##basic], sizeof(T));                         \
        for (size_t n = 0; n <= N_MAX; n += n < 40 ? 1 : 31) {                                          \
            memset(inout, 0, sizeof inout);                                                             \
            memset(old, 0, sizeof old);                                                                 \
            for (size_t i = 0; i < n; i++) {                                                            \
                in[i] = (T)(make);                                                                      \
                inout[i] = old[i] = (T)(make);                                                          \
            }                                                                                           \
            kernel(in, inout, n);                                                                       \
            for (size_t i = 0; i < n; i++) {                                                            \
                T a = in[i], b = old[i];                                                                \
                ck_assert_msg(inout[i] == (T)(want), #kind " on " #basic ": element %zu of %zu", i, n); \
            }                                                                                           \
            ck_assert(inout[n] == old[n]);                                                              \
        }                                                                                               \
    } while (0)

#define CHECK_ARITHMETIC(basic, T, make)                  \
    do {                                                  \
        CHECK_KERNEL(SUM, basic, T, make, a + b);         \
        CHECK_KERNEL(PROD, basic, T, make, a *b);         \
        CHECK_KERNEL(MIN, basic, T, make, b < a ? b : a); \
        CHECK_KERNEL(MAX, basic, T, make, b > a ? b : a); \
    } while (0)

#define CHECK_BITWISE(basic, T, make)              \
    do {                                           \
        CHECK_KERNEL(BAND, basic, T, make, a &b);  \
        CHECK_KERNEL(BOR, basic, T, make, a | b);  \
        CHECK_KERNEL(BXOR, basic, T, make, a ^ b); \
    } while (0)

#define CHECK_LOGICAL(basic, T, make)                 \
    do {                                              \
        CHECK_KERNEL(LAND, basic, T, make, a &&b);    \
        CHECK_KERNEL(LOR, basic, T, make, a || b);    \
        CHECK_KERNEL(LXOR, basic, T, make, !a != !b); \
    } while (0)

#define SMALL ((int)(next_random() % 9) - 4)
#define SMALL_OR_ZERO (next_random() % 2 ? SMALL : 0)
#define BOOLEAN (next_random() % 2)

#define CHECK_INTEGER(basic, T)                 \
    do {                                        \
        CHECK_ARITHMETIC(basic, T, SMALL);      \
        CHECK_BITWISE(basic, T, next_random()); \
        CHECK_LOGICAL(basic, T, SMALL_OR_ZERO); \
    } while (0)

START_TEST(integers)
{
    CHECK_INTEGER(INT8, int8_t);
    CHECK_INTEGER(INT16, int16_t);
    CHECK_INTEGER(INT32, int32_t);
    CHECK_INTEGER(INT64, int64_t);
    CHECK_INTEGER(UINT8, uint8_t);
    CHECK_INTEGER(UINT16, uint16_t);
    CHECK_INTEGER(UINT32, uint32_t);
    CHECK_INTEGER(UINT64, uint64_t);
#ifdef __SIZEOF_INT128__
    __extension__ typedef __int128 int128;
    CHECK_INTEGER(INT128, int128);
#endif
}
END_TEST

START_TEST(integers_wrap_around)
{
    int32_t a = INT32_MAX, b = 1;
    int16_t c = INT16_MIN, d = -1;

    ampi_op_kernels[AMPI_OP_SUM][AMPI_BASIC_INT32](&a, &b, 1);
    ck_assert_int_eq(b, INT32_MIN);
    ampi_op_kernels[AMPI_OP_PROD][AMPI_BASIC_INT16](&c, &d, 1);
    ck_assert_int_eq(d, INT16_MIN);
}
END_TEST

START_TEST(reals)
{
#define REAL (next_random() % 2001 / 8.0 - 125)
    CHECK_ARITHMETIC(FLOAT, float, REAL);
    CHECK_ARITHMETIC(DOUBLE, double, REAL);
    CHECK_ARITHMETIC(LONG_DOUBLE, long double, REAL);
#ifdef __FLT16_MANT_DIG__
    CHECK_ARITHMETIC(FLOAT16, _Float16, SMALL);
#endif
#ifdef __SIZEOF_FLOAT128__
    __extension__ typedef __float128 float128;
    CHECK_ARITHMETIC(FLOAT128, float128, REAL);
#endif
}
END_TEST

START_TEST(complex_numbers)
{
#define COMPLEX (SMALL + SMALL * I)
#define CHECK_COMPLEX(basic, T)                      \
    do {                                             \
        CHECK_KERNEL(SUM, basic, T, COMPLEX, a + b); \
        CHECK_KERNEL(PROD, basic, T, COMPLEX, a *b); \
    } while (0)
    CHECK_COMPLEX(COMPLEX_FLOAT, float complex);
    CHECK_COMPLEX(COMPLEX_DOUBLE, double complex);
    CHECK_COMPLEX(COMPLEX_LONG_DOUBLE, long double complex);
}
END_TEST

START_TEST(logicals)
{
    CHECK_LOGICAL(BOOL, uint8_t, BOOLEAN);
    CHECK_LOGICAL(LOGICAL8, uint8_t, BOOLEAN);
    CHECK_LOGICAL(LOGICAL16, uint16_t, BOOLEAN);
    CHECK_LOGICAL(LOGICAL32, uint32_t, BOOLEAN);
    CHECK_LOGICAL(LOGICAL64, uint64_t, BOOLEAN);
}
END_TEST

/* .TRUE. is -1 for some Fortran compilers, and must stay so. */
START_TEST(logicals_keep_the_representation_of_true)
{
    int32_t a[4] = {0, -1, 0, -1}, land[4] = {0, 0, -1, -1}, lor[4] = {0, 0, -1, -1},
            lxor[4] = {0, 0, -1, -1};

    ampi_op_kernels[AMPI_OP_LAND][AMPI_BASIC_LOGICAL32](a, land, 4);
    ampi_op_kernels[AMPI_OP_LOR][AMPI_BASIC_LOGICAL32](a, lor, 4);
    ampi_op_kernels[AMPI_OP_LXOR][AMPI_BASIC_LOGICAL32](a, lxor, 4);
    for (int i = 0; i < 4; i++) {
        bool x = i & 1, y = i >= 2;
        ck_assert_int_eq(land[i], x && y ? -1 : 0);
        ck_assert_int_eq(lor[i], x || y ? -1 : 0);
        ck_assert_int_eq(lxor[i], x != y ? -1 : 0);
    }
}
END_TEST

START_TEST(bytes)
{
    CHECK_BITWISE(BYTE, uint8_t, next_random());
}
END_TEST

#define CHECK_PAIR(basic, V, I_)                                                                          \
    do {                                                                                                  \
        struct pair {                                                                                     \
            V value;                                                                                      \
            I_ index;                                                                                     \
        } in[N_MAX], low[N_MAX], high[N_MAX], old[N_MAX];                                                 \
        ck_assert_uint_eq(ampi_op_stride_bytes[AMPI_BASIC_##basic], sizeof(struct pair));                 \
        for (int i = 0; i < N_MAX; i++) {                                                                 \
            in[i] = (struct pair){(V)SMALL, (I_)(next_random() % 100)};                                   \
            low[i] = high[i] = old[i] = (struct pair){(V)SMALL, (I_)(next_random() % 100)};               \
        }                                                                                                 \
        ampi_op_kernels[AMPI_OP_MINLOC][AMPI_BASIC_##basic](in, low, N_MAX);                              \
        ampi_op_kernels[AMPI_OP_MAXLOC][AMPI_BASIC_##basic](in, high, N_MAX);                             \
        for (int i = 0; i < N_MAX; i++) {                                                                 \
            V min = in[i].value < old[i].value ? in[i].value : old[i].value;                              \
            V max = in[i].value > old[i].value ? in[i].value : old[i].value;                              \
            I_ tie = in[i].index < old[i].index ? in[i].index : old[i].index;                             \
            bool is_tie = in[i].value == old[i].value;                                                    \
            ck_assert(low[i].value == min && high[i].value == max);                                       \
            ck_assert(low[i].index == (is_tie ? tie : min == in[i].value ? in[i].index : old[i].index));  \
            ck_assert(high[i].index == (is_tie ? tie : max == in[i].value ? in[i].index : old[i].index)); \
        }                                                                                                 \
    } while (0)

START_TEST(pairs)
{
    CHECK_PAIR(FLOAT_INT, float, int);
    CHECK_PAIR(DOUBLE_INT, double, int);
    CHECK_PAIR(LONG_INT, long, int);
    CHECK_PAIR(2INT, int, int);
    CHECK_PAIR(SHORT_INT, short, int);
    CHECK_PAIR(LONG_DOUBLE_INT, long double, int);
    CHECK_PAIR(2FLOAT, float, float);
    CHECK_PAIR(2DOUBLE, double, double);
}
END_TEST

/* ---- Objects ---- */

static void set_up(void)
{
    datatype_rank_start();
    ampi_op_init();
}

START_TEST(what_is_allowed)
{
    static const struct {
        MPI_Op op;
        MPI_Datatype type;
        bool is_allowed;
    } cases[] = {
        {MPI_SUM, MPI_INT, true},
        {MPI_SUM, MPI_C_DOUBLE_COMPLEX, true},
        {MPI_MAX, MPI_C_DOUBLE_COMPLEX, false},
        {MPI_SUM, MPI_C_BOOL, false},
        {MPI_LAND, MPI_C_BOOL, true},
        {MPI_BAND, MPI_BYTE, true},
        {MPI_SUM, MPI_BYTE, false},
        {MPI_BAND, MPI_DOUBLE, false},
        {MPI_LAND, MPI_DOUBLE, false},
        {MPI_SUM, MPI_CHAR, true},
        {MPI_SUM, MPI_SIGNED_CHAR, true},
        {MPI_SUM, MPI_WCHAR, false},
        {MPI_MINLOC, MPI_INT, false},
        {MPI_MINLOC, MPI_2INT, true},
        {MPI_MAXLOC, MPI_DOUBLE_INT, true},
        {MPI_SUM, MPI_2INT, false},
        {MPI_BAND, MPI_PACKED, false},
        {MPI_REPLACE, MPI_INT, false},
        {MPI_NO_OP, MPI_INT, false},
        {MPI_MAX, MPI_AINT, true},
        {MPI_SUM, MPI_INTEGER, true},
        {MPI_LAND, MPI_LOGICAL, true},
        {MPI_SUM, MPI_LOGICAL, false},
        {MPI_PROD, MPI_COMPLEX, true},
        {MPI_SUM, MPI_CHARACTER, false},
    };

    for (size_t i = 0; i < BASE_COUNT(cases); i++)
        ck_assert_msg(ampi_op_is_allowed(ampi_op_of(cases[i].op), ampi_type_of(cases[i].type)) ==
                          cases[i].is_allowed,
                      "case %zu", i);
}
END_TEST

/* The standard lists the types of predefined operations; a duplicate equals its original. */
START_TEST(derived_types_are_refused)
{
    double in[6] = {1, 2, 3, 4, 5, 6}, inout[6] = {0};
    MPI_Datatype column, same;

    ck_assert_int_eq(MPI_Type_vector(2, 1, 3, MPI_DOUBLE, &column), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_commit(&column), MPI_SUCCESS);
    ck_assert(!ampi_op_is_allowed(ampi_op_of(MPI_SUM), ampi_type_of(column)));
    ck_assert_int_eq(MPI_Type_dup(MPI_DOUBLE, &same), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Reduce_local(in, inout, 6, same, MPI_SUM), MPI_SUCCESS);
    for (int i = 0; i < 6; i++)
        ck_assert(inout[i] == in[i]);
    MPI_Type_free(&column);
    MPI_Type_free(&same);
}
END_TEST

static int n_calls;

static void user_sum(void *in, void *inout, int *len, MPI_Datatype *type)
{
    ck_assert(*type == MPI_INT);
    n_calls++;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] = 2 * ((int *)in)[i] + ((int *)inout)[i];
}

/* Many inputs at once, fetched ahead or not, give to the last bit what they give one after the other. */
static void check_many(MPI_Datatype handle, MPI_Op op, size_t elem_bytes, int n_inputs, int n)
{
    static unsigned char data[20][2048], want[2048], got[2048];
    struct ampi_type *type = ampi_type_of(handle);
    const void *ins[20];

    for (int are_far = 0; are_far < 2; are_far++) {
        for (int i = 0; i < n_inputs; i++) {
            ins[i] = data[i];
            for (size_t k = 0; k < sizeof data[i]; k++) /* as double: numbers around 2 */
                data[i][k] = k % 8 == 7 ? 0x40 : k % 8 == 6 ? 0 : (unsigned char)next_random();
        }
        memcpy(want, data[0], sizeof want);
        memcpy(got, data[0], sizeof got);
        for (int i = 0; i < n_inputs; i++)
            ampi_op_apply(ampi_op_of(op), ins[i], want, n, type);
        ampi_op_apply_many(ampi_op_of(op), ins, n_inputs, are_far, got, n, type);
        ck_assert_msg(memcmp(got, want, sizeof got) == 0, "%d inputs of %d elements of %zu bytes, far: %d",
                      n_inputs, n, elem_bytes, are_far);
    }
}

START_TEST(many_inputs)
{
    static const int lengths[] = {0, 1, 31, 32, 33, 63, 64, 65, 100, 128};

    for (int n_inputs = 0; n_inputs <= 20; n_inputs++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            check_many(MPI_DOUBLE, MPI_SUM, 8, n_inputs, lengths[i]);
            check_many(MPI_INT, MPI_MIN, 4, n_inputs, lengths[i]);
            check_many(MPI_BYTE, MPI_BXOR, 1, n_inputs, lengths[i]);
            check_many(MPI_INT16_T, MPI_PROD, 2, n_inputs, lengths[i]);
        }
}
END_TEST

START_TEST(users_operations)
{
    int in[3] = {1, 2, 3}, inout[3] = {10, 20, 30}, commute = 7;
    MPI_Op op;

    ck_assert_int_eq(MPI_Op_create(user_sum, 0, &op), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Op_commutative(op, &commute), MPI_SUCCESS);
    ck_assert_int_eq(commute, 0);
    ck_assert_int_eq(MPI_Reduce_local(in, inout, 3, MPI_INT, op), MPI_SUCCESS);
    ck_assert_int_eq(inout[0], 12);
    ck_assert_int_eq(inout[2], 36);
    ck_assert_int_eq(n_calls, 1);
    ck_assert_int_eq(MPI_Op_free(&op), MPI_SUCCESS);
    ck_assert_ptr_eq(op, MPI_OP_NULL);
}
END_TEST

START_TEST(wrong_arguments)
{
    int a[2] = {1, 2}, b[2] = {3, 4};
    MPI_Op op = MPI_SUM;

    ck_assert_int_eq(MPI_Reduce_local(a, b, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    ck_assert_int_eq(MPI_Reduce_local(a, b, 2, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE);
    ck_assert_int_eq(MPI_Reduce_local(a, b, 2, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    ck_assert_int_eq(MPI_Reduce_local(a, b, 2, MPI_INT, MPI_MINLOC), MPI_ERR_OP);
    ck_assert_int_eq(MPI_Reduce_local(MPI_IN_PLACE, b, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    ck_assert_int_eq(MPI_Op_free(&op), MPI_ERR_OP);
    ck_assert_ptr_eq(op, MPI_SUM);
    ck_assert_int_eq(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG);
    ck_assert_int_eq(b[0], 3);
    ck_assert_int_eq(b[1], 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("op");
    TCase *kernels = tcase_create("kernels");
    TCase *objects = tcase_create("objects");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_test(kernels, integers);
    tcase_add_test(kernels, integers_wrap_around);
    tcase_add_test(kernels, reals);
    tcase_add_test(kernels, complex_numbers);
    tcase_add_test(kernels, logicals);
    tcase_add_test(kernels, logicals_keep_the_representation_of_true);
    tcase_add_test(kernels, bytes);
    tcase_add_test(kernels, pairs);
    suite_add_tcase(suite, kernels);
    tcase_add_checked_fixture(objects, set_up, NULL);
    tcase_add_test(objects, what_is_allowed);
    tcase_add_test(objects, derived_types_are_refused);
    tcase_add_test(objects, many_inputs);
    tcase_add_test(objects, users_operations);
    tcase_add_test(objects, wrong_arguments);
    suite_add_tcase(suite, objects);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
