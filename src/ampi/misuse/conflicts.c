/* SPDX-License-Identifier: BSD-3-Clause
 *
 * conflicts.c: +check usage: the sets of blocks that operations on windows access, and their conflicts. See windows.c.
 */
#include "ampi/misuse/windows.h"

#include <stdio.h>

#include "ampi/op/op.h"
#include "base/log.h"
#include "base/text.h"

#define ACCESSES_MAX 65536 /* of an origin that are recorded */
#define LOOKS_MAX 4096     /* blocks that a new one is compared with */
#define DONE_MAX 512       /* of an origin that are remembered when they are complete */

pthread_mutex_t ampi_misuse_windows_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t ampi_misuse_ticks;

static struct ampi_misuse_window *windows;

static struct ampi_misuse_window **find(const struct ampi_win_shared *shared)
{
    struct ampi_misuse_window **link = &windows;

    while (*link && (*link)->shared != shared)
        link = &(*link)->next;
    return link;
}

static void *make_array(const struct ampi_win_shared *shared, size_t elem_bytes)
{
    return base_calloc((size_t)shared->n_ranks, elem_bytes, "+check usage");
}

struct ampi_misuse_window *ampi_misuse_find_window(const struct ampi_win_shared *shared)
{
    return *find(shared);
}

struct ampi_misuse_window *ampi_misuse_find_or_create_window(const struct ampi_win_shared *shared)
{
    struct ampi_misuse_window *watched = *find(shared);

    if (watched)
        return watched;
    watched = base_calloc(1, sizeof *watched, "+check usage");
    watched->shared = shared;
    watched->targets = make_array(shared, sizeof *watched->targets);
    watched->pending = make_array(shared, sizeof *watched->pending);
    watched->done = make_array(shared, sizeof *watched->done);
    watched->n_done = make_array(shared, sizeof *watched->n_done);
    watched->epochs = make_array(shared, sizeof *watched->epochs);
    watched->n_accesses = make_array(shared, sizeof *watched->n_accesses);
    watched->unlocked = make_array(shared, sizeof *watched->unlocked);
    watched->flagged = make_array(shared, sizeof *watched->flagged);
    watched->claimed = make_array(shared, sizeof *watched->claimed);
    watched->is_partial = make_array(shared, sizeof *watched->is_partial);
    watched->next = windows;
    return windows = watched;
}

static void enlist(struct ampi_misuse_block_access **first, struct ampi_misuse_block_access *access)
{
    access->next = *first;
    access->link = first;
    if (access->next)
        access->next->link = &access->next;
    *first = access;
}

static void unlist(struct ampi_misuse_block_access *access)
{
    *access->link = access->next;
    if (access->next)
        access->next->link = access->link;
}

static void drop(struct ampi_misuse_window *watched, struct ampi_misuse_block_access *access)
{
    unlist(access);
    ampi_intervals_remove(&watched->targets[access->by.target], &access->interval);
    watched->n_accesses[access->by.origin]--;
    free(access);
}

static void free_list(struct ampi_misuse_block_access *access)
{
    for (struct ampi_misuse_block_access *next; access; access = next) {
        next = access->next;
        free(access);
    }
}

/* Called when all members of this process have freed the window. */
void ampi_misuse_forget_window(const struct ampi_win_shared *shared)
{
    struct ampi_misuse_window **link, *watched;

    pthread_mutex_lock(&ampi_misuse_windows_lock);
    link = find(shared);
    watched = *link;
    if (watched) {
        *link = watched->next;
        for (int i = 0; i < shared->n_ranks; i++) {
            free_list(watched->pending[i]);
            free_list(watched->done[i]);
            free(watched->claimed[i]);
        }
        free(watched->targets);
        free(watched->pending);
        free(watched->done);
        free(watched->n_done);
        free(watched->epochs);
        free(watched->n_accesses);
        free(watched->unlocked);
        free(watched->flagged);
        free(watched->claimed);
        free(watched->is_partial);
        free(watched);
    }
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
}

/* ---- Conflicts ---- */

static const char *const nouns[] = {"get", "put", "accumulate"};

static bool may_both_combine(const struct ampi_misuse_claim *a, const struct ampi_misuse_claim *b)
{
    return a->origin == b->origin || !a->op || !b->op || a->op == b->op || a->op->predefined == MPI_NO_OP ||
           b->op->predefined == MPI_NO_OP;
}

/* True if something orders the new operation after the other. */
static bool is_ordered(const struct ampi_misuse_block_access *old, const struct ampi_misuse_claim *new)
{
    if (old->by.in != new->in || (new->in == AMPI_ACCESS_FENCE && old->by.epoch != new->epoch))
        return true;
    if (old->done_at && (old->by.origin == new->origin || new->text || new->acquired >= old->done_at))
        return true;
    return old->by.origin != new->origin && (old->by.is_exclusive || new->is_exclusive);
}

static bool conflicts(const struct ampi_interval *interval, const void *arg)
{
    const struct ampi_misuse_block_access *old = interval->owner;
    const struct ampi_misuse_claim *new = arg;

    if (old->by.kind == AMPI_MISUSE_GET && new->kind == AMPI_MISUSE_GET)
        return false;
    if (old->by.kind == AMPI_MISUSE_ACCUMULATE && new->kind == AMPI_MISUSE_ACCUMULATE &&
        may_both_combine(&old->by, new))
        return false;
    return !is_ordered(old, new);
}

/* "MPI_Put, called at main (a.c:12)". */
static void describe_call(const struct ampi_misuse_claim *claim, char *text, size_t size_bytes)
{
    struct base_text out = base_text_in(text, size_bytes);

    base_text_add(&out, claim->text ? claim->text : claim->call.name);
    if (!claim->text)
        ampi_misuse_add_site(&out, claim->call.from);
}

static BASE_COLD BASE_NORETURN void report(const struct ampi_win_shared *shared,
                                           const struct ampi_misuse_claim *new,
                                           const struct ampi_misuse_block *block,
                                           const struct ampi_misuse_block_access *old)
{
    const struct ampi_win *reporter = shared->targets[new->text ? new->target : new->origin].handle;
    uint64_t place = old->interval.begin > block->begin ? old->interval.begin : block->begin;
    char calls[2][2 * AMPI_CALL_SITE_BYTES], by[40] = "";

    describe_call(new, calls[0], sizeof calls[0]);
    describe_call(&old->by, calls[1], sizeof calls[1]);
    if (new->text)
        snprintf(by, sizeof by, " of rank %d", new->origin);
    ampi_report(
        reporter->owner,
        "wrong usage of %s: this %s%s%s%s at rank %d conflicts with the %s%s%s of rank %d by %s: both "
        "access displacement %lld of the window, in bytes, and neither is complete before the other "
        "(ranks of the window)",
        calls[0], nouns[new->kind], new->op ? " with " : "", new->op ? new->op->name : "", by, new->target,
        nouns[old->by.kind], old->by.op ? " with " : "", old->by.op ? old->by.op->name : "", old->by.origin,
        calls[1], (long long)place);
    ampi_job_abort(MPI_ERR_OTHER);
}

/* ---- Operations ---- */

/* A block of a new operation. */
struct wanted {
    const struct ampi_misuse_claim *by;
    uintptr_t begin, end;
    bool is_done;
};

/* True for an equal block: pending, so the new one need not be recorded, or done, so the new one replaces it. */
static bool is_same(const struct ampi_interval *interval, const void *arg)
{
    const struct ampi_misuse_block_access *a = interval->owner;
    const struct wanted *b = arg;

    return interval->begin == b->begin && interval->end == b->end && a->by.origin == b->by->origin &&
           a->by.kind == b->by->kind && a->by.op == b->by->op && a->by.in == b->by->in &&
           a->by.epoch == b->by->epoch && (a->done_at != 0) == b->is_done;
}

static struct ampi_misuse_block_access *find_same(const struct ampi_intervals *set,
                                                  const struct ampi_misuse_claim *by,
                                                  const struct ampi_misuse_block *block, bool is_done)
{
    struct wanted wanted = {by, (uintptr_t)block->begin, (uintptr_t)block->end, is_done};
    struct ampi_interval *found =
        ampi_intervals_find(set, wanted.begin, wanted.end, is_same, &wanted, is_done ? LOOKS_MAX : 16);

    return found ? found->owner : NULL;
}

uint64_t ampi_misuse_sum_at(const struct ampi_win_shared *shared, const struct ampi_misuse_claim *by,
                            uintptr_t begin, uintptr_t end)
{
    const struct ampi_win_target *target = &shared->targets[by->target];

    if (by->kind == AMPI_MISUSE_ACCUMULATE || by->in > AMPI_ACCESS_START || by->text || target->is_device ||
        shared->flavor == MPI_WIN_FLAVOR_SHARED)
        return 0;
    return ampi_misuse_sum(target->base + begin, end - begin);
}

/* With the lock. */
static void add_block(struct ampi_misuse_window *watched, const struct ampi_misuse_claim *by,
                      const struct ampi_misuse_block *block)
{
    struct ampi_intervals *set = &watched->targets[by->target];
    struct ampi_misuse_block_access *access = NULL;

    if (!by->is_noted || watched->n_accesses[by->origin] >= ACCESSES_MAX) {
        watched->is_partial[by->target] = true;
        return;
    }
    if (find_same(set, by, block, false))
        return;
    if (by->in == AMPI_ACCESS_LOCK)
        access = find_same(set, by, block, true);
    if (!access) {
        access = base_calloc(1, sizeof *access, "+check usage");
        access->interval.begin = (uintptr_t)block->begin;
        access->interval.end = (uintptr_t)block->end;
        access->interval.owner = access;
        watched->n_accesses[by->origin]++;
        ampi_intervals_add(set, &access->interval);
    } else {
        unlist(access);
        watched->n_done[by->origin]--;
    }
    enlist(&watched->pending[by->origin], access);
    access->by = *by;
    access->done_at = 0;
    access->sum = ampi_misuse_sum_at(watched->shared, by, access->interval.begin, access->interval.end);
}

/* With the lock. The target may load the data that this stores, and then knows what the origin knew. */
static void flag(struct ampi_misuse_window *watched, const struct ampi_misuse_claim *by)
{
    uint64_t known = by->text || watched->done[by->origin] ? atomic_load(&ampi_misuse_ticks) : by->acquired;

    if (by->in == AMPI_ACCESS_LOCK && by->kind != AMPI_MISUSE_GET && known > watched->flagged[by->target])
        watched->flagged[by->target] = known;
}

void ampi_misuse_take_claim(struct ampi_win_shared *shared, const struct ampi_misuse_claim *claim,
                            const struct ampi_misuse_block *blocks, size_t n_blocks)
{
    struct ampi_misuse_window *watched;
    struct ampi_misuse_claim by = *claim;

    pthread_mutex_lock(&ampi_misuse_windows_lock);
    watched = ampi_misuse_find_or_create_window(shared);
    if (!by.text)
        by.epoch = watched->epochs[by.origin];
    if (watched->unlocked[by.target] > by.acquired)
        by.acquired = watched->unlocked[by.target];
    if (!by.text && watched->flagged[by.origin] > by.acquired)
        by.acquired = watched->flagged[by.origin];
    for (size_t i = 0; i < n_blocks; i++) {
        const struct ampi_interval *found =
            ampi_intervals_find(&watched->targets[by.target], (uintptr_t)blocks[i].begin,
                                (uintptr_t)blocks[i].end, conflicts, &by, LOOKS_MAX);
        if (BASE_UNLIKELY(found != NULL))
            report(shared, &by, &blocks[i], found->owner);
    }
    for (size_t i = 0; i < n_blocks; i++) /* not compared with each other */
        add_block(watched, &by, &blocks[i]);
    flag(watched, &by);
    if (n_blocks == AMPI_MISUSE_BLOCKS_MAX)
        watched->is_partial[by.target] = true;
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
}

/* With the lock. An operation in a lock of this process is complete. */
static void remember(struct ampi_misuse_window *watched, struct ampi_misuse_block_access *access)
{
    int origin = access->by.origin;

    if (watched->n_done[origin] == DONE_MAX) {
        while (watched->done[origin])
            drop(watched, watched->done[origin]);
        watched->n_done[origin] = 0;
    }
    unlist(access);
    enlist(&watched->done[origin], access);
    watched->n_done[origin]++;
    access->done_at = atomic_load(&ampi_misuse_ticks);
}

static bool is_ended_by(const struct ampi_misuse_block_access *access, enum ampi_misuse_sync sync, int target)
{
    switch (sync) {
    case AMPI_MISUSE_FENCE:
        return access->by.in == AMPI_ACCESS_FENCE && access->by.epoch < (uint32_t)target;
    case AMPI_MISUSE_EXPOSED:
        return access->by.in == AMPI_ACCESS_START && access->by.target == target;
    default:
        return access->by.in == AMPI_ACCESS_LOCK && (target < 0 || access->by.target == target) &&
               (sync == AMPI_MISUSE_FLUSH || access->by.is_fetching);
    }
}

/* With the lock. target: -1: all; FENCE: an epoch's number, earlier ones end. */
void ampi_misuse_end_accesses(struct ampi_misuse_window *watched, int origin, enum ampi_misuse_sync sync,
                              int target)
{
    struct ampi_misuse_block_access *next;

    atomic_fetch_add(&ampi_misuse_ticks, 1);
    for (struct ampi_misuse_block_access *access = watched->pending[origin]; access; access = next) {
        next = access->next;
        if (!is_ended_by(access, sync, target))
            continue;
        if (access->by.in == AMPI_ACCESS_LOCK && !access->by.text && !access->by.is_exclusive)
            remember(watched, access);
        else
            drop(watched, access);
    }
}

void ampi_misuse_end_claims(struct ampi_win_shared *shared, int origin, int target, bool is_local)
{
    pthread_mutex_lock(&ampi_misuse_windows_lock);
    ampi_misuse_end_accesses(ampi_misuse_find_or_create_window(shared), origin,
                             is_local ? AMPI_MISUSE_LOCAL : AMPI_MISUSE_FLUSH, target);
    pthread_mutex_unlock(&ampi_misuse_windows_lock);
}
