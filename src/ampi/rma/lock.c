/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock.c: passive target synchronisation: lock, unlock, flush, sync (MPI 5.0, section 12.5.3 to 12.5.4).
 *
 * Each target has a lock (win_lock.h), and each process has one that excludes MPI_Win_lock_all and
 * exclusive locks of its members:
 *
 *      MPI_Win_lock shared       the target's, shared
 *      MPI_Win_lock exclusive    the process's, exclusive (these do not exclude each other);
 *                                then the target's, exclusive
 *      MPI_Win_lock_all          each process's, shared
 *
 * MPI_Win_lock_all waits for one process and then asks all others at once; if one of them cannot grant the lock at
 * once, it releases all locks and waits for this process. Exclusive holders could keep it trying for ever. So after
 * TRIES_MAX failures it closes the gates of all processes, each a lock that it takes exclusively, and tries again.
 * Meanwhile a rank without a lock waits at its own process's gate before it locks, so the number of holders falls to
 * 0. A rank that holds a lock passes the gate, but pauses before further requests for exclusive locks. Cost of the
 * gates: one round trip for each process.
 *
 * Invariant: ranks wait in a circle only if the program demands it, because a rank waits only for ranks further down:
 *   1. ranks that wait at a gate. They hold no lock of any window. MPI_Win_lock_all may hold gates: those before it, in the order of the
 *      processes' first members;
 *   2. ranks that stand in the queue of a process. They hold gates at most. They wait for those before them in this one queue,
 *      and for the process's holders: 3 to 5;
 *   3. ranks without a lock of a target that stand in the queue of a target. They hold the target's process at most. They wait
 *      for those before them in this one queue, and for the target's holders;
 *   4. ranks with a lock of a target. They pass gates and queues (win_lock.h), so they wait for holders only: for ranks of 5,
 *      or for others of 4 as the program demands;
 *   5. ranks in MPI_Win_lock_all with some or all processes. They wait for nothing but answers, which come at once.
 *
 * With MPI_MODE_NOCHECK no lock is taken: the program asserts that there is no conflict. Some programs,
 * which use only atomic operations, hold such an epoch while other ranks lock exclusively.
 */
#include "ampi/rma/epoch.h"

#include <stdio.h>

#include "base/settings.h"
#include "ampi/rma/rma_remote_header.h"

/* ---- A waiting rank ---- */

/* On its stack. */
struct ampi_rank_waiter {
    struct ampi_win_waiter waiter;
    struct ampi_request request;
    struct ult_wakeup wakeup;
    struct ampi_win_lock *lock;
    const struct ampi_win *win;
    enum ampi_win_lock_as as; /* the lock that the program asks for */
    bool is_at_gate;          /* lock is a gate */
    int target;               /* -1: all */
};

void ampi_epoch_describe_holders(struct ampi_win_holders holders, char *text, size_t size_bytes,
                                 size_t n_chars)
{
    if (holders.n == 0 || n_chars >= size_bytes)
        return;
    if (holders.rank >= 0)
        snprintf(text + n_chars, size_bytes - n_chars, ", held by rank %d", holders.rank);
    else
        snprintf(text + n_chars, size_bytes - n_chars, ", held by %u rank%s", holders.n,
                 holders.n == 1 ? "" : "s");
}

static void describe_lock(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_rank_waiter *waiting = request->u.extra;
    struct ampi_win_holders holders = ampi_win_lock_holders(waiting->lock);
    size_t n;

    if (waiting->target >= 0)
        n = (size_t)snprintf(text, size_bytes, "MPI_Win_lock %s on rank %d",
                             waiting->as == AMPI_LOCK_SHARED ? "shared" : "exclusive", waiting->target);
    else
        n = (size_t)snprintf(text, size_bytes, "MPI_Win_lock_all");
    if (!waiting->is_at_gate)
        ampi_epoch_describe_holders(holders, text, size_bytes, n);
    else if (holders.rank >= 0 && n < size_bytes)
        snprintf(text + n, size_bytes - n, ", behind MPI_Win_lock_all of rank %d", holders.rank);
}

static const struct ampi_request_kind lock_kind = {.name = "MPI_Win_lock", .describe = describe_lock};

int ampi_win_lock_waits_for(const struct ampi_request *request)
{
    const struct ampi_rank_waiter *waiting = request->u.extra;

    return request->kind == &lock_kind ? ampi_epoch_holder(waiting->win, ampi_win_lock_holders(waiting->lock))
                                       : -1;
}

static void handle_granted(struct ult_wakeup *wakeup)
{
    ampi_request_complete(&BASE_CONTAINER(wakeup, struct ampi_rank_waiter, wakeup)->request);
}

static void granted(struct ampi_win_waiter *waiter)
{
    struct ampi_rank_waiter *waiting = BASE_CONTAINER(waiter, struct ampi_rank_waiter, waiter);
    struct ult_pe *pe = waiting->request.owner->ult.pe;

    if (ult_self() && pe == ult_self()->pe) {
        ampi_request_complete(&waiting->request);
    } else {
        waiting->wakeup.handle = handle_granted;
        ult_post_wakeup(pe, &waiting->wakeup);
    }
}

/* Takes the lock with waiting->waiter, or waits for it. MPI_ERR_PROC_ABORTED: its exclusive holder has failed. */
static int await_lock(struct ampi_win *win, struct ampi_rank_waiter *waiting)
{
    waiting->win = win;
    waiting->waiter.rank = win->rank;
    waiting->waiter.has_others = win->owner->n_win_locks > 0;
    waiting->waiter.granted = granted;
    ampi_request_init_on_stack(&waiting->request, win->owner, &lock_kind, NULL);
    waiting->request.u.extra = waiting;
    switch (ampi_win_lock_take(waiting->lock, &waiting->waiter)) {
    case AMPI_LOCK_QUEUED:
        ampi_request_await(&waiting->request);
        break;
    case AMPI_LOCK_REFUSED:
        return MPI_ERR_PROC_ABORTED;
    case AMPI_LOCK_TAKEN:
        break;
    }
    win->has_passed |= waiting->waiter.has_passed;
    return waiting->waiter.is_refused ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS;
}

static BASE_NOINLINE int take_slowly(struct ampi_win *win, struct ampi_win_lock *lock,
                                     enum ampi_win_lock_as as, int target)
{
    struct ampi_rank_waiter waiting = {.waiter.as = as, .lock = lock, .as = as, .target = target};

    return await_lock(win, &waiting);
}

static inline int take(struct ampi_win *win, struct ampi_win_lock *lock, enum ampi_win_lock_as as, int target)
{
    return BASE_LIKELY(ampi_win_lock_try(lock, as, win->rank)) ? MPI_SUCCESS
                                                               : take_slowly(win, lock, as, target);
}

/* ---- Lock, unlock ---- */

static int check_rank(struct ampi_win *win, int rank)
{
    if (BASE_UNLIKELY((unsigned)rank >= (unsigned)win->shared->n_ranks && rank != MPI_PROC_NULL))
        return ampi_win_raise(win, MPI_ERR_RANK, "the rank is %d, but the window's size is %d", rank,
                              win->shared->n_ranks);
    return MPI_SUCCESS;
}

/* Other MPIs accept locks in spite of the hint no_locks. */
static BASE_COLD int check_hint(struct ampi_win *win)
{
    if (!base_settings.check_usage)
        return MPI_SUCCESS;
    return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "the window has the hint no_locks");
}

static int check_lock(struct ampi_win *win, int rank)
{
    const struct ampi_win *target;
    int error;

    if (BASE_UNLIKELY(win->has_no_locks && (error = check_hint(win))))
        return error;
    if (win->access != AMPI_ACCESS_LOCK && (error = ampi_epoch_check_closed(win)))
        return error;
    if (rank < 0)
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(win->access == AMPI_ACCESS_LOCK && ampi_win_bit(win->open_to, rank)))
        return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "rank %d is already locked", rank);
    target = win->shared->targets[rank].handle;
    if (BASE_UNLIKELY(target && __atomic_load_n(&target->is_exposed, __ATOMIC_RELAXED)))
        return ampi_win_raise(win, MPI_ERR_RMA_CONFLICT, "the window of rank %d is exposed by MPI_Win_post",
                              rank);
    return MPI_SUCCESS;
}

static int lock_target(struct ampi_win *win, int rank, enum ampi_win_lock_as as)
{
    struct ampi_win *target = win->shared->targets[rank].handle;
    int error;

    if (BASE_UNLIKELY(!target))
        return ampi_rma_remote_lock(win, rank, as);
    if (as == AMPI_LOCK_EXCLUSIVE && (error = take(win, &win->shared->everybody, as, rank)))
        return ampi_rma_raise_remote(win, error);
    error = take(win, &target->lock, as, rank);
    if (BASE_LIKELY(!error))
        return MPI_SUCCESS;
    if (as == AMPI_LOCK_EXCLUSIVE)
        ampi_win_lock_drop(&win->shared->everybody, as);
    return ampi_rma_raise_remote(win, error);
}

#define PAUSE_SHIFT_MAX 12

/* Before a request of a rank that has passed a waiter too often: win_lock.h. The pause doubles, because all holders
 * have to pause at the same time, and they may hold the lock for any time. May switch. */
static BASE_COLD void pause_for_waiters(struct ampi_win *win)
{
    uint32_t n_turns = 1u << win->n_pauses;

    win->has_passed = false;
    if (win->n_pauses < PAUSE_SHIFT_MAX)
        win->n_pauses++;
    for (uint32_t i = 0; i < n_turns; i++)
        ult_yield();
}

/* Before a lock is requested while the gate is not free. May switch. */
static BASE_COLD void meet_gate(struct ampi_win *win, enum ampi_win_lock_as as, int target)
{
    struct ampi_win_lock *gate = &win->shared->gate;
    struct ampi_rank_waiter waiting = {
        .waiter.as = AMPI_LOCK_SHARED, .lock = gate, .as = as, .is_at_gate = true, .target = target};

    if (win->owner->n_win_locks > 0) {
        win->has_passed |= as == AMPI_LOCK_EXCLUSIVE;
    } else if (as == AMPI_LOCK_EXCLUSIVE || win->has_passed) {
        await_lock(win, &waiting); /* a gate is never refused */
        ampi_win_lock_drop(gate, AMPI_LOCK_SHARED);
    }
}

AMPI_EXPORT(Win_lock);
int PMPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win)
{
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_lock");
    if ((error = ampi_epoch_check(win, assert, MPI_MODE_NOCHECK, &object)))
        return error;
    if (BASE_UNLIKELY(lock_type != MPI_LOCK_SHARED && lock_type != MPI_LOCK_EXCLUSIVE))
        return ampi_win_raise(object, MPI_ERR_LOCKTYPE,
                              "lock_type is %d, neither MPI_LOCK_SHARED nor MPI_LOCK_EXCLUSIVE", lock_type);
    if ((error = check_rank(object, rank)) || (error = check_lock(object, rank)))
        return error;
    if (BASE_UNLIKELY(rank == MPI_PROC_NULL))
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(!ampi_win_lock_is_free(&object->shared->gate)) && !(assert &MPI_MODE_NOCHECK))
        meet_gate(object, lock_type == MPI_LOCK_EXCLUSIVE ? AMPI_LOCK_EXCLUSIVE : AMPI_LOCK_SHARED, rank);
    if (BASE_UNLIKELY(object->has_passed))
        pause_for_waiters(object);
    if (BASE_UNLIKELY(assert &MPI_MODE_NOCHECK)) {
        ampi_win_set_bit(object, &object->unchecked, rank);
    } else if (lock_type == MPI_LOCK_EXCLUSIVE) {
        if ((error = lock_target(object, rank, AMPI_LOCK_EXCLUSIVE)))
            return error;
        ampi_win_set_bit(object, &object->exclusive, rank);
    } else if ((error = lock_target(object, rank, AMPI_LOCK_SHARED))) {
        return error;
    }
    ampi_win_set_bit(object, &object->open_to, rank);
    object->n_open++;
    object->owner->n_win_locks++;
    object->access = AMPI_ACCESS_LOCK;
    ampi_win_synced(object, rank);
    return MPI_SUCCESS;
}

static void unlock_target(struct ampi_win *win, int rank, enum ampi_win_lock_as as)
{
    struct ampi_win *target = win->shared->targets[rank].handle;

    if (BASE_UNLIKELY(!target)) {
        ampi_rma_remote_unlock(win, rank, as);
        return;
    }
    ampi_win_lock_drop(&target->lock, as);
    if (as == AMPI_LOCK_EXCLUSIVE)
        ampi_win_lock_drop(&win->shared->everybody, as);
}

AMPI_EXPORT(Win_unlock);
int PMPI_Win_unlock(int rank, MPI_Win win)
{
    struct ampi_win *object = NULL;
    enum ampi_win_lock_as as = AMPI_LOCK_SHARED;
    int error;

    ampi_enter("MPI_Win_unlock");
    if ((error = ampi_epoch_check(win, 0, 0, &object)) || (error = check_rank(object, rank)))
        return error;
    if (BASE_UNLIKELY(rank == MPI_PROC_NULL))
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(object->access != AMPI_ACCESS_LOCK || !ampi_win_bit(object->open_to, rank)))
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC, "rank %d is not locked by MPI_Win_lock", rank);
    error = object->shared->is_remote ? ampi_epoch_drain_remote(object, rank) : MPI_SUCCESS;
    if (ampi_win_bit(object->exclusive, rank)) {
        ampi_win_clear_bit(object->exclusive, rank);
        as = AMPI_LOCK_EXCLUSIVE;
    }
    ampi_win_clear_bit(object->open_to, rank);
    object->owner->n_win_locks--;
    if (--object->n_open == 0) {
        object->access = AMPI_ACCESS_NONE;
        if (BASE_LIKELY(!object->has_passed))
            object->n_pauses = 0;
    }
    if (BASE_UNLIKELY(ampi_win_bit(object->unchecked, rank)))
        ampi_win_clear_bit(object->unchecked, rank);
    else
        unlock_target(object, rank, as);
    ampi_win_synced(object, rank);
    ampi_win_take_turns(object);
    return error;
}

/* ---- Lock all ---- */

#define TRIES_MAX 16

/* Instead of another process's first member. */
#define OWN_PROCESS (-1)

static int lock_process(struct ampi_win *win, int first)
{
    return first == OWN_PROCESS ? take(win, &win->shared->everybody, AMPI_LOCK_SHARED, -1)
                                : ampi_rma_remote_lock_process(win, first, AMPI_LOCK_SHARED);
}

static void unlock_process(struct ampi_win *win, int first)
{
    if (first == OWN_PROCESS)
        ampi_win_lock_drop(&win->shared->everybody, AMPI_LOCK_SHARED);
    else
        ampi_rma_remote_unlock_process(win, first, AMPI_LOCK_SHARED);
}

static BASE_NOINLINE void unlock_processes(struct ampi_win *win)
{
    for (int i = 0; i < win->shared->n_others; i++)
        unlock_process(win, win->shared->others[i]);
    unlock_process(win, OWN_PROCESS);
}

/* Holds the lock of the process of `first`, and locks all others if all grant it at once. True: all are held. False:
 * none is held any more; *busy_out is the process that refused, by its first member or OWN_PROCESS, or *error_out is
 * set. */
static bool try_others(struct ampi_win *win, int first, int *busy_out, int *error_out)
{
    struct ampi_win_lock *own = &win->shared->everybody;

    *error_out = MPI_SUCCESS;
    *busy_out = OWN_PROCESS;
    if (first == OWN_PROCESS || ampi_win_lock_try(own, AMPI_LOCK_SHARED, win->rank)) {
        *error_out = ampi_rma_remote_try_processes(win, first, busy_out);
        if (!*error_out && *busy_out < 0)
            return true;
        if (first != OWN_PROCESS)
            unlock_process(win, OWN_PROCESS);
    }
    unlock_process(win, first);
    return false;
}

static int close_own_gate(struct ampi_win *win)
{
    struct ampi_rank_waiter waiting = {
        .waiter.as = AMPI_LOCK_EXCLUSIVE, .lock = &win->shared->gate, .is_at_gate = true, .target = -1};

    return await_lock(win, &waiting);
}

/* Opens those of the first n other processes, and the own one. */
static void open_gates(struct ampi_win *win, int n, bool has_own)
{
    for (int i = 0; i < n; i++)
        ampi_rma_remote_unlock_process(win, win->shared->others[i], AMPI_LOCK_EXCLUSIVE);
    if (has_own)
        ampi_win_lock_drop(&win->shared->gate, AMPI_LOCK_EXCLUSIVE);
}

/* One after the other, in the order of the processes' first members. If it fails, all are open again. May switch. */
static BASE_COLD int close_gates(struct ampi_win *win)
{
    const struct ampi_win_shared *shared = win->shared;
    int own = shared->handles[0].rank, error = MPI_SUCCESS, n = 0;
    bool has_own = false;

    while (!error && (n < shared->n_others || !has_own)) {
        bool is_own = !has_own && (n == shared->n_others || own < shared->others[n]);
        error = is_own ? close_own_gate(win)
                       : ampi_rma_remote_lock_process(win, shared->others[n], AMPI_LOCK_EXCLUSIVE);
        has_own |= is_own && !error;
        n += !is_own && !error;
    }
    if (error)
        open_gates(win, n, has_own);
    return error;
}

/* Raises nothing. May switch. */
static BASE_NOINLINE int lock_processes(struct ampi_win *win)
{
    int error, first = OWN_PROCESS, busy = first, n_tries = 0;

    do {
        if (BASE_UNLIKELY(n_tries == TRIES_MAX) && (error = close_gates(win)))
            return error;
        n_tries++;
        first = busy;
        error = lock_process(win, first);
    } while (!error && !try_others(win, first, &busy, &error) && !error);
    if (BASE_UNLIKELY(n_tries > TRIES_MAX))
        open_gates(win, win->shared->n_others, true);
    /* A process may fail after it has granted its part. */
    if (BASE_LIKELY(error || !ampi_failed_in_group(win->comm->local->layout->group)))
        return error;
    unlock_processes(win); /* messages to failed processes are dropped */
    return MPI_ERR_PROC_ABORTED;
}

AMPI_EXPORT(Win_lock_all);
int PMPI_Win_lock_all(int assert, MPI_Win win)
{
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_lock_all");
    if ((error = ampi_epoch_check(win, assert, MPI_MODE_NOCHECK, &object)))
        return error;
    if (object->has_no_locks && (error = check_hint(object)))
        return error;
    if ((error = ampi_epoch_check_closed(object)))
        return error;
    if (object->is_exposed)
        return ampi_win_raise(object, MPI_ERR_RMA_CONFLICT,
                              "the window of this rank is exposed by MPI_Win_post");
    object->is_unchecked = assert &MPI_MODE_NOCHECK;
    if (BASE_LIKELY(!object->is_unchecked) &&
        (error = BASE_LIKELY(!object->shared->is_remote)
                     ? take(object, &object->shared->everybody, AMPI_LOCK_SHARED, -1)
                     : lock_processes(object)))
        return ampi_rma_raise_remote(object, error);
    object->access = AMPI_ACCESS_LOCK_ALL;
    object->owner->n_win_locks += !object->is_unchecked;
    ampi_win_synced(object, -1);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_unlock_all);
int PMPI_Win_unlock_all(MPI_Win win)
{
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_unlock_all");
    if ((error = ampi_epoch_check(win, 0, 0, &object)))
        return error;
    if (object->access != AMPI_ACCESS_LOCK_ALL)
        return ampi_win_raise(object, MPI_ERR_RMA_SYNC, "no epoch was opened by MPI_Win_lock_all");
    error = ampi_epoch_drain(object);
    object->access = AMPI_ACCESS_NONE;
    object->owner->n_win_locks -= !object->is_unchecked;
    if (BASE_LIKELY(!object->is_unchecked && !object->shared->is_remote))
        ampi_win_lock_drop(&object->shared->everybody, AMPI_LOCK_SHARED);
    else if (!object->is_unchecked)
        unlock_processes(object);
    ampi_win_synced(object, -1);
    ampi_win_take_turns(object);
    return error;
}

/* ---- Flush, sync ---- */

/* rank -1: all targets. */
static BASE_NOINLINE int flush(MPI_Win handle, int rank)
{
    struct ampi_win *win = NULL;
    int error;

    if ((error = ampi_epoch_check(handle, 0, 0, &win)))
        return error;
    if (rank != -1 && (error = check_rank(win, rank)))
        return error;
    if (BASE_UNLIKELY(
            win->access != AMPI_ACCESS_LOCK_ALL &&
            (win->access != AMPI_ACCESS_LOCK || (rank >= 0 && !ampi_win_bit(win->open_to, rank))))) {
        if (rank >= 0)
            return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "rank %d is not locked", rank);
        if (rank == -1)
            return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "no target is locked");
    }
    error = win->shared->is_remote ? ampi_epoch_drain_remote(win, rank) : MPI_SUCCESS;
    atomic_thread_fence(memory_order_acq_rel);
    if (rank >= -1)
        ampi_win_synced(win, rank);
    ampi_win_take_turns(win);
    return error;
}

static inline int flush_one(MPI_Win handle, int rank)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (BASE_UNLIKELY(!win || (unsigned)rank >= win->n_at_once || win->shared->is_remote ||
                      win->access != AMPI_ACCESS_LOCK_ALL))
        return win && rank == -1 ? check_rank(win, rank) : flush(handle, rank);
    atomic_thread_fence(memory_order_acq_rel);
    ampi_win_take_turns(win);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_flush);
int PMPI_Win_flush(int rank, MPI_Win win)
{
    ampi_enter("MPI_Win_flush");
    return flush_one(win, rank);
}

AMPI_EXPORT(Win_flush_all);
int PMPI_Win_flush_all(MPI_Win win)
{
    ampi_enter("MPI_Win_flush_all");
    return flush(win, -1);
}

/* Origin buffers are read when the operation is called, but results arrive with the answer. */
AMPI_EXPORT(Win_flush_local);
int PMPI_Win_flush_local(int rank, MPI_Win win)
{
    ampi_enter("MPI_Win_flush_local");
    return flush_one(win, rank);
}

AMPI_EXPORT(Win_flush_local_all);
int PMPI_Win_flush_local_all(MPI_Win win)
{
    ampi_enter("MPI_Win_flush_local_all");
    return flush(win, -1);
}

AMPI_EXPORT(Win_sync);
int PMPI_Win_sync(MPI_Win win)
{
    struct ampi_win *object = NULL;
    int error;

    ampi_enter("MPI_Win_sync");
    if ((error = ampi_epoch_check(win, 0, 0, &object)))
        return error;
    atomic_thread_fence(memory_order_seq_cst);
    ult_yield(); /* programs call it while they wait for another rank's store */
    return MPI_SUCCESS;
}
