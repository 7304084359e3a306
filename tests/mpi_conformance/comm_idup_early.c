/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_idup duplicates the communicator as it is at the call: the new communicator has the old attributes and
 * error handler, even if these change later or are freed with the old communicator. */
#include "mtest.h"

static int copies, deletes, refuse;

static int copy_fn(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    copies++;
    *(void **)out = in;
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
    return MPI_SUCCESS;
}

static void ignore(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    (void)error;
}

static int start(MPI_Comm comm, int with_info, MPI_Comm *dup, MPI_Request *request)
{
    return with_info ? MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, dup, request)
                     : MPI_Comm_idup(comm, dup, request);
}

/* The old communicator changes, and may be freed, before the operation is over. */
static void try_changes(int key, MPI_Errhandler handler, int with_info, int free_old)
{
    static int before, after;
    MPI_Comm old, dup = MPI_COMM_NULL;
    MPI_Errhandler got_handler;
    MPI_Request request;
    int flag, sum, *got;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &old));
    MTEST_OK(MPI_Comm_set_errhandler(old, handler));
    MTEST_OK(MPI_Comm_set_attr(old, key, &before));
    copies = deletes = 0;
    MTEST_OK(start(old, with_info, &dup, &request));
    MTEST_CHECK(copies == 1, "the call copies an attribute %d times", copies);
    MTEST_OK(MPI_Comm_set_errhandler(old, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_attr(old, key, &after));
    if (free_old)
        MTEST_OK(MPI_Comm_free(&old));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(copies == 1 && deletes == 1 + free_old, "%d copies, %d deletes", copies, deletes);
    MTEST_OK(MPI_Comm_get_attr(dup, key, &got, &flag));
    MTEST_CHECK(flag && got == &before, "the new communicator has %s", flag ? "the later value" : "no value");
    MTEST_OK(MPI_Comm_get_errhandler(dup, &got_handler));
    MTEST_CHECK(got_handler == handler, "the new communicator has the later error handler");
    MTEST_OK(MPI_Errhandler_free(&got_handler));
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, dup));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum %d", sum);
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_CHECK(deletes == 2 + free_old, "%d deletes at the end", deletes);
    if (!free_old)
        MTEST_OK(MPI_Comm_free(&old));
}

/* A copy callback of one rank fails: that rank's operation fails, the others' do not. */
static void try_failure(int key)
{
    static int value;
    MPI_Comm old, dup = MPI_COMM_WORLD;
    MPI_Request request;
    int error;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &old));
    MTEST_OK(MPI_Comm_set_errhandler(old, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_attr(old, key, &value));
    refuse = mtest_rank == mtest_size - 1;
    error = start(old, 0, &dup, &request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(error) == (refuse ? MPI_ERR_OTHER : MPI_SUCCESS), "class %d", mtest_class(error));
    refuse = 0;
    if (error == MPI_SUCCESS)
        MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Comm_free(&old));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int key;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)ignore, &handler));
    MTEST_OK(MPI_Comm_create_keyval(copy_fn, delete_fn, &key, NULL));
    for (int how = 0; how < 4; how++)
        try_changes(key, handler, how & 1, how >> 1);
    try_failure(key);
    MTEST_OK(MPI_Comm_free_keyval(&key));
    MTEST_OK(MPI_Errhandler_free(&handler));
    return mtest_end();
}
