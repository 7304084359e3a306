/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduce_scatter.c: MPI_Reduce_scatter_block and MPI_Reduce_scatter (MPI 5.0, section 6.10): a reduction
 * whose result is dealt out in blocks. Each receiver's block is combined straight into its buffer. Cost: one
 * read of all contributions; large ones on all PEs, each for its own ranks as receivers. In place, where
 * inputs and results share memory, and with users' operations the whole result is made first, by one rank.
 */
#include "ampi/coll/fold.h"
#include "ampi/coll/wire.h"

/* In args->recv the counts are those of the receivers' blocks; args->send.count is their sum. */
static MPI_Count block_from(const struct ampi_coll_args *args, int rank)
{
    MPI_Count from = 0;

    if (!args->recv.counts)
        return rank * args->recv.count;
    for (int i = 0; i < rank; i++)
        from += ampi_coll_count(&args->recv, i);
    return from;
}

/* A member's block of the result straight into its buffer, which nobody reads. */
static void receive_block(const struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    MPI_Count from = block_from(args, args->comm->rank);
    MPI_Count left = ampi_coll_count(&args->recv, args->comm->rank);
    MPI_Count block = ampi_coll_fold_block(args->recv.type);
    MPI_Count done = 0;

    for (; left > 0; left -= block, done += block)
        ampi_coll_fold(slot, ampi_coll_peers(args->comm), from + done, left < block ? left : block,
                       ampi_type_address(args->recv.buf, done * args->recv.type->extent_bytes));
}

/* The whole result first, then everybody's block of it. */
static void receive_all(const struct ampi_coll_slot *slot, struct ampi_coll_span targets)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_coll_args *first = NULL; /* of this process's: they all know all counts */
    struct ampi_coll_scratch scratch;
    MPI_Count from = 0;

    for (int i = 0; i < targets.n && !first; i++)
        if (!slot->args[targets.first + i]->is_remote)
            first = slot->args[targets.first + i];
    if (!first)
        return;
    ampi_coll_scratch_init(&scratch, last->send.type, last->send.count);
    ampi_coll_fold(slot, ampi_coll_peers(first->comm), 0, last->send.count, scratch.elems);
    for (int i = 0; i < targets.n; i++) {
        struct ampi_coll_args *args = slot->args[targets.first + i];
        MPI_Count count = ampi_coll_count(&first->recv, i);
        if (!args->is_remote)
            ampi_type_copy(args->recv.buf, count, args->recv.type,
                           ampi_type_address(scratch.elems, from * last->send.type->extent_bytes), count,
                           last->send.type);
        from += count;
    }
    ampi_coll_scratch_fini(&scratch);
}

static void reduce_scatter_share(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        receive_block(slot, ampi_coll_part_args(slot, i));
}

static void reduce_scatter_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    bool is_in_place = false;

    if (!ampi_coll_check_sizes(slot) || last->send.count == 0)
        return;
    for (int i = 0; i < slot->state->n_members; i++)
        is_in_place |= ampi_coll_is_in_place(&slot->args[i]->send);
    if (is_in_place || ampi_coll_is_user_op(last->op)) {
        receive_all(slot, ampi_coll_side(slot, 0));
        if (slot->state->shared->is_inter)
            receive_all(slot, ampi_coll_side(slot, 1));
        return;
    }
    ampi_coll_share_or_do(slot, AMPI_COLL_REDUCE_SCATTER,
                          (size_t)(last->send.count * last->send.type->size_bytes) *
                              (size_t)slot->state->n_members);
}

static const struct ampi_coll_plan reduce_scatter_plan = {
    .name = "reduce_scatter",
    .wire = ampi_coll_wire_input,
    .unwire = ampi_coll_unwire_input,
    .middle = reduce_scatter_middle,
    .share = reduce_scatter_share,
};

/* How many elements there are in all; the counts of the blocks have to be checked before they are added up.
 */
static int count_elems(const struct ampi_coll_args *args, const struct ampi_coll_buf *recv,
                       MPI_Count *count_out)
{
    int n_ranks = args->comm->local->n_ranks;
    bool is_array = recv->n_blocks != 0;
    MPI_Count count = 0;

    if (is_array && !recv->counts)
        return ampi_raise(args->comm, MPI_ERR_ARG, "the array of receive counts is NULL");
    for (int i = 0; i < (is_array ? n_ranks : 1); i++) {
        if (BASE_UNLIKELY(ampi_coll_count(recv, i) < 0))
            return ampi_raise(args->comm, MPI_ERR_COUNT, "receive count %d is %lld", i,
                              (long long)ampi_coll_count(recv, i));
        count += ampi_coll_count(recv, i);
    }
    *count_out = is_array ? count : count * n_ranks;
    return MPI_SUCCESS;
}

static int reduce_scatter(const struct ampi_coll_call *call, MPI_Comm comm, const void *send, MPI_Op op,
                          struct ampi_coll_args *args)
{
    struct ampi_coll_buf *recv = &args->recv;
    MPI_Count block_count = recv->count;
    MPI_Count count = 0;
    int error;

    ampi_coll_args_init(args, &reduce_scatter_plan);
    if ((error = ampi_coll_enter(call, comm, args)) || (error = count_elems(args, recv, &count)))
        return error;
    ampi_coll_set_one(&args->send, send, count, recv->handle);
    /* What the receive buffer has to have room for, while it is checked. */
    recv->count = send == MPI_IN_PLACE ? count : ampi_coll_count(recv, args->comm->rank);
    recv->n_blocks = 0;
    if ((error = ampi_coll_check_reduction(args, op, true, true)))
        return error;
    recv->count = block_count;
    recv->n_blocks = recv->counts ? args->comm->local->n_ranks : 0;
    return ampi_coll_begin(call, args);
}

AMPI_EXPORT(Reduce_scatter_block)
int PMPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_block", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_block_c)
int PMPI_Reduce_scatter_block_c(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_block_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Ireduce_scatter_block)
int PMPI_Ireduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ireduce_scatter_block", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Ireduce_scatter_block_c)
int PMPI_Ireduce_scatter_block_c(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ireduce_scatter_block_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_block_init)
int PMPI_Reduce_scatter_block_init(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_block_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_block_init_c)
int PMPI_Reduce_scatter_block_init_c(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                     MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_block_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.recv, recvbuf, recvcount, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter)
int PMPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype,
                        MPI_Op op, MPI_Comm comm)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_c)
int PMPI_Reduce_scatter_c(const void *sendbuf, void *recvbuf, const MPI_Count recvcounts[],
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Ireduce_scatter)
int PMPI_Ireduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ireduce_scatter", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Ireduce_scatter_c)
int PMPI_Ireduce_scatter_c(const void *sendbuf, void *recvbuf, const MPI_Count recvcounts[],
                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ireduce_scatter_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_init)
int PMPI_Reduce_scatter_init(const void *sendbuf, void *recvbuf, const int recvcounts[],
                             MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                             MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}

AMPI_EXPORT(Reduce_scatter_init_c)
int PMPI_Reduce_scatter_init_c(const void *sendbuf, void *recvbuf, const MPI_Count recvcounts[],
                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                               MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Reduce_scatter_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, NULL, datatype);
    return reduce_scatter(&call, comm, sendbuf, op, &args);
}
