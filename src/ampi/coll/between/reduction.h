/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduction.h: reductions between processes. The members of a process combine their contributions first, in
 * rank order; the resulting vectors are combined between processes, and the result is distributed.
 *
 * Processes are in the order of their ranks, and the algorithms keep that order unless the operation is
 * commutative. This requires that every process's members are consecutive ranks (remote->is_blocked) if each rank's
 * result depends on the ranks before it. Otherwise (ranks that alternate between processes, intercommunicators), and with users'
 * functions, which run on the stack of their rank, all contributions go to all processes that need them,
 * and each combines them as a single process would.
 *
 * Elements are combined in a different order than in one process. The standard allows that; the last bits
 * of floating-point sums depend on the number of processes. All ranks get the same bits.
 */
#ifndef AMPI_COLL_REDUCTION_H
#define AMPI_COLL_REDUCTION_H

#include "ampi/coll/between/exchange.h"

/* The cookie of a message: the size of the sender's vector; or a mark that sizes did not match. */
#define AMPI_REDUCTION_MISMATCH UINT64_MAX

/* Elements of the result, from .. from + count - 1. */
struct ampi_reduction_piece {
    MPI_Count from;
    MPI_Count count;
    const void *elems; /* the first of them, as buffers are given to MPI */
};

struct ampi_reduction {
    const struct ampi_op *op;
    struct ampi_type *type;
    MPI_Count count;    /* of elements */
    size_t n_bytes;     /* of their data */
    void *elems;        /* the vector, as buffers are given to MPI */
    bool is_own;        /* elems may be changed; if false, they are a member's contribution */
    bool is_block;      /* elems are one piece of memory */
    void *home;         /* the final place of the result; NULL: it has several */
    const void *before; /* scan: the combination of the processes before this one; NULL: none yet */
    void *result;       /* scan in a chain: of this process; NULL: the first */
    const void *next;   /* ... for the next one */
    void *room;         /* ... for a segment; NULL: not needed */
    bool is_given;      /* the members have the result */
    bool is_mismatch;   /* the participants' sizes differ */
    bool is_stable;     /* the vector never changes after it was made */
    bool is_lent;       /* large messages contain addresses: receivers copy from this process's memory */
    /* The place for a message's elements, as a buffer, if its receiver copies them; NULL: none. */
    void *(*place)(struct ampi_exchange *x, const struct ampi_exchange_message *message);
    /* Copies and combines a message's elements (ampi_reduction_absorb); NULL: they are only copied. */
    int (*absorb)(struct ampi_exchange *x, const struct ampi_exchange_message *message);
    MPI_Count n_absorbed; /* elements of the last one that are combined; the others come once more */
    const void **inputs;  /* by participant: the elements that this one combines */
    void *sum;            /* ... and the result of that */
    struct ampi_reduction_piece *pieces; /* the result; NULL: it is the vector */
    int n_pieces;
};

/* ---- For algorithms ---- */

/* Sends elements from .. from + count - 1 of the vector. */
void ampi_reduction_send(struct ampi_exchange *x, int to, int tag, MPI_Count from, MPI_Count count);

/* The same of another vector: the first count elements. */
void ampi_reduction_send_elems(struct ampi_exchange *x, int to, int tag, const void *elems, MPI_Count count);

/* The elements in a message, as a buffer; NULL: their number is not the expected one. They must not be
 * changed, because other processes may read them, too. */
const void *ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                 MPI_Count count);

/* The same for modification, until the operation ends. */
void *ampi_reduction_own_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                               MPI_Count count);

/* Combines elements from .. from + count - 1 with those of a message, in the order of the processes. */
void ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count);

/* Combines elements from .. from + count - 1 with those of a message, for commutative operations: returns the result,
 * which lives as long as the operation. The vector does not change. NULL: there are not as many as expected, or
 * count is 0. */
const void *ampi_reduction_add(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                               MPI_Count from, MPI_Count count);

/* Copies a message's elements from the sender's memory, and combines each block with those at `own` while it is in the cache:
 * into: room for the result, or, if `own` may change, NULL. Returns the number that is done; commutative operations. */
MPI_Count ampi_reduction_absorb(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                void *own, void *into, int *result_out);

/* The same for the vector, which becomes the result. Returns the machine's result. */
int ampi_reduction_absorb_whole(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                void *into);

/* Combines the elements of a message that were not absorbed. */
void ampi_reduction_combine_rest(struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* Replaces elements by those of a message. */
void ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count);

/* Makes the vector modifiable: copies it if it is a member's contribution. */
void ampi_reduction_own(struct ampi_exchange *x);

/* Room for elements of the vector's type, as buffers are given to MPI. */
void *ampi_reduction_alloc(struct ampi_exchange *x, MPI_Count count);

/* Combines elements from .. from + count - 1 of all r->inputs into r->sum, in the order of the processes. */
void ampi_reduction_fold(struct ampi_exchange *x, MPI_Count from, MPI_Count count);

/* True in MPI_Reduce_scatter. */
static inline bool ampi_reduction_is_scattered(const struct ampi_exchange *x)
{
    return x->slot->plan->flow == AMPI_COLL_FLOW_REDUCE_SCATTER;
}

/* The elements that a participant combines: its members' blocks in MPI_Reduce_scatter, else its share; elems NULL. */
struct ampi_reduction_piece ampi_reduction_slice(const struct ampi_exchange *x, int participant);

/* Distributes elements of the result, from number `from` on, to the members of this process. */
void ampi_reduction_give(const struct ampi_exchange *x, const struct ampi_reduction_piece *piece);

/* Element `from` of a buffer. */
static inline void *ampi_reduction_at(const struct ampi_reduction *r, const void *elems, MPI_Count from)
{
    return ampi_type_address(elems, from * r->type->extent_bytes);
}

/* True if this process has one member. */
bool ampi_reduction_has_one_member(const struct ampi_exchange *x);

/* The elements of the members of a participant's process, in MPI_Reduce_scatter. */
void ampi_reduction_blocks(const struct ampi_exchange *x, int participant, MPI_Count *from_out,
                           MPI_Count *to_out);

/* If the number of processes is not a power of two, each of the first ones takes over its neighbor's
 * vector, and the remaining power of two ("survivors", numbered from 0) continue. */
struct ampi_survivors {
    int n;       /* a power of two */
    int n_pairs; /* participants 2 i and 2 i + 1 for i below this are one survivor */
};
struct ampi_survivors ampi_survivors_of(int n_participants);

static inline int ampi_survivor_participant(const struct ampi_survivors *s, int survivor)
{
    return survivor < s->n_pairs ? 2 * survivor : survivor + s->n_pairs;
}

/* -1: another participant has taken over its vector. */
static inline int ampi_survivor_number(const struct ampi_survivors *s, int participant)
{
    if (participant >= 2 * s->n_pairs)
        return participant - s->n_pairs;
    return participant % 2 ? -1 : participant / 2;
}

void ampi_exchange_allreduce_doubling(struct ampi_exchange *x);
void ampi_exchange_allreduce_halving(struct ampi_exchange *x);
void ampi_exchange_reduce_binomial(struct ampi_exchange *x);
void ampi_exchange_reduce_halving(struct ampi_exchange *x);
void ampi_exchange_reduce_pairwise(struct ampi_exchange *x);
void ampi_exchange_reduce_ring(struct ampi_exchange *x);
void ampi_exchange_reduce_chain(struct ampi_exchange *x);
void ampi_exchange_scan_doubling(struct ampi_exchange *x);
void ampi_exchange_scan_chain(struct ampi_exchange *x);

/* ---- For exchange.c ---- */

/* True if large messages are lent. */
bool ampi_reduction_can_lend(const struct ampi_exchange *x);

/* True if the receiver of n_bytes of a reduction's message copies them from this process's memory. */
bool ampi_reduction_lends(const struct ampi_exchange *x, int proc, size_t n_bytes);

/* True if a message's elements are absorbed. */
bool ampi_reduction_can_absorb(const struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* Memory for the bytes of another such message, which lives as long as the operation. */
unsigned char *ampi_reduction_room(struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* ---- For between.c ---- */

/* True if the operation in the slot is done this way. */
bool ampi_reduction_fits(const struct ampi_coll_slot *slot);

/* Combines the contributions of this process's members, and chooses the algorithm. */
void ampi_reduction_start(struct ampi_exchange *x);

/* Combines the contributions of this process's several members into the vector. */
void ampi_reduction_combine_local(struct ampi_exchange *x);

/* Makes the middle stage distribute the result. */
void ampi_reduction_over(struct ampi_exchange *x);

#endif
