/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_ops.h: the seam between the engine and collectives between processes.
 *
 * The engine and the plans know no processes. A communicator with members in several has a state of
 * coll/between (state->remote) and slots with an exchange (slot->wire). In a job of one process create returns
 * NULL, and the other functions find nothing to do.
 */
#ifndef AMPI_COLL_BETWEEN_OPS_H
#define AMPI_COLL_BETWEEN_OPS_H

struct ampi_coll_nccl;
struct ampi_coll_remote;
struct ampi_coll_slot;
struct ampi_coll_state;

struct ampi_coll_between_ops {
    /* What a new communicator knows of the processes; NULL: all members live in this one. */
    struct ampi_coll_remote *(*create)(struct ampi_coll_state *state);
    void (*destroy)(struct ampi_coll_remote *remote); /* NULL: nothing */

    /* What belongs to the slots of a persistent collective, and what its starts had in common. */
    void (*slots_init)(struct ampi_coll_slot *slots, int n_slots);
    void (*slots_fini)(struct ampi_coll_slot *slots, struct ampi_coll_nccl *nccl);

    /* All local members have arrived; slot->last and slot->plan are set. The middle stage follows by
     * itself. */
    void (*arrived)(struct ampi_coll_slot *slot);

    /* The stand-ins are not needed any more. */
    void (*release)(struct ampi_coll_slot *slot);

    /* A member's process has failed: operations that all local members have arrived at, and that wait for
     * others, fail. On any PE; the leader's does it. */
    void (*fail)(struct ampi_coll_state *state, int pe_id);

    /* Members of a process, by its index; the i-th of them; and the process of a member. */
    int (*n_members_in)(const struct ampi_coll_remote *remote, int proc);
    int (*member_in)(const struct ampi_coll_remote *remote, int proc, int i);
    int (*proc_of)(const struct ampi_coll_remote *remote, int member);
};
extern const struct ampi_coll_between_ops *ampi_coll_between;

#endif
