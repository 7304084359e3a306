/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot.h: the engine under all collectives inside a process.
 *
 * A collective is not made of messages. Each member leaves its arguments in the communicator's slot
 * and waits; when all have, data moves once, straight between the users' buffers. Stages of one operation:
 *
 *      arrive   every member: its arguments into the slot; the last member of a PE tells the others' PEs
 *      middle   once, on the stack of the member that arrives last of all: small operations are done here
 *      share    on every PE with members, in parallel: its share of a large operation, if middle says so
 *      finish   on every PE: results are delivered to its members, and these go on
 *
 * A user's reduction function belongs to the copy of the program of the rank that gave it, and runs on the
 * stack of that rank: the middle and share stages of such an operation are errands (ult.h) of a member that
 * gave one, unless they run in that member's own call anyway.
 *
 * The operation's plan says what the stages do (struct ampi_coll_plan). The member that arrives last decides
 * for all: counts and types need not agree between members in ways that each could see, so nobody else may
 * choose.
 *
 * A communicator has AMPI_COLL_SLOTS slots; operation number k uses slot k modulo their number. A member
 * starts operation k only when its own operations up to k - SLOTS/2 are complete; until then k is deferred in
 * its handle. So every member has arrived at k - SLOTS/2, and by the same rule has left k - SLOTS: the slot
 * is free. No further check, no lock.
 *
 * The starts of a persistent collective are not operations of this order: it has slots of its own (series.h).
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
struct ampi_wire_slot;
struct ampi_coll_plan;
struct ampi_coll_packer;
struct ampi_coll_unpacker;
struct ampi_coll_remote;

/* Which processes exchange data: see wire.h. */
enum ampi_coll_flow {
    AMPI_COLL_FLOW_ALL,       /* everybody's to everybody */
    AMPI_COLL_FLOW_BCAST,     /* the root's to all */
    AMPI_COLL_FLOW_SCATTER,   /* from the root to each something else */
    AMPI_COLL_FLOW_GATHER,    /* everybody's to the root */
    AMPI_COLL_FLOW_ALLTOALL,  /* from each to each something else */
    AMPI_COLL_FLOW_NEIGHBORS, /* the same between neighbors */
    AMPI_COLL_FLOW_ALLREDUCE, /* from here on reductions: if they cannot be done as such, the contributions go
                                 where they are needed: to the root, or to all */
    AMPI_COLL_FLOW_REDUCE,
    AMPI_COLL_FLOW_REDUCE_SCATTER,
    AMPI_COLL_FLOW_SCAN,
};

/* One side of a member's arguments: count elements of a type at buf, or as many blocks of them as there are
 * peers. */
struct ampi_coll_buf {
    void *buf; /* NULL and MPI_IN_PLACE as the user gave them */
    MPI_Count count;
    MPI_Datatype handle;       /* of the type, as the user gave it */
    struct ampi_type *type;    /* NULL in the w forms, and where the argument is not significant */
    const void *counts;        /* v and w forms: the user's int or MPI_Count array; NULL: `count` for all */
    const void *displs;        /* v forms: the user's int or MPI_Aint array, in extents; w forms: in bytes */
    const MPI_Datatype *types; /* w forms: the user's array; NULL: `type` for all */
    int n_blocks;              /* entries of these arrays */
    bool is_w;                 /* a w form: a type for each block */
    bool has_large_counts;     /* counts are MPI_Count */
    bool has_large_displs;     /* displs are MPI_Aint */
};

/* A member's arguments. Lives on the stack of a blocking call or in the request's extra. */
struct ampi_coll_args {
    const struct ampi_coll_plan *plan; /* of the operation; what it does is decided in its middle stage */
    struct ampi_comm *comm;
    struct ampi_request *request; /* completed at finish; NULL: a blocking call, `is_done` is set */
    const void *pack_from;        /* a small contribution, which is copied into the slot at arrival */
    uint32_t pack_bytes;          /* its size, at most AMPI_COLL_PACK_BYTES; 0: none */
    uint32_t seq;                 /* number of the operation on its communicator (of the start, if
                                   * persistent), once started */
    int error;                    /* result for this member; MPI_SUCCESS unless a stage sets it */
    int root;             /* rooted operations; may be MPI_ROOT or MPI_PROC_NULL on intercommunicators */
    bool is_done;         /* blocking call: over */
    bool is_waiting;      /* blocking call: its rank is suspended */
    bool has_buffers;     /* of the program's: send and recv are set */
    bool is_remote;       /* a stand-in for a member of another process: wire.h */
    bool is_short;        /* the receive buffer does not take what the member has for itself */
    uint32_t pending_bit; /* in comm->coll_pending, once started; 0: persistent */
    int key[2];           /* plan-specific: color and key of MPI_Comm_split */
    struct ampi_op *op;   /* reductions */
    void *extra;          /* plan-specific: communicator creation hands its result over here */
    struct ampi_coll_args *next; /* link of the member's deferred operations */
    struct ampi_coll_buf send;
    struct ampi_coll_buf recv;
};

/* None of the stages may switch; all but share and deliver, which run for one part each, run once. */
struct ampi_coll_plan {
    const char *name;
    /* With members in several processes (wire.h): which processes need something of which; adds the items
     * that the process out->proc needs of a local member (NULL: nothing but root and key); makes a stand-in
     * of them (NULL: one item is all there is, send and recv are its bytes). */
    enum ampi_coll_flow flow;
    bool makes_comm;   /* slot->context_id is wanted */
    bool is_exclusive; /* MPI_Exscan */
    bool has_nccl;     /* NCCL has it: coll_nccl.h */
    /* What decides between the algorithms, counted as in the table (selection.h), from what all ranks gave
     * alike. NULL: 0. Reductions and broadcasts need none. */
    size_t (*between_bytes)(const struct ampi_coll_slot *slot);
    void (*pack)(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                 struct ampi_coll_packer *out);
    void (*unpack)(struct ampi_coll_slot *slot, struct ampi_coll_args *args, struct ampi_coll_unpacker *in);
    /* +check usage: calls ampi_coll_usage_compare for all blocks that members of this process receive. NULL:
     * there are none. */
    void (*check_blocks)(const struct ampi_coll_slot *slot);
    /* When all have arrived; members' arguments are slot->args[rank], those of the member that runs it are
     * slot->last. Sets slot->needs_share if the share stage has work, slot->has_result if deliver has. NULL:
     * nothing. */
    void (*middle)(struct ampi_coll_slot *slot);
    /* On each PE with members, if middle asked for it; part is 0 .. slot->n_parts - 1. May be NULL. */
    void (*share)(struct ampi_coll_slot *slot, int part);
    /* On each PE, if middle asked for it, when all PEs have done their share: takes what the slot holds, or
     * the part's result, to the PE's own members, whose requests complete next. Must not touch others'
     * arguments: they may be gone. */
    void (*deliver)(struct ampi_coll_slot *slot, int part);
};

/* A result that the middle stage leaves for the deliver stage. Up to AMPI_COLL_CARRIED_BYTES of it travel in
 * the very cache line that tells a PE to finish. */
struct ampi_coll_result {
    const unsigned char *bytes; /* deliver: a small result, the same for all */
    size_t n_bytes;             /* of them; or of each packed contribution */
    int root;                   /* the member that is the root */
};
#define AMPI_COLL_CARRIED_BYTES 32

/* Per PE with members; cache lines of its own because its PE alone writes it. The first is what the member
 * that arrives last reads of all of them. */
struct ampi_coll_part {
    struct ampi_coll_slot *slot;
    int index;                                 /* of this part */
    int n_arrived;                             /* members of this PE that are there */
    const struct ampi_coll_plan *plan;         /* of these: all have to do the same */
    int n_packed;                              /* of these, with a contribution in the slot */
    uint32_t pack_bytes;                       /* the size of these contributions; 0: they differ */
    struct ampi_op *op;                        /* reductions: what share is to combine with */
    void *held;                                /* plan-specific: from share to deliver */
    void (*then)(struct ampi_coll_part *part); /* what follows moves on GPUs */
    int n_moves;                               /* of the stage that this PE is in, still under way on GPUs */
    struct ampi_coll_result result;            /* for deliver */
    struct ult_errand errand;                  /* a stage, on its way to a rank whose function it calls */
} BASE_CACHE_ALIGNED;

/* Fixed parts in the first line, which all PEs read; what each operation writes in the second. */
struct ampi_coll_slot {
    struct ampi_coll_state *state; /* the communicator's */
    /* By member: rank, the second side's members behind the first's. Of members of other processes from
     * middle to share, as far as they have something for this one; else NULL. */
    struct ampi_coll_args **args;
    struct ampi_coll_part *parts;    /* state->n_parts of them */
    unsigned char *packed;           /* small contributions: member m's is at m * its size */
    struct ampi_coll_series *series; /* a persistent collective's; NULL: of the communicator */
    struct ampi_wire_slot *wire;     /* the exchange between processes; NULL: all members are of this one */
    _Atomic int n_parts_arrived BASE_CACHE_ALIGNED; /* parts whose members all arrived */
    _Atomic int n_parts_shared;                     /* parts that have done their share */
    const struct ampi_coll_plan *plan;              /* of the member that arrived last */
    struct ampi_coll_args *last;                    /* its arguments; valid in middle and share */
    bool needs_share;                               /* set by middle */
    bool has_result;                                /* set by middle: deliver has something to do */
    int result_part;     /* set by middle: deliver has, but on this part alone; -1: on all */
    uint64_t gpus;       /* reductions, set by middle: the GPUs that do it, a bit each; 0: no kernel does */
    uint64_t context_id; /* for a communicator that is being made, the same in all processes; 0: this
                            process's choice */
    struct ampi_coll_result result;                               /* set by middle */
    unsigned char small[AMPI_COLL_PACK_BYTES] BASE_CACHE_ALIGNED; /* for a small result */
};

/* The memory behind slots. */
struct ampi_coll_slots_memory {
    void *arrays;          /* parts and args */
    unsigned char *packed; /* contributions */
};

/* The persistent collectives of a communicator by number: series.h. */
struct ampi_coll_series_table {
    pthread_mutex_t lock;
    struct ampi_coll_series **buckets; /* NULL: there was none yet */
    uint32_t n_buckets;                /* a power of two */
    uint32_t n_series;
};

struct ampi_coll_state {
    struct ampi_comm_shared *shared;
    int n_members;
    int n_parts;     /* PEs with members */
    int *part_of_pe; /* by PE number; -1: no member there */
    int *part_pe;    /* PE number of each part */
    int *part_first; /* members of part p: part_members[part_first[p]] .. [part_first[p + 1] - 1] */
    int *part_members;
    struct ampi_coll_remote *remote; /* NULL: all members are of this process; else: wire.h */
    atomic_bool has_refused;         /* a call raised an error at some member, which took no part */
    bool is_special;                 /* not all members are of this process, or +check usage was given */
    bool owns_tables;                /* an intercommunicator's tables are not its layouts' */
    struct ampi_coll_slots_memory memory;
    struct ampi_coll_series_table series;
    struct ampi_coll_slot slots[AMPI_COLL_SLOTS];
};

/* A stage begins on this PE. */
static inline void ampi_coll_stage_begin(struct ampi_coll_part *part)
{
    ampi_coll_device_begin(part);
}

/* Ends a stage: calls `then` when the work that it has started on GPUs is done. */
static inline void ampi_coll_stage_end(struct ampi_coll_part *part, void (*then)(struct ampi_coll_part *))
{
    ampi_coll_device_flush();
    if (BASE_UNLIKELY(part->n_moves > 0))
        part->then = then;
    else
        then(part);
}

/* Starts a collective in a call of its member's: arguments as described above; args and request must stay
 * valid until the request completes. Does the middle stage if this member is the last. May switch only if the
 * plan is a reduction with a user's function that does. */
void ampi_coll_start(struct ampi_coll_args *args, struct ampi_request *request);

/* The same for start number seq, from 0, of a persistent collective (series.h). */
void ampi_coll_start_series(struct ampi_coll_args *args, struct ampi_request *request,
                            struct ampi_coll_series *series, uint32_t seq);

/* Starts a collective, waits for it and returns args->error. May switch. */
int ampi_coll_run(struct ampi_coll_args *args);

/* A member of the communicator is lost: ends what members of this PE have under way, but for operations whose
 * data is being moved. On the PE, whose handles are marked already (ampi_comm_mark_lost). */
void ampi_coll_lose(struct ampi_coll_state *state, int pe_id);

/* ---- For coll/between ---- */

/* All local members go on with MPI_ERR_PROC_ABORTED, on the PE of the part. (slot.c) */
void ampi_coll_fail(struct ampi_coll_slot *slot, int part);

/* Runs the middle stage and what follows, on the PE of the part. (slot.c) */
void ampi_coll_run_middle(struct ampi_coll_slot *slot, int part);

/* ---- Memory (slot_state.c) ---- */

/* Gives the rooms below what they need of this one (job/connect.c). */
void ampi_coll_connect(void);

/* Sets up slots, which are zeroed, of a communicator; and frees what belongs to them. (slot_state.c) */
void ampi_coll_slots_init(struct ampi_coll_state *state, struct ampi_coll_slot *slots, int n_slots,
                          struct ampi_coll_slots_memory *memory_out);
void ampi_coll_slots_fini(struct ampi_coll_slots_memory *memory);

/* The engine's state of a new communicator; freed with it. (slot_state.c) */
struct ampi_coll_state *ampi_coll_state_create(struct ampi_comm_shared *shared);
void ampi_coll_state_destroy(struct ampi_coll_state *state);

#endif
