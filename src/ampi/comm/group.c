/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.c: group objects (MPI 5.0, section 7.3).
 *
 * Creates, frees and searches groups. Groups with a list are interned: thousands of ranks that each create
 * the same group get one object. Invariants of the table:
 *   1. Every live group with a list is in it, once, or twice while one of the two is being freed.
 *   2. Only the look-up under the lock returns a reference to a group that the caller does not hold
 *      already, and never to a group without references: whoever dropped the last one is freeing it.
 *
 * Called by group_set.c, group_api.c and the communicators.
 */
#include "ampi/comm/group.h"

#include <pthread.h>
#include <string.h>

#include "ampi/object/session.h"
#include "base/log.h"

struct ampi_group ampi_group_empty = {.stride = 1};

/* The table consists of shards with a lock each, so that PEs seldom wait for one another. */
#define SHARD_BITS 6
#define FIRST_CHAINS 16

struct shard {
    pthread_mutex_t lock;
    struct ampi_group **chains; /* by hash */
    uint32_t n_chains;          /* a power of two, not less than n_groups; 0: no group yet */
    uint32_t n_groups;
} BASE_CACHE_ALIGNED;
static struct shard shards[1 << SHARD_BITS] = {
    [0 ...(1 << SHARD_BITS) - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* ---- The table of groups with lists ---- */

static uint32_t hash_list(const int *list, int n)
{
    uint32_t hash = 2166136261u;

    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)list[i]) * 16777619u;
    return hash ^ (hash >> 15);
}

/* Adds a reference unless there are none left. */
static bool try_ref(struct ampi_group *group)
{
    uint32_t refs = atomic_load_explicit(&group->refs, memory_order_relaxed);

    while (refs > 0) {
        if (atomic_compare_exchange_weak_explicit(&group->refs, &refs, refs + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static struct shard *shard_of(uint32_t hash)
{
    return &shards[hash & ((1 << SHARD_BITS) - 1)];
}

static struct ampi_group **chain_of(const struct shard *shard, uint32_t hash)
{
    return &shard->chains[hash >> SHARD_BITS & (shard->n_chains - 1)];
}

/* The group with this list, with a reference for the caller; NULL: none. Under the lock. */
static struct ampi_group *shard_find(const struct shard *shard, const int *list, int n, uint32_t hash)
{
    struct ampi_group *group = shard->n_chains ? *chain_of(shard, hash) : NULL;

    for (; group; group = group->next) {
        if (group->hash == hash && group->n_ranks == n &&
            memcmp(group->list, list, (size_t)n * sizeof *list) == 0 && try_ref(group))
            return group;
    }
    return NULL;
}

static void add(const struct shard *shard, struct ampi_group *group)
{
    struct ampi_group **chain = chain_of(shard, group->hash);

    group->next = *chain;
    *chain = group;
}

/* Under the lock. The number of chains doubles when there are as many groups. */
static void shard_add(struct shard *shard, struct ampi_group *group)
{
    struct ampi_group **old = shard->chains;
    uint32_t n_old = shard->n_chains;

    if (shard->n_groups++ == n_old) {
        shard->n_chains = n_old ? 2 * n_old : FIRST_CHAINS;
        shard->chains = base_calloc(shard->n_chains, sizeof(struct ampi_group *), "groups");
        for (uint32_t i = 0; i < n_old; i++)
            for (struct ampi_group *member = old[i], *next; member; member = next) {
                next = member->next;
                add(shard, member);
            }
        free(old);
    }
    add(shard, group);
}

static void shard_remove(struct shard *shard, struct ampi_group *group)
{
    struct ampi_group **link = chain_of(shard, group->hash);

    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    shard->n_groups--;
}

/* ---- Creating and freeing ---- */

static struct ampi_group *create(int n_ranks)
{
    struct ampi_group *group = base_calloc(1, sizeof *group, "a group");

    atomic_init(&group->refs, 1);
    group->n_ranks = n_ranks;
    group->stride = 1;
    return group;
}

struct ampi_group *ampi_group_create_range(int first, int stride, int n_ranks)
{
    struct ampi_group *group;

    if (n_ranks == 0)
        return &ampi_group_empty;
    group = create(n_ranks);
    group->first = first;
    group->stride = n_ranks == 1 ? 1 : stride;
    return group;
}

/* True if the list is first, first + stride, ...; sets stride for any list of two or more. */
static bool is_arithmetic(const int *list, int n, int *stride_out)
{
    int stride = n > 1 ? list[1] - list[0] : 1;

    for (int i = 2; i < n; i++) {
        if (list[i] - list[i - 1] != stride)
            return false;
    }
    *stride_out = stride;
    return stride != 0;
}

static int by_world_rank(const void *a, const void *b, void *list)
{
    int rank_a = ((const int *)list)[*(const int *)a];
    int rank_b = ((const int *)list)[*(const int *)b];

    return (rank_a > rank_b) - (rank_a < rank_b);
}

static bool is_ascending(const int *list, int n)
{
    for (int i = 1; i < n; i++) {
        if (list[i] <= list[i - 1])
            return false;
    }
    return true;
}

static struct ampi_group *create_with_list(const int *list, int n, uint32_t hash)
{
    struct ampi_group *group = create(n);
    size_t size_bytes = (size_t)n * sizeof(int);

    group->hash = hash;
    group->list = base_malloc(size_bytes, "a group's list");
    memcpy(group->list, list, size_bytes);
    if (is_ascending(list, n))
        return group;
    group->sorted = base_malloc(size_bytes, "a group's list");
    for (int i = 0; i < n; i++)
        group->sorted[i] = i;
    qsort_r(group->sorted, (size_t)n, sizeof(int), by_world_rank, group->list);
    return group;
}

static void destroy(struct ampi_group *group)
{
    free(group->sorted);
    free(group->list);
    free(group);
}

struct ampi_group *ampi_group_create_list(const int *world_ranks, int n_ranks)
{
    struct ampi_group *group, *made;
    struct shard *shard;
    uint32_t hash;
    int stride;

    if (n_ranks == 0)
        return &ampi_group_empty;
    if (is_arithmetic(world_ranks, n_ranks, &stride))
        return ampi_group_create_range(world_ranks[0], stride, n_ranks);
    hash = hash_list(world_ranks, n_ranks);
    shard = shard_of(hash);
    pthread_mutex_lock(&shard->lock);
    group = shard_find(shard, world_ranks, n_ranks, hash);
    pthread_mutex_unlock(&shard->lock);
    if (group)
        return group;
    made = create_with_list(world_ranks, n_ranks, hash);
    pthread_mutex_lock(&shard->lock);
    group = shard_find(shard, world_ranks, n_ranks, hash); /* another PE may have been faster */
    if (!group)
        shard_add(shard, made);
    pthread_mutex_unlock(&shard->lock);
    if (!group)
        return made;
    destroy(made);
    return group;
}

void ampi_group_destroy(struct ampi_group *group)
{
    struct shard *shard = shard_of(group->hash);

    if (group->list) {
        pthread_mutex_lock(&shard->lock);
        shard_remove(shard, group);
        pthread_mutex_unlock(&shard->lock);
    }
    destroy(group);
}

/* ---- Handles ---- */

struct ampi_session *ampi_group_session(MPI_Group handle)
{
    const struct ampi_group_ref *ref = (const struct ampi_group_ref *)handle;

    return handle == MPI_GROUP_EMPTY ? NULL : ampi_session_of((MPI_Session)ref->session);
}

MPI_Group ampi_group_handle_create(struct ampi_group *group, struct ampi_session *session)
{
    struct ampi_group_ref *ref;

    if (group == &ampi_group_empty)
        return MPI_GROUP_EMPTY;
    ref = base_malloc(sizeof *ref, "a group");
    *ref = (struct ampi_group_ref){AMPI_MAGIC_GROUP, group, session};
    return (MPI_Group)ref;
}

void ampi_group_handle_destroy(MPI_Group handle)
{
    struct ampi_group_ref *ref = (struct ampi_group_ref *)handle;

    if (handle == MPI_GROUP_EMPTY)
        return;
    ampi_group_unref(ref->group);
    ref->magic = AMPI_MAGIC_DEAD;
    free(ref);
}

/* ---- Looking up ---- */

static int find_in_range(const struct ampi_group *group, int world_rank)
{
    int64_t distance = (int64_t)world_rank - group->first;
    int64_t position = distance / group->stride;

    if (position * group->stride != distance || position < 0 || position >= group->n_ranks)
        return MPI_UNDEFINED;
    return (int)position;
}

/* The number of members with smaller world ranks if this one is in the list; else MPI_UNDEFINED. */
static int find_in_list(const struct ampi_group *group, int world_rank)
{
    int low = 0;
    int high = group->n_ranks;

    while (low < high) {
        int middle = low + (high - low) / 2;
        int found = group->list[group->sorted ? group->sorted[middle] : middle];
        if (found == world_rank)
            return middle;
        if (found < world_rank)
            low = middle + 1;
        else
            high = middle;
    }
    return MPI_UNDEFINED;
}

int ampi_group_find(const struct ampi_group *group, int world_rank)
{
    int place;

    if (!group->list)
        return find_in_range(group, world_rank);
    place = find_in_list(group, world_rank);
    return place == MPI_UNDEFINED || !group->sorted ? place : group->sorted[place];
}

static bool has(const struct ampi_group *group, int member_world_rank)
{
    return ampi_group_find(group, member_world_rank) != MPI_UNDEFINED;
}

/* True if a range of two or more is in the other group. False does not mean that it is not. */
static bool is_range_in(const struct ampi_group *group, const struct ampi_group *of)
{
    int last = ampi_group_world_rank(group, group->n_ranks - 1), a, b;

    if (!of->list) /* with these three all that are between them */
        return has(of, group->first) && has(of, group->first + group->stride) && has(of, last);
    if (group->stride != 1 && group->stride != -1)
        return false;
    a = find_in_list(of, group->first);
    b = find_in_list(of, last);
    return a != MPI_UNDEFINED && b != MPI_UNDEFINED && abs(b - a) == group->n_ranks - 1;
}

static uint64_t number_of(struct ampi_group *group)
{
    static _Atomic uint64_t n_numbers;
    uint64_t number = atomic_load(&group->number);

    if (number == 0) {
        uint64_t mine = atomic_fetch_add(&n_numbers, 1) + 1;
        if (atomic_compare_exchange_strong(&group->number, &number, mine))
            number = mine;
    }
    return number;
}

int ampi_group_find_stranger(struct ampi_group *group, struct ampi_group *of)
{
    if (group == of || (group->list && atomic_load(&group->part_of) == number_of(of)) ||
        (!group->list && group->n_ranks > 1 && is_range_in(group, of)))
        return group->n_ranks;
    for (int i = 0; i < group->n_ranks; i++)
        if (!has(of, ampi_group_world_rank(group, i)))
            return i;
    if (group->list)
        atomic_store(&group->part_of, number_of(of));
    return group->n_ranks;
}

int ampi_group_compare(const struct ampi_group *a, const struct ampi_group *b)
{
    int i = 0;

    if (a == b)
        return MPI_IDENT;
    if (a->n_ranks != b->n_ranks)
        return MPI_UNEQUAL;
    if (!a->list && !b->list && a->first == b->first && a->stride == b->stride)
        return MPI_IDENT;
    while (i < a->n_ranks && ampi_group_world_rank(a, i) == ampi_group_world_rank(b, i))
        i++;
    if (i == a->n_ranks)
        return MPI_IDENT;
    for (i = 0; i < a->n_ranks; i++) {
        if (ampi_group_find(b, ampi_group_world_rank(a, i)) == MPI_UNDEFINED)
            return MPI_UNEQUAL;
    }
    return MPI_SIMILAR;
}
