/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_remote.h: the data of a communicator across several processes. For between*.c and exchange.c.
 *
 * The table has what is found by a message's series and number: messages that came early and the exchanges of
 * persistent collectives, of which many may be in progress. Other exchanges are in `slots`.
 *
 * Processes are numbered from 0 in the order of their first members, so the numbers are equal in all of
 * them.
 */
#ifndef AMPI_COLL_REMOTE_H
#define AMPI_COLL_REMOTE_H

#include "ampi/coll/between/exchange.h"
#include "ampi/coll/between/pair_procs.h"

/* The order of the operations of a communicator that may be run by NCCL (coll_nccl.h). */
enum ampi_coll_turn { AMPI_COLL_TURN_NOT_HERE, AMPI_COLL_TURN_WAITS, AMPI_COLL_TURN_PAST };
struct ampi_coll_turns {
    uint32_t next;                         /* number of the next operation */
    unsigned char states[AMPI_COLL_SLOTS]; /* enum ampi_coll_turn, by number; reset to NOT_HERE after its
                                            * turn */
};

/* State of one slot; used by the leader PE, except that others post the wake-up. */
struct ampi_between_slot {
    struct ampi_between_slot *next_active; /* next in the bucket */
    struct ampi_exchange x;
    struct ult_wakeup wakeup; /* tells the leader PE that all have arrived, or that the work of all PEs is
                               * done */
    bool is_active;           /* the exchange is under way: messages may be given to it */
    uint64_t proposed;        /* this process's context id for a communicator that is being made */
};

/* The entries of the table with the same hash; each list is in any order. */
struct ampi_exchange_bucket {
    struct ampi_exchange_message *arrived; /* early messages: for operations whose local members have not
                                            * arrived, or for later steps */
    struct ampi_between_slot *active;      /* exchanges in progress of persistent collectives */
};

/* Used by the leader PE. (exchange_table.c) */
struct ampi_exchange_table {
    struct ampi_exchange_bucket *buckets; /* by the hash of series and number; at first those below */
    uint32_t n_buckets;                   /* a power of two, not less than n_entries */
    uint32_t n_entries;
    struct ampi_exchange_bucket first[AMPI_COLL_SLOTS];
};

struct ampi_coll_remote {
    int n_procs;          /* processes with members */
    int own;              /* index of this one */
    int *proc_id;         /* by index */
    int *leader_rank;     /* by index: world rank of its first member */
    int *leader_pe;       /* by index: PE of that rank in its process; -1: not looked up yet */
    int *index_of;        /* by process of the job: its index; -1: no members */
    int *first;           /* process i has members[first[i]] .. members[first[i + 1] - 1] */
    int *members;         /* sorted by process, ascending in each; NULL: is_blocked, member i has number i */
    int *proc_of;         /* by member: index of its process; NULL: is_blocked */
    unsigned char *sides; /* by index: bit s is set if it has members of side s */
    bool is_blocked;      /* every process's members are consecutive, in the order of the processes */
    int leader_part;      /* of this process */
    struct ult_pe *leader;
    struct ampi_coll_nccl *nccl; /* NULL: no operation was worth a vote (coll_nccl.h) */
    struct ampi_coll_turns turns;
    struct ampi_exchange_table table;
    struct ampi_pair pair; /* if state->is_pair */
    struct ampi_between_slot slots[AMPI_COLL_SLOTS];
};

/* The exchange of an operation between processes. */
static inline struct ampi_exchange *ampi_exchange_of(const struct ampi_coll_slot *slot)
{
    return &slot->between->x;
}

void ampi_exchange_table_init(struct ampi_exchange_table *table);
void ampi_exchange_table_fini(struct ampi_exchange_table *table);

/* The bucket of an operation. */
static inline struct ampi_exchange_bucket *ampi_exchange_bucket(const struct ampi_exchange_table *table,
                                                                uint32_t seq, uint32_t series)
{
    return &table->buckets[(seq + series * 0x9e3779b1u) & (table->n_buckets - 1)];
}

/* Adds an early message. */
void ampi_exchange_add_arrived(struct ampi_exchange_table *table, struct ampi_exchange_message *message);

/* Sets whether messages may be given to the exchange. */
void ampi_exchange_set_active(struct ampi_between_slot *between_slot, bool is_active);

/* A member by its number, 0 <= number < first[n_procs]. */
static inline int ampi_remote_member(const struct ampi_coll_remote *remote, int number)
{
    return remote->members ? remote->members[number] : number;
}

/* The index of a member's process. (between_state.c) */
int ampi_remote_proc_of(const struct ampi_coll_remote *remote, int member);

static inline int ampi_remote_n_members(const struct ampi_coll_remote *remote, int proc)
{
    return remote->first[proc + 1] - remote->first[proc];
}

#endif
