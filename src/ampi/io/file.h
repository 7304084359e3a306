/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file.h: open files (MPI 5.0, chapter 14).
 *
 * As with windows, the members of one process share one object, and each has a small handle:
 *
 *      ampi_file_shared ---- fd, name, mode     one descriptor for all members of the process
 *                       \--- pointer            the shared file pointer, in the process of rank 0
 *      ampi_file                                a member's handle: view, individual pointer, hints
 *
 * The last member to arrive at MPI_File_open creates all of them. A file has its own communicator, for its collectives and
 * as its id between processes. All file pointers count etypes of the view, from its beginning.
 *
 * Life of a data access (access.c): the arguments are checked and become a struct ampi_io_access; the walk through the view
 * and the memory (walk.h) makes pieces; the disk (disk.h) or collective buffering (two_phase.h) moves them.
 */
#ifndef AMPI_IO_FILE_H
#define AMPI_IO_FILE_H

#include "ampi/comm/comm.h"
#include "ampi/io/two_phase.h"
#include "ampi/io/view.h"
#include "ampi/object/info.h"

struct ampi_io_access;

struct ampi_file_shared {
    _Atomic uint32_t refs; /* handles of this process that are not closed */
    int n_ranks;           /* members, in all processes */
    int n_local;           /* members of this process */
    int amode;             /* MPI_MODE_* */
    int fd;                /* of all members of this process; -1: not open */
    bool is_remote;        /* some members are in other processes */
    char *name;            /* as the lowest member of this process passed it, without a prefix such as ufs: */
    pthread_mutex_t lock;  /* guards opening fd */
    int open_error;        /* errno of opening fd */
    _Atomic MPI_Offset pointer;     /* the shared file pointer; only in the process of rank 0 */
    _Atomic bool has_written;       /* by a member of this process, since the last fsync */
    struct ampi_comm_shared *comm;  /* the file's own communicator; its handles hold references */
    struct ampi_two_phase *buffers; /* collective buffering */
    bool has_mixed_hints;           /* those of collective buffering differed when it was opened */
    struct ampi_file *handles;      /* n_local of them */
};

struct ampi_file {
    uint32_t magic; /* AMPI_MAGIC_FILE */
    int rank;
    struct ampi_file_shared *shared;
    struct ampi_rank *owner;
    struct ampi_comm *comm;             /* the owner's handle of the file's communicator */
    struct ampi_errhandler *errhandler; /* NULL: MPI_ERRORS_RETURN */
    struct ampi_info *info;             /* hints that the program has set; NULL: none */
    struct ampi_disk_hints hints;       /* in use */
    struct ampi_view *view;             /* never NULL */
    MPI_Offset pointer;                 /* the individual file pointer */
    struct ampi_io_access *split;       /* of a split collective between begin and end; NULL: none */
    uint32_t n_pending;                 /* accesses that the disk has not finished */
    struct ult *closer;                 /* waits for them in MPI_File_close; NULL: none */
    bool is_atomic;                     /* MPI_File_set_atomicity */
    int lock_fd;                        /* a description of its own, for locks; -1: not needed yet */
    bool is_locked; /* a thread of the owner has the lock, which is that of the description */
};

/* ---- Handles (file.c) ---- */

/* The object of a handle; NULL if it is not valid (including MPI_FILE_NULL). */
static inline struct ampi_file *ampi_file_of(MPI_File handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_FILE) ? (struct ampi_file *)handle : NULL;
}

/* Raises MPI_ERR_FILE for a handle that is not a valid file, on MPI_FILE_NULL, and returns that class. */
int ampi_file_raise_invalid(MPI_File handle) BASE_COLD;

/* Calls the file's error handler with a text that begins with the file's name, and returns the code. May switch. */
int ampi_file_raise(struct ampi_file *file, int error_code, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;

/* The same with the handler of MPI_FILE_NULL; name: the file's, NULL: none. */
int ampi_file_raise_null(const char *name, int error_code, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;

/* MPI's class for an errno; raises it on a file. what: the action, "reading". */
int ampi_file_class(int error_number) BASE_COLD;
int ampi_file_raise_errno(struct ampi_file *file, int error_number, const char *what) BASE_COLD;

/* A malloc'ed copy. */
char *ampi_io_copy_text(const char *text);

/* Creates the file for the members of this process; the communicator is taken over. Never switches. */
struct ampi_file_shared *ampi_file_shared_create(struct ampi_comm_shared *comm, int amode, const char *name,
                                                 int fd);

/* Gives up the owner's handle and its resources. Closes the file with the last one of the process. */
void ampi_file_release(struct ampi_file *file);

/* ---- Checks: raise the right class, or return MPI_SUCCESS ---- */

/* Finds the file of a call. */
int ampi_file_enter(MPI_File handle, struct ampi_file **file_out) BASE_MUST_CHECK;

/* Refuses calls that need more than sequential access, and collective calls between begin and end of a split one. */
int ampi_file_check_random(struct ampi_file *file) BASE_MUST_CHECK;
int ampi_file_check_no_split(struct ampi_file *file) BASE_MUST_CHECK;
int ampi_file_check_writable(struct ampi_file *file) BASE_MUST_CHECK;

/* ---- Collectives of the members. May switch. Raise nothing. ---- */

/* The highest of the members' error classes (0: none), or MPI_ERR_NOT_SAME if not all pass the same value. */
int ampi_file_agree(struct ampi_file *file, int error, MPI_Offset value);

/* The same, and raises the result, except own_error, which has been raised. what: the argument that has to be the
 * same. */
int ampi_file_agree_or_raise(struct ampi_file *file, int own_error, MPI_Offset value, const char *what);

/* Adds up a count: the sum of the lower ranks', and of all. Returns an error class. */
int ampi_file_prefix(struct ampi_file *file, MPI_Offset count, MPI_Offset *before_out, MPI_Offset *all_out);

/* A value of one rank for all. Returns an error class. */
int ampi_file_bcast(struct ampi_file *file, int root, MPI_Offset *value);

/* ---- The shared file pointer (shared_pointer.c). May switch. Return an error class, raise nothing. ---- */

int ampi_file_pointer_add(struct ampi_file *file, MPI_Offset n, MPI_Offset *before_out);

/* In the process of rank 0. */
void ampi_file_pointer_set(struct ampi_file *file, MPI_Offset value);

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_io_connect(void);

/* ---- Hints (hints.c) ---- */

/* The file's hints from a new info object (NULL: none), on top of those in use. Those of collective buffering must be equal at
 * all ranks: callers compare their fingerprints, of the file's or (NULL) of a new file's, and if they differ all drop them. */
void ampi_file_set_hints(struct ampi_file *file, const struct ampi_info *info);
MPI_Offset ampi_file_hints_fingerprint(const struct ampi_file *file, const struct ampi_info *info);
void ampi_file_drop_hints(struct ampi_file *file);

/* Collective: sets hints and drops them if they differ. own_error: of the calling rank, raised; no rank's hints change.
 * Returns an error class, raised. May switch. */
int ampi_file_change_hints(struct ampi_file *file, int own_error, const struct ampi_info *info);

/* ---- The file itself (size.c) ---- */

/* Writes all data of this process to the device. Returns errno. May switch. */
int ampi_file_flush(struct ampi_file *file);

/* The file's size in bytes; negative: -errno. */
MPI_Offset ampi_file_size(const struct ampi_file *file);

/* Locks and unlocks the whole file against members in atomic mode, and other programs. Return errno. May switch. */
int ampi_file_lock(struct ampi_file *file, bool is_write);
void ampi_file_unlock(struct ampi_file *file);

static inline bool ampi_file_is_sequential(const struct ampi_file *file)
{
    return file->shared->amode & MPI_MODE_SEQUENTIAL;
}

#endif
