/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that info objects keep their pairs in order, that values are truncated to the buffer's length, and
 * the errors of wrong keys, values and handles; and that handles convert to integers and back.
 */
#include <check.h>

#include "ampi/fortran/fortran_int.h"
#include "ampi/object/info.h"
#include "datatype_rank.h"

START_TEST(set_get_delete)
{
    char key[MPI_MAX_INFO_KEY], value[16];
    int flag, n, length;
    MPI_Info info, copy;

    ck_assert_int_eq(MPI_Info_create(&info), MPI_SUCCESS);
    MPI_Info_set(info, "one", "1");
    MPI_Info_set(info, "two", "22");
    MPI_Info_set(info, "three", "333");
    MPI_Info_set(info, "one", "first"); /* keeps its place */
    MPI_Info_dup(info, &copy);
    ck_assert_int_eq(MPI_Info_delete(info, "two"), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Info_delete(info, "two"), MPI_ERR_INFO_NOKEY);
    MPI_Info_get_nkeys(info, &n);
    ck_assert_int_eq(n, 2);
    MPI_Info_get_nthkey(info, 0, key);
    ck_assert_str_eq(key, "one");
    MPI_Info_get_nthkey(info, 1, key);
    ck_assert_str_eq(key, "three");
    ck_assert_int_eq(MPI_Info_get_nthkey(info, 2, key), MPI_ERR_ARG);
    MPI_Info_get_valuelen(info, "one", &length, &flag);
    ck_assert(flag && length == 5);
    MPI_Info_get(info, "one", 3, value, &flag);
    ck_assert(flag);
    ck_assert_str_eq(value, "fir");
    MPI_Info_get(copy, "two", 15, value, &flag);
    ck_assert(flag);
    ck_assert_str_eq(value, "22");
    MPI_Info_get(info, "two", 15, value, &flag);
    ck_assert(!flag);
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
    ck_assert_ptr_eq(info, MPI_INFO_NULL);
}
END_TEST

START_TEST(get_string_tells_the_length)
{
    char value[8] = "xxxxxxx";
    int flag, length = 0;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    ck_assert_int_eq(MPI_Info_get_string(info, "key", &length, NULL, &flag), MPI_SUCCESS);
    ck_assert(flag && length == 6);
    length = 3;
    MPI_Info_get_string(info, "key", &length, value, &flag);
    ck_assert_str_eq(value, "va");
    ck_assert_int_eq(length, 6);
    MPI_Info_get_string(info, "key", &length, value, &flag);
    ck_assert_str_eq(value, "value");
    length = 4;
    MPI_Info_get_string(info, "none", &length, value, &flag);
    ck_assert(!flag && length == 4);
    MPI_Info_free(&info);
}
END_TEST

START_TEST(wrong_arguments)
{
    char long_key[MPI_MAX_INFO_KEY + 1], long_value[MPI_MAX_INFO_VAL + 1];
    MPI_Info info, env = MPI_INFO_ENV;
    int n;

    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    memset(long_value, 'v', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = 0;
    MPI_Info_create(&info);
    ck_assert_int_eq(MPI_Info_set(info, long_key, "v"), MPI_ERR_INFO_KEY);
    ck_assert_int_eq(MPI_Info_set(info, long_key + 1, "v"), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY);
    ck_assert_int_eq(MPI_Info_set(info, "k", long_value), MPI_ERR_INFO_VALUE);
    ck_assert_int_eq(MPI_Info_set(info, "k", long_value + 1), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Info_get_nkeys(MPI_INFO_NULL, &n), MPI_ERR_INFO);
    ck_assert_int_eq(MPI_Info_set(MPI_INFO_ENV, "k", "v"), MPI_ERR_INFO);
    ck_assert_int_eq(MPI_Info_free(&env), MPI_ERR_INFO);
    ck_assert_ptr_eq(env, MPI_INFO_ENV);
    MPI_Info_free(&info);
    ampi_info_fini(&datatype_rank);
}
END_TEST

START_TEST(integers_stand_for_handles)
{
    MPI_Info infos[300];
    int numbers[300];

    ck_assert_int_eq(MPI_Comm_toint(MPI_COMM_WORLD), 0x101);
    ck_assert_ptr_eq(MPI_Comm_fromint(0x101), MPI_COMM_WORLD);
    ck_assert_ptr_eq(MPI_Type_fromint(MPI_Type_toint(MPI_INT)), MPI_INT);
    for (int i = 0; i < 300; i++) {
        MPI_Info_create(&infos[i]);
        numbers[i] = MPI_Info_toint(infos[i]);
        ck_assert_int_eq(MPI_Info_toint(infos[i]), numbers[i]);
    }
    for (int i = 0; i < 300; i++) {
        ck_assert_ptr_eq(MPI_Info_fromint(numbers[i]), infos[i]);
        MPI_Info_free(&infos[i]);
    }
    ck_assert_ptr_eq(MPI_Info_fromint(-5), MPI_INFO_NULL);
    ck_assert_ptr_eq(MPI_Info_fromint(1000000), MPI_INFO_NULL);
    ampi_fortran_int_fini(&datatype_rank);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("info");
    TCase *cases = tcase_create("strings");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, datatype_rank_start, NULL);
    tcase_add_test(cases, set_get_delete);
    tcase_add_test(cases, get_string_tells_the_length);
    tcase_add_test(cases, wrong_arguments);
    tcase_add_test(cases, integers_stand_for_handles);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
