/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file.c: handles of files, their errors, and small collectives of their members. See file.h.
 */
#include "ampi/io/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/coll/plan/coll_calls.h"
#include "ampi/io/access.h"
#include "ampi/object/errhandler.h"
#include "ampi/op/op.h"
#include "base/log.h"

/* ---- Errors ---- */

int ampi_file_raise(struct ampi_file *file, int error_code, const char *fmt, ...)
{
    struct ampi_errhandler *errhandler = file->errhandler ? file->errhandler : &ampi_errors_return;
    MPI_File handle = (MPI_File)file;
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_raise_on(errhandler, &handle, error_code, "file %s: %s", file->shared->name, text);
}

int ampi_file_raise_null(const char *name, int error_code, const char *fmt, ...)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_errhandler *errhandler = self->file_errhandler ? self->file_errhandler : &ampi_errors_return;
    MPI_File handle = MPI_FILE_NULL;
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_raise_on(errhandler, &handle, error_code, "%s%s%s%s", name ? "file " : "", name ? name : "",
                         name ? ": " : "", text);
}

int ampi_file_raise_invalid(MPI_File handle)
{
    if (handle == MPI_FILE_NULL)
        return ampi_file_raise_null(NULL, MPI_ERR_FILE, "the file is MPI_FILE_NULL");
    return ampi_file_raise_null(NULL, MPI_ERR_FILE, "%p is not a valid file, or has been closed",
                                (void *)handle);
}

int ampi_file_class(int error_number)
{
    static const struct {
        int number, error_class;
    } classes[] = {
        {ENOENT, MPI_ERR_NO_SUCH_FILE},
        {EEXIST, MPI_ERR_FILE_EXISTS},
        {EACCES, MPI_ERR_ACCESS},
        {EPERM, MPI_ERR_ACCESS},
        {EROFS, MPI_ERR_READ_ONLY},
        {ENOSPC, MPI_ERR_NO_SPACE},
        {EDQUOT, MPI_ERR_QUOTA},
        {EFBIG, MPI_ERR_QUOTA},
        {ENAMETOOLONG, MPI_ERR_BAD_FILE},
        {ENOTDIR, MPI_ERR_BAD_FILE},
        {EISDIR, MPI_ERR_BAD_FILE},
        {ELOOP, MPI_ERR_BAD_FILE},
        {ETXTBSY, MPI_ERR_FILE_IN_USE},
        {EBUSY, MPI_ERR_FILE_IN_USE},
        {ENOMEM, MPI_ERR_NO_MEM},
        {EFAULT, MPI_ERR_BUFFER},
        {ECONNABORTED, MPI_ERR_PROC_ABORTED},
    };

    for (size_t i = 0; i < BASE_COUNT(classes); i++)
        if (classes[i].number == error_number)
            return classes[i].error_class;
    return MPI_ERR_IO;
}

int ampi_file_raise_errno(struct ampi_file *file, int error_number, const char *what)
{
    return ampi_file_raise(file, ampi_file_class(error_number), "%s failed: %s", what,
                           strerror(error_number));
}

/* ---- Creation and release ---- */

char *ampi_io_copy_text(const char *text)
{
    size_t n_bytes = strlen(text) + 1;

    return memcpy(base_malloc(n_bytes, "a name"), text, n_bytes);
}

/* A copy of the name for a file. One that is deleted when it is closed gets its folder, because the program may change that. */
static char *copy_name(const char *name, int amode)
{
    char *folder = (amode & MPI_MODE_DELETE_ON_CLOSE) && name[0] != '/' ? getcwd(NULL, 0) : NULL, *copy;
    size_t n_bytes;

    if (!folder)
        return ampi_io_copy_text(name);
    n_bytes = strlen(folder) + strlen(name) + 2;
    copy = base_malloc(n_bytes, "a name");
    snprintf(copy, n_bytes, "%s/%s", folder, name);
    free(folder);
    return copy;
}

static void init_handle(struct ampi_file *file, struct ampi_file_shared *shared, struct ampi_comm *comm)
{
    file->magic = AMPI_MAGIC_FILE;
    file->rank = comm->rank;
    file->shared = shared;
    file->owner = comm->owner;
    file->comm = comm;
    file->lock_fd = -1;
    file->hints = (struct ampi_disk_hints)AMPI_DISK_HINTS_DEFAULT;
    file->view = ampi_view_create_default();
    comm->errhandler = &ampi_errors_return; /* the file's handler gets the errors */
}

struct ampi_file_shared *ampi_file_shared_create(struct ampi_comm_shared *comm, int amode, const char *name,
                                                 int fd)
{
    const struct ampi_layout *layout = comm->side[0].layout;
    struct ampi_file_shared *shared = base_calloc(1, sizeof *shared, "a file");
    int n = 0;

    atomic_init(&shared->refs, (uint32_t)layout->n_local);
    shared->n_ranks = comm->side[0].n_ranks;
    shared->n_local = layout->n_local;
    shared->amode = amode;
    shared->fd = fd;
    shared->is_remote = layout->n_local < shared->n_ranks;
    shared->name = copy_name(name, amode);
    pthread_mutex_init(&shared->lock, NULL);
    shared->comm = comm;
    comm->file = shared;
    shared->buffers = ampi_two_phase_create(comm);
    if (!shared->buffers)
        base_fatal(1, "out of memory: cannot open the file %s", name);
    shared->handles = base_calloc((size_t)shared->n_local, sizeof *shared->handles, "a file");
    for (int i = 0; i < shared->n_ranks; i++)
        if (layout->pe_of[i] != AMPI_PE_REMOTE)
            init_handle(&shared->handles[n++], shared, &comm->side[0].handles[i]);
    return shared;
}

/* Recently closed files are kept, so that a reused handle is detected as invalid. */
#define RETIRED_MAX 64
static struct {
    pthread_mutex_t lock;
    struct ampi_file *files[RETIRED_MAX]; /* the handles of a process's members */
    unsigned n;                           /* files that have been closed */
} retired = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void retire(struct ampi_file *handles)
{
    struct ampi_file **place;

    pthread_mutex_lock(&retired.lock);
    place = &retired.files[retired.n++ % RETIRED_MAX];
    free(*place);
    *place = handles;
    pthread_mutex_unlock(&retired.lock);
}

static void unref(struct ampi_file_shared *shared)
{
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    shared->comm->file = NULL;
    if (shared->fd >= 0)
        close(shared->fd);
    ampi_two_phase_destroy(shared->buffers);
    retire(shared->handles);
    pthread_mutex_destroy(&shared->lock);
    free(shared->name);
    free(shared);
}

void ampi_file_release(struct ampi_file *file)
{
    struct ampi_comm *comm = file->comm;

    file->magic = AMPI_MAGIC_DEAD;
    ampi_errhandler_unref(file->errhandler);
    ampi_info_destroy(file->info);
    ampi_view_unref(file->view);
    if (file->lock_fd >= 0)
        close(file->lock_fd);
    unref(file->shared);
    ampi_comm_release(comm); /* afterwards: messages find the file through it */
}

/* ---- Checks ---- */

int ampi_file_enter(MPI_File handle, struct ampi_file **file_out)
{
    *file_out = ampi_file_of(handle);
    return BASE_LIKELY(*file_out != NULL) ? MPI_SUCCESS : ampi_file_raise_invalid(handle);
}

int ampi_file_check_random(struct ampi_file *file)
{
    if (BASE_LIKELY(!ampi_file_is_sequential(file)))
        return MPI_SUCCESS;
    return ampi_file_raise(file, MPI_ERR_UNSUPPORTED_OPERATION,
                           "it is open with MPI_MODE_SEQUENTIAL, which this function does not allow");
}

int ampi_file_check_no_split(struct ampi_file *file)
{
    if (BASE_LIKELY(!file->split))
        return MPI_SUCCESS;
    return ampi_file_raise(file, MPI_ERR_IO, "%s has begun and not ended", file->split->call->name);
}

int ampi_file_check_writable(struct ampi_file *file)
{
    if (BASE_LIKELY(!(file->shared->amode & MPI_MODE_RDONLY)))
        return MPI_SUCCESS;
    return ampi_file_raise(file, MPI_ERR_READ_ONLY, "it is open with MPI_MODE_RDONLY");
}

/* ---- Collectives of the members ---- */

/* The name of the running call, for reports of blocked ranks. */
static struct ampi_coll_call running_call(void)
{
    return (struct ampi_coll_call){.name = ult_self()->call, .form = AMPI_COLL_BLOCKING};
}

static int reduce(struct ampi_file *file, MPI_Offset *values, int n, MPI_Op op)
{
    struct ampi_coll_call call = running_call();

    return ampi_coll_allreduce(&call, (MPI_Comm)file->comm, MPI_IN_PLACE, values, n, MPI_INT64_T, op);
}

int ampi_file_agree(struct ampi_file *file, int error, MPI_Offset value)
{
    MPI_Offset values[3] = {error, value, -value};
    int failure;

    if (file->shared->n_ranks == 1)
        return error;
    failure = reduce(file, values, 3, MPI_MAX);
    if (failure)
        return failure;
    if (values[0])
        return (int)values[0];
    return values[1] == -values[2] ? MPI_SUCCESS : MPI_ERR_NOT_SAME;
}

int ampi_file_agree_or_raise(struct ampi_file *file, int own_error, MPI_Offset value, const char *what)
{
    int error = ampi_file_agree(file, own_error, value);

    if (own_error || !error)
        return own_error;
    if (error == MPI_ERR_NOT_SAME)
        return ampi_file_raise(file, error, "%s is not the same at all ranks", what);
    return ampi_file_raise(file, error, "the call failed at another rank");
}

int ampi_file_prefix(struct ampi_file *file, MPI_Offset count, MPI_Offset *before_out, MPI_Offset *all_out)
{
    struct ampi_coll_call call = running_call();
    MPI_Offset sum = count;
    int error;

    if (file->shared->n_ranks == 1) {
        *before_out = 0;
        *all_out = count;
        return MPI_SUCCESS;
    }
    error = ampi_coll_scan(&call, (MPI_Comm)file->comm, &ampi_coll_scan_plan, &count, &sum, 1, MPI_INT64_T,
                           MPI_SUM);
    *before_out = sum - count;
    *all_out = sum; /* at the last rank */
    return error ? error : ampi_file_bcast(file, file->shared->n_ranks - 1, all_out);
}

int ampi_file_bcast(struct ampi_file *file, int root, MPI_Offset *value)
{
    struct ampi_coll_call call = running_call();
    struct ampi_coll_args args;

    if (file->shared->n_ranks == 1)
        return MPI_SUCCESS;
    ampi_coll_set_one(&args.recv, value, 1, MPI_INT64_T);
    return ampi_coll_bcast(&call, (MPI_Comm)file->comm, root, &args);
}

/* ---- Error handlers (MPI 5.0, section 9.3). MPI_FILE_NULL has the one that files inherit when opened. ---- */

/* The place of a file's handler, or that of MPI_FILE_NULL; NULL: the handle is not valid. */
static struct ampi_errhandler **handler_of(struct ampi_rank *self, MPI_File handle)
{
    struct ampi_file *file = ampi_file_of(handle);

    if (file)
        return &file->errhandler;
    return handle == MPI_FILE_NULL ? &self->file_errhandler : NULL;
}

AMPI_EXPORT(File_set_errhandler);
int PMPI_File_set_errhandler(MPI_File file, MPI_Errhandler errhandler)
{
    struct ampi_errhandler **place = handler_of(ampi_enter("MPI_File_set_errhandler"), file);
    const char *misfit = ampi_errhandler_misfit(errhandler, AMPI_ERRHANDLER_FILE);

    if (!place)
        return ampi_file_raise_invalid(file);
    if (misfit && file != MPI_FILE_NULL)
        return ampi_file_raise(ampi_file_of(file), MPI_ERR_ERRHANDLER, "%s", misfit);
    if (misfit)
        return ampi_file_raise_null(NULL, MPI_ERR_ERRHANDLER, "%s", misfit);
    return ampi_errhandler_set(place, errhandler, AMPI_ERRHANDLER_FILE);
}

AMPI_EXPORT(File_get_errhandler);
int PMPI_File_get_errhandler(MPI_File file, MPI_Errhandler *errhandler)
{
    struct ampi_errhandler **place = handler_of(ampi_enter("MPI_File_get_errhandler"), file);

    if (!place)
        return ampi_file_raise_invalid(file);
    if (!errhandler && file != MPI_FILE_NULL)
        return ampi_file_raise(ampi_file_of(file), MPI_ERR_ARG, "errhandler is NULL");
    if (!errhandler)
        return ampi_file_raise_null(NULL, MPI_ERR_ARG, "errhandler is NULL");
    return ampi_errhandler_get(place, &ampi_errors_return, errhandler);
}

AMPI_EXPORT(File_call_errhandler);
int PMPI_File_call_errhandler(MPI_File fh, int errorcode)
{
    static const char text[] = "the program called its error handler with error code %d";
    struct ampi_file *file;

    ampi_enter("MPI_File_call_errhandler");
    file = ampi_file_of(fh);
    if (file)
        ampi_file_raise(file, errorcode, text, errorcode);
    else if (fh == MPI_FILE_NULL)
        ampi_file_raise_null(NULL, errorcode, text, errorcode);
    else
        return ampi_file_raise_invalid(fh);
    return MPI_SUCCESS;
}
