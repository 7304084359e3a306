/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every datatype function refuses wrong arguments with the right error class and leaves its outputs
 * unchanged.
 */
#include <check.h>

#include "ampi/object/status.h"
#include "datatype_rank.h"

/* What the calls below may use. Outputs are checked to be untouched. */
static MPI_Datatype out, uncommitted, stale;
static int int_out, lens[2] = {1, 1}, negative_lens[2] = {1, -1}, disps[2] = {0, 1};
static MPI_Aint aint_out, bytes[2] = {0, 8};
static MPI_Count count_out, large_lens[2] = {1, 1}, large_negative[2] = {1, -1}, large_disps[2] = {0, 1};
static MPI_Datatype types[2], bad_types[2];
static int ones[2] = {1, 1}, twos[2] = {2, 2}, threes[2] = {3, 3}, zeros[2] = {0, 0};
static int none[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_NONE},
           block[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
static char buf[16];
static MPI_Status status;

#define UNTOUCHED_INT 12345
#define UNTOUCHED_HANDLE MPI_SHORT

struct call {
    int line;
    const char *text;
    int got, want;
};

#define CALL(want, expr) check_call(&(struct call){__LINE__, #expr, expr, want})

static void check_call(const struct call *call)
{
    ck_assert_msg(call->got == call->want, "line %d: %s returned %d, not %d", call->line, call->text,
                  call->got, call->want);
    ck_assert_msg(out == UNTOUCHED_HANDLE && int_out == UNTOUCHED_INT && aint_out == UNTOUCHED_INT &&
                      count_out == UNTOUCHED_INT,
                  "line %d: %s changed an output", call->line, call->text);
}

static void start(void)
{
    datatype_rank_start();
    out = UNTOUCHED_HANDLE;
    int_out = UNTOUCHED_INT;
    aint_out = UNTOUCHED_INT;
    count_out = UNTOUCHED_INT;
    types[0] = types[1] = bad_types[0] = MPI_INT;
    bad_types[1] = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    stale = (MPI_Datatype)(uintptr_t)0x2ff; /* in the range of predefined types, but none */
}

START_TEST(simple_constructors)
{
    start();
    CALL(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_contiguous(1, stale, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_contiguous(1, (MPI_Datatype)MPI_COMM_WORLD, &out));
    CALL(MPI_ERR_ARG, MPI_Type_contiguous(1, MPI_INT, NULL));
    CALL(MPI_ERR_COUNT, MPI_Type_contiguous_c(-1, MPI_INT, &out));
    CALL(MPI_ERR_COUNT, MPI_Type_vector(-1, 1, 1, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_vector(1, -1, 1, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_vector_c(1, 1, 1, MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_COUNT, MPI_Type_create_hvector(-1, 1, 1, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_hvector_c(1, -1, 1, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 1, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_resized_c(MPI_INT, 0, 1, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_dup(MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_ARG, MPI_Type_dup(MPI_INT, NULL));
}
END_TEST

START_TEST(indexed_constructors)
{
    start();
    CALL(MPI_ERR_COUNT, MPI_Type_indexed(-1, lens, disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_indexed(2, negative_lens, disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_indexed(2, NULL, disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_indexed(2, lens, NULL, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_indexed(2, lens, disps, MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_ARG, MPI_Type_indexed_c(2, large_negative, large_disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_indexed_c(2, large_lens, NULL, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_hindexed(2, negative_lens, bytes, MPI_INT, &out));
    CALL(MPI_ERR_COUNT, MPI_Type_create_hindexed_c(-2, large_lens, large_disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_indexed_block(2, -1, disps, MPI_INT, &out));
    CALL(MPI_ERR_COUNT, MPI_Type_create_indexed_block_c(-2, 1, large_disps, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_hindexed_block(2, 1, NULL, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_create_hindexed_block_c(2, 1, large_disps, MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_COUNT, MPI_Type_create_struct(-1, lens, bytes, types, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_struct(2, negative_lens, bytes, types, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_create_struct(2, lens, bytes, bad_types, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_struct(2, lens, bytes, NULL, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_struct(2, lens, bytes, types, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_create_struct_c(2, large_lens, large_disps, bad_types, &out));
}
END_TEST

START_TEST(array_constructors)
{
    start();
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(0, twos, ones, zeros, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, zeros, ones, zeros, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, twos, threes, zeros, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, twos, zeros, zeros, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, twos, ones, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, twos, ones, zeros, 99, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_subarray(2, NULL, ones, zeros, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_create_subarray(2, twos, ones, zeros, MPI_ORDER_C, MPI_DATATYPE_NULL, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 4, 2, threes, block, ones, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG,
         MPI_Type_create_darray(4, -1, 2, threes, block, twos, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(5, 0, 2, threes, block, twos, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 2, threes, block, ones, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 2, threes, none, twos, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 2, zeros, block, twos, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 2, threes, ones, twos, twos, MPI_ORDER_C, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 2, threes, block, twos, twos, 1, MPI_INT, &out));
}
END_TEST

START_TEST(queries_and_life)
{
    MPI_Datatype null = MPI_DATATYPE_NULL, named = MPI_INT;
    int a, b, c;

    start();
    CALL(MPI_ERR_TYPE, MPI_Type_commit(&null));
    CALL(MPI_ERR_ARG, MPI_Type_commit(NULL));
    CALL(MPI_SUCCESS, MPI_Type_commit(&named));
    CALL(MPI_ERR_TYPE, MPI_Type_free(&named));
    CALL(MPI_ERR_TYPE, MPI_Type_free(&null));
    CALL(MPI_ERR_ARG, MPI_Type_free(NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &int_out));
    CALL(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_size_c(stale, &count_out));
    CALL(MPI_ERR_ARG, MPI_Type_size_x(MPI_INT, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_get_extent(MPI_DATATYPE_NULL, &aint_out, &aint_out));
    CALL(MPI_ERR_ARG, MPI_Type_get_extent(MPI_INT, &aint_out, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_get_extent_c(stale, &count_out, &count_out));
    CALL(MPI_ERR_ARG, MPI_Type_get_extent_x(MPI_INT, NULL, &count_out));
    CALL(MPI_ERR_TYPE, MPI_Type_get_true_extent(MPI_DATATYPE_NULL, &aint_out, &aint_out));
    CALL(MPI_ERR_ARG, MPI_Type_get_true_extent_c(MPI_INT, NULL, &count_out));
    CALL(MPI_ERR_TYPE, MPI_Type_get_true_extent_x(stale, &count_out, &count_out));
    CALL(MPI_ERR_ARG, MPI_Get_address(buf, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_get_name(stale, buf, &int_out));
    CALL(MPI_ERR_ARG, MPI_Type_get_name(MPI_INT, NULL, &int_out));
    CALL(MPI_ERR_TYPE, MPI_Type_set_name(MPI_DATATYPE_NULL, "x"));
    CALL(MPI_ERR_ARG, MPI_Type_set_name(MPI_INT, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_get_envelope(MPI_DATATYPE_NULL, &a, &b, &c, &int_out));
    CALL(MPI_ERR_ARG, MPI_Type_get_envelope(MPI_INT, &a, &b, &c, NULL));
    CALL(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 1, 1, 1, &int_out, &aint_out, &out));
    CALL(MPI_ERR_ARG, MPI_Type_get_contents(uncommitted, 0, 1, 1, &int_out, &aint_out, &out));
    CALL(MPI_ERR_ARG, MPI_Type_get_contents(uncommitted, 1, 1, 0, &int_out, &aint_out, &out));
    CALL(MPI_ERR_ARG, MPI_Type_get_contents(uncommitted, 1, 0, 1, NULL, NULL, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_get_contents_c(MPI_INT, 1, 1, 1, 1, &int_out, &aint_out, &count_out, &out));
    CALL(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &out));
    CALL(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, NULL));
    CALL(MPI_ERR_ARG, MPI_Type_create_f90_real(-1, 2, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_f90_complex(99, MPI_UNDEFINED, &out));
    CALL(MPI_ERR_ARG, MPI_Type_create_f90_integer(-1, &out));
    CALL(MPI_ERR_TYPE, MPI_Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &out));
    CALL(MPI_ERR_ARG, MPI_Type_get_value_index(MPI_INT, MPI_INT, NULL));
}
END_TEST

START_TEST(packing)
{
    int at = 0, beyond = 17;

    start();
    CALL(MPI_ERR_COMM, MPI_Pack(buf, 1, MPI_INT, buf, 16, &at, MPI_COMM_NULL));
    CALL(MPI_ERR_COUNT, MPI_Pack(buf, -1, MPI_INT, buf, 16, &at, MPI_COMM_WORLD));
    CALL(MPI_ERR_TYPE, MPI_Pack(buf, 1, MPI_DATATYPE_NULL, buf, 16, &at, MPI_COMM_WORLD));
    CALL(MPI_ERR_TYPE, MPI_Pack(buf, 1, uncommitted, buf, 16, &at, MPI_COMM_WORLD));
    CALL(MPI_ERR_ARG, MPI_Pack(buf, 1, MPI_INT, buf, -1, &at, MPI_COMM_WORLD));
    CALL(MPI_ERR_ARG, MPI_Pack(buf, 1, MPI_INT, buf, 16, &beyond, MPI_COMM_WORLD));
    CALL(MPI_ERR_ARG, MPI_Pack(buf, 1, MPI_INT, buf, 16, NULL, MPI_COMM_WORLD));
    CALL(MPI_ERR_BUFFER, MPI_Pack(buf, 1, MPI_INT, NULL, 16, &at, MPI_COMM_WORLD));
    CALL(MPI_ERR_TRUNCATE, MPI_Unpack(buf, 3, &at, buf, 1, MPI_INT, MPI_COMM_WORLD));
    CALL(MPI_ERR_TYPE, MPI_Unpack_c(buf, 16, &count_out, buf, 1, uncommitted, MPI_COMM_WORLD));
    CALL(MPI_ERR_COMM, MPI_Pack_size(1, MPI_INT, MPI_COMM_NULL, &int_out));
    CALL(MPI_ERR_COUNT, MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &int_out));
    CALL(MPI_ERR_TYPE, MPI_Pack_size_c(1, uncommitted, MPI_COMM_WORLD, &count_out));
    CALL(MPI_ERR_ARG, MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, NULL));
    CALL(MPI_ERR_ARG, MPI_Pack_external(NULL, buf, 1, MPI_INT, buf, 16, &aint_out));
    CALL(MPI_ERR_ARG, MPI_Unpack_external("internal", buf, 16, &aint_out, buf, 1, MPI_INT));
    CALL(MPI_ERR_TYPE, MPI_Pack_external_size("external32", 1, uncommitted, &aint_out));
    CALL(MPI_ERR_ARG, MPI_Pack_external_size("external32", 1, MPI_INT, NULL));
    ck_assert(at == 0 && beyond == 17);
}
END_TEST

START_TEST(statuses)
{
    start();
    CALL(MPI_ERR_ARG, MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &int_out));
    CALL(MPI_ERR_ARG, MPI_Get_count(&status, MPI_INT, NULL));
    CALL(MPI_ERR_TYPE, MPI_Get_count(&status, MPI_DATATYPE_NULL, &int_out));
    CALL(MPI_ERR_TYPE, MPI_Get_count_c(&status, uncommitted, &count_out));
    CALL(MPI_ERR_TYPE, MPI_Get_elements(&status, uncommitted, &int_out));
    CALL(MPI_ERR_ARG, MPI_Get_elements_c(NULL, MPI_INT, &count_out));
    CALL(MPI_ERR_TYPE, MPI_Get_elements_x(&status, stale, &count_out));
    CALL(MPI_ERR_ARG, MPI_Status_set_elements(MPI_STATUS_IGNORE, MPI_INT, 1));
    CALL(MPI_ERR_COUNT, MPI_Status_set_elements(&status, MPI_INT, -1));
    CALL(MPI_ERR_TYPE, MPI_Status_set_elements_c(&status, MPI_DATATYPE_NULL, 1));
    CALL(MPI_ERR_VALUE_TOO_LARGE, MPI_Status_set_elements_x(&status, MPI_INT, INT64_MAX));
    CALL(MPI_ERR_ARG, MPI_Status_set_cancelled(MPI_STATUS_IGNORE, 1));
    CALL(MPI_ERR_ARG, MPI_Status_set_source(MPI_STATUS_IGNORE, 1));
    CALL(MPI_ERR_ARG, MPI_Status_get_tag(&status, NULL));
    ck_assert_int_eq(ampi_status_bytes(&status), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datatype_arguments");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, simple_constructors);
    tcase_add_test(tcase, indexed_constructors);
    tcase_add_test(tcase, array_constructors);
    tcase_add_test(tcase, queries_and_life);
    tcase_add_test(tcase, packing);
    tcase_add_test(tcase, statuses);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
