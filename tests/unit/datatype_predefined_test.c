/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Predefined datatypes have the compiler's sizes and the standard's names; Fortran types by precision are
 * cached.
 */
#include <check.h>
#include <stdio.h>
#include <wchar.h>

#include "datatype_rank.h"

static const struct row {
    MPI_Datatype type;
    int size, extent;
    const char *name;
} rows[] = {
#define ROW(type, size, extent)   \
    {                             \
        type, size, extent, #type \
    }
    ROW(MPI_CHAR, 1, 1),
    ROW(MPI_BYTE, 1, 1),
    ROW(MPI_PACKED, 1, 1),
    ROW(MPI_SHORT, sizeof(short), sizeof(short)),
    ROW(MPI_INT, sizeof(int), sizeof(int)),
    ROW(MPI_UNSIGNED, sizeof(int), sizeof(int)),
    ROW(MPI_LONG, sizeof(long), sizeof(long)),
    ROW(MPI_UNSIGNED_LONG_LONG, sizeof(long long), sizeof(long long)),
    ROW(MPI_WCHAR, sizeof(wchar_t), sizeof(wchar_t)),
    ROW(MPI_FLOAT, sizeof(float), sizeof(float)),
    ROW(MPI_DOUBLE, sizeof(double), sizeof(double)),
    ROW(MPI_LONG_DOUBLE, sizeof(long double), sizeof(long double)),
    ROW(MPI_C_BOOL, 1, 1),
    ROW(MPI_CXX_BOOL, 1, 1),
    ROW(MPI_C_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double), 2 * sizeof(long double)),
    ROW(MPI_AINT, 8, 8),
    ROW(MPI_COUNT, 8, 8),
    ROW(MPI_OFFSET, 8, 8),
    ROW(MPI_LOGICAL, 4, 4),
    ROW(MPI_INTEGER, 4, 4),
    ROW(MPI_REAL, 4, 4),
    ROW(MPI_DOUBLE_PRECISION, 8, 8),
    ROW(MPI_DOUBLE_COMPLEX, 16, 16),
    ROW(MPI_CHARACTER, 1, 1),
    ROW(MPI_INTEGER16, 16, 16),
    ROW(MPI_REAL2, 2, 2),
    ROW(MPI_REAL16, 16, 16),
    ROW(MPI_COMPLEX4, 4, 4),
    ROW(MPI_COMPLEX32, 32, 32),
    ROW(MPI_LOGICAL2, 2, 2),
    ROW(MPI_2INT, 8, 8),
    ROW(MPI_2REAL, 8, 8),
    ROW(MPI_FLOAT_INT, 8, 8),
    ROW(MPI_DOUBLE_INT, 12, 16),
    ROW(MPI_LONG_INT, 12, 16),
    ROW(MPI_SHORT_INT, 6, 8),
    ROW(MPI_LONG_DOUBLE_INT, sizeof(long double) + 4, 2 * sizeof(long double)),
};

START_TEST(sizes_and_names)
{
    datatype_rank_start();
    for (size_t i = 0; i < BASE_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        int size, len, n_ints, n_aints, n_types, combiner;
        MPI_Aint lb, extent;
        char name[MPI_MAX_OBJECT_NAME];
        ck_assert_int_eq(MPI_Type_size(row->type, &size), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_get_extent(row->type, &lb, &extent), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_get_name(row->type, name, &len), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_get_envelope(row->type, &n_ints, &n_aints, &n_types, &combiner),
                         MPI_SUCCESS);
        ck_assert_str_eq(name, row->name);
        ck_assert_int_eq(len, (int)strlen(row->name));
        ck_assert_msg(size == row->size && lb == 0 && extent == row->extent, "%s: %d %ld", name, size,
                      (long)extent);
        ck_assert_int_eq(combiner, MPI_COMBINER_NAMED);
        ck_assert_int_eq(n_ints + n_aints + n_types, 0);
    }
}
END_TEST

START_TEST(every_object_is_consistent)
{
    datatype_rank_start();
    for (unsigned i = 0; i < AMPI_TYPE_COUNT; i++) {
        const struct ampi_type *type = ampi_type_predefined[i];
        if (!type)
            continue;
        ck_assert_ptr_eq(ampi_type_handle((struct ampi_type *)(uintptr_t)type), type->predefined);
        ck_assert(type->is_committed && type->is_predefined);
        ck_assert((type->basic == AMPI_BASIC_NONE) == (type->has_lb || type->has_ub)); /* MPI_LB, MPI_UB */
        ck_assert((type->map == NULL) == type->is_dense);
        ck_assert_int_eq(type->is_dense, type->size_bytes == type->true_extent_bytes);
        ck_assert_int_eq(type->extent_bytes % type->align_bytes, 0);
    }
    ck_assert_ptr_null(ampi_type_of(MPI_DATATYPE_NULL));
}
END_TEST

START_TEST(names_belong_to_the_rank)
{
    static struct ampi_rank other = {
        .state = AMPI_RANK_INITIALIZED, .world = &datatype_comm, .self = &datatype_comm};
    char name[MPI_MAX_OBJECT_NAME], longest[3 * MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Datatype type;

    datatype_rank_start();
    ck_assert_int_eq(MPI_Type_set_name(MPI_INT, "mine"), MPI_SUCCESS);
    MPI_Type_get_name(MPI_INT, name, &len);
    ck_assert_str_eq(name, "mine");
    other.ult.owner = &other;
    ult_current = &other.ult;
    MPI_Type_get_name(MPI_INT, name, &len);
    ck_assert_str_eq(name, "MPI_INT");
    ult_current = &datatype_rank.ult;

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &len);
    ck_assert_int_eq(len, 0);
    MPI_Type_set_name(type, longest);
    MPI_Type_get_name(type, name, &len);
    ck_assert_int_eq(len, MPI_MAX_OBJECT_NAME - 1);
    ck_assert_int_eq((int)strlen(name), len);
    MPI_Type_free(&type);
    ck_assert_int_eq(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &len), MPI_SUCCESS);
    ck_assert_str_eq(name, "MPI_DATATYPE_NULL");
}
END_TEST

START_TEST(fortran_types_are_cached)
{
    MPI_Datatype a, b, c;
    int n_ints, n_aints, n_types, combiner, args[2], size;

    datatype_rank_start();
    ck_assert_int_eq(MPI_Type_create_f90_real(10, MPI_UNDEFINED, &a), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_create_f90_real(10, MPI_UNDEFINED, &b), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_create_f90_real(11, MPI_UNDEFINED, &c), MPI_SUCCESS);
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_ne(a, c);
    ck_assert_int_eq(MPI_Type_get_envelope(a, &n_ints, &n_aints, &n_types, &combiner), MPI_SUCCESS);
    ck_assert(combiner == MPI_COMBINER_F90_REAL && n_ints == 2 && n_aints == 0 && n_types == 0);
    ck_assert_int_eq(MPI_Type_get_contents(a, 2, 0, 0, args, NULL, NULL), MPI_SUCCESS);
    ck_assert(args[0] == 10 && args[1] == MPI_UNDEFINED);
    MPI_Type_size(a, &size);
    ck_assert_int_eq(size, 8);
    ck_assert_int_eq(MPI_Type_free(&a), MPI_ERR_TYPE);
    ck_assert_int_eq(MPI_Type_create_f90_complex(3, 20, &a), MPI_SUCCESS);
    MPI_Type_size(a, &size);
    ck_assert_int_eq(size, 8);
    ck_assert_int_eq(MPI_Type_create_f90_integer(12, &a), MPI_SUCCESS);
    MPI_Type_size(a, &size);
    ck_assert_int_eq(size, 8);
    ck_assert_int_eq(MPI_Type_get_envelope(a, &n_ints, &n_aints, &n_types, &combiner), MPI_SUCCESS);
    ck_assert(combiner == MPI_COMBINER_F90_INTEGER && n_ints == 1);
    ck_assert_int_eq(MPI_Type_create_f90_real(40, MPI_UNDEFINED, &a), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &a), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Type_create_f90_integer(39, &a), MPI_ERR_ARG);
}
END_TEST

START_TEST(types_by_size_and_pair)
{
    MPI_Datatype type;

    datatype_rank_start();
    ck_assert_int_eq(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type), MPI_SUCCESS);
    ck_assert_ptr_eq(type, MPI_REAL8);
    ck_assert_int_eq(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 32, &type), MPI_SUCCESS);
    ck_assert_ptr_eq(type, MPI_COMPLEX32);
    ck_assert_int_eq(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Type_match_size(99, 4, &type), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type), MPI_SUCCESS);
    ck_assert_ptr_eq(type, MPI_DOUBLE_INT);
    ck_assert_int_eq(MPI_Type_get_value_index(MPI_BYTE, MPI_BYTE, &type), MPI_SUCCESS);
    ck_assert_ptr_eq(type, MPI_DATATYPE_NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datatype_predefined");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, sizes_and_names);
    tcase_add_test(tcase, every_object_is_consistent);
    tcase_add_test(tcase, names_belong_to_the_rank);
    tcase_add_test(tcase, fortran_types_are_cached);
    tcase_add_test(tcase, types_by_size_and_pair);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
