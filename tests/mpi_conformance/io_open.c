/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the access modes of MPI_File_open and their errors, what deletes a file, sizes, hints, the group, and that errors
 * without a file, and on new files, go to the handler of MPI_FILE_NULL, which returns unless the program sets another.
 */
#include "mio.h"

static int n_handled;
static MPI_File handled;

static void count_error(MPI_File *file, int *code, ...)
{
    (void)code;
    n_handled++;
    handled = *file;
}

static int try_open(const char *name, int amode)
{
    MPI_File file = MPI_FILE_NULL;
    int error = MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file);

    if (error == MPI_SUCCESS)
        MTEST_OK(MPI_File_close(&file));
    return error;
}

static void modes(const char *name)
{
    char other[80];
    MPI_File file;
    MPI_Offset position = -1;
    int amode = 0, value = 7;

    snprintf(other, sizeof other, "%s_other", name);
    MTEST_CLASS(try_open(other, MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE);
    MTEST_CLASS(try_open("/tmp", MPI_MODE_RDWR), MPI_ERR_BAD_FILE);
    MTEST_CLASS(try_open("", MPI_MODE_RDWR), MPI_ERR_BAD_FILE);
    MTEST_CLASS(try_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL), MPI_ERR_FILE_EXISTS);
    MTEST_CLASS(try_open(name, 0), MPI_ERR_AMODE);
    MTEST_CLASS(try_open(name, MPI_MODE_RDWR | MPI_MODE_RDONLY), MPI_ERR_AMODE);
    MTEST_CLASS(try_open(name, MPI_MODE_RDONLY | MPI_MODE_CREATE), MPI_ERR_AMODE);
    MTEST_CLASS(try_open(name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL), MPI_ERR_AMODE);
    if (mtest_size > 1)
        MTEST_CLASS(try_open(name, mtest_rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY), MPI_ERR_NOT_SAME);
    MTEST_OK(try_open(other, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_UNIQUE_OPEN));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(mio_size(other) == 0, "the file was not created");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(
        MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_get_amode(file, &amode));
    MTEST_CHECK(amode == (MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE), "amode is %d", amode);
    MTEST_OK(MPI_File_close(&file));
    MTEST_CHECK(mio_size(other) == -1, "the file was not deleted");
    MTEST_CLASS(MPI_File_delete(other, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);

    MTEST_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MTEST_CLASS(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    MTEST_CLASS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
    MTEST_CLASS(MPI_File_preallocate(file, 10), MPI_ERR_READ_ONLY);
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    MTEST_CLASS(MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    MTEST_OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_size(file, 100));
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_get_position(file, &position));
    MTEST_CHECK(position == 100, "appending begins at %lld", (long long)position);
    MTEST_OK(MPI_File_get_position_shared(file, &position));
    MTEST_CHECK(position == 100, "appending by the shared pointer begins at %lld", (long long)position);
    MTEST_OK(MPI_File_close(&file));
}

/* A file with a relative name is deleted in the folder in which it was created, also from another one. */
static void moved(const char *name)
{
    char other[80], here[4096];
    MPI_File file;

    snprintf(other, sizeof other, "%s_other", name);
    MTEST_CHECK(getcwd(here, sizeof here) && chdir("/tmp") == 0, "no folder");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, strrchr(other, '/') + 1,
                           MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    MTEST_CHECK(mio_size(other) == 0, "the file was not created");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(chdir(here) == 0, "no folder");
    MTEST_OK(MPI_File_close(&file));
    MTEST_CHECK(mio_size(other) == -1, "the file was not deleted");
}

static void sizes(const char *name)
{
    char prefixed[80];
    MPI_File file;
    MPI_Offset size = -1;
    MPI_Group group, world;
    int result;

    snprintf(prefixed, sizeof prefixed, "ufs:%s", name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, prefixed, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_size(file, 1000));
    MTEST_OK(MPI_File_get_size(file, &size));
    MTEST_CHECK(size == 1000, "the size is %lld", (long long)size);
    MTEST_OK(MPI_File_preallocate(file, 500));
    MTEST_OK(MPI_File_preallocate(file, 2000));
    MTEST_OK(MPI_File_get_size(file, &size));
    MTEST_CHECK(size == 2000, "the size is %lld after allocating", (long long)size);
    MTEST_OK(MPI_File_set_size(file, 10));
    MTEST_OK(MPI_File_get_size(file, &size));
    MTEST_CHECK(size == 10, "the size is %lld after truncating", (long long)size);
    MTEST_CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    if (mtest_size > 1)
        MTEST_CLASS(MPI_File_set_size(file, mtest_rank), MPI_ERR_NOT_SAME);
    MTEST_OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    MTEST_CHECK(result == MPI_IDENT, "the group is not that of the communicator");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MTEST_OK(MPI_File_close(&file));
}

static void hints(const char *name)
{
    MPI_Info info, used;
    MPI_File file;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "cb_buffer_size", "1048576");
    MPI_Info_set(info, "romio_ds_read", "perhaps");
    MPI_Info_set(info, "striping_unit", "4096");
    MPI_Info_set(info, "unknown_hint", "1");
    MPI_Info_set(info, "filename", "/tmp/another"); /* the library sets it */
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_set(info, "romio_cb_write", "disable");
    MTEST_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    MTEST_OK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "romio_cb_write", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "disable") == 0, "romio_cb_write is %s", flag ? value : "not set");
    MPI_Info_get(used, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "1048576") == 0, "cb_buffer_size is %s", flag ? value : "not set");
    MPI_Info_get(used, "romio_ds_read", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "automatic") == 0, "romio_ds_read is %s", flag ? value : "not set");
    MPI_Info_get(used, "striping_unit", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "4096") == 0, "striping_unit is %s", flag ? value : "not set");
    MPI_Info_get(used, "unknown_hint", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(!flag, "an unknown hint is returned");
    MPI_Info_get(used, "filename", MPI_MAX_INFO_VAL, value, &flag);
    MTEST_CHECK(flag && strcmp(value, name) == 0, "the file's name is %s", flag ? value : "not set");
    MPI_Info_free(&used);
    MTEST_OK(MPI_File_close(&file));
}

/* Hints of collective buffering that differ between ranks are ignored: nobody waits for a rank with another one. */
static void mixed_hints(const char *name)
{
    char value[20] = "";
    MPI_Info info, used;
    MPI_File file;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", mtest_rank ? "disable" : "enable");
    for (int when = 0; when < 3; when++) {
        int flag = 0;
        MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, when == 0 ? info : MPI_INFO_NULL, &file));
        if (when == 1)
            MTEST_OK(
                MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", mtest_rank ? info : MPI_INFO_NULL));
        if (when == 2)
            MTEST_OK(MPI_File_set_info(file, info));
        MTEST_OK(MPI_File_write_at_all(file, mtest_rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_File_get_info(file, &used));
        MPI_Info_get(used, "romio_cb_write", 19, value, &flag);
        MTEST_CHECK(mtest_size == 1 || (flag && strcmp(value, "automatic") == 0), "mixed hints: \"%s\"",
                    value);
        MPI_Info_free(&used);
        MTEST_OK(MPI_File_close(&file));
    }
    MPI_Info_free(&info);
}

static void handlers(const char *name)
{
    MPI_Errhandler handler, found;
    MPI_File file, closed;

    MTEST_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    MTEST_CHECK(found == MPI_ERRORS_RETURN, "MPI_FILE_NULL has not MPI_ERRORS_RETURN");
    MPI_File_create_errhandler(count_error, &handler);
    MTEST_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    MTEST_CLASS(
        MPI_File_open(MPI_COMM_SELF, "/tmp/heddle/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
        MPI_ERR_NO_SUCH_FILE);
    MTEST_CHECK(n_handled == 1 && handled == MPI_FILE_NULL, "the handler of MPI_FILE_NULL was not called");
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MTEST_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    MTEST_CHECK(n_handled == 2 && handled == file, "the file has not inherited the handler");
    MTEST_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    MTEST_CHECK(n_handled == 3, "MPI_File_call_errhandler does not call it");
    MTEST_CLASS(MPI_File_get_errhandler(file, NULL), MPI_ERR_ARG);
    MTEST_CHECK(n_handled == 4 && handled == file, "MPI_File_get_errhandler does not call it");
    MTEST_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    MTEST_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    MTEST_CHECK(n_handled == 4, "the old handler is called");
    MTEST_CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file, "the file has not its integer");
    MPI_Errhandler_free(&handler);
    closed = file;
    MTEST_OK(MPI_File_close(&file));
    MTEST_CLASS(MPI_File_seek(closed, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    MTEST_CLASS(MPI_File_close(&file), MPI_ERR_FILE);
}

/* A file that each rank deletes before the call, some later than others, is created afterwards. */
static void replaced(const char *name)
{
    MPI_File file;
    int flag;

    MPI_Barrier(MPI_COMM_WORLD); /* all have closed it */
    for (int i = 0; mtest_rank && i < 1000; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_File_delete(name, MPI_INFO_NULL);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    MTEST_CHECK(mio_size(name) == 0, "a rank has deleted the new file");
    MTEST_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char name[64];

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    modes(name);
    moved(name);
    sizes(name);
    hints(name);
    mixed_hints(name);
    handlers(name);
    replaced(name);
    mio_delete(name);
    return mtest_end();
}
