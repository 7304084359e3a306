/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_ops.h: the seam between the engine and collectives between processes.
 *
 * The engine and the plans are independent of processes. A communicator with members in several processes
 * has a state of coll/between (state->remote), and its slots have an exchange (slot->between). In a job of
 * one process the functions of the table do nothing (slot_state.c); in a job of several, coll/between sets
 * its own.
 */
#ifndef AMPI_COLL_BETWEEN_OPS_H
#define AMPI_COLL_BETWEEN_OPS_H

#include <stdbool.h>

struct ampi_coll_args;
struct ampi_coll_nccl;
struct ampi_coll_remote;
struct ampi_coll_slot;
struct ampi_coll_state;

struct ampi_coll_between_ops {
    /* Creates the data of a new communicator about its processes; NULL: all members are in this one. */
    struct ampi_coll_remote *(*create)(struct ampi_coll_state *state);
    void (*destroy)(struct ampi_coll_remote *remote); /* NULL: no effect */

    /* State for the slots of a persistent collective, and data common to its starts. */
    void (*slots_init)(struct ampi_coll_slot *slots, int n_slots);
    void (*slots_fini)(struct ampi_coll_slot *slots, struct ampi_coll_nccl *nccl);

    /* All local members have arrived; slot->last and slot->plan are set. The middle stage follows
     * automatically. */
    void (*arrived)(struct ampi_coll_slot *slot);

    /* A pair of members in two processes: this one arrives. False: in the slot. */
    bool (*pair_arrive)(struct ampi_coll_slot *slot, struct ampi_coll_args *args);

    /* The stand-ins are not needed any more. */
    void (*release)(struct ampi_coll_slot *slot);

    /* A member's process has failed: fails operations at which all local members have arrived and which wait
     * for other processes. Called on any PE; only the leader PE acts. */
    void (*fail)(struct ampi_coll_state *state, int pe_id);

    /* By index of a process: its number of members, and its i-th member. The process of a member. */
    int (*n_members_in)(const struct ampi_coll_remote *remote, int proc);
    int (*member_in)(const struct ampi_coll_remote *remote, int proc, int i);
    int (*proc_of)(const struct ampi_coll_remote *remote, int member);
};
extern const struct ampi_coll_between_ops *ampi_coll_between;

#endif
