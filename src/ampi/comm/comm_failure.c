/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_failure.c: the effect of failed processes on groups and communicators. See procs/failure.c.
 */
#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

#include <stdio.h>

/* ---- The rooms above ---- */

const struct ampi_comm_client *ampi_comm_clients[AMPI_COMM_CLIENTS_MAX];
int ampi_comm_n_clients;

void ampi_comm_add_client(const struct ampi_comm_client *client)
{
    BASE_ASSERT(ampi_comm_n_clients < AMPI_COMM_CLIENTS_MAX);
    ampi_comm_clients[ampi_comm_n_clients++] = client;
}

bool ampi_failed_in_group(const struct ampi_group *group)
{
    for (int i = 0; ampi_failed_any() && i < group->n_ranks; i++)
        if (ampi_failed_is_rank(ampi_group_world_rank(group, i)))
            return true;
    return false;
}

struct ampi_group *ampi_failed_survivors(const struct ampi_group *group)
{
    int *ranks = base_malloc((size_t)group->n_ranks * sizeof *ranks, "a group");
    struct ampi_group *survivors;
    int n = 0;

    for (int i = 0; i < group->n_ranks; i++)
        if (!ampi_failed_is_rank(ampi_group_world_rank(group, i)))
            ranks[n++] = ampi_group_world_rank(group, i);
    survivors = ampi_group_create_list(ranks, n);
    free(ranks);
    return survivors;
}

static bool has_rank_of(int proc_id, const struct ampi_group *group)
{
    for (int i = 0; group && i < group->n_ranks; i++)
        if (ampi_procs_of_rank(ampi_group_world_rank(group, i)) == proc_id)
            return true;
    return !group;
}

void ampi_failed_describe(const struct ampi_group *group, char *text)
{
    snprintf(text, AMPI_FAILED_TEXT_MAX, "a process has failed");
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (ampi_failed_is(i) && has_rank_of(i, group)) {
            ampi_failed_describe_process(i, text);
            return;
        }
}

bool ampi_comm_has_failed(const struct ampi_comm_shared *shared)
{
    return ampi_failed_any() &&
           (ampi_failed_in_group(shared->side[0].layout->group) ||
            (shared->side[1].layout && ampi_failed_in_group(shared->side[1].layout->group)));
}

void ampi_comm_mark_failed(struct ampi_comm *comm)
{
    comm->has_failed = true;
    comm->coll_pending |= AMPI_COLL_PENDING_FAILED;
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->mark_failed)
            ampi_comm_clients[i]->mark_failed(comm);
}

/* For a side of a communicator with members on this PE: marks their handles, and fails operations that
 * cannot complete any more. */
static void fail_side(struct ampi_comm_side *side, int pe_id)
{
    const struct ampi_layout *layout = side->layout;
    int part = layout ? layout->part_of_pe[pe_id] : -1;

    if (part < 0)
        return;
    for (int i = layout->part_first[part]; i < layout->part_first[part + 1]; i++) {
        struct ampi_comm *comm = &side->handles[layout->part_members[i]];
        ampi_comm_mark_failed(comm);
        for (int j = 0; j < ampi_comm_n_clients; j++)
            if (ampi_comm_clients[j]->fail)
                ampi_comm_clients[j]->fail(comm);
    }
}

static void fail_members(struct ampi_comm_shared *shared, void *arg)
{
    int pe_id = *(int *)arg;

    if (!ampi_comm_has_failed(shared))
        return;
    fail_side(&shared->side[0], pe_id);
    fail_side(&shared->side[1], pe_id);
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->fail_shared)
            ampi_comm_clients[i]->fail_shared(shared, pe_id);
    /* Sequentially consistent: either this finds a hidden communicator, or its creator finds the failure. */
    for (size_t i = 0; i < BASE_COUNT(shared->hidden); i++)
        if (atomic_load(&shared->hidden[i]))
            fail_members(shared->hidden[i], arg);
}

static void look_again(int pe_id)
{
    ampi_contexts_each(fail_members, &pe_id);
}

/* Marks the processes that share communicators with this one. */
static void find_links(struct ampi_comm_shared *shared, void *arg)
{
    bool *is_linked = arg;

    for (int side = 0; side <= shared->is_inter; side++) {
        const struct ampi_group *group = shared->side[side].layout->group;
        for (int i = 0; i < group->n_ranks; i++)
            is_linked[ampi_procs_of_rank(ampi_group_world_rank(group, i))] = true;
    }
}

static bool is_linked(bool *is_linked)
{
    ampi_contexts_each(find_links, is_linked);
    return false;
}

void ampi_comm_connect(void)
{
    static const struct ampi_procs_client client = {.look_again = look_again, .is_linked = is_linked};

    ampi_procs_add_client(&client);
}
