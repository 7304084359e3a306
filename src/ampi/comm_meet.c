/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_meet.c: communicators made by ranks that meet (meet.h): MPI_Comm_create_group,
 * MPI_Comm_create_from_group, MPI_Intercomm_create and MPI_Intercomm_create_from_groups (MPI 5.0,
 * sections 7.4.2 and 7.6.2).
 *
 * An intercommunicator is made by its two leaders, who meet each other; each then hands the handles of its
 * side out to its group.
 */
#include "ampi/coll/slot.h"
#include "ampi/comm.h"
#include "ampi/comm_info.h"
#include "ampi/errhandler.h"
#include "ampi/meet.h"

#define NO_CONTEXT "no context id is left: free communicators that are not needed any more"

/* ---- A group makes its communicator ---- */

static void build_from_group(struct ampi_meet **members, int n_members)
{
    struct ampi_layout *layout = ampi_layout_create(members[0]->group);
    struct ampi_comm_shared *made = ampi_comm_build(layout, NULL);

    for (int i = 0; i < n_members; i++) {
        if (made)
            members[i]->got = &made->side[0].handles[i];
        else
            members[i]->error = MPI_ERR_OTHER;
    }
    ampi_layout_unref(layout);
}

AMPI_EXPORT(Comm_create_group)
int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_create_group");
    struct ampi_comm *old = ampi_comm_of(self, comm);
    struct ampi_group *members = ampi_group_of(group);
    struct ampi_meet me = {
        .function = "create_group", .group = members, .tag = tag, .build = build_from_group};
    int error;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (!members)
        return ampi_raise(old, MPI_ERR_GROUP, "%p is no group", (void *)group);
    if (old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (tag < 0)
        return ampi_raise(old, MPI_ERR_TAG, "the tag is %d", tag);
    if (!newcomm)
        return ampi_raise(old, MPI_ERR_ARG, "newcomm is NULL");
    me.member = ampi_group_find(members, self->world_rank);
    for (int i = 0; i < members->n_ranks; i++) {
        if (ampi_group_find(old->local->layout->group, ampi_group_world_rank(members, i)) == MPI_UNDEFINED)
            return ampi_raise(old, MPI_ERR_GROUP, "member %d of the group is not in the communicator", i);
    }
    if (me.member == MPI_UNDEFINED) { /* nothing to do with it */
        *newcomm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    me.context_id = old->shared->context_id;
    error = ampi_meet_run(&me);
    return error ? ampi_raise(old, error, NO_CONTEXT) : ampi_comm_adopt(old, me.got, false, newcomm);
}

/* ---- The same without a communicator: errors go to the handler that is given ---- */

/* Checks what the two functions below have in common; raises what is wrong. */
static int check_from_group(struct ampi_rank *self, MPI_Group group, const char *stringtag, MPI_Info info,
                            MPI_Errhandler errhandler, const MPI_Comm *newcomm)
{
    struct ampi_errhandler *handler = ampi_errhandler_of(errhandler);
    MPI_Comm none = MPI_COMM_NULL;

    if (!handler || !ampi_errhandler_fits(handler, AMPI_ERRHANDLER_COMM))
        return ampi_raise_self(MPI_ERR_ERRHANDLER, "%p is no error handler for communicators",
                               (void *)errhandler);
    if (!ampi_group_of(group))
        return ampi_raise_on(handler, &none, MPI_ERR_GROUP, "%p is no group", (void *)group);
    if (!stringtag || strnlen(stringtag, MPI_MAX_STRINGTAG_LEN) == MPI_MAX_STRINGTAG_LEN)
        return ampi_raise_on(handler, &none, MPI_ERR_ARG, "stringtag is %s", stringtag ? "too long" : "NULL");
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return ampi_raise_on(handler, &none, MPI_ERR_INFO, "%p is no info object", (void *)info);
    if (!newcomm)
        return ampi_raise_on(handler, &none, MPI_ERR_ARG, "the address of the new communicator is NULL");
    return MPI_SUCCESS;
}

/* Sets a new communicator up as the program asked for and hands it out. */
static int finish_from_group(struct ampi_rank *self, struct ampi_comm *made, MPI_Info info,
                             MPI_Errhandler errhandler, MPI_Comm *newcomm)
{
    made->session = self->group_session;
    made->errhandler = ampi_errhandler_of(errhandler);
    ampi_errhandler_ref(made->errhandler);
    made->info = ampi_comm_info_filter(NULL, ampi_info_of(self, info));
    *newcomm = ampi_comm_handle(made);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_create_from_group)
int PMPI_Comm_create_from_group(MPI_Group group, const char *stringtag, MPI_Info info,
                                MPI_Errhandler errhandler, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_create_from_group");
    int error = check_from_group(self, group, stringtag, info, errhandler, newcomm);
    struct ampi_meet me = {
        .function = "create_from_group", .stringtag = stringtag, .build = build_from_group};
    MPI_Comm none = MPI_COMM_NULL;

    if (error)
        return error;
    me.group = ampi_group_of(group);
    me.member = ampi_group_find(me.group, self->world_rank);
    if (me.group->n_ranks == 0) {
        *newcomm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    if (me.member == MPI_UNDEFINED)
        return ampi_raise_on(ampi_errhandler_of(errhandler), &none, MPI_ERR_GROUP,
                             "the caller is not in the group");
    error = ampi_meet_run(&me);
    if (error)
        return ampi_raise_on(ampi_errhandler_of(errhandler), &none, error, NO_CONTEXT);
    return finish_from_group(self, me.got, info, errhandler, newcomm);
}

/* ---- Intercommunicators: the leaders meet ---- */

static bool are_disjoint(const struct ampi_group *a, const struct ampi_group *b)
{
    for (int i = 0; i < a->n_ranks; i++) {
        if (ampi_group_find(b, ampi_group_world_rank(a, i)) != MPI_UNDEFINED)
            return false;
    }
    return true;
}

static void build_inter(struct ampi_meet **members, int n_members)
{
    struct ampi_layout *first = members[0]->give;
    struct ampi_layout *second = members[1]->give;
    struct ampi_comm_shared *made = NULL;
    int error = MPI_ERR_GROUP;

    if (are_disjoint(first->group, second->group)) {
        made = ampi_comm_build(first, second);
        error = made ? MPI_SUCCESS : MPI_ERR_OTHER;
    }
    for (int i = 0; i < n_members; i++) {
        members[i]->got = made ? &made->side[i] : NULL;
        members[i]->error = error;
    }
}

/* A leader's meeting with the other one, whose world rank is given. key: function, context, tags. Sets
 * *side_out. */
static int meet_leader(struct ampi_rank *self, int remote_world_rank, struct ampi_layout *local,
                       const struct ampi_meet *key, struct ampi_comm_side **side_out)
{
    int low = self->world_rank < remote_world_rank ? self->world_rank : remote_world_rank;
    int high = self->world_rank + remote_world_rank - low;
    struct ampi_meet me = *key;
    struct ampi_group *leaders;
    int error;

    if (low == high) /* one rank cannot be in two disjoint groups */
        return MPI_ERR_GROUP;
    leaders = ampi_group_create_range(low, high - low, 2);
    me.group = leaders;
    me.member = self->world_rank == high;
    me.give = local;
    me.build = build_inter;
    error = ampi_meet_run(&me);
    ampi_group_unref(leaders);
    *side_out = me.got;
    return error;
}

/* ---- MPI_Intercomm_create: handing out is a collective of the local communicator ---- */

/* The leader's args->send.buf is its side of the new communicator; key[0] says who leads, key[1] its error.
 */
static void hand_out_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *leader = slot->args[slot->args[0]->key[0]];
    const struct ampi_comm_side *side = leader->send.buf;
    int n_members = leader->comm->local->n_ranks;

    for (int i = 0; i < n_members; i++) {
        slot->args[i]->extra = side ? &side->handles[i] : NULL;
        slot->args[i]->error = leader->key[1];
    }
}

static const struct ampi_coll_plan hand_out_plan = {.name = "intercommunicator creation",
                                                    .middle = hand_out_middle};

/* The leader's part: finds the other leader and meets it. */
static int lead(struct ampi_rank *self, struct ampi_comm *local, MPI_Comm peer_comm, int remote_leader,
                int tag, struct ampi_comm_side **side_out)
{
    struct ampi_comm *peer = ampi_comm_of(self, peer_comm);
    struct ampi_meet key = {.function = "intercomm_create", .tag = tag};
    int remote_world_rank;

    if (!peer)
        return MPI_ERR_COMM;
    if (remote_leader < 0 || remote_leader >= peer->peer->n_ranks)
        return MPI_ERR_RANK;
    remote_world_rank = ampi_group_world_rank(peer->peer->layout->group, remote_leader);
    key.context_id = peer->shared->context_id;
    return meet_leader(self, remote_world_rank, local->local->layout, &key, side_out);
}

static int raise_inter(struct ampi_comm *local, int error)
{
    switch (error) {
    case MPI_ERR_COMM:
        return ampi_raise(local, error, "peer_comm is no communicator at the local leader");
    case MPI_ERR_RANK:
        return ampi_raise(local, error, "remote_leader is no rank of peer_comm");
    case MPI_ERR_GROUP:
        return ampi_raise(local, MPI_ERR_COMM, "the two groups have a rank in common");
    default:
        return ampi_raise(local, error, NO_CONTEXT);
    }
}

AMPI_EXPORT(Intercomm_create)
int PMPI_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader,
                          int tag, MPI_Comm *newintercomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Intercomm_create");
    struct ampi_comm *local = ampi_comm_of(self, local_comm);
    struct ampi_coll_args args = {.plan = &hand_out_plan, .comm = local, .key = {local_leader, MPI_SUCCESS}};
    struct ampi_comm_side *side = NULL;
    int error;

    if (!local)
        return ampi_comm_raise_invalid(local_comm);
    if (local->shared->is_inter)
        return ampi_raise(local, MPI_ERR_COMM, "local_comm is an intercommunicator");
    if (local_leader < 0 || local_leader >= local->local->n_ranks)
        return ampi_raise(local, MPI_ERR_RANK, "local_leader is %d, but local_comm has %d ranks",
                          local_leader, local->local->n_ranks);
    if (tag < 0)
        return ampi_raise(local, MPI_ERR_TAG, "the tag is %d", tag);
    if (!newintercomm)
        return ampi_raise(local, MPI_ERR_ARG, "newintercomm is NULL");
    if (local->rank == local_leader) {
        args.key[1] = lead(self, local, peer_comm, remote_leader, tag, &side);
        args.send.buf = side;
    }
    error = ampi_coll_run(&args);
    return error ? raise_inter(local, error) : ampi_comm_adopt(local, args.extra, false, newintercomm);
}

/* ---- MPI_Intercomm_create_from_groups: handing out is a meeting of the local group ---- */

/* What the leader brings to its group; the others bring NULL. */
struct leader_result {
    struct ampi_comm_side *side;
    int error;
};

static void hand_out_build(struct ampi_meet **members, int n_members)
{
    const struct leader_result *result = NULL;

    for (int i = 0; i < n_members && !result; i++)
        result = members[i]->give;
    for (int i = 0; i < n_members; i++) {
        members[i]->error = result ? result->error : MPI_ERR_RANK;
        members[i]->got = result && result->side ? &result->side->handles[i] : NULL;
    }
}

/* The leader's part. */
static void lead_group(struct ampi_rank *self, struct ampi_group *local, MPI_Group remote_group,
                       int remote_leader, const char *stringtag, struct leader_result *result)
{
    const struct ampi_group *remote = ampi_group_of(remote_group);
    struct ampi_meet key = {.function = "intercomm_create_from_groups", .stringtag = stringtag};
    struct ampi_layout *layout;

    result->side = NULL;
    result->error = remote ? MPI_ERR_RANK : MPI_ERR_GROUP;
    if (!remote || remote_leader < 0 || remote_leader >= remote->n_ranks)
        return;
    layout = ampi_layout_create(local);
    result->error =
        meet_leader(self, ampi_group_world_rank(remote, remote_leader), layout, &key, &result->side);
    ampi_layout_unref(layout);
}

static int raise_inter_from_groups(struct ampi_errhandler *handler, int error)
{
    MPI_Comm none = MPI_COMM_NULL;

    if (error == MPI_ERR_RANK)
        return ampi_raise_on(handler, &none, error, "remote_leader is no rank of the remote group");
    if (error == MPI_ERR_GROUP)
        return ampi_raise_on(handler, &none, error, "remote_group is no group, or has a rank in common with local_group");
    return ampi_raise_on(handler, &none, error, NO_CONTEXT);
}

AMPI_EXPORT(Intercomm_create_from_groups)
int PMPI_Intercomm_create_from_groups(MPI_Group local_group, int local_leader, MPI_Group remote_group,
                                      int remote_leader, const char *stringtag, MPI_Info info,
                                      MPI_Errhandler errhandler, MPI_Comm *newintercomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Intercomm_create_from_groups");
    int error = check_from_group(self, local_group, stringtag, info, errhandler, newintercomm);
    struct ampi_meet me = {.function = "intercomm_create_from_groups",
                           .stringtag = stringtag,
                           .tag = 1,
                           .build = hand_out_build};
    struct ampi_group *local = ampi_group_of(local_group);
    struct leader_result result;
    MPI_Comm none = MPI_COMM_NULL;

    if (error)
        return error;
    me.group = local;
    me.member = ampi_group_find(local, self->world_rank);
    if (me.member == MPI_UNDEFINED)
        return ampi_raise_on(ampi_errhandler_of(errhandler), &none, MPI_ERR_GROUP,
                             "the caller is not in the local group");
    if (local_leader < 0 || local_leader >= local->n_ranks)
        return ampi_raise_on(ampi_errhandler_of(errhandler), &none, MPI_ERR_RANK,
                             "local_leader is %d, but the local group has %d ranks", local_leader,
                             local->n_ranks);
    if (me.member == local_leader) {
        lead_group(self, local, remote_group, remote_leader, stringtag, &result);
        me.give = &result;
    }
    error = ampi_meet_run(&me);
    if (error)
        return raise_inter_from_groups(ampi_errhandler_of(errhandler), error);
    return finish_from_group(self, me.got, info, errhandler, newintercomm);
}
