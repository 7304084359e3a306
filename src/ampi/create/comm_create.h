/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_create.h: what the functions that create communicators share, beyond comm.h.
 */
#ifndef AMPI_COMM_CREATE_H
#define AMPI_COMM_CREATE_H

#include "ampi/comm/comm.h"
#include "ampi/object/info.h"
#include "ampi/comm/topo.h"

/* Collective over old, like MPI_Comm_split, which it raises the same errors as. The new communicator gets the
 * topology (NULL: none; the reference is taken over; all its members give equal ones) and the hints (NULL:
 * none). May switch. */
int ampi_comm_create_split(struct ampi_comm *old, int color, int key, struct ampi_topo *topo,
                           const struct ampi_info *hints, MPI_Comm *newcomm);

/* Attaches a topology to a communicator that was just created: the first member's is kept. Takes the
 * reference over. */
void ampi_comm_set_topo(struct ampi_comm_shared *shared, struct ampi_topo *topo);

/* Raises that a communicator could not be made. */
int ampi_comm_raise_creation(struct ampi_comm *comm, int error) BASE_COLD;

/* What was wrong: a context id is missing, or a member of the group is lost. text: room for
 * AMPI_LOST_TEXT_MAX bytes, which may be used. */
const char *ampi_comm_creation_text(int error, const struct ampi_group *group, char *text);

#endif
