/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocked.h: what a blocked rank waits for, as a line of a report.
 *
 * Other ranks' tables are read, which is safe while no rank runs (a deadlock), or for ranks of the calling PE.
 */
#ifndef AMPI_JOB_BLOCKED_H
#define AMPI_JOB_BLOCKED_H

#include "ampi/job/rank_lines.h"
#include "ampi/object/rank.h"

/* A report begins: ranks may have run since the last one of the calling OS thread. */
void ampi_blocked_begin(void);

/* Describes where a thread of a rank is blocked: its requests, the place of its call of MPI, the members that a collective waits
 * for, and messages or receives that nearly match. pe_id: the calling PE; ranks may run, and those of other PEs are not looked at;
 * -1: no rank runs. */
void ampi_blocked_describe(const struct ult *u, int pe_id, struct ampi_line *line);

/* A rank of this process that the blocked rank waits for, and that cannot be replaced by another one; NULL: none is known. */
const struct ampi_rank *ampi_blocked_waits_for(const struct ampi_rank *rank);

/* Appends "in the function NAME of a reduction operation, ...". */
void ampi_blocked_add_user_fn(struct ampi_line *line, const void *user_fn);

#endif
