/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_dup.c: MPI_Comm_dup and MPI_Comm_split (MPI 5.0, section 7.4.2).
 *
 * Creating a communicator is a collective like any other: the last rank to arrive builds the new
 * communicator(s) with a handle for every member, and each member gets its own.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/comm/comm_stream.h"
#include "ampi/comm/topo.h"
#include "ampi/create/comm_create.h"
#include "ampi/object/errhandler.h"
#include "base/log.h"

/* ---- Creation: the collective part ---- */

/* Gives the handles of one side of a new communicator to the members at the given positions in the slot;
 * NULL stands for positions 0, 1, 2 ... after first. */
static void hand_out(struct ampi_coll_slot *slot, struct ampi_comm_side *side, const int *members, int first)
{
    for (int i = 0; i < side->n_ranks; i++)
        slot->args[members ? members[i] : first + i]->extra = &side->handles[i];
}

static void fail_all(struct ampi_coll_slot *slot, int error)
{
    for (int i = 0; i < slot->state->n_members; i++)
        slot->args[i]->error = error;
}

/* The members' numbers of streams: those of the old communicator, or key[1] if key[0] is true. */
static void set_n_streams(const struct ampi_coll_slot *slot, struct ampi_comm_shared *made)
{
    const int *old = slot->state->shared->n_streams_of;
    bool is_new = slot->args[0]->key[0] != 0;
    int *n_streams_of;

    if (!is_new && !old)
        return;
    n_streams_of = base_malloc((size_t)made->side[0].n_ranks * sizeof(int), "streams of ranks");
    for (int i = 0; i < made->side[0].n_ranks; i++)
        n_streams_of[i] = is_new ? slot->args[i]->key[1] : old[i];
    ampi_comm_set_n_streams(made, n_streams_of);
}

static void dup_middle(struct ampi_coll_slot *slot)
{
    struct ampi_comm_shared *old = slot->state->shared;
    struct ampi_comm_shared *made =
        ampi_comm_build_as(old->side[0].layout, old->is_inter ? old->side[1].layout : NULL, slot->context_id);

    if (!made) {
        fail_all(slot, MPI_ERR_OTHER);
        return;
    }
    made->topo = ampi_topo_ref(old->topo);
    set_n_streams(slot, made);
    hand_out(slot, &made->side[0], NULL, 0);
    hand_out(slot, &made->side[1], NULL, old->side[0].n_ranks);
}

const struct ampi_coll_plan ampi_comm_dup_plan = {
    .name = "communicator duplication", .makes_comm = true, .middle = dup_middle};

/* A member of a communicator that is being split. */
struct split_entry {
    int color;
    int side;
    int key;
    int member; /* position in the slot */
};

static int compare_entries(const void *a, const void *b)
{
    const struct split_entry *x = a;
    const struct split_entry *y = b;

    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->side != y->side)
        return x->side < y->side ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

/* The layout of the new members; stores their positions in the slot in members_out. */
static struct ampi_layout *layout_of(struct ampi_coll_slot *slot, const struct split_entry *entries,
                                     int n_entries, int *members_out)
{
    int *world_ranks = base_malloc((size_t)n_entries * sizeof *world_ranks, "MPI_Comm_split");
    struct ampi_group *group;
    struct ampi_layout *layout;

    for (int i = 0; i < n_entries; i++) {
        members_out[i] = entries[i].member;
        const struct ampi_comm *comm = slot->args[entries[i].member]->comm;
        world_ranks[i] = ampi_group_world_rank(comm->local->layout->group, comm->rank);
    }
    group = ampi_group_create_list(world_ranks, n_entries);
    layout = ampi_layout_create(group);
    ampi_group_unref(group);
    free(world_ranks);
    return layout;
}

static bool has_local(const struct ampi_coll_slot *slot, const struct split_entry *entries, int n_entries)
{
    for (int i = 0; i < n_entries; i++)
        if (!slot->args[entries[i].member]->is_remote)
            return true;
    return false;
}

/* Creates the communicator of one color, if any of its members are in this process. No intercommunicator is
 * created for a color that only one side has. */
static void split_color(struct ampi_coll_slot *slot, const struct split_entry *entries, int n_entries,
                        int *members, uint64_t context_id)
{
    bool is_inter = slot->state->shared->is_inter;
    int n_first = 0;
    struct ampi_layout *first, *second = NULL;
    struct ampi_comm_shared *made;

    while (n_first < n_entries && entries[n_first].side == 0)
        n_first++;
    if ((is_inter && (n_first == 0 || n_first == n_entries)) || !has_local(slot, entries, n_entries))
        return;
    first = layout_of(slot, entries, n_first, members);
    if (is_inter)
        second = layout_of(slot, entries + n_first, n_entries - n_first, members + n_first);
    made = ampi_comm_build_as(first, second, context_id);
    if (made) {
        hand_out(slot, &made->side[0], members, 0);
        if (is_inter)
            hand_out(slot, &made->side[1], members + n_first, 0);
    } else {
        for (int i = 0; i < n_entries; i++)
            slot->args[members[i]]->error = MPI_ERR_OTHER;
    }
    ampi_layout_unref(first);
    if (second)
        ampi_layout_unref(second);
}

static void split_middle(struct ampi_coll_slot *slot)
{
    int n_members = slot->state->n_members;
    int n_first_side = slot->state->shared->side[0].n_ranks;
    struct split_entry *entries = base_malloc((size_t)n_members * sizeof *entries, "MPI_Comm_split");
    int *members = base_malloc((size_t)n_members * sizeof *members, "MPI_Comm_split");
    int n_entries = 0;
    uint64_t n_colors = 0;

    for (int i = 0; i < n_members; i++)
        if (slot->args[i]->key[0] != MPI_UNDEFINED)
            entries[n_entries++] = (struct split_entry){.color = slot->args[i]->key[0],
                                                        .side = i >= n_first_side,
                                                        .key = slot->args[i]->key[1],
                                                        .member = i};
    qsort(entries, (size_t)n_entries, sizeof *entries, compare_entries);
    for (int begin = 0, end; begin < n_entries; begin = end) {
        for (end = begin + 1; end < n_entries && entries[end].color == entries[begin].color; end++)
            ;
        split_color(slot, entries + begin, end - begin, members,
                    slot->context_id ? slot->context_id + n_colors++ : 0);
    }
    free(entries);
    free(members);
}

const struct ampi_coll_plan ampi_comm_split_plan = {
    .name = "communicator split", .makes_comm = true, .middle = split_middle};

/* ---- Creation: each member's part ---- */

int ampi_comm_adopt(struct ampi_comm *old, struct ampi_comm *made, bool copy_attrs, MPI_Comm *newcomm)
{
    int error;

    if (!made) {
        *newcomm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    made->session = old->session;
    made->errhandler = old->errhandler;
    if (made->errhandler)
        ampi_errhandler_ref(made->errhandler);
    if (copy_attrs && (error = ampi_comm_copy_attrs(old, made))) {
        ampi_comm_release(made);
        return error;
    }
    if (copy_attrs)
        ampi_comm_set_streams(made, ampi_comm_streams_ref(old->streams));
    *newcomm = ampi_comm_handle(made);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_dup);
int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    struct ampi_comm *old = ampi_comm_of(ampi_enter("MPI_Comm_dup"), comm);
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_dup_plan), .comm = old};
    int error;

    if (BASE_UNLIKELY(!old))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!newcomm))
        return ampi_raise(old, MPI_ERR_ARG, "the address of the new communicator is NULL");
    error = ampi_coll_run(&args);
    return error ? ampi_comm_raise_creation(old, error) : ampi_comm_adopt(old, args.extra, true, newcomm);
}

AMPI_EXPORT(Comm_split);
int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    struct ampi_comm *old = ampi_comm_of(ampi_enter("MPI_Comm_split"), comm);
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_split_plan), .comm = old, .key = {color, key}};
    int error;

    if (BASE_UNLIKELY(!old))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!newcomm))
        return ampi_raise(old, MPI_ERR_ARG, "the address of the new communicator is NULL");
    if (BASE_UNLIKELY(color < 0 && color != MPI_UNDEFINED))
        return ampi_raise(old, MPI_ERR_ARG, "the color %d is negative and not MPI_UNDEFINED", color);
    error = ampi_coll_run(&args);
    return error ? ampi_comm_raise_creation(old, error) : ampi_comm_adopt(old, args.extra, false, newcomm);
}
