/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a datatype: a delete callback that fails keeps it; a freed type still works in types derived
 * from it, but not for new operations; attributes of predefined types are copied, too. */
#include "mtest.h"

static int n_deleted, delete_result;

static int delete_attr(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    (void)key;
    (void)value;
    (void)extra;
    n_deleted++;
    return delete_result;
}

static void check_delete(int key)
{
    MPI_Datatype type, kept;
    int flag = 0, size = 0;
    void *value;

    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    MTEST_OK(MPI_Type_set_attr(type, key, &key));
    kept = type;
    delete_result = MPI_ERR_OTHER;
    n_deleted = 0;
    MTEST_CHECK(MPI_Type_free(&type) != MPI_SUCCESS, "a failing delete callback does not fail MPI_Type_free");
    MTEST_CHECK(type == kept && n_deleted == 1, "the handle was changed, or %d callbacks called", n_deleted);
    MTEST_OK(MPI_Type_get_attr(type, key, &value, &flag));
    MTEST_CHECK(flag && value == &key, "the attribute is gone");
    MTEST_OK(MPI_Type_size(type, &size));
    MTEST_CHECK(size == (int)(2 * sizeof(int)), "the size is %d", size);
    delete_result = MPI_SUCCESS;
    MTEST_OK(MPI_Type_free(&type));
    MTEST_CHECK(type == MPI_DATATYPE_NULL && n_deleted == 2, "%d callbacks called", n_deleted);
}

static void check_predefined(int key)
{
    MPI_Datatype dup;
    int flag = 0, value = 5, *got = NULL;

    MTEST_OK(MPI_Type_set_attr(MPI_INT, key, &value));
    MTEST_OK(MPI_Type_dup(MPI_INT, &dup));
    MTEST_OK(MPI_Type_get_attr(dup, key, &got, &flag));
    MTEST_CHECK(flag && got == &value, "an attribute of MPI_INT was not copied");
    MTEST_OK(MPI_Type_free(&dup));
    MTEST_OK(MPI_Type_delete_attr(MPI_INT, key));
}

static void check_parts(void)
{
    MPI_Datatype part, whole, stale, found;
    MPI_Request request;
    int in[6] = {0}, out[6] = {1, 2, 3, 4, 5, 6}, n_ints, n_aints, n_types, combiner, ints[1];
    MPI_Aint aints[1];

    MTEST_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &part));
    MTEST_OK(MPI_Type_commit(&part));
    MTEST_OK(MPI_Type_contiguous(2, part, &whole));
    MTEST_OK(MPI_Type_commit(&whole));
    MTEST_OK(MPI_Irecv(in, 1, part, 0, 0, MPI_COMM_SELF, &request));
    stale = part;
    MTEST_OK(MPI_Type_free(&part));
    MTEST_CLASS(MPI_Send(out, 1, stale, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Bcast(out, 1, stale, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Type_size(stale, &combiner), MPI_ERR_TYPE);
    MTEST_OK(MPI_Send(out, 2, MPI_INT, 0, 0, MPI_COMM_SELF)); /* into what the receive holds */
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(in[0] == 1 && in[1] == 0 && in[2] == 2, "received %d %d %d", in[0], in[1], in[2]);
    MTEST_OK(MPI_Type_get_envelope(whole, &n_ints, &n_aints, &n_types, &combiner));
    MTEST_OK(MPI_Type_get_contents(whole, 1, 0, 1, ints, aints, &found));
    MTEST_OK(MPI_Type_commit(&found));
    memset(in, 0, sizeof in);
    MTEST_OK(MPI_Sendrecv(out, 1, found, 0, 1, in, 2, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    MTEST_CHECK(in[0] == 1 && in[1] == 3, "received %d %d", in[0], in[1]);
    MTEST_OK(MPI_Type_free(&found));
    MTEST_OK(MPI_Type_free(&whole));
}

int main(int argc, char **argv)
{
    int key;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, delete_attr, &key, NULL));
    check_delete(key);
    check_predefined(key);
    check_parts();
    MTEST_OK(MPI_Type_free_keyval(&key));
    return mtest_end();
}
