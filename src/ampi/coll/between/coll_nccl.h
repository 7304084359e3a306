/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_nccl.h: large collectives between processes on GPU buffers through NCCL (gpu/nccl/nccl.h).
 *
 * No rank knows whether another rank's buffers are in GPU memory. So the processes vote before each
 * operation that is large enough: each sends some bits to the others, and the intersection of all decides. A
 * process votes yes if its members' buffers are on its participating GPU, and if it has allocated all memory
 * that it needs. After a no the operation takes its usual path in all processes. If the first vote shows
 * that a process cannot use NCCL at all, there are no more votes on the communicator. While no process uses
 * CUDA, only one of many operations is voted on.
 *
 * The first operation with a unanimous yes creates NCCL's communicator: an identifier is distributed, each
 * process connects, and sends its result to the others. Meanwhile the PE does other work.
 *
 * Invariants, on the leader PE of a communicator:
 *   1. Operations take turns: the vote of one begins when the previous ones (by number) have been refused
 *      or are in the GPU's queue. So all processes have the same state at each vote, and start the same
 *      NCCL operations in the same order.
 *   2. A process votes yes for one communicator at a time, until that operation is complete (the token).
 *      Otherwise a GPU could wait for an operation that another GPU has queued behind an operation that
 *      waits for the first GPU. A persistent collective has its own turns and its own NCCL communicator: its
 *      starts are ordered among themselves, but not with other operations.
 *   3. An NCCL error is sent to all processes, which then end their parts of the operation, too; NCCL is
 *      not used on the communicator any more.
 */
#ifndef AMPI_COLL_NCCL_H
#define AMPI_COLL_NCCL_H

#include "ampi/coll/engine/slot.h"
#include "gpu/nccl/nccl.h"

struct ampi_exchange;
struct ampi_coll_nccl;

/* The phase of an operation. */
enum ampi_coll_nccl_phase {
    AMPI_COLL_NCCL_WAITS,  /* for its turn */
    AMPI_COLL_NCCL_VOTES,  /* with others */
    AMPI_COLL_NCCL_OPENS,  /* NCCL's communicator is being created */
    AMPI_COLL_NCCL_LEARNS, /* receives others' cards */
    AMPI_COLL_NCCL_CONNECTS,
    AMPI_COLL_NCCL_HEARS,   /* receives others' results of connecting */
    AMPI_COLL_NCCL_REFUSED, /* continues on the usual path */
    AMPI_COLL_NCCL_AGREED,  /* NCCL runs it: ready to start */
    AMPI_COLL_NCCL_STARTS,  /* it is being put into the queue */
    AMPI_COLL_NCCL_RUNS,    /* it is in the queue */
};

/* An operation; memory of its exchange. */
struct ampi_coll_nccl_op {
    struct ampi_exchange *x;
    struct ampi_coll_nccl_op *next; /* next in the PE's list of polled operations */
    enum ampi_coll_kind kind;
    size_t n_bytes; /* the deciding size, as counted in the table (selection.h) */
    enum ampi_coll_nccl_phase phase;
    int vote;          /* index among the operation's votes */
    int round;         /* of the vote */
    uint64_t ballot;   /* intersection of all votes known so far */
    bool has_token;    /* invariant 2 */
    bool is_queued;    /* the ticket is in the GPU's queue */
    bool is_past;      /* the ticket has completed */
    unsigned n_polls;  /* in this phase */
    int error;         /* 0: none so far */
    uint64_t error_ns; /* time of the error */
    struct gpu_ticket ticket;
    struct gpu_queue *queue;
    /* Set by coll_nccl_plan.c: */
    struct gpu_nccl_call call;
    struct ampi_coll_args *direct; /* the member whose buffer gets the result; NULL: Heddle's own memory */
    struct ampi_coll_args *packed; /* bcast: the root, if its data has to be packed; else NULL */
    size_t *offsets;               /* allgather: by member, offset of its data in call.recv */
};

/* ---- For between.c; on the leader PE ---- */

/* First step of every operation between processes. False: it takes its usual path, now. True:
 * ampi_coll_between_plan or ampi_coll_between_run will be called later. */
bool ampi_coll_nccl_ask(struct ampi_exchange *x);

/* The exchange of an operation with x->nccl has ended. True: its data has arrived. False: it continues on
 * another path. */
bool ampi_coll_nccl_over(struct ampi_exchange *x);

/* The same if a process has failed: the operation ends. */
void ampi_coll_nccl_drop(struct ampi_exchange *x);

/* Runs the steps of the exchange. */
void ampi_coll_nccl_step(struct ampi_exchange *x);

/* Frees the state of a communicator when it ends. NULL: no effect. */
void ampi_coll_nccl_destroy(struct ampi_coll_nccl *nccl);

/* The number of operations that NCCL has run for this process. */
uint64_t ampi_coll_nccl_count(void);

/* In between.c: the operation takes its usual path. */
void ampi_coll_between_plan(struct ampi_exchange *x);

/* In between.c: runs the steps of the exchange from the first. */
void ampi_coll_between_begin(struct ampi_exchange *x);

/* In between.c: fills the buffers, then runs the exchange's steps from the first. */
void ampi_coll_between_run(struct ampi_exchange *x);

/* ---- Between coll_nccl.c and coll_nccl_run.c ---- */

/* Polls the operation until the phase is over; then its next step runs. */
void ampi_coll_nccl_poll(struct ampi_coll_nccl_op *op);

/* Puts the operation into the GPU's queue, and polls it. */
void ampi_coll_nccl_run(struct ampi_coll_nccl_op *op);

/* The NCCL communicator of the operation. */
struct gpu_nccl *ampi_coll_nccl_comm(const struct ampi_exchange *x);

/* The operation is in the queue, or will never be: begins the next turn. */
void ampi_coll_nccl_pass(struct ampi_exchange *x);
void ampi_coll_nccl_pass_number(struct ampi_coll_remote *remote, uint32_t seq);

/* Handles a failure of NCCL's communicator. */
void ampi_coll_nccl_break(struct ampi_exchange *x);

/* Messages with these tags report a failure. */
#define AMPI_COLL_NCCL_TAG_CONNECTED 1101 /* cookie 0: failed */
#define AMPI_COLL_NCCL_TAG_BROKEN 1102

/* ---- coll_nccl_plan.c: the data ---- */

/* The kind of operation if NCCL supports it, and the deciding size: equal in all processes. */
bool ampi_coll_nccl_has(const struct ampi_exchange *x, enum ampi_coll_kind *kind_out, size_t *n_bytes_out);

/* Finds the buffers, on x->device; false: there are none. Moves nothing. */
bool ampi_coll_nccl_plan(struct ampi_exchange *x);

/* Collects the members' contributions in one buffer, if necessary. Within a stage. */
void ampi_coll_nccl_fill(struct ampi_exchange *x);

/* Sets the plan that distributes the result. */
void ampi_coll_nccl_give(struct ampi_exchange *x);

#endif
