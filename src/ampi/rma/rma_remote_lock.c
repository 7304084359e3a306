/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote_lock.c: locks of targets in other processes, at the origin. See rma_remote.h.
 */
#include "ampi/rma/rma_remote_header.h"

#include <stdio.h>
#include <string.h>

static void describe_lock(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_epoch_wait *wait = BASE_CONTAINER(request, const struct ampi_epoch_wait, request);
    const struct ampi_win *win = request->u.extra;

    int n;

    if (wait->rank >= 0)
        n = snprintf(text, size_bytes, "MPI_Win_lock %s on rank %d",
                     wait->is_exclusive ? "exclusive" : "shared", wait->rank);
    else
        n = snprintf(text, size_bytes, "%s", win->owner->ult.call);
    ampi_epoch_describe_holders(wait->holders, text, size_bytes, (size_t)n);
}

static const struct ampi_request_kind lock_kind = {.name = "MPI_Win_lock", .describe = describe_lock};

/* A call that asks for locks: of one member, or, rank -1, of processes. */
static struct ampi_epoch_wait begin_locking(struct ampi_win *win, int rank)
{
    return (struct ampi_epoch_wait){.until = AMPI_WAIT_GRANTS, .rank = rank, .number = win->n_locks++};
}

/* flags: AMPI_RMA_TRY or 0. */
static void ask_for_lock(struct ampi_win *win, struct ampi_epoch_wait *wait, int rank,
                         enum ampi_win_lock_as as, uint8_t flags)
{
    bool is_all = wait->rank < 0;
    struct ampi_am_header am = ampi_rma_am(win, is_all ? AMPI_RMA_LOCK_ALL : AMPI_RMA_LOCK, rank);

    am.flags = (uint8_t)(flags | (as == AMPI_LOCK_EXCLUSIVE ? AMPI_RMA_EXCLUSIVE : 0) |
                         (win->owner->n_win_locks > 0 ? AMPI_RMA_HAS_OTHERS : 0));
    am.seq = (uint32_t)wait->number;
    am.cookie = (uintptr_t)win;
    if (BASE_UNLIKELY(!ampi_rma_post(win->shared, &am, NULL, 0))) {
        wait->error = MPI_ERR_PROC_ABORTED;
        return;
    }
    if (is_all)
        ampi_win_set_bit(win, &win->asked, rank);
    wait->n_left++;
}

/* MPI_ERR_PROC_ABORTED: not all are granted; the caller has to release the granted ones. */
static int await_grants(struct ampi_win *win, struct ampi_epoch_wait *wait)
{
    return wait->n_left > 0 ? ampi_epoch_await(win, wait, &lock_kind) : wait->error;
}

/* Ends the wait for one grant: it has arrived, was refused, or will never come. */
static void end_grant(struct ampi_win *win, struct ampi_epoch_wait *wait, int rank, int error)
{
    if (wait->rank < 0)
        ampi_win_clear_bit(win->asked, rank);
    if (error)
        wait->error = error;
    if (--wait->n_left == 0)
        ampi_epoch_end_wait(win, wait);
}

/* True if the call waits for this member's grant. */
static bool awaits_grant(const struct ampi_win *win, const struct ampi_epoch_wait *wait, int rank)
{
    return wait->until >= AMPI_WAIT_GRANTS &&
           (wait->rank < 0 ? ampi_win_bit(win->asked, rank) : wait->rank == rank);
}

/* No call waits for the grant of a process that failed when it had granted the lock. */
void ampi_rma_handle_grant(const struct ampi_am_header *am)
{
    struct ampi_win *win = (struct ampi_win *)(uintptr_t)am->cookie;

    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = wait->next)
        if (am->seq == (uint32_t)wait->number && awaits_grant(win, wait, am->source)) {
            if (am->flags & AMPI_RMA_BUSY)
                ampi_win_set_bit(win, &win->busy, am->source);
            win->has_passed |= (am->flags & AMPI_RMA_PASSED) != 0;
            end_grant(win, wait, am->source,
                      am->flags & AMPI_RMA_REFUSED ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS);
            return;
        }
}

void ampi_rma_fail_grants(struct ampi_win *win)
{
    const struct ampi_group *group = win->comm->local->layout->group;
    struct ampi_epoch_wait *next;

    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = next) {
        next = wait->next;
        for (int i = 0, n = (int)wait->n_left; i < win->shared->n_ranks && n > 0; i++)
            if (awaits_grant(win, wait, i)) {
                n--;
                if (ampi_failed_is_rank(ampi_group_world_rank(group, i)))
                    end_grant(win, wait, i, MPI_ERR_PROC_ABORTED);
            }
    }
}

/* ---- Reports ---- */

/* The member's process is in this job. One of another job may end before it answers. */
static bool is_of_job(const struct ampi_win *win, int member)
{
    int world_rank = ampi_group_world_rank(win->comm->local->layout->group, member);

    return ampi_procs_is_own(ampi_procs_of_rank(world_rank));
}

int ampi_rma_ask_for_holders(struct ampi_win *win)
{
    int n_asked = 0;

    for (const struct ampi_epoch_wait *wait = win->waits; wait; wait = wait->next)
        for (int i = 0, n = (int)wait->n_left; i < win->shared->n_ranks && n > 0; i++)
            if (wait->until == AMPI_WAIT_GRANTS && awaits_grant(win, wait, i)) {
                struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_HOLDERS_WANTED, i);
                n--;
                if (!is_of_job(win, i))
                    continue;
                am.flags = wait->rank < 0 ? AMPI_RMA_IS_ALL : 0;
                am.seq = (uint32_t)wait->number;
                am.cookie = (uintptr_t)win;
                n_asked += ampi_rma_post(win->shared, &am, NULL, 0);
            }
    return n_asked;
}

void ampi_rma_handle_holders(const struct ampi_am_header *am, const void *bytes)
{
    struct ampi_win *win = (struct ampi_win *)(uintptr_t)am->cookie;
    struct ampi_win_holders holders;

    memcpy(&holders, bytes, sizeof holders);
    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = wait->next)
        if (am->seq == (uint32_t)wait->number && awaits_grant(win, wait, am->source) && holders.n > 0)
            wait->holders = holders;
    ampi_procs_answered();
}

int ampi_rma_remote_lock_waits_for(const struct ampi_request *request)
{
    const struct ampi_epoch_wait *wait = BASE_CONTAINER(request, const struct ampi_epoch_wait, request);

    return request->kind == &lock_kind ? ampi_epoch_holder(request->u.extra, wait->holders) : -1;
}

/* ---- Calls ---- */

int ampi_rma_remote_lock(struct ampi_win *win, int rank, enum ampi_win_lock_as as)
{
    struct ampi_epoch_wait wait = begin_locking(win, rank);
    int error;

    wait.is_exclusive = as == AMPI_LOCK_EXCLUSIVE;
    ask_for_lock(win, &wait, rank, as, 0);
    error = await_grants(win, &wait);
    return BASE_LIKELY(!error) ? MPI_SUCCESS : ampi_rma_raise_remote(win, error);
}

int ampi_rma_remote_lock_process(struct ampi_win *win, int first, enum ampi_win_lock_as as)
{
    struct ampi_epoch_wait wait = begin_locking(win, -1);

    ask_for_lock(win, &wait, first, as, 0);
    return await_grants(win, &wait);
}

void ampi_rma_remote_unlock_process(struct ampi_win *win, int first, enum ampi_win_lock_as as)
{
    struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_UNLOCK_ALL, first);

    am.flags = as == AMPI_LOCK_EXCLUSIVE ? AMPI_RMA_EXCLUSIVE : 0;
    ampi_rma_post(win->shared, &am, NULL, 0);
}

int ampi_rma_remote_try_processes(struct ampi_win *win, int except, int *busy_out)
{
    const struct ampi_win_shared *shared = win->shared;
    struct ampi_epoch_wait wait = begin_locking(win, -1);
    int error, n_asked = 0;

    *busy_out = -1;
    for (; n_asked < shared->n_others && !wait.error; n_asked++)
        if (shared->others[n_asked] != except)
            ask_for_lock(win, &wait, shared->others[n_asked], AMPI_LOCK_SHARED, AMPI_RMA_TRY);
    error = await_grants(win, &wait);
    for (int i = 0; i < n_asked; i++)
        if (ampi_win_bit(win->busy, shared->others[i]))
            *busy_out = shared->others[i];
    for (int i = 0; i < n_asked; i++) {
        int first = shared->others[i];
        if (ampi_win_bit(win->busy, first))
            ampi_win_clear_bit(win->busy, first);
        else if ((error || *busy_out >= 0) && first != except)
            ampi_rma_remote_unlock_process(win, first, AMPI_LOCK_SHARED);
    }
    return error;
}

void ampi_rma_remote_unlock(struct ampi_win *win, int rank, enum ampi_win_lock_as as)
{
    struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_UNLOCK, rank);

    am.flags = as == AMPI_LOCK_EXCLUSIVE ? AMPI_RMA_EXCLUSIVE : 0;
    ampi_rma_post(win->shared, &am, NULL, 0);
}
