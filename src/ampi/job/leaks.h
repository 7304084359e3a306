/* SPDX-License-Identifier: BSD-3-Clause
 *
 * leaks.h: +check leaks: handles that a program never frees, and messages that it never receives.
 *
 * The gates (tools/gen_gates.py) record each handle that a function of MPI gives to the program or takes back, so the
 * library's own objects never appear. Without +check leaks nothing is called.
 */
#ifndef AMPI_JOB_LEAKS_H
#define AMPI_JOB_LEAKS_H

#include "ampi/misuse/misuse.h"
#include "base/settings.h"

/* Before a call that may free some of these n handles: a copy of them, for ampi_leaks_freed after the call. NULL: off, or none. */
void *ampi_leaks_before(enum ampi_leak kind, MPI_Count n, const void *handles);
void ampi_leaks_freed(enum ampi_leak kind, void *before, const char *call, const void *from, MPI_Count n,
                      const void *handles);

/* A call, at the return address `from`, has set n handles, each of which the program must free. later: another handle, a
 * communicator, that it sets when this one, a request, completes; NULL: none. */
void ampi_leaks_made(enum ampi_leak kind, const char *call, const void *from, MPI_Count n, void *handles,
                     const void *later);

/* The number of handles that MPI_Type_get_contents returns. */
MPI_Count ampi_leaks_contents(MPI_Datatype type);

/* In MPI_Finalize: rank 0 collects and prints the handles that the ranks of its MPI_COMM_WORLD have not freed. Those
 * that may be freed later are left for the end of the process. May switch. */
void ampi_leaks_finalize(struct ampi_rank *self);

/* True if a rank that has ended holds no handle that will be reported; drops its table. */
bool ampi_leaks_can_leave(const struct ampi_rank *rank);
void ampi_leaks_leave_rank(struct ampi_rank *rank);

/* A rank has ended with open sessions: prints the calls that opened them. */
void ampi_leaks_report_sessions(struct ampi_rank *rank);

/* When no rank runs any more: prints the remaining handles. Returns the exit code of the process, which is 1 instead
 * of 0 after a report. */
int ampi_leaks_end(int exit_code);

/* At the start: arranges that at the exit of a process whose ranks are not copies. */
void ampi_leaks_watch_exit(void);

#endif
