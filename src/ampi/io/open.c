/* SPDX-License-Identifier: BSD-3-Clause
 *
 * open.c: MPI_File_open, MPI_File_close and MPI_File_delete (MPI 5.0, section 14.2).
 *
 * Rank 0 first opens the file alone, so that MPI_MODE_EXCL concerns the call, not each rank. Then one collective with
 * its own plan takes the ranks' modes and errors to all processes, and in each the last member to arrive creates the
 * handles. The other processes then open the file that exists now, each once for all its members.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/items.h"
#include "ampi/io/access.h"
#include "ampi/io/file.h"
#include "ampi/object/errhandler.h"

/* A member's data for the creation; equal in all processes. */
struct payload {
    int amode;
    int error;          /* the member cannot open the file: the class that all raise */
    int fd;             /* of rank 0, in its process */
    MPI_Offset pointer; /* rank 0: where the file pointers begin */
    MPI_Offset hints;   /* their fingerprint */
    const char *name;   /* in the member's process */
};

/* ---- Arguments ---- */

/* The name without a prefix that selects a driver. */
static const char *path_of(const char *filename)
{
    static const char *const prefixes[] = {"ufs:", "nfs:", "unix:"};

    for (size_t i = 0; i < BASE_COUNT(prefixes); i++)
        if (strncmp(filename, prefixes[i], strlen(prefixes[i])) == 0)
            return filename + strlen(prefixes[i]);
    return filename;
}

/* NULL, or the rule that the access mode breaks. */
static const char *check_amode(int amode)
{
    const int access = amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY);
    const int all = access | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE |
                    MPI_MODE_UNIQUE_OPEN | MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND;

    if (amode & ~all)
        return "the access mode has unknown bits";
    if (access == 0 || (access & (access - 1)))
        return "the access mode must have exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR";
    if ((amode & MPI_MODE_RDONLY) && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)))
        return "MPI_MODE_RDONLY excludes MPI_MODE_CREATE and MPI_MODE_EXCL";
    if ((amode & MPI_MODE_RDWR) && (amode & MPI_MODE_SEQUENTIAL))
        return "MPI_MODE_RDWR excludes MPI_MODE_SEQUENTIAL";
    return NULL;
}

static int check_arguments(struct ampi_rank *self, const char *filename, int amode, MPI_Info info,
                           const MPI_File *fh)
{
    const char *text;

    if (!filename || !path_of(filename)[0])
        return ampi_file_raise_null(NULL, MPI_ERR_BAD_FILE, "the file name is %s",
                                    filename ? "empty" : "NULL");
    if ((text = check_amode(amode)))
        return ampi_file_raise_null(filename, MPI_ERR_AMODE, "%s", text);
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return ampi_file_raise_null(filename, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!fh)
        return ampi_file_raise_null(filename, MPI_ERR_ARG, "the address of the file handle is NULL");
    return MPI_SUCCESS;
}

/* ---- Descriptors ---- */

/* Opens the path; is_first: with the flags that create. Returns errno. */
static int open_path(const char *path, int amode, bool is_first, int *fd_out)
{
    int flags = O_CLOEXEC | (amode & MPI_MODE_RDWR ? O_RDWR : amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDONLY);
    struct stat facts;
    int fd;

    if (is_first)
        flags |= (amode & MPI_MODE_CREATE ? O_CREAT : 0) |
                 ((amode & MPI_MODE_CREATE) && (amode & MPI_MODE_EXCL) ? O_EXCL : 0);
    do
        fd = open(path, flags, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return errno;
    if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        close(fd);
        return EISDIR;
    }
    *fd_out = fd;
    return 0;
}

/* In processes without rank 0: the first member to arrive opens for all. Returns an error class. */
static int open_here(struct ampi_file_shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    if (shared->fd < 0 && !shared->open_error)
        shared->open_error = open_path(shared->name, shared->amode, false, &shared->fd);
    pthread_mutex_unlock(&shared->lock);
    return shared->open_error ? ampi_file_class(shared->open_error) : MPI_SUCCESS;
}

/* ---- The collective ---- */

/* The first error of a member, or an inconsistency between members. */
static int first_error(const struct ampi_coll_slot *slot)
{
    const struct payload *first = slot->args[0]->send.buf;

    for (int i = 0; i < slot->state->n_members; i++) {
        const struct payload *payload = slot->args[i]->send.buf;
        if (payload->error)
            return payload->error;
    }
    for (int i = 1; i < slot->state->n_members; i++) {
        const struct payload *payload = slot->args[i]->send.buf;
        if (payload->amode != first->amode)
            return MPI_ERR_NOT_SAME;
    }
    return MPI_SUCCESS;
}

static struct ampi_file_shared *create(struct ampi_coll_slot *slot, int *error_out)
{
    const struct payload *first = slot->args[0]->send.buf;
    struct ampi_comm_shared *comm;
    const char *name = NULL;

    *error_out = first_error(slot);
    if (*error_out)
        return NULL;
    comm = ampi_comm_build_as(slot->state->shared->side[0].layout, NULL, slot->context_id);
    if (!comm) {
        *error_out = MPI_ERR_OTHER;
        return NULL;
    }
    for (int i = 0; !name && i < slot->state->n_members; i++)
        if (!slot->args[i]->is_remote)
            name = ((const struct payload *)slot->args[i]->send.buf)->name;
    return ampi_file_shared_create(comm, first->amode, name, slot->args[0]->is_remote ? -1 : first->fd);
}

/* Hands out the handles; the file pointers begin at the end of the file if it is appended to. */
static void hand_out(struct ampi_coll_slot *slot, struct ampi_file_shared *shared)
{
    const struct payload *first = slot->args[0]->send.buf;
    int n = 0;

    atomic_store_explicit(&shared->pointer, first->pointer, memory_order_relaxed);
    for (int i = 1; i < slot->state->n_members; i++)
        shared->has_mixed_hints |= ((const struct payload *)slot->args[i]->send.buf)->hints != first->hints;
    for (int i = 0; i < slot->state->n_members; i++)
        if (!slot->args[i]->is_remote) {
            shared->handles[n].pointer = first->pointer;
            slot->args[i]->extra = &shared->handles[n++];
        }
}

static void open_middle(struct ampi_coll_slot *slot)
{
    int error = MPI_SUCCESS;
    struct ampi_file_shared *shared = create(slot, &error);

    if (shared)
        hand_out(slot, shared);
    for (int i = 0; !shared && i < slot->state->n_members; i++)
        if (!slot->args[i]->is_remote)
            slot->args[i]->error = error;
}

static void open_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                      struct ampi_coll_packer *out)
{
    (void)slot;
    ampi_coll_put_bytes(out, 0, args->send.buf, sizeof(struct payload));
}

static void open_unpack(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                        struct ampi_coll_unpacker *in)
{
    (void)slot;
    ampi_coll_unpack_whole(args, in);
}

static const struct ampi_coll_plan open_plan = {.name = "file open",
                                                .flow = AMPI_COLL_FLOW_ALL,
                                                .makes_comm = true,
                                                .pack = open_pack,
                                                .unpack = open_unpack,
                                                .middle = open_middle};

static int raise_open(const char *name, struct ampi_comm *comm, int error)
{
    char text[AMPI_FAILED_TEXT_MAX];

    switch (error) {
    case MPI_ERR_PROC_ABORTED:
        ampi_failed_describe(comm->local->layout->group, text);
        return ampi_file_raise_null(name, error, "%s", text);
    case MPI_ERR_NOT_SAME:
        return ampi_file_raise_null(name, error, "the access mode is not the same at all ranks");
    case MPI_ERR_OTHER:
        return ampi_file_raise_null(name, error,
                                    "no context id is left: free communicators that are not needed");
    default:
        return ampi_file_raise_null(name, error, "another rank cannot open it");
    }
}

/* Rank 0 opens the file for its process. */
static void open_first(const char *path, struct payload *payload)
{
    int number = open_path(path, payload->amode, true, &payload->fd);
    struct stat facts;

    if (number) {
        payload->error = ampi_file_class(number);
        ampi_file_raise_null(path, payload->error, "opening failed: %s", strerror(number));
    } else if ((payload->amode & MPI_MODE_APPEND) && fstat(payload->fd, &facts) == 0) {
        payload->pointer = facts.st_size;
    }
}

/* Sets the common fields of the members. */
static void begin(struct ampi_file *file, const struct ampi_info *info)
{
    struct ampi_rank *self = file->owner;

    file->errhandler = self->file_errhandler;
    if (file->errhandler)
        ampi_errhandler_ref(file->errhandler);
    ampi_file_set_hints(file, info);
    if (file->shared->has_mixed_hints)
        ampi_file_drop_hints(file);
}

/* The rest of an open across processes; all members return the same error class. */
static int settle(struct ampi_file *file)
{
    int error = ampi_file_agree(file, open_here(file->shared), 0);

    if (!error)
        return MPI_SUCCESS;
    if (file->shared->open_error)
        ampi_file_raise_null(file->shared->name, error, "opening failed in this process: %s",
                             strerror(file->shared->open_error));
    else
        raise_open(file->shared->name, file->comm, error);
    ampi_file_release(file);
    return error;
}

AMPI_EXPORT(File_open);
int PMPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
{
    struct ampi_rank *self = ampi_enter("MPI_File_open");
    struct ampi_comm *object = ampi_comm_of(self, comm);
    struct payload payload = {.amode = amode, .fd = -1};
    struct ampi_coll_args args;
    struct ampi_file *file;
    int error;

    if (!object)
        return ampi_file_raise_null(filename, MPI_ERR_COMM, "%p is not a valid communicator", (void *)comm);
    if (object->shared->is_inter)
        return ampi_file_raise_null(filename, MPI_ERR_COMM, "the communicator is an intercommunicator");
    payload.error = check_arguments(self, filename, amode, info, fh);
    payload.hints = ampi_file_hints_fingerprint(NULL, ampi_info_of(self, info));
    payload.name = filename ? path_of(filename) : "";
    /* What members did before, such as deleting the name, precedes the creation. */
    ampi_coll_barrier(object, AMPI_COLL_WITHIN_FILE_OPEN);
    if (object->rank == 0 && !payload.error)
        open_first(payload.name, &payload);
    memset(&args, 0, sizeof args);
    ampi_coll_args_init(&args, &open_plan);
    args.comm = object;
    args.send.buf = &payload;
    error = ampi_coll_run(&args);
    if (error) {
        if (payload.fd >= 0)
            close(payload.fd);
        return payload.error ? payload.error : raise_open(payload.name, object, error);
    }
    file = args.extra;
    if (file->shared->is_remote && (error = settle(file)))
        return error;
    begin(file, ampi_info_of(self, info));
    *fh = (MPI_File)file;
    return MPI_SUCCESS;
}

/* ---- MPI_File_close ---- */

/* Waits for accesses that the program has not completed, though it should have. */
static void drain(struct ampi_file *file)
{
    if (file->n_pending == 0)
        return;
    file->closer = ult_self();
    ult_suspend();
}

AMPI_EXPORT(File_close);
int PMPI_File_close(MPI_File *fh)
{
    struct ampi_file *file;
    char *name = NULL;
    int error, number, agreed;

    ampi_enter("MPI_File_close");
    if (!fh)
        return ampi_file_raise_null(NULL, MPI_ERR_ARG, "the address of the file handle is NULL");
    if ((error = ampi_file_enter(*fh, &file)) || (error = ampi_file_check_no_split(file)))
        return error;
    drain(file);
    number = file->shared->amode & MPI_MODE_DELETE_ON_CLOSE ? 0 : ampi_file_flush(file);
    if (number)
        error = ampi_file_raise_errno(file, number, "writing the data to the device");
    if (file->rank == 0 && (file->shared->amode & MPI_MODE_DELETE_ON_CLOSE))
        name = ampi_io_copy_text(file->shared->name);
    /* A member's lost data concerns all. And none uses the shared file pointer of another process any more. */
    agreed = ampi_file_agree(file, number ? ampi_file_class(number) : MPI_SUCCESS, 0);
    if (!number && agreed && agreed != MPI_ERR_PROC_ABORTED)
        error = ampi_file_raise(file, agreed, "the data of another rank was not written to the device");
    if (name && unlink(name) != 0 && errno != ENOENT)
        error = ampi_file_raise_errno(file, errno, "deleting the file");
    free(name);
    if (file->shared->amode & MPI_MODE_DELETE_ON_CLOSE)
        error = ampi_file_agree_or_raise(file, error, 0, ""); /* a member that returns finds no file */
    ampi_file_release(file);
    *fh = MPI_FILE_NULL;
    return error;
}

/* ---- MPI_File_delete ---- */

AMPI_EXPORT(File_delete);
int PMPI_File_delete(const char *filename, MPI_Info info)
{
    struct ampi_rank *self = ampi_enter("MPI_File_delete");
    int number;

    if (!filename || !path_of(filename)[0])
        return ampi_file_raise_null(NULL, MPI_ERR_BAD_FILE, "the file name is %s",
                                    filename ? "empty" : "NULL");
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return ampi_file_raise_null(filename, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (unlink(path_of(filename)) == 0)
        return MPI_SUCCESS;
    number = errno;
    return ampi_file_raise_null(filename, ampi_file_class(number), "deleting failed: %s", strerror(number));
}
