/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_nccl.h: large collectives between processes on buffers of GPUs through NCCL (gpu/nccl.h).
 *
 * No rank knows whether another's buffers are a GPU's. So before an operation that is large enough, the
 * processes vote: each sends the others some bits, and what all have said yes to is done. A process says yes
 * if its members have buffers on the GPU that it takes part with, and if all memory that it needs is there.
 * After a no the operation goes its usual way, everywhere. What the first vote has shown stays: where a
 * process cannot use NCCL at all there are no more votes on the communicator; and as long as no process has
 * touched CUDA there is one for many operations only.
 *
 * The first operation that all say yes to makes NCCL's communicator: an identifier goes round, each process
 * connects, and tells the others what has come of it. Meanwhile the PE does other things.
 *
 * Invariants, on the leader PE of a communicator:
 *   1. Operations take turns: the vote of one begins when the ones before it (by number) have been refused or
 *      are in the GPU's queue. So all processes know the same at each vote, and start the same operations of
 *      NCCL in the same order.
 *   2. A process says yes for one communicator at a time, and no more until that operation is over (the
 *      token). So no GPU waits for an operation that another GPU has queued behind one which waits for the
 *      first GPU: however communicators are mixed, nothing hangs.
 *      A persistent collective has its own turns and its own NCCL communicator: its starts come one after the
 *      other, but in no order with others.
 *   3. An error of NCCL's is told to all processes, whose parts of the operation end then as well; NCCL is
 *      not used on the communicator any more.
 */
#ifndef AMPI_COLL_NCCL_H
#define AMPI_COLL_NCCL_H

#include "ampi/coll/engine/slot.h"
#include "gpu/nccl.h"

struct ampi_exchange;
struct ampi_coll_nccl;

/* The order of operations of a communicator. */
enum ampi_coll_turn { AMPI_COLL_TURN_NOT_HERE, AMPI_COLL_TURN_WAITS, AMPI_COLL_TURN_PAST };
struct ampi_coll_turns {
    uint32_t next;                         /* number of the operation that is next */
    unsigned char states[AMPI_COLL_SLOTS]; /* enum ampi_coll_turn, by number; NOT_HERE once it was `next` */
};

/* Where an operation is. */
enum ampi_coll_nccl_phase {
    AMPI_COLL_NCCL_WAITS,  /* for its turn */
    AMPI_COLL_NCCL_VOTES,  /* with others */
    AMPI_COLL_NCCL_OPENS,  /* NCCL's communicator is being prepared */
    AMPI_COLL_NCCL_LEARNS, /* others' cards */
    AMPI_COLL_NCCL_CONNECTS,
    AMPI_COLL_NCCL_HEARS,   /* whether others have connected */
    AMPI_COLL_NCCL_REFUSED, /* the usual way is next */
    AMPI_COLL_NCCL_AGREED,  /* NCCL does it: all that is left is to start it */
    AMPI_COLL_NCCL_STARTS,  /* it is on its way to the queue */
    AMPI_COLL_NCCL_RUNS,    /* it is in the queue */
};

/* An operation. Memory of its exchange. */
struct ampi_coll_nccl_op {
    struct ampi_exchange *x;
    struct ampi_coll_nccl_op *next; /* link of the PE's list of those that are polled */
    enum ampi_coll_kind kind;
    size_t n_bytes; /* what decides, as the table counts (selection.h) */
    enum ampi_coll_nccl_phase phase;
    int vote;          /* which of the operation's votes this is */
    int round;         /* of the vote */
    uint64_t ballot;   /* what all that were heard have said yes to */
    bool has_token;    /* invariant 2 */
    bool is_queued;    /* the ticket is in the GPU's queue */
    bool is_past;      /* the ticket has come back */
    unsigned n_polls;  /* in this phase */
    int error;         /* 0: none so far */
    uint64_t error_ns; /* when that was */
    struct gpu_ticket ticket;
    struct gpu_queue *queue;
    /* What coll_nccl_plan.c has found: */
    struct gpu_nccl_call call;
    struct ampi_coll_args *direct; /* member whose buffer gets the result; NULL: Heddle's own memory does */
    struct ampi_coll_args *packed; /* bcast: the root, whose data has to be packed; NULL: it need not be */
    size_t *offsets;               /* allgather: by member, where its data is in call.recv */
};

/* ---- For wire.c; on the leader PE ---- */

/* Every operation on its way between processes comes here first. False: it goes its usual way, now. True: it
 * is for ampi_coll_wire_plan later, or for ampi_coll_wire_run. */
bool ampi_coll_nccl_ask(struct ampi_exchange *x);

/* The exchange of an operation with x->nccl is over. True: its data is there; false: it goes on otherwise. */
bool ampi_coll_nccl_over(struct ampi_exchange *x);

/* The same, but a process is lost: the operation ends. */
void ampi_coll_nccl_drop(struct ampi_exchange *x);

/* The steps of the exchange. */
void ampi_coll_nccl_step(struct ampi_exchange *x);

/* What the communicator knows; when it ends. NULL: nothing. */
void ampi_coll_nccl_destroy(struct ampi_coll_nccl *nccl);

/* Operations that NCCL has done for this process. */
uint64_t ampi_coll_nccl_count(void);

/* Of wire.c: the operation goes its usual way. */
void ampi_coll_wire_plan(struct ampi_exchange *x);

/* Of wire.c: runs the steps of the exchange from the first. */
void ampi_coll_wire_begin(struct ampi_exchange *x);

/* Of wire.c: fills the buffers, then runs the exchange's steps from the first. */
void ampi_coll_wire_run(struct ampi_exchange *x);

/* ---- Between coll_nccl.c and coll_nccl_run.c ---- */

/* Polls the operation until the phase is over; then its next step runs. */
void ampi_coll_nccl_poll(struct ampi_coll_nccl_op *op);

/* Puts the operation into the GPU's queue, and polls it. */
void ampi_coll_nccl_run(struct ampi_coll_nccl_op *op);

/* NCCL's communicator of the operation's. */
struct gpu_nccl *ampi_coll_nccl_comm(const struct ampi_exchange *x);

/* The operation is in the queue, or never will be: the next one's turn. */
void ampi_coll_nccl_pass(struct ampi_exchange *x);

/* NCCL's communicator has failed. */
void ampi_coll_nccl_break(struct ampi_exchange *x);

/* Messages of these tags tell of a failure. */
#define AMPI_COLL_NCCL_TAG_CONNECTED 1101 /* note 0: in vain */
#define AMPI_COLL_NCCL_TAG_BROKEN 1102

/* ---- coll_nccl_plan.c: the data ---- */

/* The kind of operation if NCCL has it, and the bytes that decide: alike in all processes. */
bool ampi_coll_nccl_has(const struct ampi_exchange *x, enum ampi_coll_kind *kind_out, size_t *n_bytes_out);

/* Finds the buffers, on x->device; false: they are not there. Moves nothing. */
bool ampi_coll_nccl_plan(struct ampi_exchange *x);

/* Puts the members' contributions together, where they are not there already. Within a stage. */
void ampi_coll_nccl_fill(struct ampi_exchange *x);

/* Sets the plan that hands the result out. */
void ampi_coll_nccl_give(struct ampi_exchange *x);

#endif
