/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoch.c: active target synchronisation: fence, post, start, complete, wait (MPI 5.0, section 12.5.1 and
 * 12.5.2).
 *
 * A fence is a barrier: operations within the process are complete already. Post and complete are signals
 * to the other member's PE; only that PE changes the sets and counts of its members, so no lock is needed.
 */
#include "ampi/rma/epoch.h"

#include <stdio.h>
#include <string.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/rma/rma_remote.h"

/* ---- Checks ---- */

int ampi_epoch_raise(MPI_Win handle, int asserted)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (!win)
        return ampi_win_raise_invalid(handle);
    return ampi_win_raise(win, MPI_ERR_ASSERT,
                          "assert is %d, which contains assertions that are not allowed in this call",
                          asserted);
}

static const char *const epoch_names[] = {
    [AMPI_ACCESS_FENCE] = "operations were issued since the last MPI_Win_fence, which needs another one",
    [AMPI_ACCESS_START] = "the epoch of MPI_Win_start is open: call MPI_Win_complete first",
    [AMPI_ACCESS_LOCK] = "targets are locked: call MPI_Win_unlock first",
    [AMPI_ACCESS_LOCK_ALL] = "all targets are locked: call MPI_Win_unlock_all first",
};

int ampi_epoch_check_closed(struct ampi_win *win)
{
    if (BASE_LIKELY(win->access == AMPI_ACCESS_NONE ||
                    (win->access == AMPI_ACCESS_FENCE && !win->has_accessed)))
        return MPI_SUCCESS;
    return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "%s", epoch_names[win->access]);
}

/* ---- Waits ---- */

int ampi_epoch_await(struct ampi_win *win, struct ampi_epoch_wait *wait, const struct ampi_request_kind *kind)
{
    if (BASE_UNLIKELY(win->has_failed && wait->until <= AMPI_WAIT_COMPLETES))
        return MPI_ERR_PROC_ABORTED;
    ampi_request_init_on_stack(&wait->request, win->owner, kind, NULL);
    wait->request.u.extra = win;
    wait->next = win->waits;
    win->waits = wait;
    ampi_request_await(&wait->request);
    return wait->error;
}

void ampi_epoch_end_wait(struct ampi_win *win, struct ampi_epoch_wait *wait)
{
    struct ampi_epoch_wait **link = &win->waits;

    while (*link != wait)
        link = &(*link)->next;
    *link = wait->next;
    ampi_request_complete(&wait->request);
}

void ampi_epoch_count_down(struct ampi_win *win, uint64_t number, int target, int error)
{
    struct ampi_epoch_wait *next;
    bool has_wait = false;

    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = next) {
        next = wait->next;
        if (wait->until != AMPI_WAIT_OPERATIONS || number >= wait->number ||
            (wait->rank >= 0 && wait->rank != target))
            continue;
        if (BASE_UNLIKELY(error))
            wait->error = error;
        has_wait = true;
        if (--wait->n_left == 0)
            ampi_epoch_end_wait(win, wait);
    }
    if (BASE_UNLIKELY(error) && !has_wait)
        win->error = error;
}

void ampi_epoch_fail_waits(struct ampi_win *win)
{
    struct ampi_epoch_wait *next;

    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = next) {
        next = wait->next;
        if (wait->until > AMPI_WAIT_COMPLETES)
            continue;
        wait->error = MPI_ERR_PROC_ABORTED;
        ampi_epoch_end_wait(win, wait);
    }
}

/* Ends the waits of one kind: their count has become 0. */
static void end_waits(struct ampi_win *win, int until)
{
    struct ampi_epoch_wait *next;

    for (struct ampi_epoch_wait *wait = win->waits; wait; wait = next) {
        next = wait->next;
        if ((int)wait->until == until)
            ampi_epoch_end_wait(win, wait);
    }
}

static const struct ampi_request_kind drain_kind = {.name = "one-sided operations"};

int ampi_epoch_drain_remote(struct ampi_win *win, int rank)
{
    struct ampi_epoch_wait wait;
    int error = MPI_SUCCESS;

    if (win->has_unflushed)
        ampi_rma_access_flush(win, rank);
    wait.n_left = rank < 0 ? win->n_under_way : ampi_rma_count_under_way(win, rank);
    if (wait.n_left > 0) {
        wait.until = AMPI_WAIT_OPERATIONS;
        wait.rank = rank;
        wait.number = win->n_begun;
        wait.error = MPI_SUCCESS;
        error = ampi_epoch_await(win, &wait, &drain_kind);
    }
    error = error ? error : win->error;
    if (BASE_UNLIKELY(ampi_failed_any()) && ampi_win_count_torn(win->shared) != win->n_torn_reported) {
        win->n_torn_reported = ampi_win_count_torn(win->shared);
        error = MPI_ERR_PROC_ABORTED;
    }
    win->error = MPI_SUCCESS;
    return BASE_LIKELY(!error) ? MPI_SUCCESS : ampi_rma_raise_remote(win, error);
}

/* ---- Fence ---- */

static int fence_barrier(struct ampi_win *win)
{
    char text[AMPI_FAILED_TEXT_MAX];
    int error = ampi_coll_barrier(win->comm, AMPI_COLL_WITHIN_FENCE);

    if (BASE_LIKELY(!error))
        return MPI_SUCCESS;
    ampi_failed_describe(win->comm->local->layout->group, text);
    return ampi_win_raise(win, error, "%s", text);
}

static BASE_NOINLINE int fence(int assert, MPI_Win win)
{
    struct ampi_win *object = NULL;
    bool has_barrier;
    int error;

    error = ampi_epoch_check(
        win, assert, MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, &object);
    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(object->access > AMPI_ACCESS_FENCE))
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC, "%s", epoch_names[object->access]);
    if (BASE_UNLIKELY(object->is_exposed))
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC,
                              "the window is exposed by MPI_Win_post: call MPI_Win_wait first");
    if (BASE_UNLIKELY((assert &MPI_MODE_NOPRECEDE) && object->access == AMPI_ACCESS_FENCE &&
                      object->has_accessed))
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC,
                              "MPI_MODE_NOPRECEDE, but operations were issued since the last fence");
    has_barrier = !(assert &MPI_MODE_NOPRECEDE) || !(assert &MPI_MODE_NOSUCCEED);
    if (has_barrier && ampi_win_is_watched(object))
        ampi_win_report_fence(object, false, MPI_SUCCESS);
    error = ampi_epoch_drain(object);
    object->has_accessed = false;
    object->access = assert &MPI_MODE_NOSUCCEED ? AMPI_ACCESS_NONE : AMPI_ACCESS_FENCE;
    if (!has_barrier)
        return error; /* all members assert this: there is nothing to wait for */
    if (BASE_LIKELY(!error))
        error = fence_barrier(object);
    else
        ampi_coll_barrier(object->comm, AMPI_COLL_WITHIN_FENCE); /* the epoch ends for the others, too */
    if (ampi_win_is_watched(object))
        ampi_win_report_fence(object, true, error);
    return error;
}

AMPI_EXPORT(Win_fence);
int PMPI_Win_fence(int assert, MPI_Win win)
{
    struct ampi_win *object = ampi_win_of(win);

    ampi_enter("MPI_Win_fence");
    if (BASE_UNLIKELY(!object || assert != 0 || object->access > AMPI_ACCESS_FENCE || object->is_exposed ||
                      object->shared->is_remote || ampi_win_is_watched(object)))
        return fence(assert, win);
    object->has_accessed = false;
    object->access = AMPI_ACCESS_FENCE;
    return fence_barrier(object);
}

/* ---- Signals ---- */

void ampi_epoch_signalled(struct ampi_win *win, enum ampi_epoch_signal signal, int from)
{
    if (signal == AMPI_SIGNAL_COMPLETE) {
        if (--win->n_to_complete == 0)
            end_waits(win, AMPI_WAIT_COMPLETES);
    } else if (ampi_win_bit(win->awaited, from)) {
        ampi_win_clear_bit(win->awaited, from);
        if (--win->n_awaited == 0)
            end_waits(win, AMPI_WAIT_POSTS);
    } else {
        ampi_win_set_bit(win, &win->posted, from);
    }
}

/* A signal to another PE: the body of an item. */
struct signal_item {
    struct ampi_win *win;
    enum ampi_epoch_signal signal;
    int from;
};

static void handle_signal(const struct ult_item *item)
{
    struct signal_item body;

    memcpy(&body, item->body, sizeof body);
    ampi_epoch_signalled(body.win, body.signal, body.from);
}

static void signal_member(struct ampi_win *win, int to, enum ampi_epoch_signal signal)
{
    struct ampi_win *other = win->shared->targets[to].handle;
    struct signal_item body = {other, signal, win->rank};
    struct ult_item item = {.handle = handle_signal};

    if (!other) {
        ampi_rma_remote_signal(win, to, signal);
    } else if (other->owner->ult.pe == win->owner->ult.pe) {
        ampi_epoch_signalled(other, signal, win->rank);
    } else {
        memcpy(item.body, &body, sizeof body);
        ult_post_item(other->owner->ult.pe, &item);
    }
}

/* The rank in the window of a group's member, which has been checked. */
static int rank_of(const struct ampi_win *win, const struct ampi_group *group, int member)
{
    return ampi_group_find(win->comm->local->layout->group, ampi_group_world_rank(group, member));
}

static int check_group(struct ampi_win *win, MPI_Group handle, struct ampi_group **group_out)
{
    struct ampi_group *group = ampi_group_of(handle);

    if (!group)
        return ampi_win_raise(win, MPI_ERR_GROUP, "%p is not a valid group", (void *)handle);
    for (int i = 0; i < group->n_ranks; i++)
        if (rank_of(win, group, i) == MPI_UNDEFINED)
            return ampi_win_raise(win, MPI_ERR_GROUP,
                                  "member %d of the group (world rank %d) is not a member of the window", i,
                                  ampi_group_world_rank(group, i));
    *group_out = group;
    return MPI_SUCCESS;
}

static void append_ranks(char *text, size_t size_bytes, const char *what, const uint64_t *bits, int n_ranks)
{
    int n_shown = 0;
    size_t n = (size_t)snprintf(text, size_bytes, "%s", what);

    for (int i = 0; i < n_ranks && n_shown < 8 && n < size_bytes; i++)
        if (ampi_win_bit(bits, i))
            n += (size_t)snprintf(text + n, size_bytes - n, "%s%d", n_shown++ ? ", " : "", i);
}

/* ---- Access: start, complete ---- */

static void describe_start(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_win *win = request->u.extra;

    append_ranks(text, size_bytes, "MPI_Win_start, for the MPI_Win_post of rank ", win->awaited,
                 win->shared->n_ranks);
}

static const struct ampi_request_kind start_kind = {.name = "MPI_Win_start", .describe = describe_start};

/* Waits for the posts of all members of the group. */
static int await_posts(struct ampi_win *win, const struct ampi_group *group)
{
    struct ampi_epoch_wait wait = {.until = AMPI_WAIT_POSTS};

    for (int i = 0; i < group->n_ranks; i++) {
        int target = rank_of(win, group, i);
        if (ampi_win_bit(win->posted, target)) {
            ampi_win_clear_bit(win->posted, target);
        } else {
            ampi_win_set_bit(win, &win->awaited, target);
            win->n_awaited++;
        }
    }
    return win->n_awaited > 0 ? ampi_epoch_await(win, &wait, &start_kind) : MPI_SUCCESS;
}

/* Ends the epoch when a target has failed. */
static BASE_COLD int fail_start(struct ampi_win *win, int error)
{
    memset(win->awaited, 0, ((size_t)win->shared->n_ranks + 63) / 64 * sizeof *win->awaited);
    win->n_awaited = 0;
    ampi_group_unref(win->started);
    win->started = NULL;
    return ampi_rma_raise_remote(win, error);
}

AMPI_EXPORT(Win_start);
int PMPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
    struct ampi_win *object = NULL;
    struct ampi_group *targets;
    int error;

    ampi_enter("MPI_Win_start");
    if ((error = ampi_epoch_check(win, assert, MPI_MODE_NOCHECK, &object)) ||
        (error = ampi_epoch_check_closed(object)) || (error = check_group(object, group, &targets)))
        return error;
    ampi_group_ref(targets);
    object->started = targets;
    if (!(assert &MPI_MODE_NOCHECK) && (error = await_posts(object, targets)))
        return fail_start(object, error);
    for (int i = 0; i < targets->n_ranks; i++)
        ampi_win_set_bit(object, &object->open_to, rank_of(object, targets, i));
    object->access = AMPI_ACCESS_START;
    ampi_win_synced(object, -1);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_complete);
int PMPI_Win_complete(MPI_Win win)
{
    struct ampi_win *object = NULL;
    struct ampi_group *targets;
    int error;

    ampi_enter("MPI_Win_complete");
    if ((error = ampi_epoch_check(win, 0, 0, &object)))
        return error;
    if (object->access != AMPI_ACCESS_START)
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC, "no epoch was opened by MPI_Win_start");
    error = ampi_epoch_drain(object);
    targets = object->started;
    for (int i = 0; i < targets->n_ranks; i++) {
        int target = rank_of(object, targets, i);
        ampi_win_clear_bit(object->open_to, target);
        signal_member(object, target, AMPI_SIGNAL_COMPLETE);
    }
    object->access = AMPI_ACCESS_NONE;
    object->started = NULL;
    ampi_group_unref(targets);
    ampi_win_synced(object, -1);
    return error;
}

/* ---- Exposure: post, wait, test ---- */

AMPI_EXPORT(Win_post);
int PMPI_Win_post(MPI_Group group, int assert, MPI_Win win)
{
    struct ampi_win *object = NULL;
    struct ampi_group *origins;
    int error;

    ampi_enter("MPI_Win_post");
    if ((error =
             ampi_epoch_check(win, assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, &object)))
        return error;
    if (object->is_exposed)
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC,
                              "the window is exposed already: call MPI_Win_wait first");
    if (object->access == AMPI_ACCESS_LOCK_ALL ||
        (object->access == AMPI_ACCESS_LOCK && ampi_win_bit(object->open_to, object->rank)))
        return ampi_win_raise(object, MPI_ERR_RMA_CONFLICT, "this rank has locked its own window");
    if (object->access == AMPI_ACCESS_FENCE && (error = ampi_epoch_check_closed(object)))
        return error;
    if ((error = check_group(object, group, &origins)))
        return error;
    ampi_group_ref(origins);
    object->exposed_to = origins;
    object->n_to_complete = (uint32_t)origins->n_ranks;
    __atomic_store_n(&object->is_exposed, true, __ATOMIC_RELAXED);
    if (!(assert &MPI_MODE_NOCHECK))
        for (int i = 0; i < origins->n_ranks; i++)
            signal_member(object, rank_of(object, origins, i), AMPI_SIGNAL_POST);
    ampi_win_synced(object, -1);
    return MPI_SUCCESS;
}

static int check_exposed(MPI_Win handle, struct ampi_win **win_out)
{
    int error = ampi_epoch_check(handle, 0, 0, win_out);

    if (!error && !(*win_out)->is_exposed)
        error =
            ampi_win_raise(*win_out, MPI_ERR_RMA_SYNC, "the window is not exposed: call MPI_Win_post first");
    return error;
}

static void end_exposure(struct ampi_win *win)
{
    __atomic_store_n(&win->is_exposed, false, __ATOMIC_RELAXED);
    ampi_group_unref(win->exposed_to);
    win->exposed_to = NULL;
}

static void describe_wait(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_win *win = request->u.extra;
    int n_origins = win->exposed_to->n_ranks;
    size_t n = (size_t)snprintf(text, size_bytes, "MPI_Win_wait, for the MPI_Win_complete of ");

    if ((int)win->n_to_complete < n_origins)
        n += (size_t)snprintf(text + n, size_bytes - n, "%u of ", win->n_to_complete);
    n += (size_t)snprintf(text + n, size_bytes - n, "rank%s ", n_origins == 1 ? "" : "s");
    for (int i = 0; i < n_origins && i < 8 && n < size_bytes; i++)
        n += (size_t)snprintf(text + n, size_bytes - n, "%s%d", i ? ", " : "",
                              rank_of(win, win->exposed_to, i));
    if (n_origins > 8 && n < size_bytes)
        snprintf(text + n, size_bytes - n, ", ...");
}

static const struct ampi_request_kind wait_kind = {.name = "MPI_Win_wait", .describe = describe_wait};

int ampi_epoch_waits_for(const struct ampi_request *request)
{
    const struct ampi_win *win = request->u.extra;
    int rank;

    if (request->kind == &wait_kind && win->exposed_to->n_ranks == 1)
        return ampi_group_world_rank(win->exposed_to, 0);
    for (int i = 0; request->kind == &start_kind && i < win->shared->n_ranks; i++)
        if (ampi_win_bit(win->awaited, i))
            return ampi_group_world_rank(win->comm->local->layout->group, i);
    rank = ampi_win_lock_waits_for(request);
    return rank >= 0 ? rank : ampi_rma_remote_lock_waits_for(request);
}

AMPI_EXPORT(Win_wait);
int PMPI_Win_wait(MPI_Win win)
{
    struct ampi_epoch_wait wait = {.until = AMPI_WAIT_COMPLETES};
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_wait");
    if ((error = check_exposed(win, &object)))
        return error;
    if (object->n_to_complete > 0)
        error = ampi_epoch_await(object, &wait, &wait_kind);
    end_exposure(object);
    ampi_win_synced(object, -1);
    return error ? ampi_rma_raise_remote(object, error) : MPI_SUCCESS;
}

AMPI_EXPORT(Win_test);
int PMPI_Win_test(MPI_Win win, int *flag)
{
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_test");
    if ((error = check_exposed(win, &object)))
        return error;
    if (!flag)
        return ampi_win_raise(object, MPI_ERR_ARG, "flag is NULL");
    if (object->n_to_complete > 0)
        ult_yield();
    *flag = object->n_to_complete == 0 || object->has_failed;
    if (!*flag)
        return MPI_SUCCESS;
    if (object->n_to_complete > 0)
        error = MPI_ERR_PROC_ABORTED;
    end_exposure(object);
    ampi_win_synced(object, -1);
    return BASE_LIKELY(!error) ? MPI_SUCCESS : ampi_rma_raise_remote(object, error);
}
