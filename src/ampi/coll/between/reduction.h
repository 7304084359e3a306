/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduction.h: reductions between processes. The members of a process combine their contributions first, in
 * rank order; the vectors that come of it are combined between processes, and the result is handed out.
 *
 * Processes are in the order of their ranks, and all algorithms keep it. Where the result of each rank is
 * that of those before it, every process's members have to be consecutive ranks (remote->is_blocked).
 * Elsewhere (ranks that alternate between processes, intercommunicators), and with users' functions, which
 * run on the stack of a rank that gave them, all contributions go to all processes that need them, and each
 * combines them as one process alone would.
 *
 * Elements are combined in another order than in one process: the standard allows that, and results of
 * floating-point sums differ in the last bits with the number of processes. All ranks get the same bits.
 */
#ifndef AMPI_COLL_REDUCTION_H
#define AMPI_COLL_REDUCTION_H

#include "ampi/coll/between/exchange.h"

struct ampi_reduction {
    const struct ampi_op *op;
    struct ampi_type *type;
    MPI_Count count;  /* of elements */
    size_t n_bytes;   /* of their data */
    void *elems;      /* the vector, as buffers are given to MPI */
    bool is_own;      /* elems may be changed; else they are a member's contribution */
    bool is_block;    /* elems are one piece of memory */
    void *home;       /* where the result has to be in the end; NULL: in several places */
    void *before;     /* scan: what the processes before this one have combined; NULL: nothing */
    bool is_mismatch; /* not everybody has as many bytes */
};

/* ---- For algorithms ---- */

/* Sends elements from .. from + count - 1 of the vector. */
void ampi_reduction_send(struct ampi_exchange *x, int to, int tag, MPI_Count from, MPI_Count count);

/* The elements in a message, as a buffer; NULL: there are not as many as expected. */
void *ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                           MPI_Count count);

/* Combines elements from .. from + count - 1 with those of a message, in the order of the processes. */
void ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count);

/* Replaces elements by those of a message. */
void ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count);

/* Makes the vector one that may be changed. */
void ampi_reduction_own(struct ampi_exchange *x);

/* Element `from` of a buffer. */
static inline void *ampi_reduction_at(const struct ampi_reduction *r, void *elems, MPI_Count from)
{
    return ampi_type_address(elems, from * r->type->extent_bytes);
}

/* The elements that belong to the members of a participant's process, in MPI_Reduce_scatter. */
void ampi_reduction_blocks(const struct ampi_exchange *x, int participant, MPI_Count *from_out,
                           MPI_Count *to_out);

/* Where a number of processes is no power of two, each of the first ones takes its neighbor's vector in, and
 * the power of two that are left ("survivors", numbered from 0) go on. */
struct ampi_survivors {
    int n;       /* a power of two */
    int n_pairs; /* participants 2 i and 2 i + 1 for i below this are one survivor */
};
struct ampi_survivors ampi_survivors_of(int n_participants);

static inline int ampi_survivor_participant(const struct ampi_survivors *s, int survivor)
{
    return survivor < s->n_pairs ? 2 * survivor : survivor + s->n_pairs;
}

/* -1: it has left its vector to another. */
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
void ampi_exchange_reduce_scatter_pairwise(struct ampi_exchange *x);
void ampi_exchange_scan_doubling(struct ampi_exchange *x);

/* ---- For wire.c ---- */

/* True if the operation in the slot is done this way. */
bool ampi_reduction_fits(const struct ampi_coll_slot *slot);

/* Combines the contributions of this process's members, and chooses the algorithm. */
void ampi_reduction_start(struct ampi_exchange *x);

/* Combines the contributions of this process's members, of which there are several, into the vector. */
void ampi_reduction_combine_local(struct ampi_exchange *x);

/* Has the middle stage hand out the result. */
void ampi_reduction_over(struct ampi_exchange *x);

#endif
