/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_meet.c: communicators created by meetings of ranks (meet.h): MPI_Comm_create_group,
 * MPI_Comm_create_from_group, MPI_Intercomm_create and MPI_Intercomm_create_from_groups (MPI 5.0, sections
 * 7.4.2 and 7.6.2).
 *
 * The two leaders meet and create an intercommunicator; each then gives the handles of its side to its
 * group.
 */
#include "ampi/coll/engine/items.h"
#include "ampi/comm/contexts.h"
#include "ampi/comm/comm.h"
#include "ampi/create/comm_create.h"
#include "ampi/comm/comm_info.h"
#include "ampi/object/errhandler.h"
#include "ampi/meet/meet.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* ---- A group creates its communicator ---- */

static void build_from_group(struct ampi_meet **members, int n_members)
{
    const struct ampi_meet *first = NULL;
    struct ampi_layout *layout;
    struct ampi_comm_shared *made;

    for (int i = 0; i < n_members && !first; i++)
        first = members[i];
    layout = ampi_layout_create(first->group);
    made = ampi_comm_build_as(layout, NULL, first->new_context_id);
    for (int i = 0; i < n_members; i++) {
        if (!members[i])
            continue;
        if (made)
            members[i]->got = &made->side[0].handles[i];
        else
            members[i]->error = MPI_ERR_OTHER;
    }
    ampi_layout_unref(layout);
}

AMPI_EXPORT(Comm_create_group);
int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_create_group");
    struct ampi_comm *old = ampi_comm_of(self, comm);
    struct ampi_group *members = ampi_group_of(group);
    struct ampi_meet me = {
        .function = "create_group", .group = members, .tag = tag, .build = build_from_group};
    int error, stranger;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (!members)
        return ampi_raise(old, MPI_ERR_GROUP, "%p is not a valid group", (void *)group);
    if (old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (tag < 0)
        return ampi_raise(old, MPI_ERR_TAG, "the tag is %d", tag);
    if (!newcomm)
        return ampi_raise(old, MPI_ERR_ARG, "newcomm is NULL");
    me.member = ampi_group_find(members, self->world_rank);
    stranger = ampi_group_find_stranger(members, old->local->layout->group);
    if (stranger < members->n_ranks)
        return ampi_raise(old, MPI_ERR_GROUP,
                          "member %d of the group (world rank %d) is not in the communicator", stranger,
                          ampi_group_world_rank(members, stranger));
    if (me.member == MPI_UNDEFINED) { /* the caller is not a member */
        *newcomm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    me.context_id = old->shared->context_id;
    error = ampi_meet_run(&me);
    return error ? ampi_comm_raise_creation(old, error) : ampi_comm_adopt(old, me.got, false, newcomm);
}

/* ---- The same without a communicator: the given handler gets the errors ---- */

/* Checks the arguments that the two functions below share; raises errors. */
static int check_from_group(struct ampi_rank *self, MPI_Group group, const char *stringtag, MPI_Info info,
                            MPI_Errhandler errhandler, const MPI_Comm *newcomm)
{
    struct ampi_errhandler *handler = ampi_errhandler_of(errhandler);
    MPI_Comm none = MPI_COMM_NULL;

    if (!handler || !ampi_errhandler_fits(handler, AMPI_ERRHANDLER_COMM))
        return ampi_raise_self(MPI_ERR_ERRHANDLER, "%p is not an error handler for communicators",
                               (void *)errhandler);
    if (!ampi_group_of(group))
        return ampi_raise_on(handler, &none, MPI_ERR_GROUP, "%p is not a valid group", (void *)group);
    if (!stringtag || strnlen(stringtag, MPI_MAX_STRINGTAG_LEN) == MPI_MAX_STRINGTAG_LEN)
        return ampi_raise_on(handler, &none, MPI_ERR_ARG, "stringtag is %s", stringtag ? "too long" : "NULL");
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return ampi_raise_on(handler, &none, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!newcomm)
        return ampi_raise_on(handler, &none, MPI_ERR_ARG, "the address of the new communicator is NULL");
    return MPI_SUCCESS;
}

/* Applies the program's settings to a new communicator and returns its handle. */
static int finish_from_group(struct ampi_rank *self, struct ampi_comm *made, MPI_Group group, MPI_Info info,
                             MPI_Errhandler errhandler, MPI_Comm *newcomm)
{
    made->session = ampi_group_session(group);
    made->errhandler = ampi_errhandler_of(errhandler);
    ampi_errhandler_ref(made->errhandler);
    ampi_errhandler_chosen(made->errhandler);
    made->info = ampi_comm_info_filter(NULL, ampi_info_of(self, info));
    *newcomm = ampi_comm_handle(made);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_create_from_group);
int PMPI_Comm_create_from_group(MPI_Group group, const char *stringtag, MPI_Info info,
                                MPI_Errhandler errhandler, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_create_from_group");
    int error = check_from_group(self, group, stringtag, info, errhandler, newcomm);
    struct ampi_meet me = {
        .function = "create_from_group", .stringtag = stringtag, .build = build_from_group};
    MPI_Comm none = MPI_COMM_NULL;
    char text[AMPI_FAILED_TEXT_MAX];

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
        return ampi_raise_on(ampi_errhandler_of(errhandler), &none, error, "%s",
                             ampi_comm_creation_text(error, me.group, text));
    return finish_from_group(self, me.got, group, info, errhandler, newcomm);
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

/* A new intercommunicator, as sent to all processes with members. */
struct ampi_comm_agreement {
    uint64_t context_id;
    int error;
    int side;    /* the receiver's side */
    int n[2];    /* members of the sides */
    int ranks[]; /* their world ranks */
};

static size_t agreement_bytes(const struct ampi_comm_agreement *agreement)
{
    return sizeof *agreement +
           ((size_t)agreement->n[0] + (size_t)agreement->n[1]) * sizeof agreement->ranks[0];
}

/* The world ranks of a group, malloc'ed: a leader's payload. */
static int *ranks_of(const struct ampi_group *group)
{
    int *ranks = base_malloc((size_t)group->n_ranks * sizeof *ranks, "an intercommunicator");

    for (int i = 0; i < group->n_ranks; i++)
        ranks[i] = ampi_group_world_rank(group, i);
    return ranks;
}

/* In a job of several processes: gives the leaders an agreement, malloc'ed, from which each process creates
 * its part. */
static void agree_inter(struct ampi_meet **members, int n_members)
{
    for (int i = 0; i < n_members; i++) {
        const struct ampi_meet_payload *payloads = members[i] ? members[i]->payloads : NULL;
        struct ampi_group *first, *second;
        struct ampi_comm_agreement *agreement;
        if (!payloads)
            continue;
        agreement = base_calloc(1, sizeof *agreement + payloads[0].n_bytes + payloads[1].n_bytes,
                                "an intercommunicator");
        agreement->context_id = members[i]->new_context_id;
        agreement->side = i;
        for (int side = 0; side < 2; side++) {
            agreement->n[side] = (int)(payloads[side].n_bytes / sizeof(int));
            memcpy(agreement->ranks + (side ? agreement->n[0] : 0), payloads[side].bytes,
                   payloads[side].n_bytes);
        }
        first = ampi_group_create_list(agreement->ranks, agreement->n[0]);
        second = ampi_group_create_list(agreement->ranks + agreement->n[0], agreement->n[1]);
        members[i]->error = agreement->error = are_disjoint(first, second) ? MPI_SUCCESS : MPI_ERR_GROUP;
        ampi_group_unref(first);
        ampi_group_unref(second);
        members[i]->got = agreement;
    }
}

static struct ampi_comm_shared *make_agreed(void *arg)
{
    const struct ampi_comm_agreement *agreement = arg;
    struct ampi_layout *layouts[2];
    struct ampi_comm_shared *made;

    for (int side = 0; side < 2; side++) {
        struct ampi_group *group =
            ampi_group_create_list(agreement->ranks + (side ? agreement->n[0] : 0), agreement->n[side]);
        layouts[side] = ampi_layout_create(group);
        ampi_group_unref(group);
    }
    made = ampi_comm_build_as(layouts[0], layouts[1], agreement->context_id);
    ampi_layout_unref(layouts[0]);
    ampi_layout_unref(layouts[1]);
    return made;
}

/* The side of this process; NULL: there is no agreement. */
static struct ampi_comm_side *side_agreed(const struct ampi_comm_agreement *agreement)
{
    if (!agreement || agreement->error)
        return NULL;
    return &ampi_contexts_find_or_make(agreement->context_id, make_agreed, (void *)(uintptr_t)agreement)
                ->side[agreement->side];
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
 * *side_out or, in a job of several processes, *agreement_out (malloc'ed). */
static int meet_leader(struct ampi_rank *self, int remote_world_rank, struct ampi_layout *local,
                       const struct ampi_meet *key, struct ampi_comm_side **side_out,
                       struct ampi_comm_agreement **agreement_out)
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
    if (ampi_machine) {
        me.build = agree_inter;
        me.payload =
            (struct ampi_meet_payload){ranks_of(local->group), (size_t)local->group->n_ranks * sizeof(int)};
    }
    error = ampi_meet_run(&me);
    ampi_group_unref(leaders);
    if (ampi_machine) {
        free((void *)(uintptr_t)me.payload.bytes);
        *agreement_out = me.got;
    } else {
        *side_out = me.got;
    }
    return error;
}

/* ---- MPI_Intercomm_create: a collective of the local communicator distributes the handles ---- */

/* The leader's args->send.buf is its side of the new communicator or, in a job of several processes, the
 * agreement; key[0] marks the leader, key[1] is its error. */
static void hand_out_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *leader = slot->args[slot->args[0]->key[0]];
    const struct ampi_comm_side *side = ampi_machine ? side_agreed(leader->send.buf) : leader->send.buf;
    int n_members = leader->comm->local->n_ranks;

    for (int i = 0; i < n_members; i++) {
        slot->args[i]->extra = side ? &side->handles[i] : NULL;
        slot->args[i]->error = leader->key[1];
    }
}

static void hand_out_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                          struct ampi_coll_packer *out)
{
    (void)slot;
    if (args->comm->rank == args->key[0] && args->send.buf)
        ampi_coll_put_bytes(out, 0, args->send.buf, agreement_bytes(args->send.buf));
}

static const struct ampi_coll_plan hand_out_plan = {
    .name = "intercommunicator creation", .pack = hand_out_pack, .middle = hand_out_middle};

int ampi_comm_create_inter(struct ampi_comm *local, const struct ampi_comm_leader *leader,
                           struct ampi_comm **made_out)
{
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&hand_out_plan), .comm = local,
                                  .key = {leader->rank, MPI_SUCCESS}};
    struct ampi_comm_side *side = leader->side;
    struct ampi_comm_agreement *agreement = leader->agreement;
    int error;

    if (local->rank == leader->rank) {
        args.key[1] = leader->error;
        if (!leader->error && !side)
            args.key[1] = meet_leader(local->owner, leader->remote_world_rank, local->local->layout,
                                      &leader->key, &side, &agreement);
        args.send.buf = ampi_machine ? (void *)agreement : side;
    }
    error = ampi_coll_run(&args);
    free(agreement);
    *made_out = args.extra;
    return error;
}

struct ampi_comm *ampi_comm_prepare_inter(struct ampi_comm *local, struct ampi_group *group,
                                          struct ampi_comm_leader *leader)
{
    const struct ampi_group *own = local->local->layout->group;
    struct ampi_comm_agreement *agreement;
    struct ampi_layout *layout;
    struct ampi_comm_shared *made;

    if (!ampi_machine) {
        layout = ampi_layout_create(group);
        made = ampi_comm_build(local->local->layout, layout);
        ampi_layout_unref(layout);
        leader->side = made ? &made->side[0] : NULL;
        return made ? made->side[1].handles : NULL;
    }
    agreement = base_calloc(
        1, sizeof *agreement + ((size_t)own->n_ranks + (size_t)group->n_ranks) * sizeof agreement->ranks[0],
        "an intercommunicator");
    agreement->context_id = ampi_contexts_propose();
    agreement->n[0] = own->n_ranks;
    agreement->n[1] = group->n_ranks;
    for (int i = 0; i < own->n_ranks + group->n_ranks; i++)
        agreement->ranks[i] =
            i < own->n_ranks ? ampi_group_world_rank(own, i) : ampi_group_world_rank(group, i - own->n_ranks);
    leader->agreement = agreement;
    leader->side = side_agreed(agreement);
    return leader->side[1].handles;
}

/* The leader's part: finds the other leader. */
static void find_leader(struct ampi_rank *self, MPI_Comm peer_comm, int remote_leader, int tag,
                        struct ampi_comm_leader *leader)
{
    struct ampi_comm *peer = ampi_comm_of(self, peer_comm);

    leader->key = (struct ampi_meet){.function = "intercomm_create", .tag = tag};
    if (!peer || remote_leader < 0 || remote_leader >= peer->peer->n_ranks) {
        leader->error = peer ? MPI_ERR_RANK : MPI_ERR_COMM;
        return;
    }
    leader->remote_world_rank = ampi_group_world_rank(peer->peer->layout->group, remote_leader);
    leader->key.context_id = peer->shared->context_id;
}

static int raise_inter(struct ampi_comm *local, int error)
{
    switch (error) {
    case MPI_ERR_COMM:
        return ampi_raise(local, error, "peer_comm is not a valid communicator at the local leader");
    case MPI_ERR_RANK:
        return ampi_raise(local, error, "remote_leader is not a valid rank in peer_comm");
    case MPI_ERR_GROUP:
        return ampi_raise(local, MPI_ERR_COMM, "the two groups have a rank in common");
    default:
        return ampi_comm_raise_creation(local, error);
    }
}

AMPI_EXPORT(Intercomm_create);
int PMPI_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader,
                          int tag, MPI_Comm *newintercomm)
{
    struct ampi_rank *self = ampi_enter("MPI_Intercomm_create");
    struct ampi_comm *local = ampi_comm_of(self, local_comm);
    struct ampi_comm_leader leader = {.rank = local_leader};
    struct ampi_comm *made;
    int error;

    if (!local)
        return ampi_comm_raise_invalid(local_comm);
    if (local->shared->is_inter)
        return ampi_raise(local, MPI_ERR_COMM, "local_comm is an intercommunicator");
    if (local_leader < 0 || local_leader >= local->local->n_ranks)
        return ampi_raise(local, MPI_ERR_RANK, "local_leader is %d, but the size of local_comm is %d",
                          local_leader, local->local->n_ranks);
    if (tag < 0)
        return ampi_raise(local, MPI_ERR_TAG, "the tag is %d", tag);
    if (!newintercomm)
        return ampi_raise(local, MPI_ERR_ARG, "newintercomm is NULL");
    if (local->rank == local_leader)
        find_leader(self, peer_comm, remote_leader, tag, &leader);
    error = ampi_comm_create_inter(local, &leader, &made);
    return error ? raise_inter(local, error) : ampi_comm_adopt(local, made, false, newintercomm);
}

/* ---- MPI_Intercomm_create_from_groups: a meeting of the local group distributes the handles ---- */

/* The leader's payload for its group; the others' is NULL. */
struct leader_result {
    struct ampi_comm_side *side;
    struct ampi_comm_agreement *agreement;
    int error;
};

/* The same in a job of several processes: the leader's payload is its error, followed by the agreement. */
static void hand_out_agreed(struct ampi_meet **members, int n_members)
{
    const struct ampi_meet_payload *payload = NULL;
    const struct ampi_comm_side *side = NULL;
    int64_t error = MPI_ERR_RANK;

    for (int i = 0; i < n_members && !payload; i++)
        for (int k = 0; members[i] && k < n_members; k++)
            if (members[i]->payloads[k].n_bytes)
                payload = &members[i]->payloads[k];
    if (payload)
        memcpy(&error, payload->bytes, sizeof error);
    if (payload && payload->n_bytes > sizeof error) {
        struct ampi_comm_agreement *copy =
            base_malloc(payload->n_bytes, "an intercommunicator"); /* the payload may be unaligned */
        memcpy(copy, (const char *)payload->bytes + sizeof error, payload->n_bytes - sizeof error);
        side = side_agreed(copy);
        free(copy);
    }
    for (int i = 0; i < n_members; i++)
        if (members[i]) {
            members[i]->error = (int)error;
            members[i]->got = side ? &side->handles[i] : NULL;
        }
}

static struct ampi_meet_payload payload_of(const struct leader_result *result)
{
    int64_t error = result->error;
    size_t n_bytes = result->agreement ? agreement_bytes(result->agreement) : 0;
    char *bytes = base_malloc(sizeof error + n_bytes, "an intercommunicator");

    memcpy(bytes, &error, sizeof error);
    if (n_bytes)
        memcpy(bytes + sizeof error, result->agreement, n_bytes);
    return (struct ampi_meet_payload){bytes, sizeof error + n_bytes};
}

static void hand_out_build(struct ampi_meet **members, int n_members)
{
    const struct leader_result *result = NULL;

    if (ampi_machine) {
        hand_out_agreed(members, n_members);
        return;
    }
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
    result->agreement = NULL;
    result->error = remote ? MPI_ERR_RANK : MPI_ERR_GROUP;
    if (!remote || remote_leader < 0 || remote_leader >= remote->n_ranks)
        return;
    layout = ampi_layout_create(local);
    result->error = meet_leader(self, ampi_group_world_rank(remote, remote_leader), layout, &key,
                                &result->side, &result->agreement);
    ampi_layout_unref(layout);
}

static int raise_inter_from_groups(struct ampi_errhandler *handler, int error)
{
    MPI_Comm none = MPI_COMM_NULL;
    char text[AMPI_FAILED_TEXT_MAX];

    if (error == MPI_ERR_RANK)
        return ampi_raise_on(handler, &none, error, "remote_leader is not a valid rank in the remote group");
    if (error == MPI_ERR_GROUP)
        return ampi_raise_on(handler, &none, error,
                             "remote_group is not a valid group, or has a rank in common with local_group");
    return ampi_raise_on(handler, &none, error, "%s", ampi_comm_creation_text(error, NULL, text));
}

AMPI_EXPORT(Intercomm_create_from_groups);
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
    struct leader_result result = {0};
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
                             "local_leader is %d, but the local group's size is %d", local_leader,
                             local->n_ranks);
    if (me.member == local_leader) {
        lead_group(self, local, remote_group, remote_leader, stringtag, &result);
        me.give = &result;
        if (ampi_machine)
            me.payload = payload_of(&result);
    }
    error = ampi_meet_run(&me);
    free((void *)(uintptr_t)me.payload.bytes);
    free(result.agreement);
    if (error)
        return raise_inter_from_groups(ampi_errhandler_of(errhandler), error);
    return finish_from_group(self, me.got, local_group, info, errhandler, newintercomm);
}
