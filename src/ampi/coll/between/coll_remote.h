/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_remote.h: what a communicator over several processes knows of them. For wire*.c and exchange.c.
 *
 * Processes are numbered from 0 in the order of their first members: the same in all of them.
 */
#ifndef AMPI_COLL_REMOTE_H
#define AMPI_COLL_REMOTE_H

#include "ampi/coll/between/exchange.h"
#include "ampi/coll/between/coll_nccl.h"

/* Of one slot; the leader PE's, but for the note. */
struct ampi_wire_slot {
    struct ampi_wire_slot *next_series; /* link of remote->series */
    struct ampi_exchange x;
    struct ult_note note; /* takes the arrival to the leader PE */
    bool is_active;       /* the exchange is under way: messages may be given to it */
    uint64_t proposed;    /* this process's context id for a communicator that is being made */
};

struct ampi_coll_remote {
    int n_procs;      /* with members */
    int own;          /* index of this one */
    int *proc_id;     /* by index */
    int *leader_rank; /* by index: world rank of its first member */
    int *leader_pe;   /* by index: PE of that rank in its process; -1: not looked up yet */
    int *index_of;    /* by process of the job: its index; -1: it has no members */
    int *proc_of;     /* by member: index of its process */
    int *first;       /* members of process i: members[first[i]] .. [first[i + 1] - 1], ascending */
    int *members;
    unsigned char *sides; /* by index: bit s is set if it has members of side s */
    bool is_blocked;      /* every process's members are consecutive, in the order of the processes */
    int leader_part;      /* of this process */
    struct ult_pe *leader;
    struct ampi_exchange_message *arrived; /* for later: of operations whose local members have not arrived,
                                              or of later steps; in any order */
    struct ampi_wire_slot *series;         /* exchanges of persistent collectives under way */
    struct ampi_coll_nccl *nccl;           /* NULL: no operation was worth asking (coll_nccl.h) */
    struct ampi_coll_turns turns;
    struct ampi_wire_slot slots[AMPI_COLL_SLOTS];
};

static inline int ampi_remote_n_members(const struct ampi_coll_remote *remote, int proc)
{
    return remote->first[proc + 1] - remote->first[proc];
}

#endif
