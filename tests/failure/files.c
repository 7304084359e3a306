/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that faults of a disk are errors at all ranks that they concern, in all forms of calls, that nobody waits for a rank with an
 * error, and that the file can be used afterwards. Arguments: the fault (files_test.sh makes it), a file, and a hint's value.
 *
 *      full     a file system of 60 KiB, less than the data of a rank
 *      quota    the same with `ulimit -f 60`
 *      readonly one that is mounted read-only
 *      nolocks  locks are refused
 *      nosync   fsync fails
 *      aggregator  one process writes for all
 *      slow     the disk waits until another rank has run
 *      shrinks  another process truncates the file while it is read
 *      named    errors whose handler ends the job: the third argument says which
 *      killed   a timer kills a process at a random moment, after 20 records of each rank; prints "synced N" before
 *      check    the first N records (the third argument) are there
 */
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "mio.h"

enum { BLOCK = 4096, BLOCKS = 16, BYTES = BLOCK * BLOCKS, RECORD = 5000 };

static char data[BYTES];

/* Each rank has every n-th block. */
static void set_view(MPI_File file)
{
    MPI_Datatype block, filetype;

    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, BLOCK * mtest_size, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, BLOCK * mtest_rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MPI_Type_free(&block);
}

/* Writes in one of the forms; all ranks have data that does not fit. */
static int write_in_form(MPI_File file, int form)
{
    MPI_Request request;
    int error;

    switch (form) {
    case 0:
        return MPI_File_write_at(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    case 1:
        return MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    case 2:
        MTEST_OK(MPI_File_write_at_all_begin(file, 0, data, BYTES, MPI_BYTE));
        return MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE);
    case 3:
        error = MPI_File_iwrite_at_all(file, 0, data, BYTES, MPI_BYTE, &request);
        break;
    case 4:
        error = MPI_File_iwrite_at(file, 0, data, BYTES, MPI_BYTE, &request);
        break;
    default:
        MTEST_OK(MPI_File_set_atomicity(file, 1));
        error = MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
        MTEST_OK(MPI_File_set_atomicity(file, 0));
        return error;
    }
    MTEST_OK(error);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void full(MPI_File file, int expected)
{
    for (int form = 0; form < 6; form++) {
        char back[BLOCK];
        int error;
        set_view(file);
        error = mtest_class(write_in_form(file, form));
        MTEST_CHECK(error == expected, "form %d: class %d", form, error);
        MTEST_OK(MPI_File_set_size(file, 0));
        memset(data, mtest_rank + form + 1, sizeof data);
        MTEST_OK(MPI_File_write_at_all(file, 0, data, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        MTEST_CHECK(memcmp(data, back, BLOCK) == 0, "form %d: wrong data after the error", form);
    }
    MTEST_CLASS(MPI_File_preallocate(file, 1 << 20), expected);
    MTEST_OK(MPI_File_set_size(file, 0));
    MTEST_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MTEST_CLASS(MPI_File_write_ordered(file, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE), expected);
    MTEST_CLASS(MPI_File_write_shared(file, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE), expected);
    MTEST_OK(MPI_File_set_size(file, 0));
}

static void without_locks(MPI_File file)
{
    int flag = -1;

    for (int i = 0; i < 2; i++)
        MTEST_CLASS(MPI_File_set_atomicity(file, 1), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_OK(MPI_File_get_atomicity(file, &flag));
    MTEST_CHECK(flag == 0, "the file is in atomic mode");
    MTEST_OK(MPI_File_write_at_all(file, 0, data, mtest_rank, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* One rank has written: its data is lost for all. */
static void without_sync(MPI_File *file)
{
    for (int i = 0; i < 2; i++) {
        if (mtest_rank == mtest_size - 1)
            MTEST_OK(MPI_File_write_at(*file, 0, data, 100, MPI_BYTE, MPI_STATUS_IGNORE));
        if (i == 0)
            MTEST_CLASS(MPI_File_sync(*file), MPI_ERR_IO);
        else
            MTEST_CLASS(MPI_File_close(file), MPI_ERR_IO);
    }
    MTEST_CHECK(*file == MPI_FILE_NULL, "the file is not closed");
}

/* The last rank's data: the process of rank 0 writes it, and must write it to the device, too. */
static void by_aggregator(MPI_File file)
{
    _Atomic int *n_syncs = dlsym(RTLD_DEFAULT, "bad_disk_syncs");
    int before = n_syncs ? *n_syncs : 0;

    MTEST_OK(MPI_File_write_at_all(file, 0, data, mtest_rank == mtest_size - 1 ? 100 : 0, MPI_BYTE,
                                   MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_sync(file));
    MTEST_CHECK(n_syncs && (mtest_rank > 0 || *n_syncs > before), "the aggregator has not called fsync");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One of the calls that wait for the disk. */
static int use_disk(MPI_File file, int call)
{
    static char large[200000];

    switch (call) {
    case 0:
        return MPI_File_write(file, large, sizeof large, MPI_BYTE, MPI_STATUS_IGNORE);
    case 1:
        return MPI_File_read_at(file, 0, large, sizeof large, MPI_BYTE, MPI_STATUS_IGNORE);
    case 2:
        return MPI_File_write_at_all(file, 1, large, sizeof large, MPI_BYTE, MPI_STATUS_IGNORE);
    case 3:
        return MPI_File_sync(file);
    case 4:
        return MPI_File_set_size(file, 100);
    default:
        return MPI_File_preallocate(file, 1000);
    }
}

/* While ranks with even numbers wait for the disk, the others run, and let it go on. */
static void let_others_run(const char *name)
{
    _Atomic int *is_open = dlsym(RTLD_DEFAULT, "bad_disk_is_open"),
                *is_waiting = dlsym(RTLD_DEFAULT, "bad_disk_is_waiting");
    char own[300];
    MPI_File file;
    int flag;

    snprintf(own, sizeof own, "%s_%d", name, mtest_rank);
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                           MPI_INFO_NULL, &file));
    for (int call = 0; call <= 5; call++) {
        *is_open = *is_waiting = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank % 2 == 0) {
            MTEST_OK(use_disk(file, call));
            MTEST_CHECK(*is_open, "call %d has not waited for the disk", call);
        } else {
            while (!*is_waiting)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            *is_open = 1;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(MPI_File_close(&file));
}

/* A child truncates the file in steps while all ranks read it: what the status counts has been read. (Bytes that Linux clears
 * behind the new end may come as zeros.) */
static void shrinks(MPI_File file, const char *name)
{
    enum { STEP = BYTES / 64 };
    long size = (long)BYTES * mtest_size;
    MPI_Offset left = size;
    pid_t child = -1;

    memset(data, 7, sizeof data);
    set_view(file);
    MTEST_OK(MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0 && (child = fork()) == 0) {
        for (; size > 0; size -= STEP)
            if (truncate(name, size) != 0)
                _exit(1);
        _exit(truncate(name, 0) != 0);
    }
    for (int i = 0; left > 0; i++) {
        MPI_Status status;
        MPI_Request request;
        int n = -1;
        memset(data, 5, sizeof data);
        if (i % 2) {
            MTEST_OK(MPI_File_read_at_all(file, 0, data, BYTES, MPI_BYTE, &status));
        } else {
            MTEST_OK(MPI_File_iread_at_all(file, 0, data, BYTES, MPI_BYTE, &request));
            MTEST_OK(MPI_Wait(&request, &status));
        }
        MPI_Get_count(&status, MPI_BYTE, &n);
        MTEST_CHECK(n >= 0 && !memchr(data, 5, (size_t)n), "not all of %d bytes were read", n);
        MTEST_OK(MPI_File_get_size(file, &left));
        MPI_Bcast(&left, 1, MPI_OFFSET, 0, MPI_COMM_WORLD);
    }
    if (child > 0) {
        int status = -1;
        MTEST_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child failed");
    }
}

/* An error whose text must have the file's name. */
static void named(const char *name, int which)
{
    static const int amodes[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL};
    static const char *const names[] = {"/none/such", "/", "/dev/full"};
    MPI_File file;
    MPI_Request request;
    char byte = 0;

    if (which < 3) /* ranks differ in their modes; no such file; a folder */
        MPI_File_open(MPI_COMM_WORLD, which ? names[which - 1] : name,
                      which ? MPI_MODE_RDONLY : amodes[mtest_rank % 2], MPI_INFO_NULL, &file);
    if (which == 3)
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (which == 4)
        MPI_File_delete("/none/such", MPI_INFO_NULL);
    MPI_File_open(MPI_COMM_WORLD, which == 5 ? names[2] : name,
                  amodes[which < 8    ? which == 5
                         : which == 8 ? 1
                                      : 2],
                  MPI_INFO_NULL, &file);
    if (which == 5) /* the disk is full */
        MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    if (which == 6) /* it is read-only */
        MPI_File_iwrite_at_all(file, 0, &byte, 1, MPI_BYTE, &request);
    if (which == 7)
        MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "none such", MPI_INFO_NULL);
    if (which == 8)
        MPI_File_read_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    if (which == 9)
        MPI_File_set_size(file, 3);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
}

static void kill_soon(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_nsec = 1000 + (long)(MPI_Wtime() * 1e9) % 50000000};
    timer_t timer;

    MTEST_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
                    timer_settime(timer, 0, &when, NULL) == 0,
                "no timer");
}

static void be_killed(MPI_File file)
{
    MPI_Request request;

    for (int i = 0; i < 20000; i++) {
        memset(data, 1 + i % 200, RECORD);
        MTEST_OK(MPI_File_write_at_all(file, (MPI_Offset)(i * mtest_size + mtest_rank) * RECORD, data, RECORD,
                                       MPI_BYTE, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 0) {
            printf("synced %d\n", (i + 1) * mtest_size);
            fflush(stdout);
        }
        if (i == 20 && mtest_rank == mtest_size - 1)
            kill_soon();
        MTEST_OK(MPI_File_iwrite_at(file, (MPI_Offset)(1 << 30) + i, data, BYTES, MPI_BYTE, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    const char *fault, *name;
    MPI_File file;
    MPI_Info info;

    mtest_init(&argc, &argv, 1);
    if (argc < 4)
        mtest_give_up();
    fault = argv[1];
    name = argv[2];
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", argv[3]);
    MPI_Info_set(info, "cb_nodes", "1");
    if (strcmp(fault, "named") == 0) {
        MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
        named(name, atoi(argv[3]));
    }
    if (strcmp(fault, "readonly") == 0) {
        MTEST_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file),
                    MPI_ERR_READ_ONLY);
        MPI_Info_free(&info);
        return mtest_end();
    }
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    if (strcmp(fault, "full") == 0)
        full(file, MPI_ERR_NO_SPACE);
    else if (strcmp(fault, "quota") == 0)
        full(file, MPI_ERR_QUOTA);
    else if (strcmp(fault, "nolocks") == 0)
        without_locks(file);
    else if (strcmp(fault, "nosync") == 0)
        without_sync(&file);
    else if (strcmp(fault, "aggregator") == 0)
        by_aggregator(file);
    else if (strcmp(fault, "slow") == 0)
        let_others_run(name);
    else if (strcmp(fault, "shrinks") == 0)
        shrinks(file, name);
    else if (strcmp(fault, "killed") == 0)
        be_killed(file);
    else
        for (int i = 0; i < atoi(argv[3]); i++) {
            MTEST_OK(
                MPI_File_read_at(file, (MPI_Offset)i * RECORD, data, RECORD, MPI_BYTE, MPI_STATUS_IGNORE));
            MTEST_CHECK(mtest_touched(data, RECORD, data[0]) < 0 && data[0], "record %d is not there", i);
        }
    if (file != MPI_FILE_NULL)
        MTEST_OK(MPI_File_close(&file));
    return mtest_end();
}
