/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn_numbers.c: see spawn.h. Owns the numbers of this process's spawned ranks: entries of ampi_job.ranks, and
 * regions of memory. Invariants:
 *   1. A number is taken from the spawn until all ranks of that spawn have ended and nothing refers to them. So no
 *      communicator has a handle whose owner is another rank than it was.
 *   2. A number's generation grows whenever it is taken, so a group that has outlived its ranks names no later ones.
 *      A number begins again only when no others are left: in a universe after 127 uses of each, elsewhere after more.
 *   3. The lowest free numbers are taken first, so few regions are in use.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/dynamic/spawn.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

static struct {
    pthread_mutex_t lock;
    int n_spawns;                    /* calls so far */
    struct ampi_rank *left;          /* ended ranks with memory to free; linked by next_left */
    bool is_taken[AMPI_SPAWN_MAX];   /* by number */
    int generations[AMPI_SPAWN_MAX]; /* of the next rank with this number */
} spawned = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first number for spawned ranks: a spawned process's own ranks have the first ones. */
static int first_number(void)
{
    return ampi_job.n_local - ampi_job.spawned_at;
}

static int n_generations(void)
{
    int n = (INT_MAX - ampi_job.n_ranks) / AMPI_SPAWN_MAX / ampi_job.max_procs;

    return n > 0 ? n : 1;
}

/* The lowest n consecutive free numbers that have a generation left; -1: there are none. */
static int find_numbers(int n)
{
    int n_found = 0, end = first_number() + ampi_job.spawn_room;

    for (int i = first_number(); i < end && n_found < n; i++) {
        n_found = spawned.is_taken[i] || spawned.generations[i] >= n_generations() ? 0 : n_found + 1;
        if (n_found == n)
            return i - n + 1;
    }
    return -1;
}

/* Free numbers without a generation left begin again. */
static void begin_generations(void)
{
    for (int i = 0; i < AMPI_SPAWN_MAX; i++)
        if (!spawned.is_taken[i] && spawned.generations[i] >= n_generations())
            spawned.generations[i] = 0;
}

/* Takes these numbers; returns their generation. */
static int take(int first, int n)
{
    int generation = 0;

    for (int i = first; i < first + n; i++)
        generation = spawned.generations[i] > generation ? spawned.generations[i] : generation;
    for (int i = first; i < first + n; i++) {
        spawned.is_taken[i] = true;
        spawned.generations[i] = generation + 1;
    }
    return generation;
}

/* The entries up to this number are in use, but nothing touches them until they are started. */
static void extend_entries(int n_numbers)
{
    int n_before = atomic_load(&ampi_job.n_present), n = ampi_job.spawned_at + n_numbers;

    if (n <= n_before)
        return;
    for (int i = n_before; i < n; i++)
        ampi_job.ranks[i].state = AMPI_RANK_ENDED;
    atomic_store(&ampi_job.n_present, n); /* first: no other thread finds all ranks ended */
    atomic_fetch_add(&ampi_job.n_ended, n - n_before);
}

struct ampi_spawned *ampi_spawn_take_numbers(int n_ranks)
{
    struct ampi_spawned *group = NULL;
    int first;

    pthread_mutex_lock(&spawned.lock);
    first = find_numbers(n_ranks);
    if (first < 0) {
        begin_generations();
        first = find_numbers(n_ranks);
    }
    if (first >= 0) {
        int generation = take(first, n_ranks);
        group = base_malloc(sizeof *group, "spawned ranks");
        *group = (struct ampi_spawned){
            .first_rank = ampi_job.n_ranks +
                          (generation * ampi_job.max_procs + ampi_job.proc_id) * AMPI_SPAWN_MAX + first,
            .n_ranks = n_ranks,
            .number = ++spawned.n_spawns,
            .n_held = n_ranks};
        extend_entries(first + n_ranks);
    }
    pthread_mutex_unlock(&spawned.lock);
    return group;
}

/* Makes the entry as it was before its first use, except for what depends on its number alone. */
static void clear(struct ampi_rank *rank)
{
    struct ampi_rank fresh = {.state = AMPI_RANK_ENDED,
                              .pe_id = rank->pe_id,
                              .messages = rank->messages,
                              .free_requests = rank->free_requests};

    *rank = fresh;
}

/* With the lock. No memory of the group's ranks is left. */
static void give_back(struct ampi_spawned *group)
{
    struct ampi_rank *ranks = &ampi_job.ranks[ampi_job_index_of(group->first_rank)];
    int first = (int)(ranks - ampi_job.ranks) - ampi_job.spawned_at;

    for (int i = 0; i < group->n_ranks; i++) {
        clear(&ranks[i]);
        spawned.is_taken[first + i] = false;
    }
    free(group);
}

void ampi_spawn_drop(struct ampi_spawned *group)
{
    pthread_mutex_lock(&spawned.lock);
    for (int i = 0; i < group->n_ranks; i++)
        ampi_spawn_job->release(&ampi_job.ranks[ampi_job_index_of(group->first_rank + i)]);
    give_back(group);
    pthread_mutex_unlock(&spawned.lock);
}

void ampi_spawn_leave(struct ampi_rank *self)
{
    pthread_mutex_lock(&spawned.lock);
    self->next_left = spawned.left;
    spawned.left = self;
    pthread_mutex_unlock(&spawned.lock);
}

bool ampi_spawn_has_left(void)
{
    bool has_left;

    pthread_mutex_lock(&spawned.lock);
    has_left = spawned.left != NULL;
    pthread_mutex_unlock(&spawned.lock);
    return has_left;
}

void ampi_spawn_release_left(int pe_id)
{
    pthread_mutex_lock(&spawned.lock);
    for (struct ampi_rank **at = &spawned.left; *at;) {
        struct ampi_rank *rank = *at;
        struct ampi_spawned *group = (struct ampi_spawned *)(uintptr_t)rank->spawned;
        enum ampi_spawn_release result = AMPI_SPAWN_LATER;

        if (rank->pe_id == pe_id && ult_has_left_stack(&rank->ult))
            result = ampi_spawn_job->try_release(rank);
        if (result == AMPI_SPAWN_LATER) {
            at = &rank->next_left;
            continue;
        }
        *at = rank->next_left;
        if (result == AMPI_SPAWN_RELEASED && --group->n_held == 0)
            give_back(group);
    }
    pthread_mutex_unlock(&spawned.lock);
}
