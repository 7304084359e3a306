/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire.h: collectives of communicators with members in several processes.
 *
 * Between arrival and the middle stage (slot.h) comes one more, on the leader PE of each process (that of its
 * first member): an exchange between processes (exchange.h). What is exchanged follows from the plan's flow:
 *
 *      reductions  the process's members combine their contributions, the processes combine the resulting
 *                  vectors, and the middle stage hands the result out (reduction.h)
 *      the others  the process packs what others need of its members into parts, which the exchange takes to
 *                  where they are needed; there stand-ins for the members elsewhere are set up (arguments
 *                  whose buffers are the data that came), and the plan's middle stage runs as in one process.
 *                  It writes to this process's members alone.
 *
 * Which processes need something of which follows from the plan's flow and the root, and each of them knows
 * it.
 */
#ifndef AMPI_COLL_WIRE_H
#define AMPI_COLL_WIRE_H

#include "ampi/coll/between/exchange.h"

/* Where items are packed to. A part begins with what is in it, which the CPU reads; then comes the data of
 * all items, which may be a GPU's, each padded so that it is aligned. */
struct ampi_coll_packer {
    unsigned char *at; /* NULL: sizes are only added up */
    size_t n_bytes;
    unsigned char *data;
    size_t data_bytes;
    int proc;                    /* index of the process that it is for */
    int n_items;                 /* of the current member */
    struct ampi_coll_args *args; /* of the current member */
};

/* An item of a member's part. */
struct ampi_coll_item {
    uint64_t n_bytes;
    uint64_t index; /* which of the member's blocks it is */
};

/* What came of one member. */
struct ampi_coll_unpacker {
    const unsigned char *at;   /* the first item */
    const unsigned char *data; /* its data */
    int n_items;
    struct ampi_exchange *exchange; /* whose memory stand-ins' arrays are to be taken from */
};

/* Adds a block of a member's, packed; one that is a GPU's is there when the stage ends. */
void ampi_coll_put(struct ampi_coll_packer *out, uint64_t index, struct ampi_coll_block block);
/* Adds bytes. */
void ampi_coll_put_bytes(struct ampi_coll_packer *out, uint64_t index, const void *bytes, size_t n_bytes);

/* The next item's data. */
const void *ampi_coll_get(struct ampi_coll_unpacker *in, size_t *n_bytes_out, uint64_t *index_out);

/* Memory that lives as long as the stand-ins, cleared. */
void *ampi_coll_stand_in_alloc(struct ampi_coll_unpacker *in, size_t n_bytes);

/* Ready-made: one item, which is all of the member's data. */
void ampi_coll_unwire_whole(struct ampi_coll_args *args, struct ampi_coll_unpacker *in);

/* Ready-made: items are blocks by index, and become the stand-in's send buffer. */
void ampi_coll_unwire_blocks(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                             struct ampi_coll_unpacker *in);

/* Ready-made for reductions: the input, whose type the stand-in has in common with slot->last. */
void ampi_coll_wire_input(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                          struct ampi_coll_packer *out);
void ampi_coll_unwire_input(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            struct ampi_coll_unpacker *in);

/* Calls visit for every member of the peer side of args that lives in the process. */
int ampi_coll_n_peers_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc);
int ampi_coll_peer_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc, int i);

/* ---- For slot.c ---- */

struct ampi_coll_remote;
/* NULL: all members live in this process. */
struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state);
void ampi_coll_remote_destroy(struct ampi_coll_remote *remote);

/* Between processes: what belongs to the slots of a persistent collective. */
void ampi_coll_wire_slots_init(struct ampi_coll_slot *slots, int n_slots);
void ampi_coll_wire_slots_fini(struct ampi_coll_slot *slots);

/* All local members have arrived; slot->last and slot->plan are set. The middle stage follows by itself. */
void ampi_coll_remote_arrived(struct ampi_coll_slot *slot);

/* The stand-ins are not needed any more. */
void ampi_coll_remote_release(struct ampi_coll_slot *slot);

/* A member is lost: operations that all local members have arrived at, and that wait for others, fail. On any
 * PE; the leader's does it. */
void ampi_coll_wire_lose(struct ampi_coll_state *state, int pe_id);

/* All local members go on with MPI_ERR_PROC_ABORTED, on the PE of the part. (slot.c) */
void ampi_coll_fail(struct ampi_coll_slot *slot, int part);

/* Runs the middle stage and what follows, on the PE of the part. (slot.c) */
void ampi_coll_run_middle(struct ampi_coll_slot *slot, int part);

#endif
