/* SPDX-License-Identifier: BSD-3-Clause
 *
 * access.h: data access (MPI 5.0, section 14.4): the functions behind the entry points (io.bindings), and one access in
 * progress.
 *
 * All forms differ in three things: where the data lies in the file, whether the ranks act together, and when the call returns.
 */
#ifndef AMPI_IO_ACCESS_H
#define AMPI_IO_ACCESS_H

#include "ampi/io/file.h"
#include "ampi/p2p/request.h"

/* The place of the data in the view. */
enum ampi_io_place {
    AMPI_IO_AT,         /* an offset that the program passes */
    AMPI_IO_INDIVIDUAL, /* the individual file pointer */
    AMPI_IO_SHARED,     /* the shared file pointer, in the order in which ranks come */
    AMPI_IO_ORDERED     /* the shared file pointer, in the order of ranks */
};

enum ampi_io_form { AMPI_IO_BLOCKING, AMPI_IO_NONBLOCKING, AMPI_IO_BEGIN };

/* The function that was called. */
struct ampi_io_call {
    const char *name; /* "MPI_File_read_at" */
    enum ampi_io_place place;
    bool is_write;
    bool is_collective;
    enum ampi_io_form form;
};

/* The program's arguments, in the form of all functions. */
struct ampi_io_args {
    MPI_File fh;
    MPI_Offset offset; /* AMPI_IO_AT */
    void *buf;
    MPI_Count count;
    MPI_Datatype datatype;
};

/* Pieces on the stack of a blocking call; more are allocated. */
#define AMPI_IO_FEW_PIECES 16

/* An access in progress. */
struct ampi_io_access {
    struct ampi_disk_op op;
    struct ampi_file *file;
    const struct ampi_io_call *call; /* static */
    struct ampi_view *view;          /* with a reference */
    struct ampi_type *type;          /* of the elements in memory; with a reference */
    void *buf;
    MPI_Count count;
    MPI_Offset first;          /* data byte of the view where it begins */
    MPI_Count n_bytes;         /* in the file */
    MPI_Count done;            /* bytes in the file that were moved, by all operations so far */
    MPI_Count left;            /* bytes that no piece has yet */
    struct ampi_cursor place;  /* in the file, of the next piece */
    struct ampi_cursor memory; /* of the next piece */
    char *converted;           /* data in the file's representation; malloc'ed; NULL: not converted */
    struct ampi_disk_piece *pieces;
    size_t max_pieces;
    bool is_copied;               /* the result was converted into the program's buffer */
    int error;                    /* class of an error that is not the disk's */
    MPI_Count moved;              /* bytes of data in memory: the status */
    struct ampi_request *request; /* nonblocking: of the program; split: of the library */
    struct ampi_disk_piece few[AMPI_IO_FEW_PIECES];
};

/* Does or starts an access; all forms. status: of blocking forms; request: of nonblocking ones. Raises errors and returns them.
 * May switch. */
int ampi_io_access(const struct ampi_io_call *call, const struct ampi_io_args *args, MPI_Status *status,
                   MPI_Request *request);

/* Ends a split collective: begin names the function that must have begun it. May switch. */
int ampi_io_end(MPI_File fh, const char *begin, MPI_Status *status);

/* ---- One access (transfer.c) ---- */

/* Begins at a data byte of the file's view; takes references. The other fields are set. Returns an error class of a conversion,
 * or MPI_SUCCESS. May switch. */
int ampi_io_transfer_init(struct ampi_io_access *access);

/* Moves the data and waits. May switch. */
void ampi_io_transfer_run(struct ampi_io_access *access);

/* Starts moving the data; completes access->request. Never switches. */
void ampi_io_transfer_start(struct ampi_io_access *access);

/* When all was moved: converts data that was read, and sets access->moved. Returns an error class, and raises it on the file
 * unless that is closed. May switch. */
int ampi_io_transfer_finish(struct ampi_io_access *access);

/* For reports: the file's communicator, if the request is that of a collective access; NULL: it is not. (access.c) */
struct ampi_comm *ampi_io_collective_comm(const struct ampi_request *request);

/* Drops its resources. */
void ampi_io_transfer_fini(struct ampi_io_access *access);

#endif
