/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows what faults of the system are: errors with their class at the rank that has them, of blocking calls and of requests,
 * through the file's handler; the job goes on. A full disk, a limit of the file's size, a file that shrinks, two wrong arguments,
 * an info object that is wrong at one rank.
 */
#include <sys/resource.h>

#include "mio.h"

static int n_handled;

static void count_error(MPI_File *file, int *code, ...)
{
    (void)file;
    (void)code;
    n_handled++;
}

static void full_disk(void)
{
    MPI_File file;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Errhandler handler;
    char buf[100] = {0};
    int error;

    if (access("/dev/full", W_OK) != 0)
        return;
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_CLASS(MPI_File_write_at(file, 0, buf, 100, MPI_BYTE, &statuses[0]), MPI_ERR_NO_SPACE);
    mio_check_count(&statuses[0], MPI_BYTE, 0, "writing to a full disk");
    /* One rank's error does not disturb the others. */
    error = MPI_File_write_all(file, buf, mtest_rank ? 0 : 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(error) == (mtest_rank ? MPI_SUCCESS : MPI_ERR_NO_SPACE), "write_all: class %d",
                mtest_class(error));
    MTEST_OK(MPI_File_iwrite_at(file, 0, buf, 100, MPI_BYTE, &requests[0]));
    MTEST_CLASS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_NO_SPACE);
    MTEST_CHECK(requests[0] == MPI_REQUEST_NULL, "the request was not freed");

    MPI_File_create_errhandler(count_error, &handler);
    MPI_File_set_errhandler(file, handler);
    MPI_Errhandler_free(&handler);
    MTEST_OK(MPI_File_iwrite_at(file, 0, buf, 0, MPI_BYTE, &requests[0]));
    MTEST_OK(MPI_File_iwrite_at(file, 0, buf, 100, MPI_BYTE, &requests[1]));
    MTEST_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    MTEST_CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS &&
                    mtest_class(statuses[1].MPI_ERROR) == MPI_ERR_NO_SPACE,
                "statuses %d and %d", statuses[0].MPI_ERROR, statuses[1].MPI_ERROR);
    MTEST_CHECK(n_handled == 1, "the file's handler was called %d times", n_handled);
    MTEST_OK(MPI_File_close(&file));
}

/* A collective write across the limit: an error at ranks with data above it. */
static void across_limit(MPI_File file)
{
    char buf[300] = {0};
    int error = MPI_File_write_at_all(file, 400 * mtest_rank, buf, 300, MPI_BYTE, MPI_STATUS_IGNORE);

    MTEST_CHECK(mtest_class(error) == (mtest_rank < 2 ? MPI_SUCCESS : MPI_ERR_QUOTA),
                "a write across the limit: class %d", mtest_class(error));
}

/* Beyond the user's limit (ulimit -f) the kernel also sends a signal that would end the process. */
static void limit(const char *name, const char *cb)
{
    struct rlimit old, low;
    MPI_File file;
    MPI_Request request;
    MPI_Info info;
    int value = 1;

    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 1000;
    MPI_Barrier(MPI_COMM_WORLD);
    if (setrlimit(RLIMIT_FSIZE, &low) != 0)
        return;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", cb);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MTEST_OK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_File_write_at(file, 5000, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_QUOTA);
    MTEST_CLASS(MPI_File_write_at_all(file, 5000, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_QUOTA);
    MTEST_OK(MPI_File_iwrite_at(file, 5000, &value, 1, MPI_INT, &request));
    MTEST_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_QUOTA);
    across_limit(file);
    MTEST_CLASS(MPI_File_set_size(file, 5000), MPI_ERR_QUOTA);
    MTEST_CLASS(MPI_File_preallocate(file, 5000), MPI_ERR_QUOTA);
    MTEST_OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    setrlimit(RLIMIT_FSIZE, &old);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void shrinking(const char *name, const char *cb)
{
    MPI_File file;
    MPI_Info info;
    MPI_Status status;
    char buf[100];

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", cb);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MTEST_OK(MPI_File_set_size(file, 100));
    if (mtest_rank == 0)
        MTEST_CHECK(truncate(name, 30) == 0, "cannot truncate the file");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_read_at_all(file, 0, buf, 100, MPI_BYTE, &status));
    mio_check_count(&status, MPI_BYTE, 30, "reading a file that has shrunk");
    MTEST_OK(MPI_File_close(&file));
}

/* A rank with a wrong offset and a wrong count gets its error, and the others need not wait for it. */
static void two_wrong_arguments(const char *name)
{
    MPI_File file;
    char buf[4] = {0};
    int error, is_wrong = mtest_rank == 0;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    error =
        MPI_File_write_at_all(file, is_wrong ? -1 : 0, buf, is_wrong ? -1 : 4, MPI_BYTE, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(error) == (is_wrong ? MPI_ERR_COUNT : MPI_SUCCESS), "write_at_all: class %d",
                mtest_class(error));
    MTEST_OK(MPI_File_close(&file));
}

/* An info object that is wrong at one rank: an error at all, and no hint changes. */
static void wrong_info(const char *name)
{
    char value[20] = "";
    MPI_File file;
    MPI_Info info, used;
    int error, flag = 0, is_wrong = mtest_rank == mtest_size - 1;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_read", "disable");
    error = MPI_File_set_info(file, is_wrong ? MPI_INFO_NULL : info);
    MTEST_CHECK(mtest_class(error) == MPI_ERR_INFO, "set_info: class %d", mtest_class(error));
    MPI_Info_free(&info);
    MTEST_OK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "romio_ds_read", 19, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "automatic") == 0, "a refused hint is in use: %s", value);
    MPI_Info_free(&used);
    MTEST_OK(MPI_File_sync(file));
    MTEST_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char name[64];

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    full_disk();
    for (int i = 0; i < 2; i++) {
        limit(name, i ? "enable" : "automatic");
        shrinking(name, i ? "enable" : "automatic");
    }
    two_wrong_arguments(name);
    wrong_info(name);
    mio_delete(name);
    return mtest_end();
}
