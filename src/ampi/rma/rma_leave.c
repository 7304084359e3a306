/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_leave.c: MPI_Win_free after the loss of a process.
 *
 * MPI_Win_free is a barrier: afterwards no member accesses the others' memory. When a process has failed, the barrier
 * fails at once at some or all members, while others still access memory. A member whose barrier fails asks each
 * process, its own included, for leave, which is granted when all members there have called MPI_Win_free. A process
 * that has freed the window grants it at once, so members whose barrier did not fail need not take part. A process
 * that fails is not waited for (ampi_rma_fail_grants). Cost: one round trip per process, and only then.
 */
#include "ampi/rma/rma_remote_header.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* A member that waits until all members of this process have left. */
struct ampi_rma_leaver {
    struct ampi_rma_leaver *next; /* in the window's list */
    struct ampi_am_header am;     /* its request */
    struct ult_pe *pe;            /* of a member of this process; NULL: it is in another one */
};

static void describe_leaving(const struct ampi_request *request, char *text, size_t size_bytes)
{
    (void)request;
    snprintf(text, size_bytes, "MPI_Win_free, for the MPI_Win_free of other members");
}

static const struct ampi_request_kind leave_kind = {.name = "MPI_Win_free", .describe = describe_leaving};

static void handle_own_grant(const struct ult_item *item)
{
    struct ampi_am_header am;

    memcpy(&am, item->body, sizeof am);
    ampi_rma_handle_grant(&am);
}

static void grant(const struct ampi_am_header *request, struct ult_pe *pe)
{
    struct ampi_am_header answer = ampi_rma_answer_to(request, AMPI_RMA_GRANT);
    struct ult_item item = {.handle = handle_own_grant};

    _Static_assert(sizeof answer <= sizeof item.body, "an item holds an answer");
    if (!pe) {
        ampi_procs_post((int)request->src_proc, request->src_pe, &answer, NULL, 0);
    } else if (pe == ult_self()->pe) {
        ampi_rma_handle_grant(&answer);
    } else {
        memcpy(item.body, &answer, sizeof answer);
        ult_post_item(pe, &item);
    }
}

/* Adds the request to the list; false: all members of the process have left. */
static bool stand_in_list(struct ampi_win_shared *shared, const struct ampi_am_header *am, struct ult_pe *pe)
{
    struct ampi_rma_leaver *leaver = base_malloc(sizeof *leaver, "a window");
    bool is_listed;

    pthread_mutex_lock(&shared->members_lock);
    *leaver = (struct ampi_rma_leaver){shared->leavers, *am, pe};
    is_listed = shared->n_leaving < shared->n_local;
    if (is_listed)
        shared->leavers = leaver;
    pthread_mutex_unlock(&shared->members_lock);
    if (!is_listed)
        free(leaver);
    return is_listed;
}

void ampi_rma_handle_leave(const struct ampi_am_header *am)
{
    struct ampi_win_shared *shared = ampi_rma_find_window(am);

    if (!shared || !stand_in_list(shared, am, NULL))
        grant(am, NULL);
}

void ampi_rma_leave(struct ampi_win *win)
{
    struct ampi_win_shared *shared = win->shared;
    struct ampi_rma_leaver *leavers = NULL;

    pthread_mutex_lock(&shared->members_lock);
    if (++shared->n_leaving == shared->n_local) {
        leavers = shared->leavers;
        shared->leavers = NULL;
    }
    pthread_mutex_unlock(&shared->members_lock);
    while (leavers) {
        struct ampi_rma_leaver *leaver = leavers;
        leavers = leaver->next;
        grant(&leaver->am, leaver->pe);
        free(leaver);
    }
}

void ampi_rma_await_leaving(struct ampi_win *win)
{
    struct ampi_win_shared *shared = win->shared;
    struct ampi_epoch_wait wait = {.until = AMPI_WAIT_LEAVING, .rank = -1, .number = win->n_locks++};

    for (int i = -1; i < shared->n_others; i++) {
        int rank = i < 0 ? win->rank : shared->others[i];
        struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_LEAVE, rank);
        am.seq = (uint32_t)wait.number;
        am.cookie = (uintptr_t)win;
        if (i < 0 ? !stand_in_list(shared, &am, win->owner->ult.pe) : !ampi_rma_post(shared, &am, NULL, 0))
            continue;
        ampi_win_set_bit(win, &win->asked, rank);
        wait.n_left++;
    }
    if (wait.n_left > 0)
        ampi_epoch_await(win, &wait, &leave_kind);
}
