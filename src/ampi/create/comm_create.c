/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_create.c: creates communicators from an existing one, collectively over all its members: create,
 * split_type, dup_with_info, merge (MPI 5.0, sections 7.4.2 and 7.6.2). Dup and split are in comm_dup.c,
 * functions that only some members call in comm_meet.c, nonblocking ones in comm_idup.c.
 */
#include "ampi/create/comm_create.h"

#include <string.h>

#include "ampi/coll/engine/slot.h"
#include "ampi/comm/comm_info.h"
#include "ampi/object/info.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

const char *ampi_comm_creation_text(int error, const struct ampi_group *group, char *text)
{
    if (error != MPI_ERR_PROC_ABORTED)
        return "no context id is left: free communicators that are not needed";
    ampi_failed_describe(group, text);
    return text;
}

int ampi_comm_raise_creation(struct ampi_comm *comm, int error)
{
    char text[AMPI_FAILED_TEXT_MAX];

    return ampi_raise(comm, error, "%s", ampi_comm_creation_text(error, comm->local->layout->group, text));
}

/* Attaches a topology to a new communicator: the first member's is kept. Takes over the reference. */
static void set_topo(struct ampi_comm_shared *shared, struct ampi_topo *topo)
{
    struct ampi_topo *none = NULL;

    if (!__atomic_compare_exchange_n(&shared->topo, &none, topo, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ampi_topo_unref(topo);
}

int ampi_comm_create_split(struct ampi_comm *old, int color, int key, struct ampi_topo *topo,
                           const struct ampi_info *hints, MPI_Comm *newcomm)
{
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_split_plan), .comm = old, .key = {color, key}};
    struct ampi_comm *made;
    int error = ampi_coll_run(&args);

    made = args.extra;
    if (error || !made) {
        ampi_topo_unref(topo);
        if (error)
            return ampi_comm_raise_creation(old, error);
    }
    if (made && topo)
        set_topo(made->shared, topo);
    if (made && hints)
        made->info = ampi_comm_info_filter(NULL, hints);
    return ampi_comm_adopt(old, made, false, newcomm);
}

static int raise_null(struct ampi_comm *comm)
{
    return ampi_raise(comm, MPI_ERR_ARG, "the address of the new communicator is NULL");
}

/* ---- MPI_Comm_create ---- */

AMPI_EXPORT(Comm_create);
int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_create");
    struct ampi_comm *old = ampi_comm_of(self, comm);
    struct ampi_group *members = ampi_group_of(group);
    int key, color, stranger;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (!members)
        return ampi_raise(old, MPI_ERR_GROUP, "%p is not a valid group", (void *)group);
    if (!newcomm)
        return raise_null(old);
    stranger = ampi_group_find_stranger(members, old->local->layout->group);
    if (stranger < members->n_ranks)
        return ampi_raise(old, MPI_ERR_GROUP,
                          "member %d of the group (world rank %d) is not in the communicator", stranger,
                          ampi_group_world_rank(members, stranger));
    key = ampi_group_find(members, self->world_rank);
    /* Disjoint groups, which an intracommunicator allows, differ in their first member. */
    color = old->shared->is_inter || key == MPI_UNDEFINED ? 0 : ampi_group_world_rank(members, 0);
    return ampi_comm_create_split(old, key == MPI_UNDEFINED ? MPI_UNDEFINED : color, key, NULL, NULL,
                                  newcomm);
}

/* ---- MPI_Comm_split_type ---- */

/* The color of the kind of hardware that the caller is restricted to; MPI_UNDEFINED: unknown kind. A node
 * is identified by its lowest process. */
static int color_of_pe(const struct ampi_rank *self)
{
    return ampi_job.proc_id * AMPI_PES_MAX + self->pe_id;
}

static int color_of_resource(const struct ampi_rank *self, const char *resource)
{
    if (!resource)
        return MPI_UNDEFINED;
    if (strcmp(resource, "mpi_shared_memory") == 0 || strcmp(resource, "heddle://node") == 0)
        return ampi_job.node_first;
    if (strcmp(resource, "heddle://process") == 0)
        return ampi_job.proc_id;
    return strcmp(resource, "heddle://pe") == 0 ? color_of_pe(self) : MPI_UNDEFINED;
}

/* The largest kind of hardware that some but not all of the members share; NULL: none. */
static const char *next_resource(const struct ampi_comm *comm)
{
    const struct ampi_layout *layout = comm->local->layout;

    if (layout->n_local < comm->local->n_ranks)
        return "heddle://process";
    return layout->n_parts > 1 ? "heddle://pe" : NULL;
}

/* The color of a process set; MPI_UNDEFINED: unknown set. */
static int color_of_pset(const struct ampi_rank *self, const char *pset)
{
    if (!pset)
        return MPI_UNDEFINED;
    if (strcmp(pset, "mpi://WORLD") == 0)
        return self->spawned && self->spawned == ampi_job.spawned ? ampi_job.world_ranks[0]
                                                                  : self->world_rank - ampi_rank_number(self);
    return strcmp(pset, "mpi://SELF") == 0 ? self->world_rank : MPI_UNDEFINED;
}

/* Raises an error for an unknown type. */
static int color_of_type(struct ampi_comm *old, int split_type, const struct ampi_info *info, int *color_out)
{
    const struct ampi_rank *self = old->owner;
    int color;

    switch (split_type) {
    case MPI_UNDEFINED:
        color = MPI_UNDEFINED;
        break;
    case MPI_COMM_TYPE_SHARED:
        color = ampi_job.node_first;
        break;
    case MPI_COMM_TYPE_HW_GUIDED:
        color = color_of_resource(self, ampi_info_get(info, "mpi_hw_resource_type"));
        break;
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        color = color_of_resource(self, ampi_info_get(info, "mpi_hw_resource_type"));
        if (color == MPI_UNDEFINED)
            color = color_of_pset(self, ampi_info_get(info, "mpi_pset_name"));
        break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
        color = color_of_resource(self, next_resource(old));
        break;
    default:
        return ampi_raise(old, MPI_ERR_ARG, "split_type is %d, which is not one of MPI_COMM_TYPE_*",
                          split_type);
    }
    *color_out = color;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_split_type);
int PMPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_split_type");
    struct ampi_comm *old = ampi_comm_of(self, comm);
    struct ampi_info *hints = ampi_info_of(self, info);
    int color = MPI_UNDEFINED;
    int error;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (old->shared->is_inter && split_type == MPI_COMM_TYPE_HW_UNGUIDED)
        return ampi_raise(
            old, MPI_ERR_COMM,
            "an intercommunicator cannot be split by the hardware that its groups are spread over");
    if (!hints && info != MPI_INFO_NULL)
        return ampi_raise(old, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!newcomm)
        return raise_null(old);
    error = color_of_type(old, split_type, hints, &color);
    if (error)
        return error;
    if (split_type == MPI_COMM_TYPE_HW_UNGUIDED && color != MPI_UNDEFINED && hints)
        ampi_info_set(hints, "mpi_hw_resource_type", next_resource(old));
    return ampi_comm_create_split(old, color, key, NULL, hints, newcomm);
}

/* ---- MPI_Comm_dup_with_info ---- */

AMPI_EXPORT(Comm_dup_with_info);
int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_dup_with_info");
    struct ampi_comm *old = ampi_comm_of(self, comm);
    const struct ampi_info *hints = ampi_info_of(self, info);
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_dup_plan), .comm = old};
    struct ampi_comm *made;
    int error;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (!hints && info != MPI_INFO_NULL)
        return ampi_raise(old, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!newcomm)
        return raise_null(old);
    error = ampi_coll_run(&args);
    if (error)
        return ampi_comm_raise_creation(old, error);
    made = args.extra;
    made->info = ampi_comm_info_filter(NULL, hints);
    return ampi_comm_adopt(old, made, true, newcomm);
}

/* ---- MPI_Intercomm_merge: the side whose members pass high = false comes first ---- */

static void merge_middle(struct ampi_coll_slot *slot)
{
    struct ampi_comm_side *sides = slot->state->shared->side;
    int n[2] = {sides[0].n_ranks, sides[1].n_ranks};
    int first = slot->args[0]->key[0] && !slot->args[n[0]]->key[0] ? 1 : 0;
    struct ampi_group *group = ampi_group_union(sides[first].layout->group, sides[1 - first].layout->group);
    struct ampi_layout *layout = ampi_layout_create(group);
    struct ampi_comm_shared *made = ampi_comm_build_as(layout, NULL, slot->context_id);

    for (int member = 0; member < n[0] + n[1]; member++) {
        int side = member >= n[0];
        int rank = member - (side ? n[0] : 0) + (side == first ? 0 : n[first]);
        if (made)
            slot->args[member]->extra = &made->side[0].handles[rank];
        else
            slot->args[member]->error = MPI_ERR_OTHER;
    }
    ampi_layout_unref(layout);
    ampi_group_unref(group);
}

static const struct ampi_coll_plan merge_plan = {
    .name = "intercommunicator merge", .makes_comm = true, .middle = merge_middle};

AMPI_EXPORT(Intercomm_merge);
int PMPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *newintracomm)
{
    struct ampi_comm *old = ampi_comm_of(ampi_enter("MPI_Intercomm_merge"), intercomm);
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&merge_plan), .comm = old, .key = {high != 0, 0}};
    int error;

    if (!old)
        return ampi_comm_raise_invalid(intercomm);
    if (!old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is not an intercommunicator");
    if (!newintracomm)
        return raise_null(old);
    error = ampi_coll_run(&args);
    if (error)
        return ampi_comm_raise_creation(old, error);
    return ampi_comm_adopt(old, args.extra, false, newintracomm);
}
