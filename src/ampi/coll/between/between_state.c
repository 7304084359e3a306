/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_state.c: a communicator's data about the processes of its members. See coll_remote.h.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/between.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

static void *ints(int n)
{
    return base_calloc((size_t)n, sizeof(int), "a communicator across processes");
}

static int world_rank_of(const struct ampi_comm_shared *shared, int member)
{
    int side = member >= shared->side[0].n_ranks;

    return ampi_group_world_rank(shared->side[side].layout->group,
                                 member - (side ? shared->side[0].n_ranks : 0));
}

/* Numbers the processes in the order of their first members. */
static void find_procs(struct ampi_coll_remote *remote, const struct ampi_comm_shared *shared, int n_members)
{
    remote->is_blocked = !shared->is_inter;
    for (int i = 0; i < n_members; i++) {
        int world_rank = world_rank_of(shared, i);
        int proc_id = ampi_procs_of_rank(world_rank);
        if (remote->index_of[proc_id] < 0) {
            if (proc_id == ampi_job.proc_id)
                remote->own = remote->n_procs;
            remote->proc_id[remote->n_procs] = proc_id;
            remote->leader_rank[remote->n_procs] = world_rank;
            remote->leader_pe[remote->n_procs] = -1;
            remote->index_of[proc_id] = remote->n_procs++;
        }
        remote->proc_of[i] = remote->index_of[proc_id];
        remote->is_blocked &= remote->proc_of[i] == remote->n_procs - 1;
    }
}

/* Sorts the members by process. */
static void find_members(struct ampi_coll_remote *remote, const struct ampi_comm_shared *shared,
                         int n_members)
{
    for (int i = 0; i < n_members; i++) {
        remote->first[remote->proc_of[i] + 2]++;
        remote->sides[remote->proc_of[i]] |= (unsigned char)(1 << (i >= shared->side[0].n_ranks));
    }
    for (int i = 0; i < remote->n_procs; i++)
        remote->first[i + 1] += remote->first[i];
    for (int i = 0; i < n_members; i++)
        remote->members[remote->first[remote->proc_of[i] + 1]++] = i;
}

struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state)
{
    const struct ampi_comm_shared *shared = state->shared;
    const struct ampi_layout *layouts[2] = {shared->side[0].layout, shared->side[1].layout};
    int most = state->n_members < ampi_job.n_procs ? state->n_members : ampi_job.n_procs;
    struct ampi_coll_remote *remote;

    if (layouts[0]->n_local == shared->side[0].n_ranks &&
        (!layouts[1] || layouts[1]->n_local == shared->side[1].n_ranks))
        return NULL;
    remote = base_calloc(1, sizeof *remote, "a communicator across processes");
    remote->proc_of = ints(state->n_members);
    remote->proc_id = ints(most);
    remote->leader_rank = ints(most);
    remote->leader_pe = ints(most);
    remote->first = ints(most + 2);
    remote->members = ints(state->n_members);
    remote->index_of = ints(ampi_job.n_procs);
    for (int i = 0; i < ampi_job.n_procs; i++)
        remote->index_of[i] = -1;
    remote->sides = base_calloc((size_t)most, 1, "a communicator across processes");
    find_procs(remote, shared, state->n_members);
    find_members(remote, shared, state->n_members);
    remote->leader = ult_pe_get(ampi_job_pe_of(remote->leader_rank[remote->own]));
    remote->leader_part = state->part_of_pe[ult_pe_id(remote->leader)];
    for (int i = 0; i < AMPI_COLL_SLOTS; i++) {
        remote->slots[i].x.slot = &state->slots[i];
        state->slots[i].between = &remote->slots[i];
    }
    return remote;
}

void ampi_coll_between_slots_init(struct ampi_coll_slot *slots, int n_slots)
{
    struct ampi_between_slot *between_slots;

    if (!slots->state->remote)
        return;
    between_slots = base_calloc((size_t)n_slots, sizeof *between_slots, "a collective between processes");
    for (int i = 0; i < n_slots; i++) {
        between_slots[i].x.slot = &slots[i];
        slots[i].between = &between_slots[i];
    }
}

void ampi_coll_between_slots_fini(struct ampi_coll_slot *slots)
{
    free(slots->between);
}

void ampi_coll_remote_destroy(struct ampi_coll_remote *remote)
{
    if (!remote)
        return;
    ampi_coll_nccl_destroy(remote->nccl);
    while (remote->arrived) {
        struct ampi_exchange_message *next = remote->arrived->next;
        ampi_exchange_message_free(remote->arrived);
        remote->arrived = next;
    }
    free(remote->proc_of);
    free(remote->proc_id);
    free(remote->index_of);
    free(remote->leader_rank);
    free(remote->leader_pe);
    free(remote->first);
    free(remote->members);
    free(remote->sides);
    free(remote);
}
