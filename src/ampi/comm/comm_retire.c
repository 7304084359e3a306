/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_retire.c: destroys a communicator that all its members have freed.
 *
 * Messages to it may still be in inboxes: a program may send messages that are never received. Their senders
 * held the communicator, so they were posted before its last reference was dropped. When a fence that is
 * posted now arrives at a PE with members, that PE has handled them all; it then drops the messages that no
 * receive has matched. The last PE frees the memory.
 */
#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* One PE's visit. */
struct visit {
    struct ult_fence fence;
    struct retirement *all;
};

struct retirement {
    struct ampi_comm_shared *shared;
    _Atomic int n_left; /* unfinished visits */
    struct visit visits[];
};

static bool has_members(const struct ampi_comm_shared *shared, int pe_id)
{
    return shared->side[0].layout->part_of_pe[pe_id] >= 0 ||
           (shared->is_inter && shared->side[1].layout->part_of_pe[pe_id] >= 0);
}

static void close_handle(struct ampi_comm *comm)
{
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->close)
            ampi_comm_clients[i]->close(comm);
}

static void close_side(const struct ampi_comm_side *side, int pe_id)
{
    const struct ampi_layout *layout = side->layout;
    int part = layout->part_of_pe[pe_id];

    if (part < 0)
        return;
    for (int i = layout->part_first[part]; i < layout->part_first[part + 1]; i++)
        close_handle(&side->handles[layout->part_members[i]]);
}

/* Drops the communicator's state on a PE. On that PE. */
static void leave_pe(struct ampi_comm_shared *shared, int pe_id)
{
    if (shared->context_id & AMPI_CONTEXT_CROSS)
        ampi_contexts_forget(pe_id, shared->context_id);
    close_side(&shared->side[0], pe_id);
    if (shared->is_inter)
        close_side(&shared->side[1], pe_id);
}

static void arrived(struct ult_fence *fence)
{
    struct retirement *all = BASE_CONTAINER(fence, struct visit, fence)->all;

    leave_pe(all->shared, ult_pe_id(ult_self()->pe));
    if (atomic_fetch_sub_explicit(&all->n_left, 1, memory_order_acq_rel) != 1)
        return;
    ampi_comm_destroy(all->shared);
    free(all);
}

void ampi_comm_retire(struct ampi_comm_shared *shared)
{
    const struct ult *self = ult_self();
    int own_pe = self ? ult_pe_id(self->pe) : -1;
    struct retirement *all;
    int n_pes = 0, n_posted = 0;

    for (int pe = 0; pe < ampi_job.n_pes; pe++)
        n_pes += has_members(shared, pe);
    if (n_pes == 0 ||
        (n_pes == 1 && own_pe >= 0 && has_members(shared, own_pe))) { /* no messages are in inboxes */
        if (n_pes == 1)
            leave_pe(shared, own_pe);
        ampi_comm_destroy(shared);
        return;
    }
    all = base_malloc(sizeof *all + (size_t)n_pes * sizeof *all->visits, "a freed communicator");
    all->shared = shared;
    atomic_init(&all->n_left, n_pes);
    for (int pe = 0; n_posted < n_pes; pe++)
        if (has_members(shared, pe)) {
            struct visit *visit = &all->visits[n_posted++];
            visit->fence.arrived = arrived;
            visit->all = all;
            ult_post_fence(ult_pe_get(pe), &visit->fence);
        }
}
