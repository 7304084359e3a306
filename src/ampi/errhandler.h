/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errhandler.h: error handler objects (MPI 5.0, section 9.3).
 */
#ifndef AMPI_ERRHANDLER_H
#define AMPI_ERRHANDLER_H

#include "ampi/handle.h"

/* What objects a user's handler may be attached to. */
enum ampi_errhandler_for { AMPI_ERRHANDLER_COMM, AMPI_ERRHANDLER_WIN, AMPI_ERRHANDLER_FILE, AMPI_ERRHANDLER_SESSION };

struct ampi_errhandler {
    uint32_t magic;                 /* AMPI_MAGIC_ERRHANDLER */
    _Atomic uint32_t refs;          /* handles and objects that use it; predefined: not counted */
    MPI_Errhandler predefined;      /* the constant; MPI_ERRHANDLER_NULL for users' handlers */
    enum ampi_errhandler_for kind;  /* users' handlers */
    union {
        MPI_Comm_errhandler_function *comm;
        MPI_Win_errhandler_function *win;
        MPI_File_errhandler_function *file;
        MPI_Session_errhandler_function *session;
    } fn;                           /* users' handlers */
};

extern struct ampi_errhandler ampi_errors_are_fatal;
extern struct ampi_errhandler ampi_errors_abort;
extern struct ampi_errhandler ampi_errors_return;

/* The object of a handle; NULL if it is none (MPI_ERRHANDLER_NULL included). */
struct ampi_errhandler *ampi_errhandler_of(MPI_Errhandler handle);
MPI_Errhandler ampi_errhandler_handle(struct ampi_errhandler *errhandler);

void ampi_errhandler_ref(struct ampi_errhandler *errhandler);
void ampi_errhandler_unref(struct ampi_errhandler *errhandler); /* NULL: nothing */

#endif
