/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_choose.c: the algorithms between processes by name, and the choice for an operation, from the
 * common table of selections (selection.h).
 */
#include "ampi/coll/between/reduction.h"
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/object/error.h"
#include "base/log.h"

static const ampi_exchange_step_fn steps[AMPI_BETWEEN_COUNT] = {
    [AMPI_BETWEEN_BCAST_BINOMIAL] = ampi_exchange_bcast_binomial,
    [AMPI_BETWEEN_BCAST_LINEAR] = ampi_exchange_bcast_linear,
    [AMPI_BETWEEN_BCAST_SCATTER] = ampi_exchange_bcast_scatter,
    [AMPI_BETWEEN_BCAST_CHAIN] = ampi_exchange_bcast_chain,
    [AMPI_BETWEEN_GATHER_BINOMIAL] = ampi_exchange_gather_binomial,
    [AMPI_BETWEEN_GATHER_LINEAR] = ampi_exchange_gather_linear,
    [AMPI_BETWEEN_SCATTER_BINOMIAL] = ampi_exchange_scatter_binomial,
    [AMPI_BETWEEN_SCATTER_LINEAR] = ampi_exchange_scatter_linear,
    [AMPI_BETWEEN_ALLGATHER_BRUCK] = ampi_exchange_allgather_bruck,
    [AMPI_BETWEEN_ALLGATHER_RING] = ampi_exchange_allgather_ring,
    [AMPI_BETWEEN_ALLTOALL_BRUCK] = ampi_exchange_alltoall_bruck,
    [AMPI_BETWEEN_ALLTOALL_PAIRWISE] = ampi_exchange_alltoall_pairwise,
    [AMPI_BETWEEN_SPARSE] = ampi_exchange_sparse,
    [AMPI_BETWEEN_REDUCE_BINOMIAL] = ampi_exchange_reduce_binomial,
    [AMPI_BETWEEN_REDUCE_HALVING] = ampi_exchange_reduce_halving,
    [AMPI_BETWEEN_ALLREDUCE_DOUBLING] = ampi_exchange_allreduce_doubling,
    [AMPI_BETWEEN_ALLREDUCE_HALVING] = ampi_exchange_allreduce_halving,
    [AMPI_BETWEEN_REDUCE_PAIRWISE] = ampi_exchange_reduce_pairwise,
    [AMPI_BETWEEN_REDUCE_RING] = ampi_exchange_reduce_ring,
    [AMPI_BETWEEN_REDUCE_CHAIN] = ampi_exchange_reduce_chain,
    [AMPI_BETWEEN_SCAN_DOUBLING] = ampi_exchange_scan_doubling,
    [AMPI_BETWEEN_SCAN_CHAIN] = ampi_exchange_scan_chain,
    [AMPI_BETWEEN_NCCL] = ampi_coll_nccl_step,
};

bool ampi_exchange_is_direct(int algorithm)
{
    switch (algorithm) {
    case AMPI_BETWEEN_BCAST_BINOMIAL:
    case AMPI_BETWEEN_BCAST_LINEAR:
    case AMPI_BETWEEN_BCAST_SCATTER:
    case AMPI_BETWEEN_BCAST_CHAIN:
    case AMPI_BETWEEN_GATHER_LINEAR:
    case AMPI_BETWEEN_SCATTER_LINEAR:
    case AMPI_BETWEEN_ALLGATHER_RING:
    case AMPI_BETWEEN_ALLTOALL_PAIRWISE:
    case AMPI_BETWEEN_SPARSE:
    case AMPI_BETWEEN_REDUCE_BINOMIAL:
    case AMPI_BETWEEN_REDUCE_HALVING:
    case AMPI_BETWEEN_ALLREDUCE_DOUBLING:
    case AMPI_BETWEEN_ALLREDUCE_HALVING:
    case AMPI_BETWEEN_REDUCE_PAIRWISE:
    case AMPI_BETWEEN_REDUCE_RING:
    case AMPI_BETWEEN_REDUCE_CHAIN:
        return true;
    default:
        return false;
    }
}

bool ampi_exchange_sends_parts(int algorithm)
{
    switch (algorithm) {
    case AMPI_BETWEEN_BCAST_BINOMIAL:
    case AMPI_BETWEEN_BCAST_LINEAR:
    case AMPI_BETWEEN_GATHER_LINEAR:
    case AMPI_BETWEEN_SCATTER_LINEAR:
    case AMPI_BETWEEN_ALLGATHER_RING:
    case AMPI_BETWEEN_ALLTOALL_PAIRWISE:
        return true;
    default:
        return false;
    }
}

bool ampi_exchange_passes_on(int algorithm)
{
    return algorithm == AMPI_BETWEEN_BCAST_BINOMIAL || algorithm == AMPI_BETWEEN_ALLGATHER_RING;
}

void ampi_exchange_take(struct ampi_exchange *x, enum ampi_between algorithm)
{
    x->algorithm = (int)algorithm;
    x->run_step = steps[algorithm];
}

/* True if all participants are on one node, and may use its memory; they agree on it. */
static bool is_on_node(const struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    bool is_near = ampi_coll_selections[AMPI_COLL_NODE_MEMORY].share_from != SIZE_MAX;

    for (int i = 1; i < x->n && is_near && ampi_machine->is_on_node; i++)
        is_near = ampi_machine->is_on_node(remote->proc_id[x->proc[ampi_exchange_after(x, i)]]);
    return is_near;
}

/* Few processes of one rank each. */
static bool has_one_rank_each(const struct ampi_exchange *x)
{
    return x->n < AMPI_COLL_FEW && x->n == x->slot->state->n_members;
}

/* Up to this size such processes send whole vectors up the tree, and combine each while they copy it. Above this size
 * it is faster if all processes combine. All processes have to make the same choice, so it does not depend on a
 * process's own buffers. */
#define CLIMBING_BYTES ((size_t)512 << 10)

static bool is_climbing(const struct ampi_exchange *x, size_t n_bytes)
{
    return has_one_rank_each(x) && n_bytes < CLIMBING_BYTES && is_on_node(x);
}

void ampi_exchange_choose(struct ampi_exchange *x, enum ampi_coll_kind kind, size_t n_bytes)
{
    const struct ampi_coll_selection *entry = &ampi_coll_selections[kind];
    bool is_large;

    /* A single message, or data that all processes read in place: pieces would save nothing. */
    if (kind == AMPI_COLL_BCAST && (x->n == 2 || ampi_exchange_node_reaches_all(x, n_bytes)))
        n_bytes = 0;
    if (kind == AMPI_COLL_SCAN && has_one_rank_each(x) && n_bytes >= entry->large_from && is_on_node(x)) {
        ampi_exchange_take(x, AMPI_BETWEEN_SCAN_CHAIN);
        return;
    }
    if (kind == AMPI_COLL_REDUCE && is_climbing(x, n_bytes)) {
        ampi_exchange_take(x, AMPI_BETWEEN_REDUCE_BINOMIAL);
        return;
    }
    if (kind == AMPI_COLL_BCAST && x->n < AMPI_COLL_FEW && x->device < 0 && is_on_node(x)) {
        ampi_exchange_take(x, AMPI_BETWEEN_BCAST_LINEAR);
        return;
    }
    is_large = n_bytes >= entry->large_from && n_bytes / (size_t)x->n >= entry->each_from;
    if (x->n < AMPI_COLL_FEW && entry->few_far != AMPI_BETWEEN_ANY && n_bytes >= entry->far_from &&
        !is_on_node(x))
        ampi_exchange_take(x, entry->few_far);
    else if (x->n < AMPI_COLL_FEW && is_large && entry->few_large != AMPI_BETWEEN_ANY)
        ampi_exchange_take(x, entry->few_large);
    else if (x->n < AMPI_COLL_FEW && entry->few != AMPI_BETWEEN_ANY)
        ampi_exchange_take(x, entry->few);
    else
        ampi_exchange_take(x, is_large ? entry->large : entry->small);
}

/* The first message has the root's choice. */
static void follow(struct ampi_exchange *x)
{
    if (x->step == 0) {
        ampi_exchange_await(x, 0, 1);
        return;
    }
    ampi_exchange_take(x, (enum ampi_between)x->got->algorithm);
    x->run_step(x);
}

void ampi_exchange_follow(struct ampi_exchange *x)
{
    x->algorithm = AMPI_BETWEEN_ANY;
    x->run_step = follow;
}

/* The processes' operations do not match, which has been reported. */
static BASE_COLD void end_job(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    const struct ampi_coll_state *state = x->slot->state;

    if (message->has_refused)
        base_log_plain("an earlier collective on the communicator raised an error at a rank of process %d, "
                       "which did not take part in it",
                       state->remote->proc_id[message->proc]);
    ampi_coll_end_job(state);
}

void ampi_exchange_check(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    char text[600];

    if (message->plan_hash != x->plan_hash && ampi_coll_usage_is_on()) {
        ampi_coll_usage_describe(x->slot, text, sizeof text);
        ampi_report(x->slot->last->comm->owner,
                    "wrong usage of a collective: here it is %s, but ranks of process %d call a different "
                    "one, or pass different values",
                    text, x->slot->state->remote->proc_id[message->proc]);
        end_job(x, message);
    }
    if (message->plan_hash != x->plan_hash) {
        ampi_report(x->slot->last->comm->owner,
                    "this rank's next collective on the communicator is %s, but ranks of process %d call a "
                    "different one: all ranks must call the same ones in the same order" AMPI_COLL_USAGE_HINT,
                    x->slot->last->plan->name, x->slot->state->remote->proc_id[message->proc]);
        end_job(x, message);
    }
    if (x->algorithm == AMPI_BETWEEN_ANY || message->algorithm == x->algorithm)
        return;
    ampi_report(x->slot->last->comm->owner,
                "%s: ranks of process %d expect a different amount of data from this one (%s there, %s here)",
                x->slot->last->plan->name, x->slot->state->remote->proc_id[message->proc],
                ampi_coll_between_name((enum ampi_between)message->algorithm),
                ampi_coll_between_name((enum ampi_between)x->algorithm));
    end_job(x, message);
}
