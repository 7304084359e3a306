/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage_procs.c: +check usage between processes: every process sends the communicator's first process each
 * operation that it begins, with the values that must be equal, and that process compares them.
 *
 * The messages of the operations have a hash of the same values, but need not detect a mistake: if roots
 * differ, a process may wait for a message that is never sent, or get one after it has left the operation or
 * freed the communicator. So these records outlive both.
 *
 * A record is an operation that some process has not yet sent; it is freed when all have.
 */
#include "ampi/coll/engine/usage.h"

#include <pthread.h>

#include "ampi/coll/between/coll_remote.h"
#include "base/log.h"

#define RECORD_CHAINS 256u

/* A process's claim about an operation. */
struct claim {
    struct claim *next; /* next in the record's list */
    int proc_id;
    uint32_t hash;
    int leaf;         /* ampi_coll_usage_leaf */
    bool has_refused; /* an earlier collective call raised an error at one of its ranks */
    char *text;       /* malloc'ed */
};

struct record {
    struct record *next; /* next in the chain */
    uint64_t context_id;
    uint32_t series;        /* number of the persistent collective; 0: not persistent */
    uint32_t seq;           /* of the operation, or of the start */
    int n_others;           /* processes that have sent a claim */
    int n_expected;         /* processes that will; -1: this process has not begun the operation */
    uint32_t hash;          /* of this process's operation */
    int leaf;               /* ... */
    char *text;             /* the same values as text, malloc'ed */
    struct ampi_rank *rank; /* of this process, for reports */
    struct claim *claims;   /* received before this process began */
};

static struct {
    pthread_mutex_t lock;
    struct record *chains[RECORD_CHAINS];
} records = {.lock = PTHREAD_MUTEX_INITIALIZER};

static BASE_COLD void report(const struct record *record, const struct claim *claim)
{
    ampi_report(record->rank,
                "wrong usage of a collective: here it is %s, but at process %d it is %s: all ranks must pass "
                "the same values",
                record->text, claim->proc_id, claim->text);
    if (claim->has_refused)
        base_log_plain("an earlier collective on the communicator raised an error at a rank of process %d, "
                       "which did not take part in it",
                       claim->proc_id);
    ampi_job_abort(MPI_ERR_OTHER);
}

static void compare(const struct record *record, const struct claim *claim)
{
    if (BASE_UNLIKELY(claim->hash != record->hash || !ampi_coll_usage_are_equal(claim->leaf, record->leaf)))
        report(record, claim);
}

static char *copy_text(const char *text)
{
    size_t n_bytes = strlen(text) + 1;

    return memcpy(base_malloc(n_bytes, "+check usage"), text, n_bytes);
}

/* The link to the record, which is created if necessary. The lock is held. */
static struct record **find(uint64_t context_id, uint32_t series, uint32_t seq)
{
    uint64_t key = (context_id ^ (uint64_t)series << 32 ^ seq) * 0x9e3779b97f4a7c15u;
    struct record **link = &records.chains[key >> 32 & (RECORD_CHAINS - 1)];

    while (*link && ((*link)->context_id != context_id || (*link)->series != series || (*link)->seq != seq))
        link = &(*link)->next;
    if (!*link) {
        *link = base_calloc(1, sizeof **link, "+check usage");
        (*link)->context_id = context_id;
        (*link)->series = series;
        (*link)->seq = seq;
        (*link)->n_expected = -1;
    }
    return link;
}

static void free_if_complete(struct record **link)
{
    struct record *record = *link;

    if (record->n_others != record->n_expected)
        return;
    *link = record->next;
    free(record->text);
    free(record);
}

/* Called when this process, which is the first, begins. */
static void record_own(const struct ampi_exchange *x, const char *text)
{
    const struct ampi_coll_state *state = x->slot->state;
    struct record **link, *record;

    pthread_mutex_lock(&records.lock);
    link = find(state->shared->context_id, x->series, x->seq);
    record = *link;
    record->n_expected = state->remote->n_procs - 1;
    record->hash = x->plan_hash;
    record->leaf = ampi_coll_usage_leaf(x->slot);
    record->text = copy_text(text);
    record->rank = x->slot->last->comm->owner;
    while (record->claims) {
        struct claim *claim = record->claims;
        compare(record, claim);
        record->claims = claim->next;
        free(claim->text);
        free(claim);
    }
    free_if_complete(link);
    pthread_mutex_unlock(&records.lock);
}

void ampi_coll_usage_announce(const struct ampi_exchange *x)
{
    struct ampi_coll_remote *remote = x->slot->state->remote;
    bool has_refused = atomic_load_explicit(&x->slot->state->has_refused, memory_order_relaxed);
    struct ampi_am_header am = {.kind = AMPI_AM_USAGE,
                                .flags = has_refused ? AMPI_AM_REFUSED : 0,
                                .context_id = x->slot->state->shared->context_id,
                                .seq = x->seq,
                                .tag = ampi_coll_usage_leaf(x->slot),
                                .source = (int32_t)x->series,
                                .cookie = x->plan_hash};
    char text[600];

    ampi_coll_usage_describe(x->slot, text, sizeof text);
    if (remote->own == 0) {
        record_own(x, text);
        return;
    }
    if (remote->leader_pe[0] < 0)
        remote->leader_pe[0] = ampi_procs_pe_of(remote->leader_rank[0]);
    if (remote->leader_pe[0] >= 0)
        ampi_procs_post(remote->proc_id[0], remote->leader_pe[0], &am, copy_text(text), strlen(text) + 1);
}

void ampi_coll_usage_handle(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct claim *claim = base_malloc(sizeof *claim, "+check usage");
    struct record **link;

    BASE_ASSERT(n_bytes > 0 && ((const char *)bytes)[n_bytes - 1] == '\0');
    pthread_mutex_lock(&records.lock);
    link = find(am->context_id, (uint32_t)am->source, am->seq);
    *claim = (struct claim){.next = (*link)->claims,
                            .proc_id = (int)am->src_proc,
                            .hash = (uint32_t)am->cookie,
                            .leaf = am->tag,
                            .has_refused = am->flags & AMPI_AM_REFUSED,
                            .text = bytes};
    (*link)->n_others++;
    if ((*link)->n_expected < 0) {
        (*link)->claims = claim;
    } else {
        compare(*link, claim);
        free(claim->text);
        free(claim);
        free_if_complete(link);
    }
    pthread_mutex_unlock(&records.lock);
}
