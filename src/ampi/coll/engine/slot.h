/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot.h: the engine under all collectives inside a process.
 *
 * A collective does not use messages. Each member leaves its arguments in the communicator's slot and
 * waits; when all have arrived, data moves once, directly between the users' buffers. Stages of one
 * operation:
 *
 *      arrive   every member puts its arguments into the slot; the last member of a PE notifies the others
 *      middle   once, on the stack of the last member to arrive: does small operations
 *      share    on every PE with members, in parallel: its share of a large operation, if middle requests it
 *      finish   on every PE: results are delivered to its members, which then continue
 *
 * A user's reduction function belongs to one rank's copy of the program, and runs on that rank's stack: the
 * middle and share stages of such an operation are errands (ult.h) of a member that has the function, unless
 * they run in that member's own call.
 *
 * The operation's plan defines the stages (struct ampi_coll_plan). The last member to arrive decides for
 * all, because a single member cannot always see whether counts and types agree.
 *
 * A communicator has AMPI_COLL_SLOTS slots; operation number k uses slot k modulo their number. A member
 * starts operation k only when its own operations up to k - SLOTS/2 are complete; until then k is deferred
 * in its handle. So every member has arrived at k - SLOTS/2, and by the same rule has left k - SLOTS: the
 * slot is free. No further check, no lock.
 *
 * The starts of a persistent collective are not part of this order: it has its own slots (series.h).
 */
#ifndef AMPI_COLL_SLOT_H
#define AMPI_COLL_SLOT_H

#include <pthread.h>

#include "ampi/coll/engine/device_ops.h"
#include "ampi/coll/engine/selection.h"
#include "ampi/op/op.h"
#include "ampi/p2p/request.h"

#define AMPI_COLL_SLOTS 8

struct ampi_coll_slot;
struct ampi_coll_series;
struct ampi_between_slot;
struct ampi_coll_plan;
struct ampi_coll_packer;
struct ampi_coll_unpacker;
struct ampi_coll_remote;

/* The data flow between processes: see between.h. */
enum ampi_coll_flow {
    AMPI_COLL_FLOW_ALL,       /* from all to all */
    AMPI_COLL_FLOW_BCAST,     /* from the root to all */
    AMPI_COLL_FLOW_SCATTER,   /* different data from the root to each */
    AMPI_COLL_FLOW_GATHER,    /* from all to the root */
    AMPI_COLL_FLOW_ALLTOALL,  /* different data from each to each */
    AMPI_COLL_FLOW_NEIGHBORS, /* the same between neighbors */
    AMPI_COLL_FLOW_ALLREDUCE, /* reductions from here on: if they cannot run as such, the contributions go to
                               * the processes that need them: the root's, or all */
    AMPI_COLL_FLOW_REDUCE,
    AMPI_COLL_FLOW_REDUCE_SCATTER,
    AMPI_COLL_FLOW_SCAN,
};

/* One side of a member's arguments: count elements of a type at buf, or one such block per peer. */
struct ampi_coll_buf {
    void *buf; /* NULL and MPI_IN_PLACE as passed by the user */
    MPI_Count count;
    MPI_Datatype handle;       /* of the type, as passed by the user */
    struct ampi_type *type;    /* NULL in the w forms, and if the argument is not significant */
    const void *counts;        /* v and w forms: the user's int or MPI_Count array; NULL: `count` for all */
    const void *displs;        /* v forms: the user's int or MPI_Aint array, in extents; w forms: in bytes */
    const MPI_Datatype *types; /* w forms: the user's array; NULL: `type` for all */
    struct ampi_coll_memory *memory; /* of a persistent collective that may use GPUs (known.c); NULL: none */
    int n_blocks;                    /* entries of these arrays */
    bool is_w;                       /* a w form: one type per block */
    bool has_large_counts;           /* counts are MPI_Count */
    bool has_large_displs;           /* displs are MPI_Aint */
};

/* A member's arguments. Lives on the stack of a blocking call or in the request's extra. */
struct ampi_coll_args {
    const struct ampi_coll_plan *plan; /* of the operation; its middle stage decides the rest */
    struct ampi_comm *comm;
    struct ampi_request *request; /* completed at finish; NULL: a blocking call, `is_done` is set */
    struct ult *waiter;           /* blocking call: the ULT that is suspended; NULL: none yet */
    const void *pack_from;        /* a small contribution, which is copied into the slot at arrival */
    uint32_t pack_bytes;          /* its size, at most AMPI_COLL_PACK_BYTES; 0: none */
    uint32_t seq;                 /* number of the operation on its communicator (of the start, if
                                   * persistent), once started */
    int error;                    /* this member's result; MPI_SUCCESS unless a stage sets it */
    int root;            /* rooted operations; may be MPI_ROOT or MPI_PROC_NULL on intercommunicators */
    uint64_t must_agree; /* the plan and the root in one word, equal at all members of an intracommunicator */
    bool is_done;        /* blocking call: over */
    bool has_buffers;    /* of the program's: send and recv are set */
    bool is_remote;      /* a stand-in for a member of another process: between.h */
    bool is_short;       /* the receive buffer does not get the member's own data */
    bool is_moved;       /* plan->early has done the member's share */
    bool is_paired;      /* small enough for an item to the only other member (pair.h) */
    uint32_t pending_bit; /* in comm->coll_pending, once started; 0: persistent */
    int key[2];           /* plan-specific: color and key of MPI_Comm_split */
    struct ampi_op *op;   /* reductions */
    void *extra;          /* plan-specific: communicator creation returns its result here */
    size_t flat_bytes;    /* all-to-all: the size of all blocks, which follow one another; 0: they do not */
    struct ampi_coll_args *next; /* link of the member's deferred operations */
    struct ampi_coll_buf send;
    struct ampi_coll_buf recv;
};

#define AMPI_COLL_ROOT_SHIFT 48 /* addresses are shorter */

/* In an initializer of struct ampi_coll_args. */
#define AMPI_COLL_PLAN(which) .plan = (which), .must_agree = (uintptr_t)(which)

/* None of the stages may switch. All but share and deliver, which run once per part, run once. */
struct ampi_coll_plan {
    const char *name;
    /* For members in several processes (between.h): the data flow; pack adds the items of a local member
     * that the process out->proc needs (NULL: only root and key); unpack makes a stand-in from them (NULL:
     * there is one item, whose bytes are send and recv). */
    enum ampi_coll_flow flow;
    bool makes_comm;   /* needs slot->context_id */
    bool is_exclusive; /* MPI_Exscan */
    bool has_nccl;     /* NCCL supports it: coll_nccl.h */
    /* The size that selects the algorithm, counted as in the table (selection.h), from arguments that are
     * equal at all ranks. NULL: 0. Not needed for reductions and broadcasts. */
    size_t (*between_bytes)(const struct ampi_coll_slot *slot);
    void (*pack)(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                 struct ampi_coll_packer *out);
    void (*unpack)(struct ampi_coll_slot *slot, struct ampi_coll_args *args, struct ampi_coll_unpacker *in);
    /* The block of a local member's buffer that receives the only item of the member `source` of another
     * process; its type is NULL if there is none. The share stage reads data for other members from there.
     * NULL: the plan needs its data in parts. */
    struct ampi_coll_block (*place)(const struct ampi_coll_args *args, int source);
    /* Does the work of this process's members that needs no other process, while other processes copy its
     * data (exchange_direct.c); sets is_moved. All members are on one PE. NULL: there is no such work. */
    void (*early)(const struct ampi_coll_slot *slot);
    /* +check usage: calls ampi_coll_usage_compare for all blocks that members of this process receive.
     * NULL: none. */
    void (*check_blocks)(const struct ampi_coll_slot *slot);
    /* Runs when all have arrived; members' arguments are slot->args[rank], those of the member that runs it
     * are slot->last. Sets slot->needs_share if the share stage has work, slot->has_result if deliver has.
     * NULL: nothing to do. */
    void (*middle)(struct ampi_coll_slot *slot);
    /* Runs on each PE with members, if middle requested it; part is 0 .. slot->n_parts - 1. May be NULL. */
    void (*share)(struct ampi_coll_slot *slot, int part);
    /* Runs on each PE, if middle requested it, when all PEs have done their share: delivers the slot's or
     * the part's result to the PE's own members, whose requests complete next. Must not access others'
     * arguments: they may be gone. */
    void (*deliver)(struct ampi_coll_slot *slot, int part);
    /* Instead of all stages, at both members of a pair (pair.h): delivers the result to this one, from its own arguments and
     * the other's packed contribution. NULL: there is no result. */
    void (*pair)(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes);
};

/* A result that the middle stage leaves for the deliver stage. Up to AMPI_COLL_CARRIED_BYTES of it are sent
 * in the cache line that makes a PE finish. */
struct ampi_coll_result {
    const unsigned char *bytes; /* deliver: a small result, equal for all */
    size_t n_bytes;             /* of the result, or of each packed contribution */
    int root;                   /* the root member */
};
#define AMPI_COLL_CARRIED_BYTES 32

/* What the members of a pair send to each other. */
#define AMPI_COLL_PAIR_BYTES 24
enum ampi_coll_pair_kind {
    AMPI_COLL_PAIR_DATA,
    AMPI_COLL_PAIR_LEFT,   /* and the sender has completed the operation */
    AMPI_COLL_PAIR_REFUSAL /* the sender uses the slot; no data */
};
struct ampi_coll_pair_data {
    uint64_t must_agree;                       /* as in the arguments */
    unsigned char bytes[AMPI_COLL_PAIR_BYTES]; /* the packed contribution */
    uint32_t seq;                              /* number of the operation */
    uint8_t n_bytes;                           /* of the contribution */
    uint8_t kind;                              /* enum ampi_coll_pair_kind */
};

/* State per PE with members; in separate cache lines because only its PE writes it. The last member to arrive reads the first line of all PEs. The
 * PE itself does not write to it between the arrival of its members in two operations. */
struct ampi_coll_pe {
    struct ampi_coll_slot *slot;
    int index;                         /* of this part */
    int n_arrived;                     /* members of this PE that have arrived */
    const struct ampi_coll_plan *plan; /* of these members, which all have the same */
    uint64_t must_agree;               /* the same; of the first to arrive */
    int n_packed;                      /* of these members, those with a packed contribution */
    uint32_t pack_bytes;               /* the size of these contributions; 0: sizes differ */
    struct ampi_op *op;                /* reductions: the operation for share */
    struct ampi_coll_args *paired;     /* of a pair's member, if the operation is pending */
    int n_start_calls;                 /* in slot 0 of the communicator: of start_deferred, being run */
    bool is_in_slot;                   /* the pair's member has arrived in the slot: pair.h */
    bool has_early;                    /* `pair` came before this member arrived */
    /* The second line: */
    uint32_t pair_known BASE_CACHE_ALIGNED;  /* in slot 0: the last operation at which the pair's other
                                              * member is known to have arrived */
    int n_moves;                             /* of this PE's current stage, pending on GPUs */
    void *held;                              /* plan-specific: kept from share to deliver */
    void (*then)(struct ampi_coll_pe *part); /* continues after moves on GPUs */
    union {
        struct {
            struct ampi_coll_result result; /* for deliver */
            struct ult_errand errand;       /* a stage, sent to the rank whose function it calls */
        };
        struct ampi_coll_pair_data pair; /* if has_early */
    };
} BASE_CACHE_ALIGNED;

/* A PE's share of some work. */
typedef void (*ampi_coll_work_fn)(struct ampi_coll_slot *slot, int part);

/* The first line has the fixed parts, which all PEs read; each operation writes the second one. */
struct ampi_coll_slot {
    struct ampi_coll_state *state; /* the communicator's */
    /* By member: rank, the second side's members after the first's. Stand-ins for members of other
     * processes exist from middle to share, if they have data for this one; else NULL. */
    struct ampi_coll_args **args;
    struct ampi_coll_pe *parts;        /* state->n_parts of them */
    unsigned char *packed;             /* small contributions: member m's is at m * its size */
    struct ampi_coll_series *series;   /* of a persistent collective; NULL: of the communicator */
    struct ampi_between_slot *between; /* the exchange between processes; NULL: all members are in this one */
    _Atomic int n_parts_arrived BASE_CACHE_ALIGNED; /* parts whose members have all arrived */
    _Atomic int n_parts_shared;                     /* parts that have done their share */
    const struct ampi_coll_plan *plan;              /* of the last member to arrive */
    struct ampi_coll_args *last;                    /* its arguments; valid in middle and share */
    bool needs_share;                               /* set by middle */
    bool has_result;                                /* set by middle: deliver has something to do */
    int result_part;        /* set by middle: the only part on which deliver has something to do; -1: all
                             * parts */
    uint64_t gpus;          /* reductions, set by middle: the GPUs that compute, a bit each; 0: no kernel */
    uint64_t context_id;    /* of a communicator that is being created, the same in all processes; 0: this
                             * process chooses */
    ampi_coll_work_fn work; /* before middle: ampi_coll_work */
    void (*work_done)(struct ampi_coll_slot *slot); /* ... called when all PEs have done theirs */
    struct ampi_coll_result result;                 /* set by middle */
    unsigned char small[AMPI_COLL_PACK_BYTES] BASE_CACHE_ALIGNED; /* for a small result */
};

/* The memory of slots. */
struct ampi_coll_slots_memory {
    void *parts, *args;
    unsigned char *packed; /* contributions */
};

/* The persistent collectives of a communicator by number: series.h. */
struct ampi_coll_series_table {
    pthread_mutex_t lock;
    struct ampi_coll_series **buckets; /* NULL: no series yet */
    uint32_t n_buckets;                /* a power of two */
    uint32_t n_series;
};

struct ampi_coll_state {
    struct ampi_comm_shared *shared;
    int n_members;
    int n_parts;     /* PEs with members */
    int *part_of_pe; /* by PE number; -1: no member on that PE */
    int *part_pe;    /* PE number of each part */
    int *part_first; /* members of part p: part_members[part_first[p]] .. [part_first[p + 1] - 1] */
    int *part_members;
    struct ampi_coll_remote *remote; /* NULL: all members are in this process; else: between.h */
    atomic_bool has_refused;         /* a call raised an error at some member, which did not take part */
    bool is_special;                 /* not all members are in this process, or +check usage is set */
    bool is_pair;                    /* two members, on two PEs: pair.h; or in two processes:
                                      * between/pair_procs.h */
    bool owns_tables;                /* an intercommunicator's tables, not shared with its layouts */
    struct ampi_coll_slots_memory memory;
    struct ampi_coll_series_table series;
    struct ampi_coll_slot slots[AMPI_COLL_SLOTS];
};

/* Begins a stage on this PE. */
static inline void ampi_coll_stage_begin(struct ampi_coll_pe *part)
{
    ampi_coll_device_begin(part);
}

/* Ends a stage: calls `then` when the work that it has started on GPUs is done. */
static inline void ampi_coll_stage_end(struct ampi_coll_pe *part, void (*then)(struct ampi_coll_pe *))
{
    ampi_coll_device_flush();
    if (BASE_UNLIKELY(part->n_moves > 0))
        part->then = then;
    else
        then(part);
}

/* Starts a collective in a call of its member: arguments as described above; args and request must stay
 * valid until the request completes. Runs the middle stage if this member is the last. May switch only if
 * the plan is a reduction with a user's function that does. */
void ampi_coll_start(struct ampi_coll_args *args, struct ampi_request *request);

/* The same outside of a call: on the member's PE, from its progress. Never switches. */
void ampi_coll_start_elsewhere(struct ampi_coll_args *args, struct ampi_request *request);

/* The two for start number seq, from 0, of a persistent collective (series.h). is_own_call: in a call of the member. */
void ampi_coll_start_series(struct ampi_coll_args *args, struct ampi_request *request,
                            struct ampi_coll_series *series, uint32_t seq, bool is_own_call);

/* Starts a collective, waits for it and returns args->error. May switch. */
int ampi_coll_run(struct ampi_coll_args *args);

/* A member of the communicator has failed: ends pending operations of this PE's members, except those whose
 * data is being moved. Called on the PE, after its handles were marked (ampi_comm_mark_failed). */
void ampi_coll_handle_failure(struct ampi_coll_state *state, int pe_id);

/* ---- Users' functions (work.c) ---- */

static inline bool ampi_coll_has_user_op(const struct ampi_coll_args *args)
{
    return args->op && !args->op->is_predefined;
}

/* The member on whose stack the middle stage runs because it calls that member's function; NULL: none. The
 * last member to arrive may have none: on an intercommunicator only the root does on its side of a
 * reduction. */
struct ampi_coll_args *ampi_coll_find_runner(const struct ampi_coll_slot *slot);

/* The part's own choice for the share stage: prefers a member that is blocked to one that computes. */
struct ampi_coll_args *ampi_coll_choose_runner(const struct ampi_coll_slot *slot, int part);

/* ---- For pair.c (slot.c) ---- */

/* A part's only member continues; its result is complete. On its PE. */
void ampi_coll_end_pair(struct ampi_coll_pe *part, struct ampi_coll_args *args);

/* The member arrives in the slot, outside of its call. On its PE. Never switches. */
void ampi_coll_arrive_in_slot(struct ampi_coll_slot *slot, struct ampi_coll_args *args);

/* Withdraws the arrival of a part. False: all parts have arrived. */
bool ampi_coll_withdraw(struct ampi_coll_slot *slot);

/* ---- For coll/between ---- */

/* All local members continue with MPI_ERR_PROC_ABORTED, on the PE of the part. (slot.c) */
void ampi_coll_fail(struct ampi_coll_slot *slot, int part);

/* Runs the middle stage and the following ones, on the PE of the part. (slot.c) */
void ampi_coll_run_middle(struct ampi_coll_slot *slot, int part);

/* Before the middle stage: calls work on each PE with members, in parallel, and then done on one of them,
 * perhaps before this returns. Called on the PE of own_part. None of them may switch. (work.c) */
void ampi_coll_work(struct ampi_coll_slot *slot, int own_part, ampi_coll_work_fn work,
                    void (*done)(struct ampi_coll_slot *slot));

/* ---- Memory (slot_state.c) ---- */

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_coll_connect(void);

/* Initialises a communicator's slots, which are zeroed; and frees their memory. (slot_state.c) */
void ampi_coll_slots_init(struct ampi_coll_state *state, struct ampi_coll_slot *slots, int n_slots,
                          struct ampi_coll_slots_memory *memory_out);
void ampi_coll_slots_fini(struct ampi_coll_slots_memory *memory);

#endif
