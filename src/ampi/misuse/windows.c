/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.c: +check usage: operations that conflict at a target (MPI 5.0, section 12.7): of one process's origins.
 *
 * Each target of a window has a set of the blocks that operations access and have not completed there. Two of them conflict if
 * they overlap and one is a put, or one is an accumulate and the other is not, or both are accumulates of two origins with
 * different operations. Operations of two origins are only compared if nothing orders them:
 *
 *      fence           both are in the epoch with the same number; an epoch is removed when a later one begins
 *      start, post     both are in one exposure epoch of the target, whose MPI_Win_wait removes them
 *      lock            both have shared locks, or MPI_Win_lock_all, and neither has completed its own (flush, unlock)
 *
 * Displacements stand for addresses.
 */
#include "ampi/misuse/misuse.h"

#include "ampi/op/op.h"
#include "ampi/rma/win.h"
#include "base/log.h"
#include "base/text.h"

#define BLOCKS_MAX 1024    /* of an operation that is recorded */
#define ACCESSES_MAX 65536 /* of an origin that are recorded */
#define LOOKS_MAX 4096     /* blocks that a new one is compared with */

/* A block that an operation accesses. */
struct access {
    struct ampi_interval interval;
    struct access *next; /* of the origin */
    struct ampi_misuse_call call;
    const struct ampi_op *op; /* NULL: none */
    int origin;
    int target;
    uint32_t epoch;    /* FENCE: its number */
    uint8_t kind;      /* enum ampi_misuse_access */
    uint8_t in;        /* enum ampi_access: the epoch */
    bool is_exclusive; /* LOCK */
    bool is_fetching;  /* its result is at the origin once it is complete there */
};

/* A window with operations. */
struct watched {
    struct watched *next;
    const struct ampi_win_shared *shared; /* the key, with its context id */
    uint64_t context_id;
    struct ampi_intervals *targets; /* by rank */
    struct access **origins;        /* by rank: its accesses */
    uint32_t *epochs;               /* by rank: fences so far */
    uint32_t *n_accesses;           /* by rank */
    int n_left;                     /* members of this process that have not freed it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all */
static struct watched *windows;

static struct watched **find(const struct ampi_win_shared *shared)
{
    struct watched **link = &windows;

    while (*link && ((*link)->shared != shared || (*link)->context_id != shared->comm->context_id))
        link = &(*link)->next;
    return link;
}

static struct watched *create(const struct ampi_win_shared *shared)
{
    struct watched *watched = base_calloc(1, sizeof *watched, "+check usage");
    size_t n = (size_t)shared->n_ranks;

    watched->shared = shared;
    watched->context_id = shared->comm->context_id;
    watched->targets = base_calloc(n, sizeof *watched->targets, "+check usage");
    watched->origins = base_calloc(n, sizeof *watched->origins, "+check usage");
    watched->epochs = base_calloc(n, sizeof *watched->epochs, "+check usage");
    watched->n_accesses = base_calloc(n, sizeof *watched->n_accesses, "+check usage");
    watched->n_left = shared->n_local;
    watched->next = windows;
    return windows = watched;
}

static void destroy(struct watched **link)
{
    struct watched *watched = *link;

    *link = watched->next;
    free(watched->targets);
    free(watched->origins);
    free(watched->epochs);
    free(watched->n_accesses);
    free(watched);
}

/* ---- Conflicts ---- */

static const char *const nouns[] = {"get", "put", "accumulate"};

static bool may_both_combine(const struct access *a, const struct access *b)
{
    return a->origin == b->origin || !a->op || !b->op || a->op == b->op || a->op->predefined == MPI_NO_OP ||
           b->op->predefined == MPI_NO_OP;
}

static bool is_ordered(const struct access *a, const struct access *b)
{
    return a->in != b->in || (a->in == AMPI_ACCESS_FENCE && a->epoch != b->epoch) ||
           (a->origin != b->origin && (a->is_exclusive || b->is_exclusive));
}

static bool conflicts(const struct ampi_interval *interval, const void *arg)
{
    const struct access *a = interval->owner, *b = arg;

    if (a->kind == AMPI_MISUSE_GET && b->kind == AMPI_MISUSE_GET)
        return false;
    if (a->kind == AMPI_MISUSE_ACCUMULATE && b->kind == AMPI_MISUSE_ACCUMULATE && may_both_combine(a, b))
        return false;
    return !is_ordered(a, b);
}

static BASE_COLD BASE_NORETURN void report(const struct ampi_win *win, const struct access *new,
                                           const struct access *old)
{
    char bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);

    ampi_misuse_add_site(&site, old->call.from);
    ampi_misuse_end_job(
        win->owner, &new->call,
        "this %s%s%s at rank %d conflicts with the %s%s%s of rank %d by %s%s: both access displacement %lld "
        "of "
        "the window, in bytes, and neither is complete before the other (ranks of the window)",
        nouns[new->kind], new->op ? " with " : "", new->op ? new->op->name : "", new->target,
        nouns[old->kind], old->op ? " with " : "", old->op ? old->op->name : "", old->origin, old->call.name,
        bytes,
        (long long)(old->interval.begin > new->interval.begin ? old->interval.begin : new->interval.begin));
}

/* ---- Operations ---- */

/* A new operation, whose blocks are visited. */
struct operation {
    struct ampi_win *win;
    struct watched *watched;
    struct access access;
    struct access *first; /* new blocks */
    int n;
    bool is_noted;
};

/* True if an equal access is there: the new one need not be recorded. */
static bool is_same(const struct ampi_interval *interval, const void *arg)
{
    const struct access *a = interval->owner, *b = arg;

    return interval->begin == b->interval.begin && interval->end == b->interval.end &&
           a->origin == b->origin && a->kind == b->kind && a->op == b->op && a->in == b->in &&
           a->epoch == b->epoch;
}

static bool add_block(uintptr_t begin, size_t n_bytes, void *arg)
{
    struct operation *operation = arg;
    struct access *access = &operation->access;
    struct ampi_intervals *set = &operation->watched->targets[access->target];
    struct ampi_interval *found;

    access->interval.begin = begin;
    access->interval.end = begin + n_bytes;
    found = ampi_intervals_find(set, begin, begin + n_bytes, conflicts, access, LOOKS_MAX);
    if (BASE_UNLIKELY(found != NULL))
        report(operation->win, access, found->owner);
    if (!operation->is_noted || ampi_intervals_find(set, begin, begin + n_bytes, is_same, access, 16))
        return ++operation->n < BLOCKS_MAX;
    access = base_malloc(sizeof *access, "+check usage");
    *access = operation->access;
    access->interval.owner = access;
    access->next = operation->first;
    operation->first = access;
    return ++operation->n < BLOCKS_MAX;
}

/* True if the operation has a request, which may complete it before a synchronisation. */
static bool is_request_form(const char *name)
{
    return name[4] == 'R';
}

void ampi_misuse_accessed(const char *name, const void *from, enum ampi_misuse_access kind, int target_rank,
                          MPI_Aint disp, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Win handle)
{
    struct ampi_win *win = ampi_win_of(handle);
    struct ampi_type *type = ampi_type_of(datatype);
    struct operation operation = {.win = win};
    struct watched *watched;

    if (target_rank == MPI_PROC_NULL || !win || !type || ampi_job.is_forked)
        return;
    operation.access = (struct access){
        .call = {name, ampi_misuse_site(from)},
        .op = kind == AMPI_MISUSE_ACCUMULATE && op != MPI_OP_NULL ? ampi_op_of(op) : NULL,
        .origin = win->rank,
        .target = target_rank,
        .kind = (uint8_t)kind,
        .in = win->access == AMPI_ACCESS_LOCK_ALL ? AMPI_ACCESS_LOCK : win->access,
        .is_exclusive = win->access == AMPI_ACCESS_LOCK && ampi_win_bit(win->exclusive, target_rank),
        .is_fetching =
            kind == AMPI_MISUSE_GET || (kind == AMPI_MISUSE_ACCUMULATE && strncmp(name, "MPI_Acc", 7) != 0)};
    pthread_mutex_lock(&lock);
    watched = *find(win->shared);
    if (!watched)
        watched = create(win->shared);
    operation.watched = watched;
    operation.access.epoch = watched->epochs[win->rank];
    operation.is_noted = !(operation.access.is_fetching && is_request_form(name)) &&
                         watched->n_accesses[win->rank] < ACCESSES_MAX;
    ampi_misuse_each_block((const void *)(disp * win->shared->targets[target_rank].disp_unit), count, type,
                           add_block, &operation);
    for (struct access *access = operation.first, *next; access; access = next) {
        next = access->next;
        ampi_intervals_add(&watched->targets[target_rank], &access->interval);
        access->next = watched->origins[win->rank];
        watched->origins[win->rank] = access;
        watched->n_accesses[win->rank]++;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Synchronisation ---- */

/* True if the origin's synchronisation makes the access complete at the target. */
static bool is_over(const struct watched *watched, const struct access *access, enum ampi_misuse_sync sync,
                    int target)
{
    switch (sync) {
    case AMPI_MISUSE_FENCE: /* the others may still be in the last epoch */
        return access->in == AMPI_ACCESS_FENCE && watched->epochs[access->origin] - access->epoch > 1;
    case AMPI_MISUSE_LOCAL:
        return access->is_fetching && (target < 0 || access->target == target);
    case AMPI_MISUSE_FLUSH:
        return access->in == AMPI_ACCESS_LOCK && (target < 0 || access->target == target);
    case AMPI_MISUSE_COMPLETE: /* the gate of a target in another process is there */
        return access->in == AMPI_ACCESS_START && !watched->shared->targets[access->target].handle;
    case AMPI_MISUSE_EXPOSED:
        return access->in == AMPI_ACCESS_START && access->target == target;
    default:
        return true;
    }
}

static void remove_of(struct watched *watched, int origin, enum ampi_misuse_sync sync, int target)
{
    struct access **link = &watched->origins[origin], *access;

    while ((access = *link)) {
        if (!is_over(watched, access, sync, target)) {
            link = &access->next;
            continue;
        }
        *link = access->next;
        ampi_intervals_remove(&watched->targets[access->target], &access->interval);
        watched->n_accesses[origin]--;
        free(access);
    }
}

void ampi_misuse_synced(enum ampi_misuse_sync sync, int target_rank, MPI_Win handle)
{
    const struct ampi_win *win = ampi_win_of(handle);
    struct watched **link, *watched;
    bool is_last;

    if (!win || ampi_job.is_forked || target_rank == MPI_PROC_NULL)
        return;
    pthread_mutex_lock(&lock);
    link = find(win->shared);
    watched = *link;
    if (!watched && sync == AMPI_MISUSE_FENCE)
        watched = create(win->shared);
    if (watched) {
        if (sync == AMPI_MISUSE_FENCE)
            watched->epochs[win->rank]++;
        is_last = sync == AMPI_MISUSE_LEAVE && --watched->n_left == 0;
        for (int i = 0; i < win->shared->n_ranks; i++)
            if (is_last || sync == AMPI_MISUSE_EXPOSED || (i == win->rank && sync != AMPI_MISUSE_LEAVE))
                remove_of(watched, i, sync, sync == AMPI_MISUSE_EXPOSED ? win->rank : target_rank);
        if (is_last)
            destroy(link);
    }
    pthread_mutex_unlock(&lock);
}
