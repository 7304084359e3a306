/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll.h: what the files of the collectives share: starting them in their three forms, and reading members' buffers.
 */
#ifndef AMPI_COLL_COLL_H
#define AMPI_COLL_COLL_H

#include "ampi/coll/slot.h"

/* The three forms of every collective. The arguments have been checked. */

/* MPI_Xxx: ampi_coll_run of slot.h, and raises the result. May switch. */
int ampi_coll_blocking(struct ampi_coll_args *args);

/* MPI_Ixxx: copies the arguments into a new request and starts it. */
int ampi_coll_nonblocking(const struct ampi_coll_args *args, MPI_Request *request);

/* MPI_Xxx_init: copies the arguments into a new INACTIVE request. */
int ampi_coll_persistent(const struct ampi_coll_args *args, MPI_Request *request);

/* Everything a collective that moves no data needs: the communicator's barrier. May switch. */
int ampi_coll_barrier(struct ampi_comm *comm);

#endif
