/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that errors name the function that was called: after a call of each function of MPI, in its int and
 * its _c form, with all arguments 0, the name for its errors is its own (also if one function does its work
 * by calling another).
 */
#include "mpi_job.h"

struct call {
    const char *name;
    void (*make)(void);
};

#include "call_names.inc"

static void call_all(struct ampi_rank *self)
{
    static const char none[] = "no name";

    ULT_CHECK(PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    ULT_CHECK(PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    for (size_t i = 0; i < BASE_COUNT(calls); i++) {
        self->ult.call = none;
        calls[i].make();
        if (strcmp(self->ult.call, calls[i].name) != 0) {
            fprintf(stderr, "%s says that it is %s\n", calls[i].name, self->ult.call);
            ULT_CHECK(!"a function reports errors under its own name");
        }
    }
}

START_TEST(errors_name_the_function_that_was_called)
{
    ck_assert_uint_gt(BASE_COUNT(calls), 500);
    mpi_job_start(1, 1, call_all);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call names");
    TCase *tcase = tcase_create("call names");

    tcase_add_test(tcase, errors_name_the_function_that_was_called);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
