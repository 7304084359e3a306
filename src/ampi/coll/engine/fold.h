/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fold.h: combining members' contributions in rank order; the basis of all reductions.
 *
 * The result does not depend on the distribution of ranks over PEs: every element is combined in the same
 * order, a0 op a1 op a2 ... from the left if the operation is commutative (built-in ones are), from the
 * right if it is not; both are rank order.
 */
#ifndef AMPI_COLL_FOLD_H
#define AMPI_COLL_FOLD_H

#include "ampi/coll/engine/coll.h"

/* The members that contribute to a member's result; all members of one side. */
static inline struct ampi_coll_span ampi_coll_peers(const struct ampi_comm *comm)
{
    return (struct ampi_coll_span){ampi_coll_peer_first(comm), comm->peer->n_ranks};
}
static inline struct ampi_coll_span ampi_coll_side(const struct ampi_coll_slot *slot, int side)
{
    const struct ampi_comm_side *sides = slot->state->shared->side;

    return (struct ampi_coll_span){side ? sides[0].n_ranks : 0, sides[side].n_ranks};
}

/* The memory that count elements of a type occupy; *lo_out: its beginning, relative to element 0. */
static inline size_t ampi_coll_elems_bytes(const struct ampi_type *type, MPI_Count count, MPI_Count *lo_out)
{
    MPI_Count last = count > 0 ? (count - 1) * type->extent_bytes : 0; /* its displacement; may be negative */

    *lo_out = type->true_lb_bytes + (last < 0 ? last : 0);
    return (size_t)(type->true_extent_bytes + (last < 0 ? -last : last));
}

/* Room for elements of any type; `elems` is the address of element 0, like a buffer argument of MPI. */
struct ampi_coll_scratch {
    void *elems;
    void *allocated; /* NULL: the elements are in space */
    _Alignas(64) char space[1024];
};
void ampi_coll_scratch_init(struct ampi_coll_scratch *scratch, const struct ampi_type *type, MPI_Count count);
void ampi_coll_scratch_fini(struct ampi_coll_scratch *scratch);

/* The number of elements that are combined at a time: as many as fit into the cache; all for a user's
 * function, which may be slow to call. */
MPI_Count ampi_coll_fold_block(const struct ampi_coll_args *args, MPI_Count count);

/* The buffer with a member's contribution to a reduction. */
static inline void *ampi_coll_input(const struct ampi_coll_args *args)
{
    return ampi_coll_is_in_place(&args->send) ? args->recv.buf : args->send.buf;
}

/* The known facts about the memory of that buffer; NULL: none. */
static inline struct ampi_coll_known *ampi_coll_input_known(const struct ampi_coll_args *args)
{
    const struct ampi_coll_memory *memory =
        ampi_coll_is_in_place(&args->send) ? args->recv.memory : args->send.memory;

    return memory ? (struct ampi_coll_known *)memory->known : NULL;
}

/* Combines elements from .. from + count - 1 of the members' contributions into out's elements 0 .. count -
 * 1, which must not overlap any of them. Type and predefined operation are slot->last's; a user's operation
 * is a different object on each part. */
void ampi_coll_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                    MPI_Count from, MPI_Count count, void *out);

/* The operation that a part uses: for a user's, that of the member on whose stack this runs. */
static inline const struct ampi_op *ampi_coll_op(const struct ampi_coll_slot *slot, int part)
{
    const struct ampi_op *op = slot->last->op;

    return op->is_predefined ? op : slot->parts[part].op;
}

/* Middle stage: true if the reduction, of one vector of slot->last's size per member, is worth a share for
 * each PE. On intercommunicators not all members know a user's operation. */
bool ampi_coll_must_share(const struct ampi_coll_slot *slot, enum ampi_coll_kind kind);

/* The part of the PE that runs the middle stage. */
static inline int ampi_coll_own_part(const struct ampi_coll_slot *slot)
{
    return slot->state->part_of_pe[ult_pe_id(ult_self()->pe)];
}

/* The share of a part in elements 0 .. count - 1: from *from_out to before *to_out. */
void ampi_coll_slice(const struct ampi_coll_slot *slot, int part, MPI_Count count, MPI_Count *from_out,
                     MPI_Count *to_out);

/* Checks the arguments of a reduction, whose two sides are filled in. has_input: send is significant;
 * has_result: recv is. */
int ampi_coll_check_reduction(struct ampi_coll_args *args, MPI_Op op, bool has_input,
                              bool has_result) BASE_MUST_CHECK;

/* Marks a small contribution for packing at arrival; not those of users' operations, nor on
 * intercommunicators. */
static inline void ampi_coll_pack_input(struct ampi_coll_args *args, enum ampi_coll_kind kind)
{
    if (args->op->is_predefined && !args->comm->shared->is_inter)
        ampi_coll_pack(args, kind, ampi_coll_input(args), args->send.count, args->send.type);
}

/* Middle stage, if all are packed: combines the contributions into a small result, for deliver. */
void ampi_coll_fold_packed(struct ampi_coll_slot *slot);

/* In a pair: combines the two packed contributions, of n_bytes each, in rank order; the result must be aligned to 16. */
void ampi_coll_fold_two(const struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes,
                        unsigned char *result);

/* The same, into the member's buffer. */
void ampi_coll_fold_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes);

/* Deliver: copies a small result to a member's buffer. */
static inline void ampi_coll_copy_result(const struct ampi_coll_buf *recv,
                                         const struct ampi_coll_result *result)
{
    ampi_coll_copy_small(ampi_type_address(recv->buf, recv->type->true_lb_bytes), result->bytes,
                         result->n_bytes);
}

/* True if all members that this process knows have as many bytes as slot->last. */
bool ampi_coll_has_same_sizes(const struct ampi_coll_slot *slot);

/* Middle stage: the same check. If it fails, all members get an error, and nothing may be moved. */
bool ampi_coll_check_sizes(struct ampi_coll_slot *slot);

#endif
