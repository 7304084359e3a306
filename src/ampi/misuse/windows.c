/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.c: +check usage: one-sided operations that conflict at a target (MPI 5.0, section 12.7).
 *
 * Each target of a window has a set of the blocks that operations access, in its process; other processes send theirs
 * (claims.c). Two of them conflict if they overlap and one is a put, or one is an accumulate and the other is not, or both
 * are accumulates of two origins with different operations. They are only compared if nothing orders them:
 *
 *      fence           both are in the epoch with the same number; an epoch is removed when a later one begins
 *      start, post     both are in one exposure epoch of the target, whose MPI_Win_wait removes them
 *      lock            both have shared locks, or MPI_Win_lock_all; and of one origin, the first is not complete (flush,
 *                      unlock), or of two origins, the second one cannot know that the first is complete
 *
 * What a rank can know: ticks count completions, and a rank acquires all so far when a call returns that may have brought a
 * message; in a collective only those before its last member arrived. So operations of two ranks between two barriers are
 * compared even if one has ended before the other began. A put or accumulate under a lock may be a flag that the target
 * waits for by loads, and brings it what its origin knew. Those of other processes are compared until they are complete.
 *
 * Puts and gets in fence and exposure epochs have a checksum of the target's memory: if that has changed at the end of the epoch,
 * the target has stored there.
 *
 * Displacements stand for addresses.
 */
#include "ampi/misuse/windows.h"

#include <limits.h>

#include "ampi/coll/engine/usage.h"
#include "ampi/op/op.h"
#include "ampi/procs/procs.h"
#include "ampi/rma/rma.h"
#include "base/log.h"
#include "base/text.h"

/* ---- Operations ---- */

struct blocks {
    size_t n;
    struct ampi_misuse_block at[AMPI_MISUSE_BLOCKS_MAX];
};

static bool collect(uintptr_t begin, size_t n_bytes, void *arg)
{
    struct blocks *blocks = arg;

    blocks->at[blocks->n++] = (struct ampi_misuse_block){begin, begin + n_bytes};
    return blocks->n < AMPI_MISUSE_BLOCKS_MAX;
}

/* True if the operation has a request, which may complete it before a synchronisation. */
static bool is_request_form(const char *name)
{
    return name[4] == 'R';
}

static bool is_fetching(const struct ampi_misuse_rma *rma)
{
    static const char *const without_result[] = {"MPI_Accumulate", "MPI_Raccumulate"};

    if (rma->kind != AMPI_MISUSE_ACCUMULATE)
        return rma->kind == AMPI_MISUSE_GET;
    for (int i = 0; i < 2; i++)
        if (strncmp(rma->call.name, without_result[i], strlen(without_result[i])) == 0) /* also with _c */
            return false;
    return true;
}

/* Has the process of a target in another one compare the operation, which needs the number of the origin's epoch. */
static void send_claim(struct ampi_win *win, struct ampi_misuse_claim *claim, const struct blocks *blocks)
{
    struct ampi_misuse_window *watched;
    uint64_t **claimed;

    pthread_mutex_lock(&ampi_misuse_windows_lock);
    watched = ampi_misuse_find_or_create_window(win->shared);
    claimed = &watched->claimed[win->rank];
    claim->epoch = watched->epochs[win->rank];
    if (!*claimed)
        *claimed = base_calloc((size_t)win->shared->n_ranks / 64 + 1, sizeof **claimed, "+check usage");
    (*claimed)[claim->target / 64] |= (uint64_t)1 << claim->target % 64;
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
    ampi_misuse_send_claim(win, claim, blocks->at, blocks->n);
}

void ampi_misuse_accessed(struct ampi_misuse_rma rma)
{
    struct ampi_win *win = ampi_win_of(rma.win);
    struct ampi_type *type = ampi_type_of(rma.target.type);
    struct ampi_misuse_claim claim;
    struct blocks *blocks;

    if (rma.target_rank == MPI_PROC_NULL || !win || !type || ampi_job.is_forked)
        return;
    rma.call.from = ampi_misuse_site(rma.call.from);
    claim = (struct ampi_misuse_claim){
        .call = rma.call,
        .op = rma.kind == AMPI_MISUSE_ACCUMULATE && rma.op != MPI_OP_NULL ? ampi_op_of(rma.op) : NULL,
        .acquired = atomic_load(&win->owner->acquired),
        .origin = win->rank,
        .target = rma.target_rank,
        .kind = (uint8_t)rma.kind,
        .in = win->access == AMPI_ACCESS_LOCK_ALL ? AMPI_ACCESS_LOCK : win->access,
        .is_exclusive = win->access == AMPI_ACCESS_LOCK && ampi_win_bit(win->exclusive, rma.target_rank),
        .is_fetching = is_fetching(&rma)};
    claim.is_noted = !(claim.is_fetching && is_request_form(rma.call.name));
    blocks = base_malloc(sizeof *blocks, "+check usage");
    blocks->n = 0;
    ampi_misuse_each_block((const void *)(rma.disp * win->shared->targets[rma.target_rank].disp_unit),
                           rma.target.count, type, collect, blocks);
    if (win->shared->targets[rma.target_rank].handle)
        ampi_misuse_take_claim(win->shared, &claim, blocks->at, blocks->n);
    else
        send_claim(win, &claim, blocks);
    if (!claim.is_noted &&
        win->shared->is_remote) /* MPI_Wait completes it: later claims must not overtake this one */
        ampi_misuse_await_ends(win, claim.target);
    free(blocks);
    if (!is_request_form(rma.call.name))
        ampi_misuse_begin_access(win, &rma);
    if (rma.kind != AMPI_MISUSE_PUT)
        ampi_misuse_acquired();
}

/* ---- Synchronisation ---- */

void ampi_misuse_acquired(void)
{
    struct ampi_rank *rank = ampi_self();

    if (rank)
        atomic_store(&rank->acquired, atomic_load(&ampi_misuse_ticks));
}

void ampi_misuse_locked(int rank, MPI_Win handle)
{
    const struct ampi_win *win = ampi_win_of(handle);
    const struct ampi_misuse_window *watched;
    uint64_t released = 0;

    if (!win || rank != win->rank)
        return;
    if (ampi_win_bit(win->exclusive, rank)) {
        ampi_misuse_acquired();
        return;
    }
    pthread_mutex_lock(&ampi_misuse_windows_lock);
    watched = ampi_misuse_find_window(win->shared);
    if (watched)
        released = watched->unlocked[rank];
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
    if (released > atomic_load(&win->owner->acquired))
        atomic_store(&win->owner->acquired, released);
}

void ampi_misuse_met(void)
{
    if (ampi_machine)
        ampi_misuse_acquired();
}

/* The last member of a collective has arrived; all are in this process. */
static void acquire_in_collective(const struct ampi_coll_slot *slot)
{
    uint64_t now = atomic_load(&ampi_misuse_ticks);

    for (int i = 0; i < ampi_coll_n_local(slot->state); i++)
        atomic_store(&slot->args[slot->state->part_members[i]]->comm->owner->acquired, now);
}

/* ---- Stores of the target ---- */

/* An epoch of a target that ends. */
struct epoch {
    const struct ampi_win *win;
    uint8_t in;      /* enum ampi_access */
    uint32_t number; /* FENCE */
};

static bool has_changed(const struct ampi_interval *interval, const void *arg)
{
    const struct ampi_misuse_block_access *access = interval->owner;
    const struct epoch *epoch = arg;

    return access->sum && access->by.in == epoch->in &&
           (epoch->in != AMPI_ACCESS_FENCE || access->by.epoch == epoch->number) &&
           ampi_misuse_sum_at(epoch->win->shared, &access->by, interval->begin, interval->end) != access->sum;
}

/* With the lock. */
static void check_stores(struct ampi_misuse_window *watched, const struct ampi_win *win, uint8_t in,
                         const struct ampi_misuse_call *call)
{
    struct epoch epoch = {win, in, watched->epochs[win->rank]};
    const struct ampi_interval *found;
    const struct ampi_misuse_block_access *access;
    char bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);
    bool is_get;

    if (watched->is_partial[win->rank])
        return;
    found = ampi_intervals_find(&watched->targets[win->rank], 0, UINTPTR_MAX, has_changed, &epoch, INT_MAX);
    if (BASE_LIKELY(!found))
        return;
    access = found->owner;
    is_get = access->by.kind == AMPI_MISUSE_GET;
    ampi_misuse_add_site(&site, call->from);
    ampi_misuse_end_job(
        win->owner, &access->by.call,
        "the data that this %s of rank %d has %s at displacement %lld of the window, in "
        "bytes, of rank %d has changed before %s%s: rank %d has stored there in the same epoch "
        "(ranks of the window)",
        is_get ? "get" : "put", access->by.origin, is_get ? "read" : "written", (long long)found->begin,
        win->rank, call->name, bytes, win->rank);
}

/* ---- The gates ---- */

void ampi_misuse_syncing(struct ampi_misuse_call call, enum ampi_misuse_sync sync, int rank, MPI_Win handle)
{
    const struct ampi_win *win = ampi_win_of(handle);
    struct ampi_misuse_window *watched;

    if (!win || ampi_job.is_forked || rank == MPI_PROC_NULL || rank >= win->shared->n_ranks)
        return;
    call.from = ampi_misuse_site(call.from);
    if (sync != AMPI_MISUSE_EXPOSED)
        ampi_misuse_finish_accesses(win, call, rank);
    pthread_mutex_lock(&ampi_misuse_windows_lock);
    watched = ampi_misuse_find_window(win->shared);
    if (watched && sync == AMPI_MISUSE_FENCE)
        check_stores(watched, win, AMPI_ACCESS_FENCE, &call);
    if (watched && sync == AMPI_MISUSE_UNLOCK && rank >= 0 && ampi_win_bit(win->exclusive, rank))
        watched->unlocked[rank] = atomic_fetch_add(&ampi_misuse_ticks, 1) + 1;
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
}

/* With the lock. Fences have the same numbers at all members. */
static void begin_epoch(struct ampi_misuse_window *watched, const struct ampi_win *win)
{
    uint32_t now = ++watched->epochs[win->rank];

    for (int i = 0; i < win->shared->n_ranks; i++) /* others of this process may still be in the last epoch */
        if (i == win->rank || !win->shared->targets[i].handle)
            ampi_misuse_end_accesses(watched, i, AMPI_MISUSE_FENCE, (int)now - 1);
}

/* Ends the origin's operations in locks at targets of other processes, there. May switch. */
static void end_elsewhere(struct ampi_win *win, int target, bool is_local)
{
    struct ampi_misuse_window *watched;
    uint64_t *claimed, bit;
    bool is_claimed;

    for (int i = target < 0 ? 0 : target; i < (target < 0 ? win->shared->n_ranks : target + 1); i++) {
        pthread_mutex_lock(&ampi_misuse_windows_lock);
        watched = ampi_misuse_find_window(win->shared);
        claimed = watched ? watched->claimed[win->rank] : NULL;
        bit = (uint64_t)1 << i % 64;
        is_claimed = claimed && (claimed[i / 64] & bit);
        if (is_claimed && !is_local)
            claimed[i / 64] &= ~bit;
        pthread_mutex_unlock(&ampi_misuse_windows_lock);
        if (!claimed)
            return;
        if (is_claimed)
            ampi_misuse_send_end(win, i, is_local);
    }
    ampi_misuse_await_ends(win, target);
}

void ampi_misuse_synced(struct ampi_misuse_call call, enum ampi_misuse_sync sync, int rank, MPI_Win handle)
{
    struct ampi_win *win = ampi_win_of(handle);
    struct ampi_misuse_window *watched;
    bool is_local = sync == AMPI_MISUSE_LOCAL, is_flush = sync == AMPI_MISUSE_FLUSH;

    if (!win || ampi_job.is_forked || rank == MPI_PROC_NULL)
        return;
    call.from = ampi_misuse_site(call.from);
    if (sync == AMPI_MISUSE_UNLOCK)
        is_flush = true;
    pthread_mutex_lock(&ampi_misuse_windows_lock);
    watched = sync == AMPI_MISUSE_FENCE ? ampi_misuse_find_or_create_window(win->shared)
                                        : ampi_misuse_find_window(win->shared);
    if (watched && sync == AMPI_MISUSE_FENCE)
        begin_epoch(watched, win);
    if (watched && sync == AMPI_MISUSE_EXPOSED) {
        check_stores(watched, win, AMPI_ACCESS_START, &call);
        for (int i = 0; i < win->shared->n_ranks; i++)
            ampi_misuse_end_accesses(watched, i, sync, win->rank);
    }
    if (watched && (is_flush || is_local))
        ampi_misuse_end_accesses(watched, win->rank, is_local ? sync : AMPI_MISUSE_FLUSH, rank);
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
    if (watched && (is_flush || is_local) && win->shared->is_remote)
        end_elsewhere(win, rank, is_local);
    /* A rank may look at its own memory in such a loop. */
    if (sync == AMPI_MISUSE_FENCE)
        ampi_misuse_met();
    else if (sync != AMPI_MISUSE_UNLOCK || rank == win->rank || win->shared->is_remote)
        ampi_misuse_acquired();
}

void ampi_misuse_windows_connect(void)
{
    ampi_rma_checker.freed = ampi_misuse_forget_window;
    ampi_rma_checker.settled = ampi_misuse_settle_accesses;
    ampi_coll_usage_met = acquire_in_collective;
    ampi_misuse_claims_connect();
}
