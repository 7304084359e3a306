/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work.c: work of an exchange between processes that all PEs with members share. See slot.h. The stages of the
 * slot have not begun then, so their counter is free.
 */
#include "ampi/coll/engine/coll.h"

/* The content of an inbox item. */
struct work_item {
    struct ampi_coll_pe *part;
};
_Static_assert(sizeof(struct work_item) <= ULT_ITEM_BYTES, "it travels in an inbox item");

static void run(struct ampi_coll_pe *part)
{
    struct ampi_coll_slot *slot = part->slot;
    int n_parts = slot->state->n_parts;

    slot->work(slot, part->index);
    if (atomic_fetch_add_explicit(&slot->n_parts_shared, 1, memory_order_acq_rel) + 1 < n_parts)
        return;
    atomic_store_explicit(&slot->n_parts_shared, 0, memory_order_relaxed);
    slot->work_done(slot);
}

static void handle_work(const struct ult_item *item)
{
    struct work_item work;

    memcpy(&work, item->body, sizeof work);
    run(work.part);
}

void ampi_coll_work(struct ampi_coll_slot *slot, int own_part, ampi_coll_work_fn work,
                    void (*done)(struct ampi_coll_slot *slot))
{
    const struct ampi_coll_state *state = slot->state;

    slot->work = work;
    slot->work_done = done;
    for (int i = 0; i < state->n_parts; i++) {
        struct ult_item item = {.handle = handle_work};
        struct work_item content = {&slot->parts[i]};
        memcpy(item.body, &content, sizeof content);
        if (i != own_part)
            ult_post_item(ult_pe_get(state->part_pe[i]), &item);
    }
    run(&slot->parts[own_part]);
}

/* ---- Users' functions ---- */

struct ampi_coll_args *ampi_coll_find_runner(const struct ampi_coll_slot *slot)
{
    struct ampi_coll_args *root;

    if (ampi_coll_has_user_op(slot->last))
        return slot->last;
    if (BASE_LIKELY(slot->last->op || !slot->state->shared->is_inter) ||
        slot->plan->flow != AMPI_COLL_FLOW_REDUCE) /* other operations have no root, or no function */
        return NULL;
    root = ampi_coll_root_args(slot);
    return root && !root->is_remote && ampi_coll_has_user_op(root) ? root : NULL;
}

struct ampi_coll_args *ampi_coll_choose_runner(const struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_state *state = slot->state;
    const int *members = state->part_members + state->part_first[part];

    for (int i = 0; i < state->part_first[part + 1] - state->part_first[part]; i++)
        if (ult_is_blocked(&slot->args[members[i]]->comm->owner->ult))
            return slot->args[members[i]];
    return slot->args[members[0]];
}
