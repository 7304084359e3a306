/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the moments and arguments of attribute callbacks: the copy and the delete callback, the order of
 * deletion, errors that they return, keys that are freed early, and callbacks that change the attributes they
 * are called for.
 */
#include <check.h>

#include "ampi/object/attr.h"
#include "datatype_rank.h"

/* What the callbacks saw, in order: keys of deletions. */
static int deleted[16];
static int n_deleted;
static int n_copied;
static int fail_with; /* what the callbacks return */

static int delete_fn(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)value, (void)extra;
    if (!fail_with)
        deleted[n_deleted++] = keyval;
    return fail_with;
}

static int copy_fn(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval;
    n_copied++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return fail_with;
}

static int delete_that_sets(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int other = *(int *)extra;

    (void)keyval;
    n_deleted++;
    return value ? MPI_Comm_set_attr(comm, other, NULL) : MPI_SUCCESS;
}

static struct ampi_comm other_comm;

static void set_up(void)
{
    datatype_rank_start();
    n_deleted = n_copied = fail_with = 0;
    other_comm = (struct ampi_comm){
        .magic = AMPI_MAGIC_COMM, .owner = &datatype_rank, .errhandler = &ampi_errors_return};
}

static void tear_down(void)
{
    ck_assert_int_eq(ampi_comm_delete_attrs(&datatype_comm), MPI_SUCCESS);
    ck_assert_int_eq(ampi_comm_delete_attrs(&other_comm), MPI_SUCCESS);
    ampi_attr_fini(&datatype_rank);
}

START_TEST(deletion_is_in_reverse_order)
{
    int keys[3];

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &keys[i], NULL),
                         MPI_SUCCESS);
        ck_assert_int_eq(MPI_Comm_set_attr(MPI_COMM_WORLD, keys[i], &keys[i]), MPI_SUCCESS);
    }
    ck_assert_int_eq(ampi_comm_delete_attrs(&datatype_comm), MPI_SUCCESS);
    ck_assert_int_eq(n_deleted, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(deleted[i], keys[2 - i]);
    ck_assert_ptr_null(datatype_comm.attrs);
}
END_TEST

START_TEST(a_new_value_deletes_the_old_one)
{
    int key, a, b, flag;
    void *got;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &a);
    fail_with = MPI_ERR_UNKNOWN;
    ck_assert_int_eq(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &b), MPI_ERR_UNKNOWN);
    ck_assert_int_eq(MPI_Comm_delete_attr(MPI_COMM_WORLD, key), MPI_ERR_UNKNOWN);
    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &got, &flag), MPI_SUCCESS);
    ck_assert(flag && got == &a);
    fail_with = 123456; /* no error code: becomes MPI_ERR_OTHER */
    ck_assert_int_eq(MPI_Comm_delete_attr(MPI_COMM_WORLD, key), MPI_ERR_OTHER);
    fail_with = 0;
    ck_assert_int_eq(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &b), MPI_SUCCESS);
    ck_assert_int_eq(n_deleted, 1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &got, &flag);
    ck_assert(flag && got == &b);
    ck_assert_int_eq(MPI_Comm_delete_attr(MPI_COMM_WORLD, key), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &got, &flag), MPI_SUCCESS);
    ck_assert(!flag);
    MPI_Comm_free_keyval(&key);
}
END_TEST

START_TEST(copies_for_a_duplicate)
{
    int offset = 5, key_none, key_dup, key_fn, flag;
    char values[16];
    void *got;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key_none, NULL);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key_dup, NULL);
    MPI_Comm_create_keyval(copy_fn, delete_fn, &key_fn, &offset);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key_none, values);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key_dup, values);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key_fn, values);
    ck_assert_int_eq(ampi_comm_copy_attrs(&datatype_comm, &other_comm), MPI_SUCCESS);
    MPI_Comm_get_attr((MPI_Comm)&other_comm, key_none, &got, &flag);
    ck_assert(!flag);
    MPI_Comm_get_attr((MPI_Comm)&other_comm, key_dup, &got, &flag);
    ck_assert(flag && got == values);
    MPI_Comm_get_attr((MPI_Comm)&other_comm, key_fn, &got, &flag);
    ck_assert(flag && got == values + offset);
    ck_assert_int_eq(ampi_comm_delete_attrs(&other_comm), MPI_SUCCESS);
    fail_with = MPI_ERR_ARG; /* the duplicate gets nothing at all */
    ck_assert_int_eq(ampi_comm_copy_attrs(&datatype_comm, &other_comm), MPI_ERR_ARG);
    ck_assert_ptr_null(other_comm.attrs);
    fail_with = 0;
}
END_TEST

START_TEST(a_freed_key_lives_while_it_is_used)
{
    int key, old, flag;
    void *got;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    old = key;
    ck_assert_int_eq(MPI_Comm_free_keyval(&key), MPI_SUCCESS);
    ck_assert_int_eq(key, MPI_KEYVAL_INVALID);
    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, old, &got, &flag), MPI_SUCCESS);
    ck_assert(flag && got == &key);
    for (int i = 0; i < 3; i++) { /* again, which changes nothing */
        key = old;
        ck_assert_int_eq(MPI_Comm_free_keyval(&key), MPI_SUCCESS);
        ck_assert_int_eq(key, MPI_KEYVAL_INVALID);
        ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, old, &got, &flag), MPI_SUCCESS);
        ck_assert(flag);
    }
    ck_assert_int_eq(ampi_comm_delete_attrs(&datatype_comm), MPI_SUCCESS);
    ck_assert_int_eq(n_deleted, 1);
    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, old, &got, &flag), MPI_ERR_KEYVAL);
    key = old;
    ck_assert_int_eq(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
}
END_TEST

START_TEST(a_callback_may_set_attributes)
{
    int first, second;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_that_sets, &first, &second);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &second, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, first, &first);
    ck_assert_int_eq(ampi_comm_delete_attrs(&datatype_comm), MPI_SUCCESS);
    ck_assert_ptr_null(datatype_comm.attrs);
    ck_assert_int_ge(n_deleted, 2);
}
END_TEST

START_TEST(keys_are_for_one_kind_of_object)
{
    int key, flag;
    void *got;

    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    ck_assert_int_eq(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL), MPI_ERR_KEYVAL);
    ck_assert_int_eq(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    ck_assert_int_eq(MPI_Type_set_attr(MPI_INT, key, &key), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_get_attr(MPI_INT, key, &got, &flag), MPI_SUCCESS);
    ck_assert(flag && got == &key);
    ck_assert_int_eq(MPI_Type_get_attr(MPI_DOUBLE, key, &got, &flag), MPI_SUCCESS);
    ck_assert(!flag);
    ck_assert_int_eq(MPI_Type_delete_attr(MPI_INT, key), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Type_free_keyval(&key), MPI_SUCCESS);
}
END_TEST

START_TEST(predefined_attributes_cannot_be_changed)
{
    int key = MPI_TAG_UB, flag = 0, *value = NULL;

    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag), MPI_SUCCESS);
    ck_assert(flag && *value >= 32767);
    ck_assert_int_eq(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &flag), MPI_ERR_KEYVAL);
    ck_assert_int_eq(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL);
    ck_assert_int_eq(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    ck_assert_int_eq(key, MPI_TAG_UB);
    ck_assert_int_eq(MPI_Comm_get_attr(MPI_COMM_NULL, MPI_TAG_UB, &value, &flag), MPI_ERR_COMM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attr");
    TCase *cases = tcase_create("callbacks");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, deletion_is_in_reverse_order);
    tcase_add_test(cases, a_new_value_deletes_the_old_one);
    tcase_add_test(cases, copies_for_a_duplicate);
    tcase_add_test(cases, a_freed_key_lives_while_it_is_used);
    tcase_add_test(cases, a_callback_may_set_attributes);
    tcase_add_test(cases, keys_are_for_one_kind_of_object);
    tcase_add_test(cases, predefined_attributes_cannot_be_changed);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
