/* SPDX-License-Identifier: BSD-3-Clause
 *
 * message.c: pools of messages, and delivering a message to its receive.
 */
#include "ampi/p2p/message.h"

#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/route/remote.h"
#include "ampi/p2p/schedule.h"
#include "base/log.h"

/* Size of a slab that is divided into messages. */
#define SLAB_BYTES 65536

/* Messages of another PE that are collected before they are returned. */
#define HOMEWARD_BATCH 16

static inline int size_class_of(size_t size_bytes)
{
    return size_bytes <= 64 ? 0 : 64 - __builtin_clzll((size_bytes - 1) >> 6);
}

static inline size_t class_bytes(int size_class)
{
    return sizeof(struct ampi_message) + ((size_t)64 << size_class);
}

/* Of the process, by PE. */
static struct ampi_message_pool *pools;

struct ampi_message_pool *ampi_message_pools_create(int n_pes)
{
    pools = base_calloc_aligned((size_t)n_pes, sizeof *pools, "message pools");
    for (int i = 0; i < n_pes; i++) {
        pools[i].pe_id = (uint16_t)i;
        pools[i].homeward = base_calloc((size_t)n_pes, sizeof *pools[i].homeward, "message pools");
        pools[i].n_homeward = base_calloc((size_t)n_pes, sizeof *pools[i].n_homeward, "message pools");
    }
    return pools;
}

struct ampi_message_pool *ampi_message_pool_create_apart(int pe_id)
{
    struct ampi_message_pool *pool = base_calloc_aligned(1, sizeof *pool, "a message pool");

    pool->pe_id = (uint16_t)pe_id;
    return pool;
}

struct ampi_message_pool *ampi_message_pool_of(int pe_id)
{
    return &pools[pe_id];
}

/* Takes back messages that other PEs returned. */
static void collect_returned(struct ampi_message_pool *pool)
{
    struct ampi_message *message = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);

    while (message) {
        struct ampi_message *next = message->next;
        message->next = pool->free[message->size_class];
        pool->free[message->size_class] = message;
        message = next;
    }
}

/* Divides a new slab into messages of a class. */
static BASE_COLD void add_slab(struct ampi_message_pool *pool, int size_class)
{
    size_t each_bytes = class_bytes(size_class);
    size_t n_messages = SLAB_BYTES / each_bytes ? SLAB_BYTES / each_bytes : 1;
    char *slab = base_malloc(n_messages * each_bytes, "messages that wait for their receives");

    pool->n_bytes += n_messages * each_bytes;
    for (size_t i = n_messages; i-- > 0;) {
        struct ampi_message *message = (struct ampi_message *)(slab + i * each_bytes);
        message->magic = AMPI_MAGIC_DEAD;
        message->size_class = (uint8_t)size_class;
        message->home_pe = pool->pe_id;
        message->next = pool->free[size_class];
        pool->free[size_class] = message;
    }
}

struct ampi_message *ampi_message_alloc(struct ampi_message_pool *pool, size_t size_bytes)
{
    int size_class = size_class_of(size_bytes);
    struct ampi_message *message;

    if (BASE_UNLIKELY(!pool->free[size_class])) {
        collect_returned(pool);
        if (!pool->free[size_class])
            add_slab(pool, size_class);
    }
    message = pool->free[size_class];
    pool->free[size_class] = message->next;
    message->magic = AMPI_MAGIC_MESSAGE;
    message->size_bytes = size_bytes;
    message->sender = NULL;
    message->fetch = NULL;
    message->is_remote = false;
    return message;
}

/* Returns a batch of another PE's messages. */
static void flush_homeward(struct ampi_message_pool *pool, int home_pe)
{
    struct ampi_message_pool *home = pool - pool->pe_id + home_pe;
    struct ampi_message *first = pool->homeward[home_pe];
    struct ampi_message *last = first;
    struct ampi_message *top = atomic_load_explicit(&home->returned, memory_order_relaxed);

    while (last->next)
        last = last->next;
    do {
        last->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&home->returned, &top, first, memory_order_release,
                                                    memory_order_relaxed));
    pool->homeward[home_pe] = NULL;
    pool->n_homeward[home_pe] = 0;
}

void ampi_message_free(struct ampi_message_pool *pool, struct ampi_message *message)
{
    int home_pe = message->home_pe;

    message->magic = AMPI_MAGIC_DEAD;
    if (BASE_LIKELY(home_pe == pool->pe_id)) {
        message->next = pool->free[message->size_class];
        pool->free[message->size_class] = message;
        return;
    }
    message->next = pool->homeward[home_pe];
    pool->homeward[home_pe] = message;
    if (++pool->n_homeward[home_pe] >= HOMEWARD_BATCH)
        flush_homeward(pool, home_pe);
}

void *ampi_message_scratch(struct ampi_message_pool *pool, size_t size_bytes, const char *what)
{
    if (size_bytes > AMPI_EAGER_MAX_BYTES)
        return base_malloc(size_bytes, what);
    return ampi_message_alloc(pool, size_bytes)->data;
}

void ampi_message_scratch_free(struct ampi_message_pool *pool, void *scratch, size_t size_bytes)
{
    if (size_bytes > AMPI_EAGER_MAX_BYTES)
        free(scratch);
    else
        ampi_message_free(pool, BASE_CONTAINER(scratch, struct ampi_message, data));
}

/* Wakes the ranks that probe for the message, and reports it if the list ends with ampi_prober_watch. */
static BASE_COLD void wake_probers(struct ampi_comm *dest, const struct ampi_message *message, int source,
                                   int tag)
{
    struct ampi_prober **link = &dest->probers, *prober;

    while ((prober = *link)) {
        if (prober == &ampi_prober_watch) {
            ampi_p2p_emit(dest, AMPI_EVENT_MESSAGE_UNEXPECTED, source, tag, (int64_t)message->size_bytes);
            if (ampi_schedule_asks())
                ampi_schedule_arrived(dest, source, tag);
            break;
        }
        if ((prober->source == MPI_ANY_SOURCE || prober->source == source) &&
            (prober->tag == MPI_ANY_TAG || prober->tag == tag)) {
            *link = prober->next;
            ult_ready(prober->ult);
        } else {
            link = &prober->next;
        }
    }
}

void ampi_message_keep(struct ampi_comm *dest, struct ampi_message *message, int source, int tag)
{
    message->comm = dest;
    ampi_match_add_unexpected(&dest->match, &message->node, source, tag);
    if (BASE_UNLIKELY(dest->probers != NULL))
        wake_probers(dest, message, source, tag);
}

/* No receive will match it. It has no local sender, because a waiting one would keep the communicator. */
static void drop(struct ampi_comm *dest, struct ampi_message *message)
{
    if (message->is_remote) {
        ampi_remote_drop(dest->owner, message);
        return;
    }
    if (message->fetch)
        ampi_device_drop_fetch(message);
    ampi_message_free(dest->owner->messages, message);
}

void ampi_message_drop_all(struct ampi_comm *dest)
{
    struct ampi_match_node *node;

    while ((node = dest->match.first_arrived) != NULL) {
        if (ampi_p2p_is_checked(dest))
            ampi_p2p_checker.forget(dest, node->source, node->tag, NULL);
        ampi_match_remove_unexpected(&dest->match, node);
        drop(dest, BASE_CONTAINER(node, struct ampi_message, node));
    }
}

void ampi_message_consume(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                          const struct ampi_type *type, MPI_Status *status)
{
    struct ampi_request *sender = message->sender;

    if (BASE_UNLIKELY(message->is_remote)) {
        ampi_remote_consume(self, message, buf, count, type, status);
        return;
    }
    if (sender)
        ampi_p2p_copy_from_sender(sender, message->size_bytes, message->node.source, message->node.tag, buf,
                                  count, type, status);
    else
        ampi_p2p_unpack(message->data, message->size_bytes, message->node.source, message->node.tag, buf,
                        count, type, status);
    if (sender)
        ampi_p2p_complete_sender(self->pe_id, sender->owner->pe_id, sender);
    ampi_message_free(self->messages, message);
}
