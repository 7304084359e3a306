/* SPDX-License-Identifier: BSD-3-Clause
 *
 * series.c: matches the members' persistent collectives on a communicator. See series.h.
 */
#include "ampi/coll/engine/series.h"

#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/between_ops.h"
#include "base/log.h"

#define FIRST_BUCKETS 16

void ampi_coll_series_table_init(struct ampi_coll_series_table *table)
{
    pthread_mutex_init(&table->lock, NULL);
}

static struct ampi_coll_series **bucket_of(const struct ampi_coll_series_table *table, uint32_t number)
{
    return &table->buckets[number & (table->n_buckets - 1)];
}

/* NULL: no member of this process has this series. With the lock. */
static struct ampi_coll_series *find_locked(const struct ampi_coll_series_table *table, uint32_t number)
{
    struct ampi_coll_series *series = table->n_buckets > 0 ? *bucket_of(table, number) : NULL;

    while (series && series->number != number)
        series = series->next;
    return series;
}

/* Doubles the number of buckets when there are that many series. */
static void make_room(struct ampi_coll_series_table *table)
{
    struct ampi_coll_series_table old = *table;

    if (table->n_series < table->n_buckets)
        return;
    table->n_buckets = old.n_buckets ? 2 * old.n_buckets : FIRST_BUCKETS;
    table->buckets = base_calloc(table->n_buckets, sizeof table->buckets[0], "persistent collectives");
    for (uint32_t i = 0; i < old.n_buckets; i++)
        while (old.buckets[i]) {
            struct ampi_coll_series *series = old.buckets[i];
            old.buckets[i] = series->next;
            series->next = *bucket_of(table, series->number);
            *bucket_of(table, series->number) = series;
        }
    free(old.buckets);
}

static struct ampi_coll_series *create(struct ampi_coll_state *state, uint32_t number,
                                       const struct ampi_coll_plan *plan)
{
    struct ampi_coll_series *series = base_calloc_aligned(1, sizeof *series, "a persistent collective");

    series->number = number;
    series->plan = plan;
    series->n_left = ampi_coll_n_local(state);
    ampi_coll_slots_init(state, series->slots, AMPI_COLL_SERIES_SLOTS, &series->memory);
    for (int i = 0; i < AMPI_COLL_SERIES_SLOTS; i++)
        series->slots[i].series = series;
    ampi_coll_between->slots_init(series->slots, AMPI_COLL_SERIES_SLOTS);
    return series;
}

static void destroy(struct ampi_coll_series *series)
{
    ampi_coll_between->slots_fini(series->slots, series->nccl);
    ampi_coll_slots_fini(&series->memory);
    free(series);
}

void ampi_coll_series_table_fini(struct ampi_coll_series_table *table)
{
    for (uint32_t i = 0; i < table->n_buckets; i++)
        while (table->buckets[i]) {
            struct ampi_coll_series *series = table->buckets[i];
            table->buckets[i] = series->next;
            destroy(series);
        }
    free(table->buckets);
    pthread_mutex_destroy(&table->lock);
}

static BASE_COLD void report_mismatch(const struct ampi_comm *comm, const struct ampi_coll_plan *plan,
                                      const struct ampi_coll_series *series)
{
    ampi_report(comm->owner,
                "persistent collective number %u of the communicator is %s at this rank, but %s at others: "
                "all ranks have to initialize the same ones in the same order",
                series->number, plan->name, series->plan->name);
    ampi_coll_end_job(comm->shared->coll);
}

struct ampi_coll_series *ampi_coll_series_join(struct ampi_comm *comm, const struct ampi_coll_plan *plan)
{
    struct ampi_coll_state *state = comm->shared->coll;
    struct ampi_coll_series_table *table = &state->series;
    uint32_t number = ++comm->n_series;
    struct ampi_coll_series *series;

    pthread_mutex_lock(&table->lock);
    series = find_locked(table, number);
    if (!series) {
        make_room(table);
        series = create(state, number, plan);
        series->next = *bucket_of(table, number);
        *bucket_of(table, number) = series;
        table->n_series++;
    }
    pthread_mutex_unlock(&table->lock);
    if (series->plan != plan)
        report_mismatch(comm, plan, series);
    return series;
}

void ampi_coll_series_leave(struct ampi_coll_series *series, const struct ampi_comm *comm)
{
    struct ampi_coll_series_table *table = &comm->shared->coll->series;
    struct ampi_coll_series **link;
    bool is_last;

    for (int i = 0; i < AMPI_COLL_SERIES_SLOTS; i++)
        series->slots[i].args[ampi_coll_member(comm)] = NULL;
    pthread_mutex_lock(&table->lock);
    is_last = --series->n_left == 0;
    if (is_last) {
        link = bucket_of(table, series->number);
        while (*link != series)
            link = &(*link)->next;
        *link = series->next;
        table->n_series--;
    }
    pthread_mutex_unlock(&table->lock);
    if (is_last)
        destroy(series);
}

bool ampi_coll_series_is_pending(const struct ampi_coll_slot *slot, int member)
{
    const struct ampi_coll_args *args = slot->args[member];

    return args && args->request && ampi_request_is_active(args->request) &&
           slot == &slot->series->slots[args->seq % AMPI_COLL_SERIES_SLOTS];
}

/* A request has one struct of arguments, which has the number of its last start. */
bool ampi_coll_series_lacks(const struct ampi_comm *comm, uint32_t number, uint32_t seq)
{
    struct ampi_coll_state *state = comm->shared->coll;
    const struct ampi_coll_series *series;
    const struct ampi_coll_args *args = NULL;

    if (comm->n_series < number)
        return true;
    pthread_mutex_lock(&state->series.lock);
    series = find_locked(&state->series, number);
    pthread_mutex_unlock(&state->series.lock);
    for (int i = 0; series && i < AMPI_COLL_SERIES_SLOTS && !args; i++)
        args = series->slots[i].args[ampi_coll_member(comm)];
    return args ? (int32_t)(args->seq - seq) < 0 : series && series->n_left == ampi_coll_n_local(state);
}

static void add_pending(const struct ampi_coll_series *series, struct ampi_coll_start_name **next)
{
    const struct ampi_coll_state *state = series->slots[0].state;

    for (int i = 0; i < state->part_first[state->n_parts]; i++)
        for (int slot = 0; slot < AMPI_COLL_SERIES_SLOTS; slot++)
            if (ampi_coll_series_is_pending(&series->slots[slot], state->part_members[i])) {
                uint32_t seq = series->slots[slot].args[state->part_members[i]]->seq;
                *(*next)++ = (struct ampi_coll_start_name){series->number, seq};
                return;
            }
}

struct ampi_coll_start_name *ampi_coll_series_find_pending(struct ampi_coll_state *state)
{
    struct ampi_coll_series_table *table = &state->series;
    struct ampi_coll_start_name *all, *next;

    pthread_mutex_lock(&table->lock);
    next = all = base_calloc(table->n_series + 1, sizeof *all, "a report");
    for (uint32_t i = 0; i < table->n_buckets; i++)
        for (const struct ampi_coll_series *series = table->buckets[i]; series; series = series->next)
            add_pending(series, &next);
    pthread_mutex_unlock(&table->lock);
    return all;
}

void ampi_coll_series_visit(struct ampi_coll_series_table *table,
                            void (*visit)(struct ampi_coll_slot *slots, int n_slots, int arg), int arg)
{
    pthread_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < table->n_buckets; i++)
        for (struct ampi_coll_series *series = table->buckets[i]; series; series = series->next)
            visit(series->slots, AMPI_COLL_SERIES_SLOTS, arg);
    pthread_mutex_unlock(&table->lock);
}
