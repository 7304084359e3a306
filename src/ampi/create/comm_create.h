/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_create.h: what the functions that create communicators share, beyond comm.h.
 */
#ifndef AMPI_COMM_CREATE_H
#define AMPI_COMM_CREATE_H

#include "ampi/comm/comm.h"
#include "ampi/object/info.h"
#include "ampi/comm/topo.h"

struct ampi_coll_plan;

/* Makes a communicator for the members of a collective creation, in its middle stage: sets each one's
 * args->extra to its new handle, or args->error. */
extern const struct ampi_coll_plan ampi_comm_dup_plan; /* the same members */
extern const struct ampi_coll_plan
    ampi_comm_split_plan; /* by args->key: color and key; MPI_UNDEFINED: extra stays NULL */

/* Each member calls this on return from the creation, with its new handle (NULL: it is in no new
 * communicator): inherits the error handler, copies attributes if asked to, and sets *newcomm. */
int ampi_comm_adopt(struct ampi_comm *old, struct ampi_comm *made, bool copy_attrs, MPI_Comm *newcomm);

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

/* The reason of the failure: a context id is missing, or a member of the group is lost. text: room for
 * AMPI_LOST_TEXT_MAX bytes, which may be used. */
const char *ampi_comm_creation_text(int error, const struct ampi_group *group, char *text);

#endif
