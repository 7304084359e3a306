/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errhandler.h: error handler objects (MPI 5.0, section 9.3).
 */
#ifndef AMPI_ERRHANDLER_H
#define AMPI_ERRHANDLER_H

#include "ampi/object/handle.h"

/* The kind of objects that a user's handler may be attached to. */
enum ampi_errhandler_for {
    AMPI_ERRHANDLER_COMM,
    AMPI_ERRHANDLER_WIN,
    AMPI_ERRHANDLER_FILE,
    AMPI_ERRHANDLER_SESSION
};

/* A NULL pointer to a handler stands for the default: MPI_ERRORS_ARE_FATAL, for files MPI_ERRORS_RETURN. */
struct ampi_errhandler {
    uint32_t magic;                /* AMPI_MAGIC_ERRHANDLER */
    _Atomic uint32_t refs;         /* handles and objects that use it; predefined: not counted */
    MPI_Errhandler predefined;     /* the constant; MPI_ERRHANDLER_NULL for users' handlers */
    enum ampi_errhandler_for kind; /* users' handlers */
    union {
        MPI_Comm_errhandler_function *comm;
        MPI_Win_errhandler_function *win;
        MPI_File_errhandler_function *file;
        MPI_Session_errhandler_function *session;
    } fn; /* users' handlers */
};

extern struct ampi_errhandler ampi_errors_are_fatal;
extern struct ampi_errhandler ampi_errors_abort;
extern struct ampi_errhandler ampi_errors_return;

/* The object of a handle; NULL if it is not valid (including MPI_ERRHANDLER_NULL). */
struct ampi_errhandler *ampi_errhandler_of(MPI_Errhandler handle);

/* True if the handler may be attached to objects of this kind. */
bool ampi_errhandler_fits(const struct ampi_errhandler *errhandler, enum ampi_errhandler_for kind);

/* NULL, or the reason for MPI_ERR_ERRHANDLER: the handle is not valid, or not for this kind of object. */
const char *ampi_errhandler_misfit(MPI_Errhandler handle, enum ampi_errhandler_for kind);

/* Replaces the handler in *slot by the one with this handle; raises MPI_ERR_ERRHANDLER (on MPI_COMM_SELF)
 * if that is not valid or not for this kind of object. */
int ampi_errhandler_set(struct ampi_errhandler **slot, MPI_Errhandler handle, enum ampi_errhandler_for kind);

/* Called when the program attaches the handler. If it returns errors, this process tolerates failed
 * processes from then on. */
void ampi_errhandler_chosen(const struct ampi_errhandler *errhandler);

/* The number of the error handler with this name (MPI 5.0, section 12.3.4: mpi_initial_errhandler); -1: there is none. */
int ampi_errhandler_find(const char *name);
/* Its handle. */
MPI_Errhandler ampi_errhandler_numbered(int number);

/* The handle for MPI_*_get_errhandler: adds a reference, which MPI_Errhandler_free drops. when_null:
 * meaning of NULL in the slot. */
int ampi_errhandler_get(struct ampi_errhandler *const *slot, struct ampi_errhandler *when_null,
                        MPI_Errhandler *handle_out);

void ampi_errhandler_ref(struct ampi_errhandler *errhandler);
void ampi_errhandler_unref(struct ampi_errhandler *errhandler); /* NULL: no effect */

#endif
