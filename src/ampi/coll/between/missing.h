/* SPDX-License-Identifier: BSD-3-Clause
 *
 * missing.h: for reports of deadlocks: members in other processes that have not entered a collective.
 */
#ifndef AMPI_MISSING_H
#define AMPI_MISSING_H

#include "ampi/comm/comm.h"

/* A member that has not entered a collective. */
struct ampi_coll_absent {
    int member; /* its rank in its side of the communicator; -1: it has entered, or belongs to this process */
    int number; /* in reports */
    int spawn;  /* number of the spawn that has made it; 0: none */
};

/* For a collective that members of this process wait for, on a side of a communicator, by member. On an intercommunicator members of
 * either side may wait. series: number of a persistent one, and seq that of its start; 0: another one. NULL: not known, because the job
 * is not deadlocked. */
const struct ampi_coll_absent *ampi_coll_missing(const struct ampi_comm_side *side, uint32_t series,
                                                 uint32_t seq);

/* A struct ampi_procs_client: asks the other processes, and returns the number of questions. */
int ampi_coll_missing_ask(void);

/* Registers the handler of AMPI_AM_MISSING. */
void ampi_coll_missing_connect(void);

#endif
