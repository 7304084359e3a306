/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packing advances the position and respects the buffer's size; external32 has the standard's bytes; statuses
 * count elements.
 */
#include <check.h>
#include <wchar.h>

#include "ampi/object/status.h"
#include "datatype_rank.h"

START_TEST(position_and_room)
{
    int in[4] = {1, 2, 3, 4}, out[4] = {0}, position = 4, size;
    char buf[17];

    datatype_rank_start();
    memset(buf, 0x55, sizeof buf);
    ck_assert_int_eq(MPI_Pack_size(3, MPI_INT, MPI_COMM_WORLD, &size), MPI_SUCCESS);
    ck_assert_int_eq(size, 12);
    ck_assert_int_eq(MPI_Pack(in, 3, MPI_INT, buf, 16, &position, MPI_COMM_WORLD), MPI_SUCCESS);
    ck_assert_int_eq(position, 16);
    ck_assert_int_eq(MPI_Pack(in, 1, MPI_INT, buf, 17, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    ck_assert_int_eq(position, 16);
    ck_assert_int_eq(buf[16], 0x55);
    ck_assert_int_eq(buf[0], 0x55);
    position = 4;
    ck_assert_int_eq(MPI_Unpack(buf, 16, &position, out, 4, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    ck_assert(position == 4 && out[0] == 0);
    ck_assert_int_eq(MPI_Unpack(buf, 16, &position, out, 3, MPI_INT, MPI_COMM_WORLD), MPI_SUCCESS);
    ck_assert(position == 16 && out[0] == 1 && out[2] == 3 && out[3] == 0);
    ck_assert_int_eq(MPI_Pack_size(0x7fffffff, MPI_INT, MPI_COMM_WORLD, &size), MPI_ERR_VALUE_TOO_LARGE);
}
END_TEST

static void check_external(const void *value, MPI_Datatype type, const char *bytes, MPI_Aint n_bytes)
{
    char buf[64], back[64] = {0};
    MPI_Aint position = 0, size;
    MPI_Count in_memory;

    ck_assert_int_eq(MPI_Pack_external_size("external32", 1, type, &size), MPI_SUCCESS);
    ck_assert_int_eq(size, n_bytes);
    ck_assert_int_eq(MPI_Pack_external("external32", value, 1, type, buf, sizeof buf, &position),
                     MPI_SUCCESS);
    ck_assert_int_eq(position, n_bytes);
    ck_assert(!memcmp(buf, bytes, (size_t)n_bytes));
    position = 0;
    ck_assert_int_eq(MPI_Unpack_external("external32", buf, n_bytes, &position, back, 1, type), MPI_SUCCESS);
    MPI_Type_get_extent_c(type, &position, &in_memory);
    if (type == MPI_LONG_DOUBLE)
        ck_assert(*(long double *)back == *(const long double *)value);
    else
        ck_assert(!memcmp(back, value, (size_t)in_memory));
}

START_TEST(external32)
{
    struct {
        double value;
        int index;
        int pad;
    } pair = {1.0, 2, 0};
    char buf[8];
    MPI_Aint position = 0;

    datatype_rank_start();
    check_external(&(int){0x01020304}, MPI_INT, "\1\2\3\4", 4);
    check_external(&(long){-2}, MPI_LONG, "\377\377\377\376", 4);
    check_external(&(unsigned long){0xfffffffe}, MPI_UNSIGNED_LONG, "\377\377\377\376", 4);
    check_external(&(int64_t){1}, MPI_INT64_T, "\0\0\0\0\0\0\0\1", 8);
    check_external(&(double){1.0}, MPI_DOUBLE, "\77\360\0\0\0\0\0\0", 8);
    check_external(&(wchar_t){0x0141}, MPI_WCHAR, "\1\101", 2);
    check_external(&(long double){-1.5L}, MPI_LONG_DOUBLE, "\277\377\200\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    check_external(((float[2]){1.0f, -1.0f}), MPI_C_FLOAT_COMPLEX, "\77\200\0\0\277\200\0\0", 8);
    check_external(&pair, MPI_DOUBLE_INT, "\77\360\0\0\0\0\0\0\0\0\0\2", 12);
    ck_assert_int_eq(MPI_Pack_external("external32", &(long){1L << 40}, 1, MPI_LONG, buf, 8, &position),
                     MPI_ERR_CONVERSION);
    ck_assert_int_eq(position, 0);
    ck_assert_int_eq(MPI_Pack_external("native", &(long){1}, 1, MPI_LONG, buf, 8, &position), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Pack_external("external32", &pair, 1, MPI_DOUBLE, buf, 7, &position),
                     MPI_ERR_TRUNCATE);
}
END_TEST

START_TEST(elements_of_a_status)
{
    MPI_Status status;
    MPI_Datatype type;
    int n;

    datatype_rank_start();
    ampi_status_set_empty(&status);
    ck_assert(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    ck_assert_int_eq(MPI_Get_count(&status, MPI_INT, &n), MPI_SUCCESS);
    ck_assert_int_eq(n, 0);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    ampi_status_set_bytes(&status, 12);
    MPI_Get_count(&status, type, &n);
    ck_assert_int_eq(n, MPI_UNDEFINED);
    MPI_Get_elements(&status, type, &n);
    ck_assert_int_eq(n, 3);
    MPI_Get_elements(&status, MPI_DOUBLE_INT, &n);
    ck_assert_int_eq(n, 2); /* a pair has two basic elements */
    ampi_status_set_bytes(&status, 11);
    MPI_Get_elements(&status, type, &n);
    ck_assert_int_eq(n, MPI_UNDEFINED);
    ampi_status_set_bytes(&status, (MPI_Count)1 << 40);
    MPI_Get_count(&status, MPI_INT, &n);
    ck_assert_int_eq(n, MPI_UNDEFINED);
    MPI_Status_set_elements(&status, type, 3);
    ck_assert_int_eq(ampi_status_bytes(&status), 12);
    MPI_Status_set_cancelled(&status, 1);
    ck_assert(ampi_status_is_cancelled(&status));
    ck_assert_int_eq(ampi_status_bytes(&status), 12);
    MPI_Status_set_source(&status, 3);
    MPI_Status_set_tag(&status, 4);
    MPI_Status_set_error(&status, 5);
    MPI_Status_get_source(&status, &n);
    ck_assert_int_eq(n, 3);
    MPI_Status_get_tag(&status, &n);
    ck_assert_int_eq(n, 4);
    MPI_Status_get_error(&status, &n);
    ck_assert_int_eq(n, 5);
    MPI_Type_free(&type);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datatype_pack");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, position_and_room);
    tcase_add_test(tcase, external32);
    tcase_add_test(tcase, elements_of_a_status);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
