/* SPDX-License-Identifier: BSD-3-Clause
 *
 * neighbor.c: the plans of the neighborhood collectives (MPI 5.0, section 9.6): every rank receives its
 * neighbors' blocks for it. The functions are in coll.bindings. Cost: one copy of all data; large ones on
 * all PEs, each for its own ranks as receivers.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"
#include "ampi/comm/topo.h"
#include "base/log.h"

/* A list of neighbors; short ones without an allocation. */
struct neighbors {
    int n;
    int *ranks;
    int space[32];
};

static void neighbors_init(struct neighbors *list, const struct ampi_comm *comm, bool is_in)
{
    list->n = is_in ? ampi_topo_in_degree(comm) : ampi_topo_out_degree(comm);
    list->ranks = list->space;
    if ((size_t)list->n > BASE_COUNT(list->space))
        list->ranks = base_malloc((size_t)list->n * sizeof(int), "a list of neighbors");
    if (is_in)
        ampi_topo_in_neighbors(comm, list->ranks);
    else
        ampi_topo_out_neighbors(comm, list->ranks);
}

static void neighbors_fini(struct neighbors *list)
{
    if (list->ranks != list->space)
        free(list->ranks);
}

/* The index of a source's block for the receiver's in-neighbor k; -1: none. On a grid, data received from
 * one direction was sent in the opposite one, also if both neighbors are the same rank. Elsewhere the first
 * edge between two ranks in the receiver's list is the first in the sender's, and so on. */
static int matching_block(const struct ampi_comm *to, const struct neighbors *in, int k)
{
    const struct ampi_comm *from = &to->peer->handles[in->ranks[k]];
    struct neighbors out;
    int before = 0;
    int found = -1;

    if (to->shared->topo->kind == MPI_CART)
        return k ^ 1;
    for (int i = 0; i < k; i++)
        before += in->ranks[i] == in->ranks[k];
    neighbors_init(&out, from, false);
    for (int i = 0; i < out.n && found < 0; i++)
        if (out.ranks[i] == to->rank && before-- == 0)
            found = i;
    neighbors_fini(&out);
    return found;
}

/* Calls visit for each block that a member receives. */
static inline __attribute__((always_inline)) void
visit_blocks(const struct ampi_coll_slot *slot, struct ampi_coll_args *args, bool is_alltoall,
             void (*visit)(struct ampi_coll_args *to, struct ampi_coll_block dst,
                           const struct ampi_coll_args *from, struct ampi_coll_block src))
{
    struct neighbors in;

    neighbors_init(&in, args->comm, true);
    for (int k = 0; k < in.n; k++) {
        const struct ampi_coll_args *source = in.ranks[k] < 0 ? NULL : slot->args[in.ranks[k]];
        int block = !source ? -1 : is_alltoall ? matching_block(args->comm, &in, k) : 0;
        if (block >= 0)
            visit(args, ampi_coll_block(&args->recv, k), source,
                  is_alltoall ? ampi_coll_block(&source->send, block) : ampi_coll_whole(&source->send));
    }
    neighbors_fini(&in);
}

static void move(struct ampi_coll_args *to, struct ampi_coll_block dst, const struct ampi_coll_args *from,
                 struct ampi_coll_block src)
{
    (void)from;
    ampi_coll_move(to, dst, src);
}

static void receive(struct ampi_coll_slot *slot, struct ampi_coll_args *args, bool is_alltoall)
{
    visit_blocks(slot, args, is_alltoall, move);
}

static void compare(struct ampi_coll_args *to, struct ampi_coll_block dst, const struct ampi_coll_args *from,
                    struct ampi_coll_block src)
{
    ampi_coll_usage_compare(to, dst, from, src);
}

static void neighbor_check(const struct ampi_coll_slot *slot)
{
    bool is_alltoall = slot->plan == &ampi_coll_neighbor_alltoall_plan;

    for (int i = 0; i < ampi_coll_n_local(slot->state); i++)
        visit_blocks(slot, ampi_coll_part_args(slot, i), is_alltoall, compare);
}

static void neighbor_allgather_share(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        receive(slot, ampi_coll_part_args(slot, i), false);
}

static void neighbor_alltoall_share(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        receive(slot, ampi_coll_part_args(slot, i), true);
}

/* The last member's receive count is representative. */
static void neighbor_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    ampi_coll_share_or_do(slot, AMPI_COLL_NEIGHBOR,
                          ampi_coll_total_bytes(&last->recv, ampi_topo_in_degree(last->comm)) *
                              (size_t)slot->state->n_members);
}

/* True if this neighbor is a rank of the process that the part is for. */
static bool is_for(const struct ampi_coll_slot *slot, const struct ampi_coll_packer *out, int rank)
{
    return rank >= 0 && ampi_coll_between->proc_of(slot->state->remote, rank) == out->proc;
}

static void neighbor_allgather_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                                    struct ampi_coll_packer *out)
{
    struct neighbors to;
    bool is_wanted = false;

    neighbors_init(&to, args->comm, false);
    for (int i = 0; i < to.n && !is_wanted; i++)
        is_wanted = is_for(slot, out, to.ranks[i]);
    neighbors_fini(&to);
    if (is_wanted)
        ampi_coll_put(out, 0, ampi_coll_whole(&args->send));
}

/* Packs the blocks for neighbors in that process; blocks of other neighbors may not even exist
 * (MPI_PROC_NULL). */
static void neighbor_alltoall_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                                   struct ampi_coll_packer *out)
{
    struct neighbors to;

    neighbors_init(&to, args->comm, false);
    for (int i = 0; i < to.n; i++)
        if (is_for(slot, out, to.ranks[i]))
            ampi_coll_put(out, (uint64_t)i, ampi_coll_block(&args->send, i));
    neighbors_fini(&to);
}

const struct ampi_coll_plan ampi_coll_neighbor_allgather_plan = {
    .name = "neighbor_allgather",
    .flow = AMPI_COLL_FLOW_NEIGHBORS,
    .pack = neighbor_allgather_pack,
    .check_blocks = neighbor_check,
    .middle = neighbor_middle,
    .share = neighbor_allgather_share,
};

const struct ampi_coll_plan ampi_coll_neighbor_alltoall_plan = {
    .name = "neighbor_alltoall",
    .flow = AMPI_COLL_FLOW_NEIGHBORS,
    .pack = neighbor_alltoall_pack,
    .unpack = ampi_coll_unpack_blocks,
    .check_blocks = neighbor_check,
    .middle = neighbor_middle,
    .share = neighbor_alltoall_share,
};

int ampi_coll_neighbor(const struct ampi_coll_call *call, MPI_Comm comm, const struct ampi_coll_plan *plan,
                       struct ampi_coll_args *args)
{
    bool is_alltoall = plan == &ampi_coll_neighbor_alltoall_plan;
    int error;

    ampi_coll_args_init(args, plan);
    if ((error = ampi_coll_enter(call, comm, args)))
        return error;
    if (!args->comm->shared->topo)
        return ampi_coll_raise(args->comm, MPI_ERR_TOPOLOGY, "the communicator has no topology");
    if ((error = ampi_coll_check_buf(args, &args->recv, "receive", ampi_topo_in_degree(args->comm))))
        return error;
    if ((error = ampi_coll_check_buf(args, &args->send, "send",
                                     is_alltoall ? ampi_topo_out_degree(args->comm) : 1)))
        return error;
    return ampi_coll_begin(call, args);
}
