/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_table.c: a communicator's early messages and the exchanges of its persistent collectives, by series
 * and number. See coll_remote.h. The number of buckets doubles when there are as many entries, so that thousands
 * of persistent collectives can be in progress. On the leader PE.
 */
#include "ampi/coll/between/coll_remote.h"
#include "base/log.h"

void ampi_exchange_table_init(struct ampi_exchange_table *table)
{
    table->buckets = table->first;
    table->n_buckets = BASE_COUNT(table->first);
}

void ampi_exchange_table_fini(struct ampi_exchange_table *table)
{
    for (uint32_t i = 0; i < table->n_buckets; i++)
        while (table->buckets[i].arrived) {
            struct ampi_exchange_message *message = table->buckets[i].arrived;
            table->buckets[i].arrived = message->next;
            ampi_exchange_message_free(message);
        }
    if (table->buckets != table->first)
        free(table->buckets);
}

static void add_arrived(const struct ampi_exchange_table *table, struct ampi_exchange_message *message)
{
    struct ampi_exchange_bucket *bucket = ampi_exchange_bucket(table, message->seq, message->series);

    message->next = bucket->arrived;
    bucket->arrived = message;
}

static void add_active(const struct ampi_exchange_table *table, struct ampi_between_slot *slot)
{
    struct ampi_exchange_bucket *bucket = ampi_exchange_bucket(table, slot->x.seq, slot->x.series);

    slot->next_active = bucket->active;
    bucket->active = slot;
}

/* Makes room for one more entry. */
static void add_entry(struct ampi_exchange_table *table)
{
    struct ampi_exchange_bucket *old = table->buckets;
    uint32_t n_old = table->n_buckets;

    if (table->n_entries++ < n_old)
        return;
    table->n_buckets = 2 * n_old;
    table->buckets = base_calloc(table->n_buckets, sizeof *old, "collectives between processes");
    for (uint32_t i = 0; i < n_old; i++) {
        for (struct ampi_exchange_message *message = old[i].arrived, *next; message; message = next) {
            next = message->next;
            add_arrived(table, message);
        }
        for (struct ampi_between_slot *slot = old[i].active, *next; slot; slot = next) {
            next = slot->next_active;
            add_active(table, slot);
        }
    }
    if (old != table->first)
        free(old);
}

void ampi_exchange_add_arrived(struct ampi_exchange_table *table, struct ampi_exchange_message *message)
{
    add_entry(table);
    add_arrived(table, message);
}

void ampi_exchange_set_active(struct ampi_between_slot *between_slot, bool is_active)
{
    const struct ampi_exchange *x = &between_slot->x;
    struct ampi_exchange_table *table = &x->slot->state->remote->table;
    struct ampi_between_slot **link;

    if (BASE_UNLIKELY(x->series) && between_slot->is_active != is_active) {
        if (is_active) {
            add_entry(table);
            add_active(table, between_slot);
        } else {
            link = &ampi_exchange_bucket(table, x->seq, x->series)->active;
            while (*link != between_slot)
                link = &(*link)->next_active;
            *link = between_slot->next_active;
            table->n_entries--;
        }
    }
    between_slot->is_active = is_active;
}
