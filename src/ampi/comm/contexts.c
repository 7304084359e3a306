/* SPDX-License-Identifier: BSD-3-Clause
 *
 * contexts.c: table of the communicators of this process that have members in others, by context id.
 *
 * A hash table under a spin lock, with a small cache per PE in front of it. Ids are never reused. A removed
 * communicator is also removed from the caches: an erroneous program may still send to it. A PE that has
 * just looked it up may enter it again, so the caches are cleared once more before the communicator's
 * memory is freed (comm_retire.c).
 */
#include <pthread.h>

#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

#define TABLE_CHAINS 16384u
#define CACHE_ENTRIES 16u

static struct ampi_comm_shared *table[TABLE_CHAINS];
static atomic_flag table_lock = ATOMIC_FLAG_INIT;
static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t generation;
static _Atomic uint32_t n_creations = 1; /* 0 is MPI_COMM_WORLD's */

/* The last communicators that were removed. */
#define GONE_ENTRIES 64u
static struct gone {
    uint64_t context_id;
    uint32_t coll_seq; /* the highest of this process's members */
} gone[GONE_ENTRIES];
static uint32_t n_gone;

struct cache {
    _Atomic uint64_t context_id[CACHE_ENTRIES]; /* 0: empty. Another PE may set it to 0 */
    struct ampi_comm_shared *shared[CACHE_ENTRIES];
} BASE_CACHE_ALIGNED;
static _Atomic(struct cache *) caches; /* by PE; NULL: no communicator has been added */

static inline uint32_t hash_of(uint64_t context_id)
{
    return (uint32_t)((context_id * 0x9e3779b97f4a7c15u) >> 40);
}

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire))
        ;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
}

uint64_t ampi_contexts_propose(void)
{
    uint64_t count = atomic_fetch_add(&n_creations, 1) & ((1u << 27) - 1);

    return AMPI_CONTEXT_CROSS | (uint64_t)ampi_job.proc_id << 48 | count << 20;
}

static struct ampi_comm_shared *find_locked(uint64_t context_id)
{
    struct ampi_comm_shared *shared = table[hash_of(context_id) % TABLE_CHAINS];

    while (shared && shared->context_id != context_id)
        shared = shared->next_context;
    return shared;
}

static void add_locked(struct ampi_comm_shared *shared)
{
    struct ampi_comm_shared **chain = &table[hash_of(shared->context_id) % TABLE_CHAINS];

    if (!atomic_load_explicit(&caches, memory_order_relaxed))
        atomic_store_explicit(
            &caches, base_calloc_aligned((size_t)ampi_job.n_pes, sizeof(struct cache), "communicators"),
            memory_order_release);
    shared->next_context = *chain;
    *chain = shared;
    atomic_fetch_add(&generation, 1);
}

void ampi_contexts_add(struct ampi_comm_shared *shared)
{
    lock();
    add_locked(shared);
    unlock();
    if (ampi_comm_has_failed(shared))
        ampi_failed_check_again();
    if (ampi_job.n_pes > 1)
        ult_wake_all(); /* messages to it may be waiting on other PEs */
}

void ampi_contexts_changed(void)
{
    atomic_fetch_add(&generation, 1);
    ult_wake_all();
}

struct ampi_comm_shared *ampi_contexts_find_or_make(uint64_t context_id,
                                                    struct ampi_comm_shared *(*make)(void *), void *arg)
{
    struct ampi_comm_shared *shared;

    pthread_mutex_lock(&make_lock);
    lock();
    shared = find_locked(context_id);
    unlock();
    if (!shared)
        shared = make(arg);
    pthread_mutex_unlock(&make_lock);
    return shared;
}

static void forget(struct cache *cache, uint64_t context_id)
{
    uint64_t cached = context_id;

    atomic_compare_exchange_strong_explicit(&cache->context_id[hash_of(context_id) % CACHE_ENTRIES], &cached,
                                            0, memory_order_relaxed, memory_order_relaxed);
}

void ampi_contexts_forget(int pe_id, uint64_t context_id)
{
    struct cache *all = atomic_load_explicit(&caches, memory_order_acquire);

    if (!all)
        return;
    forget(&all[pe_id], context_id);
    forget(&all[pe_id], context_id | AMPI_CONTEXT_HIDDEN);
    forget(&all[pe_id], context_id | AMPI_CONTEXT_BY_STREAM);
}

/* The highest number of collectives that a member of this process has started. */
static uint32_t last_seq(const struct ampi_comm_shared *shared)
{
    uint32_t seq = 0;

    for (int s = 0; s <= shared->is_inter; s++)
        for (int i = 0; i < shared->side[s].layout->n_local; i++) {
            const struct ampi_comm_side *side = &shared->side[s];
            uint32_t seq_of_one = side->handles[side->layout->part_members[i]].coll_seq;
            if ((int32_t)(seq_of_one - seq) > 0)
                seq = seq_of_one;
        }
    return seq;
}

bool ampi_contexts_are_behind(uint64_t context_id, uint32_t coll_seq)
{
    bool are_behind = false;

    lock();
    for (uint32_t i = 0; i < GONE_ENTRIES; i++)
        if (gone[i].context_id == context_id && context_id)
            are_behind = (int32_t)(gone[i].coll_seq - coll_seq) <= 0;
    unlock();
    return are_behind;
}

void ampi_contexts_remove(struct ampi_comm_shared *shared)
{
    struct gone one = {shared->context_id, last_seq(shared)};

    struct ampi_comm_shared **link = &table[hash_of(shared->context_id) % TABLE_CHAINS];

    lock();
    while (*link && *link != shared)
        link = &(*link)->next_context;
    if (*link)
        *link = shared->next_context;
    gone[n_gone++ % GONE_ENTRIES] = one;
    unlock();
    for (int pe = 0; pe < ampi_job.n_pes; pe++)
        ampi_contexts_forget(pe, shared->context_id);
}

struct ampi_comm_shared *ampi_contexts_find(int pe_id, uint64_t context_id)
{
    struct cache *all = atomic_load_explicit(&caches, memory_order_acquire);
    struct cache *cache = all ? &all[pe_id] : NULL;
    uint32_t entry = hash_of(context_id) % CACHE_ENTRIES;
    struct ampi_comm_shared *shared;

    if (cache && atomic_load_explicit(&cache->context_id[entry], memory_order_relaxed) == context_id)
        return cache->shared[entry];
    lock();
    shared = find_locked(context_id);
    unlock();
    if (!shared && (context_id & AMPI_CONTEXT_ANY_HIDDEN)) {
        shared = ampi_contexts_find(pe_id, context_id & ~AMPI_CONTEXT_ANY_HIDDEN);
        if (shared)
            shared = ampi_comm_hidden_shared(shared, context_id & AMPI_CONTEXT_HIDDEN ? AMPI_COMM_INTERNAL
                                                                                      : AMPI_COMM_BY_STREAM);
    }
    if (shared && cache) {
        cache->shared[entry] = shared;
        atomic_store_explicit(&cache->context_id[entry], context_id, memory_order_relaxed);
    }
    return shared;
}

uint32_t ampi_contexts_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_seq_cst);
}

/* Takes a reference to each live communicator; NULL: there are none. */
static struct ampi_comm_shared **take_all(size_t *n_out)
{
    struct ampi_comm_shared **all = NULL;
    size_t n = 0, n_room = 0;

    lock();
    for (uint32_t i = 0; i < TABLE_CHAINS; i++)
        for (struct ampi_comm_shared *shared = table[i]; shared; shared = shared->next_context) {
            if (n == n_room) {
                n_room = 2 * n_room + 16;
                all = base_realloc(all, n_room * sizeof(struct ampi_comm_shared *), "communicators");
            }
            if (ampi_comm_shared_try_ref(shared))
                all[n++] = shared;
        }
    unlock();
    *n_out = n;
    return all;
}

void ampi_contexts_each(void (*fn)(struct ampi_comm_shared *shared, void *arg), void *arg)
{
    size_t n;
    struct ampi_comm_shared **all = take_all(&n);

    for (size_t i = 0; i < n; i++) {
        fn(all[i], arg);
        ampi_comm_shared_unref(all[i]);
    }
    free(all);
}
