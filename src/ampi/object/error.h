/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error.h: raising MPI errors (MPI 5.0, section 9.3).
 *
 * The code that detects an error raises it, once, with a sentence about the wrong argument; callers pass
 * the returned code on and do not raise it again. Printed as: rank 3 of 64 on host h (PE 1): MPI_Send:
 * MPI_ERR_RANK: <sentence>
 */
#ifndef AMPI_ERROR_H
#define AMPI_ERROR_H

#include "ampi/object/handle.h"

struct ampi_comm;
struct ampi_rank;

/* Calls the communicator's error handler with the class (or a user's code) and returns it. With
 * MPI_ERRORS_ARE_FATAL (the default) and MPI_ERRORS_ABORT it prints the line and ends the job. A user's
 * handler may switch. */
int ampi_raise(struct ampi_comm *comm, int error_code, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;

/* The same for errors without a communicator (a wrong handle, a datatype): calls the handler of
 * MPI_COMM_SELF or, if the program never set one there, that of MPI_COMM_WORLD, as programs written for
 * MPI-3 expect. */
int ampi_raise_self(int error_code, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_COLD;

/* On the communicator or, if that is NULL, like ampi_raise_self: for requests, some of which have none. */
int ampi_raise_on_comm(struct ampi_comm *comm, int error_code, const char *fmt, ...)
    BASE_PRINTF(3, 4) BASE_COLD;

/* The same for sessions, windows and files: calls the given handler with the address of a handle. */
struct ampi_errhandler;
int ampi_raise_on(struct ampi_errhandler *errhandler, void *handle_address, int error_code, const char *fmt,
                  ...) BASE_PRINTF(4, 5) BASE_COLD;

/* Calls an error handler with the address of a handle and the text of an error; returns the code if it
 * returns. */
int ampi_error_handle(struct ampi_errhandler *errhandler, void *handle_address, int error_code,
                      const char *text) BASE_COLD;

/* "MPI_ERR_RANK" for MPI_ERR_RANK; for a user's class, its string. Never NULL. */
const char *ampi_error_name(int error_code);

/* Writes what was wrong when the rank's last error was raised, if that has this code. False: it has not. Any thread. */
bool ampi_error_detail_get(struct ampi_rank *rank, int error_code, char *text_out, size_t size_bytes);

/* At the end of the rank. */
void ampi_error_detail_fini(struct ampi_rank *rank);

/* The standard's sentence for a class. Never NULL. */
const char *ampi_error_text(int error_code);

/* The error class of a code. */
int ampi_error_class(int error_code);

/* Prints "rank R of N on host H (PE P): <call>: <text>" for the running rank (fewer fields without one). */
void ampi_report(const struct ampi_rank *rank, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_COLD;

/* The same for a thread of a rank, by its ULT. */
struct ult;
void ampi_report_on(const struct ult *u, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_COLD;

#endif
