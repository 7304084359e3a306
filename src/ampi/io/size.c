/* SPDX-License-Identifier: BSD-3-Clause
 *
 * size.c: the file itself: its size, its group and mode, consistency (MPI 5.0, sections 14.2 and 14.6).
 *
 * In atomic mode each access locks the whole file. The lock is one of the kernel, for an open file description of the rank
 * itself, so that it excludes ranks of the same process, of other processes, and of other jobs. A rank that waits for it lets
 * the others of its PE run, one of which may hold it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/io/file.h"

MPI_Offset ampi_file_size(const struct ampi_file *file)
{
    struct stat facts;

    return fstat(file->shared->fd, &facts) == 0 ? (MPI_Offset)facts.st_size : -(MPI_Offset)errno;
}

AMPI_EXPORT(File_get_size);
int PMPI_File_get_size(MPI_File fh, MPI_Offset *size)
{
    struct ampi_file *file;
    MPI_Offset found;
    int error;

    ampi_enter("MPI_File_get_size");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!size)
        return ampi_file_raise(file, MPI_ERR_ARG, "the address of the size is NULL");
    found = ampi_file_size(file);
    if (found < 0)
        return ampi_file_raise_errno(file, (int)-found, "looking up the size");
    *size = found;
    return MPI_SUCCESS;
}

/* ---- MPI_File_set_size and MPI_File_preallocate: rank 0 acts for all ---- */

/* A call of the kernel that runs on a thread of the library. */
struct resize {
    struct ampi_disk_call call;
    int fd;
    MPI_Offset size;
};

static int set_size(struct ampi_disk_call *call)
{
    const struct resize *resize = BASE_CONTAINER(call, struct resize, call);

    return ftruncate(resize->fd, resize->size) == 0 ? 0 : errno;
}

static int preallocate(struct ampi_disk_call *call)
{
    const struct resize *resize = BASE_CONTAINER(call, struct resize, call);

    return resize->size > 0 ? posix_fallocate(resize->fd, 0, resize->size) : 0;
}

static int check_resize(struct ampi_file *file, MPI_Offset size)
{
    int error;

    if ((error = ampi_file_check_random(file)) || (error = ampi_file_check_no_split(file)) ||
        (error = ampi_file_check_writable(file)))
        return error;
    return size < 0 ? ampi_file_raise(file, MPI_ERR_ARG, "the size %lld is negative", (long long)size)
                    : MPI_SUCCESS;
}

static int resize_file(MPI_File fh, MPI_Offset size, int (*function)(struct ampi_disk_call *call),
                       const char *what)
{
    struct ampi_file *file;
    struct resize resize = {.call = {.function = function}, .size = size};
    MPI_Offset number = 0;
    int error = ampi_file_enter(fh, &file);

    if (error)
        return error;
    error = ampi_file_agree_or_raise(file, check_resize(file, size), size, "the size");
    if (error)
        return error;
    resize.fd = file->shared->fd;
    if (file->rank == 0) {
        number = ampi_disk_call_run(&resize.call);
        atomic_store_explicit(&file->shared->has_written, true, memory_order_release);
    }
    error = ampi_file_bcast(file, 0, &number);
    if (error)
        return ampi_file_raise(file, error, "%s failed: a rank's process has failed", what);
    return number ? ampi_file_raise_errno(file, (int)number, what) : MPI_SUCCESS;
}

AMPI_EXPORT(File_set_size);
int PMPI_File_set_size(MPI_File fh, MPI_Offset size)
{
    ampi_enter("MPI_File_set_size");
    return resize_file(fh, size, set_size, "setting the size");
}

AMPI_EXPORT(File_preallocate);
int PMPI_File_preallocate(MPI_File fh, MPI_Offset size)
{
    ampi_enter("MPI_File_preallocate");
    return resize_file(fh, size, preallocate, "allocating space");
}

/* ---- Inquiries ---- */

AMPI_EXPORT(File_get_group);
int PMPI_File_get_group(MPI_File fh, MPI_Group *group)
{
    struct ampi_file *file;
    struct ampi_group *members;
    int error;

    ampi_enter("MPI_File_get_group");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!group)
        return ampi_file_raise(file, MPI_ERR_ARG, "group is NULL");
    members = file->comm->local->layout->group;
    ampi_group_ref(members);
    *group = ampi_group_handle_create(members, NULL);
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_get_amode);
int PMPI_File_get_amode(MPI_File fh, int *amode)
{
    struct ampi_file *file;
    int error;

    ampi_enter("MPI_File_get_amode");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!amode)
        return ampi_file_raise(file, MPI_ERR_ARG, "amode is NULL");
    *amode = file->shared->amode;
    return MPI_SUCCESS;
}

/* ---- Consistency ---- */

static int flush(struct ampi_disk_call *call)
{
    /* EINVAL: a pipe or a device without a store */
    return fsync(BASE_CONTAINER(call, struct resize, call)->fd) == 0 || errno == EINVAL ? 0 : errno;
}

int ampi_file_flush(struct ampi_file *file)
{
    struct resize sync = {.call = {.function = flush}, .fd = file->shared->fd};

    if (!atomic_exchange_explicit(&file->shared->has_written, false, memory_order_acq_rel))
        return 0;
    return ampi_disk_call_run(&sync.call);
}

AMPI_EXPORT(File_sync);
int PMPI_File_sync(MPI_File fh)
{
    struct ampi_file *file;
    int error, number;

    ampi_enter("MPI_File_sync");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    /* The members of a process share one descriptor: all have written before one of them flushes. */
    error = ampi_file_agree_or_raise(file, ampi_file_check_no_split(file), 0, "");
    if (error || (file->shared->amode & MPI_MODE_RDONLY))
        return error;
    number = ampi_file_flush(file);
    error = number ? ampi_file_raise_errno(file, number, "writing the data to the device") : MPI_SUCCESS;
    return ampi_file_agree_or_raise(file, error, 0, "");
}

/* Opens the owner's own description of the file, and tries whether its file system has locks. Returns errno. */
static int prepare_lock(struct ampi_file *file)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int access = fcntl(file->shared->fd, F_GETFL) & O_ACCMODE, number;
    char path[32];

    if (file->lock_fd >= 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->shared->fd);
    file->lock_fd = open(path, access | O_CLOEXEC);
    if (file->lock_fd < 0)
        file->lock_fd = open(file->shared->name, access | O_CLOEXEC);
    if (file->lock_fd < 0)
        return errno;
    lock.l_type = access == O_RDONLY ? F_RDLCK : F_WRLCK;
    if (fcntl(file->lock_fd, F_OFD_GETLK, &lock) == 0)
        return 0;
    number = errno;
    close(file->lock_fd);
    file->lock_fd = -1;
    return number;
}

int ampi_file_lock(struct ampi_file *file, bool is_write)
{
    struct flock lock = {.l_type = (short)(is_write ? F_WRLCK : F_RDLCK), .l_whence = SEEK_SET};

    while (file->is_locked || fcntl(file->lock_fd, F_OFD_SETLK, &lock) != 0) {
        if (!file->is_locked && errno != EAGAIN && errno != EACCES && errno != EINTR)
            return errno;
        ult_progress();
        ult_yield();
    }
    file->is_locked = true;
    return 0;
}

void ampi_file_unlock(struct ampi_file *file)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    while (fcntl(file->lock_fd, F_OFD_SETLK, &lock) != 0 && errno == EINTR)
        ;
    file->is_locked = false;
}

AMPI_EXPORT(File_set_atomicity);
int PMPI_File_set_atomicity(MPI_File fh, int flag)
{
    struct ampi_file *file;
    int error, number;

    ampi_enter("MPI_File_set_atomicity");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    error = ampi_file_check_no_split(file);
    if (!error && flag && (number = prepare_lock(file)))
        error = ampi_file_raise(file, MPI_ERR_UNSUPPORTED_OPERATION,
                                "it cannot be locked, which atomic mode needs: %s", strerror(number));
    error = ampi_file_agree_or_raise(file, error, flag != 0, "the flag");
    if (!error)
        file->is_atomic = flag != 0;
    return error;
}

AMPI_EXPORT(File_get_atomicity);
int PMPI_File_get_atomicity(MPI_File fh, int *flag)
{
    struct ampi_file *file;
    int error;

    ampi_enter("MPI_File_get_atomicity");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!flag)
        return ampi_file_raise(file, MPI_ERR_ARG, "flag is NULL");
    *flag = file->is_atomic;
    return MPI_SUCCESS;
}
