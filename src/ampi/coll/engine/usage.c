/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage.c: +check usage. See usage.h.
 */
#include "ampi/coll/engine/usage.h"

#include <stdio.h>

#include "ampi/datatype/signature.h"
#include "base/log.h"

static bool is_rooted(const struct ampi_coll_plan *plan)
{
    return plan->flow == AMPI_COLL_FLOW_BCAST || plan->flow == AMPI_COLL_FLOW_SCATTER ||
           plan->flow == AMPI_COLL_FLOW_GATHER || plan->flow == AMPI_COLL_FLOW_REDUCE;
}

/* ---- Reports ---- */

#define NAME_MAX_BYTES 80
#define CALL_MAX_BYTES 400

/* "rank 3", or for an intercommunicator also its side. */
static const char *name_of(const struct ampi_coll_args *args, char name[NAME_MAX_BYTES])
{
    const struct ampi_comm *comm = args->comm;

    snprintf(name, NAME_MAX_BYTES, "rank %d%s", comm->rank,
             !comm->shared->is_inter                 ? ""
             : comm->local == &comm->shared->side[1] ? " of the second group"
                                                     : " of the first group");
    return name;
}

/* The call of a member of this process; nothing without +check usage. */
static void describe_call(const char *before, const struct ampi_coll_args *args, char text[CALL_MAX_BYTES])
{
    int n = snprintf(text, CALL_MAX_BYTES, "%s", before);

    if (!base_settings.check_usage || args->is_remote)
        *text = '\0';
    else
        ampi_upper.describe_call(args->comm->owner, args->request, text + n, (size_t)(CALL_MAX_BYTES - n));
}

void ampi_coll_usage_describe_calls(const struct ampi_coll_args *a, const struct ampi_coll_args *b,
                                    char *text, size_t size_bytes)
{
    char calls[2][CALL_MAX_BYTES];

    describe_call("; the first in ", a, calls[0]);
    describe_call("; the other in ", b, calls[1]);
    snprintf(text, size_bytes, "%s%s", calls[0], calls[1]);
}

/* a: a member of this process. */
static BASE_COLD void report(const struct ampi_coll_args *a, const char *a_value,
                             const struct ampi_coll_args *b, const char *b_value)
{
    char a_name[NAME_MAX_BYTES], b_name[NAME_MAX_BYTES], calls[2 * CALL_MAX_BYTES];

    ampi_coll_usage_describe_calls(a, b, calls, sizeof calls);
    ampi_report(a->comm->owner, "wrong usage of %s: %s %s, but %s %s (ranks of the communicator)%s",
                a->plan->name, name_of(a, a_name), a_value, name_of(b, b_name), b_value, calls);
    ampi_coll_end_job(a->comm->shared->coll);
}

/* ---- Roots ---- */

static void describe_root(int root, char text[NAME_MAX_BYTES])
{
    if (root == MPI_ROOT || root == MPI_PROC_NULL)
        snprintf(text, NAME_MAX_BYTES, "gives %s as root", root == MPI_ROOT ? "MPI_ROOT" : "MPI_PROC_NULL");
    else
        snprintf(text, NAME_MAX_BYTES, "gives root %d", root);
}

static BASE_COLD void report_roots(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    char a_text[NAME_MAX_BYTES], b_text[NAME_MAX_BYTES];

    describe_root(a->root, a_text);
    describe_root(b->root, b_text);
    report(a, a_text, b, b_text);
}

/* True if members with these roots may be in one operation. On an intercommunicator one side names a rank
 * of the other, and only this rank passes MPI_ROOT. */
static bool do_roots_agree(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    if (a->comm->local == b->comm->local) {
        if (!a->comm->shared->is_inter || (a->root >= 0) || (b->root >= 0))
            return a->root == b->root;
        return a->root != MPI_ROOT || b->root != MPI_ROOT;
    }
    if (a->root >= 0)
        return (b->comm->rank == a->root) == (b->root == MPI_ROOT) && b->root < 0;
    return b->root < 0 || (a->comm->rank == b->root) == (a->root == MPI_ROOT);
}

/* ---- Forms ---- */

/* Blocking and nonblocking calls do not match (MPI 5.0, section 6.12); on streams, some calls of both are one kind. */
static bool is_nonblocking(const struct ampi_coll_args *args)
{
    return args->request && !args->comm->streams;
}

static void check_forms(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    static const char *const texts[] = {"calls the blocking form", "calls the nonblocking form"};

    if (is_nonblocking(a) != is_nonblocking(b))
        report(a, texts[is_nonblocking(a)], b, texts[is_nonblocking(b)]);
}

/* ---- Operations ---- */

static const char *op_name(const struct ampi_op *op)
{
    if (op->is_predefined)
        return op->name;
    return op->is_commutative ? "its own commutative operation" : "its own non-commutative operation";
}

static void check_ops(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    char a_text[NAME_MAX_BYTES], b_text[NAME_MAX_BYTES];

    if (!a->op || !b->op || a->op == b->op ||
        (!a->op->is_predefined && !b->op->is_predefined && a->op->is_commutative == b->op->is_commutative))
        return;
    snprintf(a_text, sizeof a_text, "gives %s", op_name(a->op));
    snprintf(b_text, sizeof b_text, "gives %s", op_name(b->op));
    report(a, a_text, b, b_text);
}

/* ---- Data ---- */

/* Of a member in another process the type may be unknown: items.h. */
static bool is_known(const struct ampi_coll_args *args, struct ampi_coll_block block)
{
    return !args->is_remote || (block.type && block.type->predefined != MPI_BYTE);
}

static bool is_other_data(struct ampi_coll_block a, struct ampi_coll_block b, bool are_known)
{
    size_t a_bytes = ampi_coll_block_bytes(&a);
    const struct ampi_type *leaves[2];

    return a_bytes != ampi_coll_block_bytes(&b) ||
           (a_bytes && are_known && a.type != b.type &&
            ampi_signature_compare(ampi_signature_of(a.type), a.count, ampi_signature_of(b.type), b.count,
                                   leaves) >= 0);
}

static void describe_block(const char *verb, const struct ampi_coll_args *args, struct ampi_coll_block block,
                           char text[CALL_MAX_BYTES])
{
    char signature[256];
    int n = snprintf(text, CALL_MAX_BYTES, "%s %zu bytes", verb, ampi_coll_block_bytes(&block));

    if (block.count && is_known(args, block)) {
        ampi_signature_describe(block.type, block.count, signature, sizeof signature);
        snprintf(text + n, CALL_MAX_BYTES - (size_t)n, " (%s)", signature);
    }
}

void ampi_coll_usage_compare(const struct ampi_coll_args *to, struct ampi_coll_block dst,
                             const struct ampi_coll_args *from, struct ampi_coll_block src)
{
    char to_text[CALL_MAX_BYTES], from_text[CALL_MAX_BYTES];

    if (BASE_LIKELY(!is_other_data(dst, src, is_known(to, dst) && is_known(from, src))))
        return;
    describe_block("receives", to, dst, to_text);
    describe_block("sends it", from, src, from_text);
    report(to, to_text, from, from_text);
}

static void check_contributions(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    char a_text[CALL_MAX_BYTES], b_text[CALL_MAX_BYTES];
    struct ampi_coll_block a_block = ampi_coll_whole(&a->send), b_block = ampi_coll_whole(&b->send);

    if (!a->send.type || !b->send.type || !is_other_data(a_block, b_block, !a->is_remote && !b->is_remote))
        return;
    describe_block("contributes", a, a_block, a_text);
    describe_block("contributes", b, b_block, b_text);
    report(a, a_text, b, b_text);
}

/* Checks the counts of MPI_Reduce_scatter: equal at all members of a side. */
static void check_counts(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    char a_text[NAME_MAX_BYTES], b_text[NAME_MAX_BYTES];

    for (int i = 0; i < a->comm->local->n_ranks && a->comm->local == b->comm->local; i++) {
        if (ampi_coll_count(&a->recv, i) == ampi_coll_count(&b->recv, i))
            continue;
        snprintf(a_text, sizeof a_text, "gives rank %d %lld elements", i,
                 (long long)ampi_coll_count(&a->recv, i));
        snprintf(b_text, sizeof b_text, "gives rank %d %lld elements", i,
                 (long long)ampi_coll_count(&b->recv, i));
        report(a, a_text, b, b_text);
    }
}

/* ---- All checks ---- */

void ampi_coll_usage_check_roots(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    if (is_rooted(b->plan) && !do_roots_agree(a, b))
        report_roots(a, b);
}

static void check_pair(const struct ampi_coll_plan *plan, const struct ampi_coll_args *a,
                       const struct ampi_coll_args *b)
{
    ampi_coll_usage_check_roots(a, b);
    if (plan->flow < AMPI_COLL_FLOW_ALLREDUCE)
        return;
    check_ops(a, b);
    check_contributions(a, b);
    if (plan->flow == AMPI_COLL_FLOW_REDUCE_SCATTER)
        check_counts(a, b);
}

void (*ampi_coll_usage_met)(const struct ampi_coll_slot *slot);

/* Compares all members with the first one; on an intercommunicator, each with each. */
void ampi_coll_usage_check_arrived(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_state *state = slot->state;
    int n = ampi_coll_n_local(state);

    for (int k = 1; k < n; k++)
        check_forms(slot->args[state->part_members[0]], slot->args[state->part_members[k]]);
    if (!state->remote)
        ampi_coll_usage_met(slot);
    if (!slot->last->has_buffers)
        return;
    for (int i = 0; i < (state->shared->is_inter ? n : 1); i++)
        for (int k = i + 1; k < n; k++)
            check_pair(slot->plan, slot->args[state->part_members[i]], slot->args[state->part_members[k]]);
}

void ampi_coll_usage_check_blocks(const struct ampi_coll_slot *slot)
{
    if (slot->last->has_buffers && slot->plan->check_blocks)
        slot->plan->check_blocks(slot);
}

/* ---- Between processes ---- */

/* The size that must be equal at all members; 0: none. */
static size_t common_bytes(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    if (slot->state->shared->is_inter || !last->has_buffers)
        return 0;
    if (slot->plan->flow >= AMPI_COLL_FLOW_ALLREDUCE)
        return (size_t)(last->send.count * last->send.type->size_bytes);
    if (slot->plan->flow == AMPI_COLL_FLOW_BCAST)
        return ampi_coll_total_bytes(&last->recv, 1);
    if (slot->plan->flow == AMPI_COLL_FLOW_ALL ||
        (slot->plan->flow == AMPI_COLL_FLOW_ALLTOALL && !last->recv.n_blocks))
        return ampi_coll_total_bytes(&last->recv, slot->state->n_members);
    return 0;
}

/* The data of which all members must have the same types; NULL: none. */
static const struct ampi_coll_buf *common_data(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_coll_buf *data = &last->send;

    if (slot->state->shared->is_inter || !last->has_buffers || slot->plan->flow == AMPI_COLL_FLOW_NEIGHBORS ||
        (slot->plan->flow == AMPI_COLL_FLOW_ALLTOALL && last->recv.n_blocks))
        return NULL;
    if (slot->plan->flow == AMPI_COLL_FLOW_BCAST || slot->plan->flow == AMPI_COLL_FLOW_SCATTER)
        data = &last->recv;
    return data->type && data->count > 0 && !ampi_coll_is_in_place(data) ? data : NULL;
}

int ampi_coll_usage_leaf(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_buf *data = common_data(slot);

    return data ? ampi_coll_usage_leaf_of(data->type) : 0;
}

int ampi_coll_usage_leaf_of(const struct ampi_type *type)
{
    const struct ampi_signature *signature = ampi_signature_of(type);

    if (signature->is_unknown || signature->n_runs == 0)
        return 0;
    for (uint32_t i = 1; i < signature->n_runs; i++)
        if (signature->runs[i].leaf != signature->runs[0].leaf)
            return 0;
    return (int)((uintptr_t)signature->runs[0].leaf->predefined - AMPI_TYPE_FIRST) + 1;
}

bool ampi_coll_usage_are_equal(int leaf, int other)
{
    const struct ampi_type *leaves[2];

    return !leaf || !other ||
           ampi_signature_compare(ampi_signature_of(ampi_type_predefined[leaf - 1]), 1,
                                  ampi_signature_of(ampi_type_predefined[other - 1]), 1, leaves) < 0;
}

static int common_root(const struct ampi_coll_slot *slot)
{
    return is_rooted(slot->plan) && !slot->state->shared->is_inter ? slot->last->root : -1;
}

static const char *common_op(const struct ampi_coll_slot *slot)
{
    return slot->last->has_buffers && slot->last->op && !slot->state->shared->is_inter
               ? op_name(slot->last->op)
               : "";
}

uint32_t ampi_coll_usage_hash(const struct ampi_coll_slot *slot, uint32_t hash)
{
    char text[3 * NAME_MAX_BYTES];

    snprintf(text, sizeof text, "%d %d %s %zu %d", is_nonblocking(slot->last), common_root(slot),
             common_op(slot), common_bytes(slot), *common_op(slot) ? (int)slot->last->send.type->basic : 0);
    for (const char *at = text; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    return hash;
}

void ampi_coll_usage_describe(const struct ampi_coll_slot *slot, char *text, size_t size_bytes)
{
    char call[CALL_MAX_BYTES];
    int n = snprintf(text, size_bytes, "%s", slot->plan->name);

    if (common_root(slot) >= 0)
        n += snprintf(text + n, size_bytes - (size_t)n, ", root %d", common_root(slot));
    if (*common_op(slot))
        n += snprintf(text + n, size_bytes - (size_t)n, ", %s", common_op(slot));
    if (common_bytes(slot))
        n += snprintf(text + n, size_bytes - (size_t)n, ", %zu bytes", common_bytes(slot));
    if (ampi_coll_usage_leaf(slot))
        n += snprintf(text + n, size_bytes - (size_t)n, " of %s",
                      ampi_type_predefined[ampi_coll_usage_leaf(slot) - 1]->name);
    describe_call(" in ", slot->last, call);
    snprintf(text + n, size_bytes - (size_t)n, "%s", call);
}
