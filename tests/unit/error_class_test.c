/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that every error class of the standard has a name and a sentence, that a program's own classes, codes
 * and strings are added and removed as the standard requires, and that error handlers are found, counted and
 * refused if they have the wrong kind.
 */
#include <check.h>

#include "ampi/object/error.h"
#include "ampi/object/error_class.h"
#include "datatype_rank.h"

START_TEST(every_class_has_a_text)
{
    for (int code = 0; code <= MPI_T_ERR_PVAR_NO_ATOMIC; code++) {
        bool is_class = code <= MPI_ERR_ABI || code >= MPI_T_ERR_CANNOT_INIT;
        char text[MPI_MAX_ERROR_STRING];
        int length = -1, error_class = -1;

        ck_assert_msg(ampi_error_is_predefined(code) == is_class, "code %d", code);
        if (!is_class)
            continue;
        ck_assert_int_eq(MPI_Error_string(code, text, &length), MPI_SUCCESS);
        ck_assert_int_eq(length, (int)strlen(text));
        ck_assert_int_eq(MPI_Error_class(code, &error_class), MPI_SUCCESS);
        ck_assert_int_eq(error_class, code);
    }
    ck_assert_str_eq(ampi_error_name(MPI_ERR_RANK), "MPI_ERR_RANK");
}
END_TEST

START_TEST(classes_codes_and_strings_of_the_program)
{
    int first, second, code, error_class, length, *last, flag;
    char text[MPI_MAX_ERROR_STRING];

    ck_assert_int_eq(MPI_Add_error_class(&first), MPI_SUCCESS);
    ck_assert_int_gt(first, MPI_ERR_LASTCODE);
    ck_assert_int_eq(MPI_Add_error_class(&second), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Add_error_code(first, &code), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Add_error_code(code, &length), MPI_ERR_ARG); /* a code is not a class */
    ck_assert_int_eq(MPI_Error_class(code, &error_class), MPI_SUCCESS);
    ck_assert_int_eq(error_class, first);
    MPI_Error_string(code, text, &length);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(MPI_Add_error_string(code, "too hot"), MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    ck_assert_str_eq(text, "too hot");
    ck_assert_int_eq(MPI_Add_error_string(MPI_ERR_RANK, "mine"), MPI_ERR_ARG);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    ck_assert(flag && *last == code);
    ck_assert_int_eq(MPI_Remove_error_class(first), MPI_ERR_OTHER); /* it has a code */
    ck_assert_int_eq(MPI_Remove_error_code(code), MPI_ERR_OTHER);   /* it has a string */
    ck_assert_int_eq(MPI_Remove_error_string(code), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Remove_error_code(code), MPI_SUCCESS);
    ck_assert_int_eq(*last, second);
    ck_assert_int_eq(MPI_Remove_error_class(first), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Error_class(first, &error_class), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Remove_error_class(second), MPI_SUCCESS);
    ck_assert_int_eq(*last, MPI_ERR_LASTCODE);
    ck_assert_int_eq(MPI_Remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG);
    ampi_error_classes_fini(&datatype_rank);
}
END_TEST

static int n_calls;

static void comm_handler(MPI_Comm *comm, int *code, ...)
{
    ck_assert_ptr_eq(*comm, MPI_COMM_WORLD);
    ck_assert_int_eq(*code, MPI_ERR_TAG);
    n_calls++;
}

static void win_handler(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
}

START_TEST(handlers_of_the_program)
{
    MPI_Errhandler handler, got, for_windows, none = MPI_ERRHANDLER_NULL;

    ck_assert_int_eq(MPI_Comm_create_errhandler(comm_handler, &handler), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got), MPI_SUCCESS);
    ck_assert_ptr_eq(got, handler);
    MPI_Errhandler_free(&handler);
    ck_assert_ptr_eq(handler, MPI_ERRHANDLER_NULL);
    MPI_Errhandler_free(&got);
    ck_assert_int_eq(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TAG), MPI_SUCCESS);
    ck_assert_int_eq(n_calls, 1);
    ck_assert_int_eq(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Win_create_errhandler(win_handler, &for_windows), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Comm_set_errhandler(MPI_COMM_WORLD, for_windows), MPI_ERR_ERRHANDLER);
    ck_assert_int_eq(MPI_Comm_set_errhandler(MPI_COMM_WORLD, none), MPI_ERR_ERRHANDLER);
    ck_assert_int_eq(MPI_Errhandler_free(&none), MPI_ERR_ERRHANDLER);
    ck_assert_int_eq(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_File_get_errhandler(MPI_FILE_NULL, &got), MPI_SUCCESS);
    ck_assert_ptr_eq(got, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&for_windows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *cases = tcase_create("classes");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, datatype_rank_start, NULL);
    tcase_add_test(cases, every_class_has_a_text);
    tcase_add_test(cases, classes_codes_and_strings_of_the_program);
    tcase_add_test(cases, handlers_of_the_program);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
