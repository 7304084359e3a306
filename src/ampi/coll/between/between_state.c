/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_state.c: a communicator's data about the processes of its members. See coll_remote.h.
 */
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"

#include <string.h>

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

/* A lower bound of the number of consecutive members, from this one on, that are in the same process; found
 * without visiting each. */
static int run_of(const struct ampi_comm_shared *shared, int member, int world_rank)
{
    const struct ampi_group *group = shared->side[0].layout->group;
    int n_left = group->n_ranks - member;
    int n_in_proc;

    if (shared->is_inter || group->list || group->stride != 1 || ampi_job_is_spawned(world_rank))
        return 1;
    n_in_proc = ampi_procs_first_rank(ampi_procs_of_rank(world_rank) + 1) - world_rank;
    return n_in_proc < n_left ? n_in_proc : n_left;
}

/* Numbers the processes in the order of their first members, which are in `first` at this point. */
static void find_procs(struct ampi_coll_remote *remote, const struct ampi_comm_shared *shared, int n_members)
{
    int index, world_rank;

    remote->is_blocked = !shared->is_inter;
    for (int i = 0; i < n_members; i += run_of(shared, i, world_rank)) {
        int proc_id;
        world_rank = world_rank_of(shared, i);
        proc_id = ampi_procs_of_rank(world_rank);
        index = remote->index_of[proc_id];
        if (index < 0) {
            index = remote->n_procs++;
            if (proc_id == ampi_job.proc_id)
                remote->own = index;
            remote->proc_id[index] = proc_id;
            remote->leader_rank[index] = world_rank;
            remote->leader_pe[index] = -1;
            remote->first[index] = i;
            remote->index_of[proc_id] = index;
        }
        remote->sides[index] |= (unsigned char)(1 << (i >= shared->side[0].n_ranks));
        remote->is_blocked &= index == remote->n_procs - 1;
    }
    remote->first[remote->n_procs] = n_members;
}

/* Sorts members that are not in blocks by process. */
static void sort_members(struct ampi_coll_remote *remote, const struct ampi_comm_shared *shared,
                         int n_members)
{
    remote->proc_of = ints(n_members);
    remote->members = ints(n_members);
    memset(remote->first, 0, ((size_t)remote->n_procs + 2) * sizeof *remote->first);
    for (int i = 0; i < n_members; i++) {
        remote->proc_of[i] = remote->index_of[ampi_procs_of_rank(world_rank_of(shared, i))];
        remote->first[remote->proc_of[i] + 2]++;
    }
    for (int i = 0; i < remote->n_procs; i++)
        remote->first[i + 1] += remote->first[i];
    for (int i = 0; i < n_members; i++)
        remote->members[remote->first[remote->proc_of[i] + 1]++] = i;
}

int ampi_remote_proc_of(const struct ampi_coll_remote *remote, int member)
{
    int lo = 0, hi = remote->n_procs;

    if (remote->proc_of)
        return remote->proc_of[member];
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (remote->first[middle] <= member)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state)
{
    const struct ampi_comm_shared *shared = state->shared;
    const struct ampi_layout *layouts[2] = {shared->side[0].layout, shared->side[1].layout};
    int most = state->n_members < ampi_job.max_procs ? state->n_members : ampi_job.max_procs;
    struct ampi_coll_remote *remote;

    if (layouts[0]->n_local == shared->side[0].n_ranks &&
        (!layouts[1] || layouts[1]->n_local == shared->side[1].n_ranks))
        return NULL;
    remote = base_calloc(1, sizeof *remote, "a communicator across processes");
    ampi_exchange_table_init(&remote->table);
    remote->proc_id = ints(most);
    remote->leader_rank = ints(most);
    remote->leader_pe = ints(most);
    remote->first = ints(most + 2);
    remote->index_of = ints(ampi_job.max_procs);
    for (int i = 0; i < ampi_job.max_procs; i++)
        remote->index_of[i] = -1;
    remote->sides = base_calloc((size_t)most, 1, "a communicator across processes");
    find_procs(remote, shared, state->n_members);
    if (!remote->is_blocked)
        sort_members(remote, shared, state->n_members);
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
    ampi_exchange_table_fini(&remote->table);
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
