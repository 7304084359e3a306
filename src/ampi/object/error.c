/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error.c: from a detected error to the error handler. The texts of the classes are in error_text.c.
 */
#include "ampi/object/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "ampi/comm/comm.h"
#include "ampi/object/errhandler.h"
#include "base/log.h"

/* Longest sentence of an error. */
#define TEXT_MAX 1024

/* The line that every report of a rank begins with; empty where there is no rank. */
static void format_origin(char *out, size_t size_bytes, const struct ampi_rank *rank)
{
    const char *host = ampi_job.host ? ampi_job.host : "this host";

    if (rank)
        snprintf(out, size_bytes, "rank %d of %d on host %s (PE %d): %s%s", rank->world_rank,
                 ampi_job.n_ranks, host, rank->pe_id, rank->call ? rank->call : "", rank->call ? ": " : "");
    else
        snprintf(out, size_bytes, "host %s: ", host);
}

void ampi_report(const struct ampi_rank *rank, const char *fmt, ...)
{
    char origin[256];
    char text[TEXT_MAX];
    va_list args;

    format_origin(origin, sizeof origin, rank);
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    base_log_plain("%s%s", origin, text);
}

/* Calls a user's handler with the address of its object's handle. */
static void call_user(const struct ampi_errhandler *errhandler, void *handle_address, int *error_code)
{
    switch (errhandler->kind) {
    case AMPI_ERRHANDLER_COMM:
        errhandler->fn.comm(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_WIN:
        errhandler->fn.win(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_FILE:
        errhandler->fn.file(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_SESSION:
        errhandler->fn.session(handle_address, error_code);
        break;
    }
}

/* What an error handler does with an error; returns the code if it returns. */
static BASE_COLD int handle(struct ampi_errhandler *errhandler, void *handle_address, int error_code,
                            const char *text)
{
    if (errhandler == &ampi_errors_return)
        return error_code;
    if (errhandler && errhandler != &ampi_errors_are_fatal && errhandler != &ampi_errors_abort) {
        call_user(errhandler, handle_address, &error_code);
        return error_code;
    }
    ampi_report(ampi_self(), "%s: %s", ampi_error_name(error_code), text);
    ampi_job_abort(ampi_error_class(error_code));
}

/* Calls the handler of a communicator that was freed while operations were pending: the handle is valid again
 * in the handler. */
static int handle_on_freed(struct ampi_comm *comm, MPI_Comm *handle_address, int error_code, const char *text)
{
    comm->n_pending++;
    comm->magic = AMPI_MAGIC_COMM;
    error_code = handle(comm->errhandler, handle_address, error_code, text);
    comm->magic = AMPI_MAGIC_DEAD;
    ampi_comm_drop_pending(comm);
    return error_code;
}

static int raise_on_comm(struct ampi_comm *comm, int error_code, const char *text)
{
    MPI_Comm comm_handle = ampi_comm_handle(comm);

    if (comm->is_freed)
        return handle_on_freed(comm, &comm_handle, error_code, text);
    return handle(comm->errhandler, &comm_handle, error_code, text);
}

/* Where no communicator is at hand. */
static int raise_on_self(int error_code, const char *text)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_errhandler *errhandler = NULL;
    MPI_Comm comm_handle = MPI_COMM_SELF;

    if (self && self->self && self->self->errhandler) {
        errhandler = self->self->errhandler;
    } else if (self && self->world) {
        errhandler = self->world->errhandler;
        comm_handle = MPI_COMM_WORLD;
    }
    return handle(errhandler, &comm_handle, error_code, text);
}

int ampi_raise(struct ampi_comm *comm, int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return raise_on_comm(comm, error_code, text);
}

int ampi_raise_self(int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return raise_on_self(error_code, text);
}

int ampi_raise_on_comm(struct ampi_comm *comm, int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return comm ? raise_on_comm(comm, error_code, text) : raise_on_self(error_code, text);
}

int ampi_raise_on(struct ampi_errhandler *errhandler, void *handle_address, int error_code, const char *fmt,
                  ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return handle(errhandler, handle_address, error_code, text);
}
