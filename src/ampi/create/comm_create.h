/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_create.h: shared declarations of the functions that create communicators, beyond comm.h.
 */
#ifndef AMPI_COMM_CREATE_H
#define AMPI_COMM_CREATE_H

#include "ampi/comm/comm.h"
#include "ampi/object/info.h"
#include "ampi/comm/topo.h"
#include "ampi/meet/meet.h"

struct ampi_coll_plan;

/* Creates the communicator(s) of a collective creation, in its middle stage: sets each member's args->extra
 * to its new handle, or args->error. */
extern const struct ampi_coll_plan
    ampi_comm_dup_plan; /* the same members; args->key: 1 and the member's number of streams, or 0 */
extern const struct ampi_coll_plan
    ampi_comm_split_plan; /* by args->key: color and key; MPI_UNDEFINED: extra stays NULL */

/* Completes a creation; each member calls it with its new handle (NULL: it is in no new communicator): sets
 * the error handler, copies attributes if requested, and sets *newcomm. */
int ampi_comm_adopt(struct ampi_comm *old, struct ampi_comm *made, bool copy_attrs, MPI_Comm *newcomm);

/* Collective over old, as MPI_Comm_split, with the same errors. The new communicator gets the topology (NULL: none;
 * takes over the reference; all its members pass equal ones) and the hints (NULL: none). May switch. */
int ampi_comm_create_split(struct ampi_comm *old, int color, int key, struct ampi_topo *topo,
                           const struct ampi_info *hints, MPI_Comm *newcomm);

/* How the leader of a group finds that of another one. */
struct ampi_comm_leader {
    int rank;              /* of the leader; equal at all members. The rest is used at the leader only */
    int error;             /* of the leader, for all members: they do not meet */
    int remote_world_rank; /* the other leader */
    struct ampi_meet key;  /* distinguishes this meeting: function, context_id, tag, stringtag */
    struct ampi_comm_side *side;           /* set by ampi_comm_prepare_inter; NULL: the leaders meet */
    struct ampi_comm_agreement *agreement; /* the same, in a job of several processes */
};

/* For a leader whose other group does not take part, because its ranks do not run yet: creates the intercommunicator in
 * this process, which has all members of that group. Returns the handles of the group, by rank; NULL: no context id is left.
 * Then ampi_comm_create_inter gives the handles to the members of local. Never switches. */
struct ampi_comm *ampi_comm_prepare_inter(struct ampi_comm *local, struct ampi_group *group,
                                          struct ampi_comm_leader *leader);

/* Collective over local, and over the other leader's communicator: creates an intercommunicator of the two. Returns
 * the error of the leaders, without raising it: MPI_ERR_GROUP if the groups have a rank in common. *made_out is the
 * caller's handle, for ampi_comm_adopt. May switch. */
int ampi_comm_create_inter(struct ampi_comm *local, const struct ampi_comm_leader *leader,
                           struct ampi_comm **made_out);

/* Raises the error that a communicator could not be created. */
int ampi_comm_raise_creation(struct ampi_comm *comm, int error) BASE_COLD;

/* The reason of the failure: no context id is left, or a member of the group has failed. text: a buffer of
 * AMPI_FAILED_TEXT_MAX bytes that may be used. */
const char *ampi_comm_creation_text(int error, const struct ampi_group *group, char *text);

#endif
