/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes: set, get, delete, copy callbacks at dup, delete callbacks at free and overwrite, errors from
 * callbacks. */
#include "mtest.h"

static int copies, deletes, refuse;
static int value_a = 1, value_b = 2;

static int copy_fn(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    copies++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int delete_fn(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    deletes++;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int count_fn(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    ++*(int *)value;
    return MPI_SUCCESS;
}

/* Counts, and checks in MPI_Finalize, where the extra state is 1, that attributes which were set later have gone before. */
static int n_left, n_wrong, last_number = 1000;
static int delete_in_order(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int number = (int)(intptr_t)value;

    (void)comm;
    (void)keyval;
    if (*(int *)extra) {
        n_wrong += number >= last_number;
        last_number = number;
    }
    n_left--;
    return MPI_SUCCESS;
}

/* Sets attributes of MPI_COMM_SELF. Some are deleted, and some of these set anew. */
static void set_many(int *is_end)
{
    enum { N = 60 };
    int keys[N];

    for (int i = 0; i < 2 * N; i++) {
        if (i < N)
            MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_in_order, &keys[i], is_end));
        else if (i % 3)
            MTEST_OK(MPI_Comm_delete_attr(MPI_COMM_SELF, keys[i - N]));
        if (i < N || i % 3 == 1) {
            MTEST_OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[i % N], (void *)(intptr_t)i));
            n_left++;
        }
    }
    MTEST_CHECK(n_left == N - N / 3, "%d attributes are left", n_left);
    *is_end = 1;
}

int main(int argc, char **argv)
{
    int key, plain_key, dup_key, flag, extra = 8;
    void *got;
    MPI_Comm comm, dup;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_create_keyval(copy_fn, delete_fn, &key, &extra));
    MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &plain_key, NULL));
    MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mtest_errors_return(comm);
    MTEST_OK(MPI_Comm_get_attr(comm, key, &got, &flag));
    MTEST_CHECK(!flag, "an attribute that was never set");
    MTEST_OK(MPI_Comm_set_attr(comm, key, &value_a));
    MTEST_OK(MPI_Comm_set_attr(comm, plain_key, &value_a));
    MTEST_OK(MPI_Comm_set_attr(comm, dup_key, &value_b));
    MTEST_OK(MPI_Comm_get_attr(comm, key, &got, &flag));
    MTEST_CHECK(flag && got == &value_a, "get after set");
    MTEST_OK(MPI_Comm_set_attr(comm, key, &value_b));
    MTEST_CHECK(deletes == 1, "overwriting called delete %d times", deletes);
    MTEST_OK(MPI_Comm_get_attr(comm, key, &got, &flag));
    MTEST_CHECK(flag && got == &value_b, "get after overwrite");
    MTEST_OK(MPI_Comm_dup(comm, &dup));
    MTEST_CHECK(copies == 1, "dup called copy %d times", copies);
    MTEST_OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    MTEST_CHECK(flag && got == (char *)&value_b + 8, "the copied value");
    MTEST_OK(MPI_Comm_get_attr(dup, plain_key, &got, &flag));
    MTEST_CHECK(!flag, "NULL_COPY_FN copied");
    MTEST_OK(MPI_Comm_get_attr(dup, dup_key, &got, &flag));
    MTEST_CHECK(flag && got == &value_b, "DUP_FN did not copy");
    MTEST_OK(MPI_Comm_delete_attr(dup, key));
    MTEST_CHECK(deletes == 2, "delete_attr called delete %d times", deletes);
    MTEST_OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    MTEST_CHECK(!flag, "the deleted attribute is there");
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_CHECK(deletes == 2, "free of a communicator without it called delete");
    /* A copy callback that refuses makes dup fail; one that refuses to delete keeps the attribute. */
    refuse = 1;
    MTEST_CHECK(MPI_Comm_delete_attr(comm, key) != MPI_SUCCESS, "a refused delete succeeds");
    MTEST_CHECK(MPI_Comm_dup(comm, &dup) != MPI_SUCCESS, "dup succeeds though the copy callback refused");
    refuse = 0;
    MTEST_OK(MPI_Comm_get_attr(comm, key, &got, &flag));
    MTEST_CHECK(flag, "the refused delete took the attribute away");
    int before = deletes;
    int old_key = key;
    MTEST_OK(MPI_Comm_free_keyval(&key)); /* lives on until the attribute goes */
    MTEST_CHECK(key == MPI_KEYVAL_INVALID, "free_keyval leaves the key");
    MTEST_OK(MPI_Comm_get_attr(comm, old_key, &got, &flag));
    MTEST_CHECK(flag, "an attribute of a freed key is gone");
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_CHECK(deletes == before + 1, "free called delete %d times", deletes - before);
    MTEST_OK(MPI_Comm_free_keyval(&plain_key));
    MTEST_OK(MPI_Comm_free_keyval(&dup_key));
    /* Attributes of MPI_COMM_SELF go first in MPI_Finalize, in the reverse order of setting. */
    static int deleted, is_end;
    set_many(&is_end);
    MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_fn, &key, NULL));
    MTEST_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &deleted));
    int code = mtest_end();
    if (deleted != 1) {
        fprintf(stderr, "FAIL: MPI_Finalize called the delete callback of MPI_COMM_SELF %d times\n", deleted);
        return 1;
    }
    if (n_left != 0 || n_wrong != 0) {
        fprintf(stderr, "FAIL: %d attributes are left in MPI_Finalize, %d are not in reverse order\n", n_left,
                n_wrong);
        return 1;
    }
    return code;
}
