/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bounds follow the standard's rules for markers, padding, empty types and large counts; children may be
 * freed early.
 */
#include <check.h>
#include <limits.h>

#include "datatype_rank.h"

static void check_bounds(MPI_Datatype type, MPI_Count size, MPI_Count lb, MPI_Count extent, MPI_Count true_lb,
                         MPI_Count true_extent)
{
    MPI_Count values[5];

    ck_assert_int_eq(MPI_Type_size_c(type, &values[0]), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_get_extent_c(type, &values[1], &values[2]), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_get_true_extent_c(type, &values[3], &values[4]), MPI_SUCCESS);
    ck_assert_int_eq(values[0], size);
    ck_assert_int_eq(values[1], lb);
    ck_assert_int_eq(values[2], extent);
    ck_assert_int_eq(values[3], true_lb);
    ck_assert_int_eq(values[4], true_extent);
}

START_TEST(struct_is_padded_to_its_alignment)
{
    struct {
        double d;
        char c;
    } like_this;
    MPI_Datatype type;

    datatype_rank_start();
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR},
                           &type);
    check_bounds(type, 9, 0, sizeof like_this, 0, 9);
    MPI_Type_free(&type);
}
END_TEST

START_TEST(resized_bounds_are_sticky)
{
    MPI_Datatype resized, type;

    datatype_rank_start();
    MPI_Type_create_resized(MPI_INT, -4, 16, &resized);
    check_bounds(resized, 4, -4, 16, 0, 4);
    /* The double lies outside of the markers, which alone decide. */
    MPI_Type_create_struct(2, (int[]){2, 1}, (MPI_Aint[]){0, 100}, (MPI_Datatype[]){resized, MPI_DOUBLE},
                           &type);
    check_bounds(type, 16, -4, 32, 0, 108);
    MPI_Type_free(&resized);
    MPI_Type_create_resized(type, 0, 8, &resized);
    check_bounds(resized, 16, 0, 8, 0, 108);
    MPI_Type_free(&type);
    MPI_Type_free(&resized);
    MPI_Type_create_resized(MPI_INT, 0, -8, &resized);
    MPI_Type_contiguous(3, resized, &type);
    check_bounds(type, 12, -16, 8, -16, 20);
    MPI_Type_free(&resized);
    MPI_Type_free(&type);
}
END_TEST

START_TEST(empty_types)
{
    MPI_Datatype empty, type;

    datatype_rank_start();
    MPI_Type_contiguous(0, MPI_DOUBLE, &empty);
    check_bounds(empty, 0, 0, 0, 0, 0);
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){100, 8}, (MPI_Datatype[]){empty, MPI_INT}, &type);
    check_bounds(type, 4, 8, 4, 8, 4);
    MPI_Type_free(&type);
    MPI_Type_indexed(2, (int[]){0, 0}, (int[]){5, 9}, MPI_INT, &type);
    check_bounds(type, 0, 0, 0, 0, 0);
    MPI_Type_commit(&type);
    ck_assert_uint_eq(ampi_type_copy(NULL, 5, ampi_type_of(type), NULL, 7, ampi_type_of(MPI_INT)), 0);
    MPI_Type_free(&type);
    /* No data, but markers. */
    MPI_Type_create_resized(empty, -8, 24, &type);
    check_bounds(type, 0, -8, 24, 0, 0);
    MPI_Type_free(&type);
    MPI_Type_free(&empty);
}
END_TEST

START_TEST(absolute_addresses)
{
    int a = 1, b = 2, got[2];
    MPI_Aint addresses[2];
    MPI_Datatype type;
    int position = 0;

    datatype_rank_start();
    MPI_Get_address(&a, &addresses[0]);
    MPI_Get_address(&b, &addresses[1]);
    ck_assert_int_eq(MPI_Aint_add(addresses[0], MPI_Aint_diff(addresses[1], addresses[0])), addresses[1]);
    MPI_Type_create_hindexed(2, (int[]){1, 1}, addresses, MPI_INT, &type);
    MPI_Type_commit(&type);
    ck_assert_int_eq(MPI_Pack(MPI_BOTTOM, 1, type, got, sizeof got, &position, MPI_COMM_WORLD), MPI_SUCCESS);
    ck_assert(got[0] == 1 && got[1] == 2);
    MPI_Type_free(&type);
}
END_TEST

START_TEST(large_counts)
{
    MPI_Count huge = (MPI_Count)INT_MAX + 10;
    MPI_Datatype type, more, wrong;
    int size, n_ints, n_aints, n_types, combiner;
    MPI_Count counts[1];

    datatype_rank_start();
    ck_assert_int_eq(MPI_Type_contiguous_c(huge, MPI_INT, &type), MPI_SUCCESS);
    check_bounds(type, 4 * huge, 0, 4 * huge, 0, 4 * huge);
    MPI_Type_size(type, &size);
    ck_assert_int_eq(size, MPI_UNDEFINED);
    ck_assert_int_eq(MPI_Type_get_envelope(type, &n_ints, &n_aints, &n_types, &combiner), MPI_ERR_TYPE);
    ck_assert_int_eq(MPI_Type_get_contents_c(type, 0, 0, 1, 1, NULL, NULL, counts, &wrong), MPI_SUCCESS);
    ck_assert(counts[0] == huge && wrong == MPI_INT);
    ck_assert_int_eq(MPI_Type_vector_c(huge, 1, 1000, type, &more), MPI_ERR_VALUE_TOO_LARGE);
    ck_assert_int_eq(MPI_Type_contiguous_c(INT64_MAX, MPI_INT, &more), MPI_ERR_VALUE_TOO_LARGE);
    ck_assert_int_eq(MPI_Type_create_subarray_c(3, (MPI_Count[]){huge, huge, huge}, (MPI_Count[]){1, 1, 1},
                                                (MPI_Count[]){5, 5, 5}, MPI_ORDER_C, MPI_INT, &more),
                     MPI_ERR_VALUE_TOO_LARGE);
    ck_assert_int_eq(MPI_Type_create_resized_c(MPI_INT, INT64_MAX, INT64_MAX, &more),
                     MPI_ERR_VALUE_TOO_LARGE);
    MPI_Type_free(&type);
}
END_TEST

START_TEST(children_may_be_freed)
{
    MPI_Datatype child, type, dup, got;
    int count;

    datatype_rank_start();
    MPI_Type_vector(3, 1, 2, MPI_INT, &child);
    MPI_Type_contiguous(2, child, &type);
    MPI_Type_free(&child);
    ck_assert_ptr_eq(child, MPI_DATATYPE_NULL);
    MPI_Type_commit(&type);
    MPI_Type_dup(type, &dup);
    ck_assert(ampi_type_of(dup)->is_committed);
    MPI_Type_free(&type);
    check_bounds(dup, 24, 0, 40, 0, 40);
    ck_assert_int_eq(MPI_Type_get_contents(dup, 0, 0, 1, NULL, NULL, &got), MPI_SUCCESS);
    check_bounds(got, 24, 0, 40, 0, 40);
    MPI_Type_free(&got);
    ck_assert_int_eq(MPI_Type_get_contents(dup, 0, 0, 1, NULL, NULL, &got), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_get_contents(got, 1, 0, 1, &count, NULL, &child), MPI_SUCCESS);
    ck_assert_int_eq(count, 2);
    MPI_Type_free(&dup);
    check_bounds(child, 12, 0, 20, 0, 20);
    MPI_Type_free(&got);
    MPI_Type_free(&child);
}
END_TEST

START_TEST(a_freed_handle_is_refused)
{
    MPI_Datatype child, type, stale;
    int size;

    datatype_rank_start();
    MPI_Type_contiguous(2, MPI_INT, &child);
    MPI_Type_contiguous(2, child, &type);
    stale = child;
    MPI_Type_free(&child);
    ck_assert_int_eq(MPI_Type_size(stale, &size), MPI_ERR_TYPE); /* still alive as part of the other */
    ck_assert_int_eq(MPI_Type_free(&stale), MPI_ERR_TYPE);
    MPI_Type_free(&type);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datatype_layout");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, struct_is_padded_to_its_alignment);
    tcase_add_test(tcase, resized_bounds_are_sticky);
    tcase_add_test(tcase, empty_types);
    tcase_add_test(tcase, absolute_addresses);
    tcase_add_test(tcase, large_counts);
    tcase_add_test(tcase, children_may_be_freed);
    tcase_add_test(tcase, a_freed_handle_is_refused);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
