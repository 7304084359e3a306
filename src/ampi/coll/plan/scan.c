/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scan.c: MPI_Scan and MPI_Exscan (MPI 5.0, section 6.11): the running result is carried from rank to rank.
 * Cost: one read of all contributions, one write per receiver; large ones on all PEs, each for a slice of the
 * elements.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/engine/items.h"

static void put(struct ampi_coll_args *args, MPI_Count from, MPI_Count count, const void *elems,
                const struct ampi_type *type)
{
    if (args->is_remote)
        return;
    ampi_coll_device_copy(args, ampi_type_address(args->recv.buf, from * type->extent_bytes), args->recv.type,
                          elems, type, count);
}

/* Scans one block of elements. `sum` is the running result; `next` gets a rank's contribution, becomes sum op
 * contribution, and then is the new sum. So the operands stay in rank order, and in place nothing is overwritten too
 * early. */
static void scan_block(const struct ampi_coll_slot *slot, const struct ampi_op *op, MPI_Count from,
                       MPI_Count count, void *sum, void *next, bool is_exclusive)
{
    struct ampi_type *type = slot->last->send.type;
    int n = slot->state->n_members;

    for (int i = 0; i < n; i++) {
        struct ampi_coll_args *args = slot->args[i];
        if (!is_exclusive || i < n - 1)
            ampi_coll_device_copy(args, next, type,
                                  ampi_type_address(ampi_coll_input(args), from * type->extent_bytes), type,
                                  count);
        if (is_exclusive && i > 0)
            put(args, from, count, sum, type);
        if (i > 0 && (!is_exclusive || i < n - 1))
            ampi_op_apply(op, sum, next, count, type);
        if (!is_exclusive)
            put(args, from, count, next, type);
        void *old = sum;
        sum = next;
        next = old;
    }
}

static void scan_range(const struct ampi_coll_slot *slot, const struct ampi_op *op, MPI_Count from,
                       MPI_Count to, bool is_exclusive)
{
    struct ampi_coll_scratch scratch[2];
    MPI_Count block = ampi_coll_fold_block(slot->last, to - from);

    if (block > to - from)
        block = to - from;
    if (block <= 0)
        return;
    ampi_coll_scratch_init(&scratch[0], slot->last->send.type, block);
    ampi_coll_scratch_init(&scratch[1], slot->last->send.type, block);
    for (; from < to; from += block)
        scan_block(slot, op, from, to - from < block ? to - from : block, scratch[0].elems, scratch[1].elems,
                   is_exclusive);
    ampi_coll_scratch_fini(&scratch[0]);
    ampi_coll_scratch_fini(&scratch[1]);
}

/* Every packed contribution becomes the running result. */
static void scan_packed(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    ampi_op_kernel_fn kernel = last->op->kernels[type->basic];
    size_t n_elems = ampi_op_elems(type, last->send.count);

    for (int i = 1; i < slot->state->n_members; i++)
        kernel(ampi_coll_packed(slot, i - 1), ampi_coll_packed(slot, i), n_elems);
    slot->has_result = true;
}

static void deliver(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        int member = slot->state->part_members[i] - args->plan->is_exclusive;
        const struct ampi_coll_buf *recv = &args->recv;
        if (member >= 0)
            ampi_coll_copy_small(ampi_type_address(recv->buf, recv->type->true_lb_bytes),
                                 ampi_coll_packed(slot, member), slot->result.n_bytes);
    }
}

static void middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    bool is_exclusive = last->plan->is_exclusive;
    MPI_Count count = last->send.count;

    if (ampi_coll_all_packed(slot)) {
        scan_packed(slot);
        return;
    }
    if (!ampi_coll_check_sizes(slot) || count == 0)
        return;
    slot->gpus = ampi_coll_device_plan_scan(slot, is_exclusive);
    if (slot->gpus ? ampi_coll_device->must_share(slot) : ampi_coll_must_share(slot, AMPI_COLL_SCAN))
        slot->needs_share = true;
    else if (slot->gpus)
        ampi_coll_device->scan(slot, ampi_coll_own_part(slot), is_exclusive);
    else
        scan_range(slot, ampi_coll_op(slot, ampi_coll_own_part(slot)), 0, count, is_exclusive);
}

static void share(struct ampi_coll_slot *slot, int part)
{
    bool is_exclusive = slot->last->plan->is_exclusive;
    MPI_Count from, to;

    if (slot->gpus) {
        ampi_coll_device->scan(slot, part, is_exclusive);
        return;
    }
    ampi_coll_slice(slot, part, slot->last->send.count, &from, &to);
    scan_range(slot, ampi_coll_op(slot, part), from, to, is_exclusive);
}

const struct ampi_coll_plan ampi_coll_scan_plan = {
    .name = "scan",
    .flow = AMPI_COLL_FLOW_SCAN,
    .pack = ampi_coll_put_input,
    .unpack = ampi_coll_unpack_input,
    .middle = middle,
    .share = share,
    .deliver = deliver,
};

const struct ampi_coll_plan ampi_coll_exscan_plan = {
    .name = "exscan",
    .flow = AMPI_COLL_FLOW_SCAN,
    .is_exclusive = true,
    .pack = ampi_coll_put_input,
    .unpack = ampi_coll_unpack_input,
    .middle = middle,
    .share = share,
    .deliver = deliver,
};

int ampi_coll_scan(const struct ampi_coll_call *call, MPI_Comm comm, const struct ampi_coll_plan *plan,
                   const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    struct ampi_coll_args args;
    bool has_result;
    int error;

    ampi_coll_args_init(&args, plan);
    ampi_coll_set_one(&args.send, send, count, type);
    ampi_coll_set_one(&args.recv, recv, count, type);
    if ((error = ampi_coll_enter(call, comm, &args)))
        return error;
    if (args.comm->shared->is_inter)
        return ampi_coll_raise(args.comm, MPI_ERR_COMM, "not defined on intercommunicators");
    /* The first rank gets no result of an exclusive scan; its buffer is not significant unless it is an
     * input in place. */
    has_result = plan == &ampi_coll_scan_plan || args.comm->rank > 0 || send == MPI_IN_PLACE;
    if ((error = ampi_coll_check_reduction(&args, op, true, has_result)))
        return error;
    ampi_coll_pack_input(&args, AMPI_COLL_SCAN);
    return ampi_coll_begin(call, &args);
}
