/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts_listed.c: the data of received listed parts (parts.h). When the algorithm has ended, all PEs copy it
 * from the senders' memory to its places in members' buffers. Then the senders get their answers.
 *
 * If the kernel refuses a copy, the sender sends the part a second time, with its data.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/parts.h"

/* A listed part's message. */
struct source {
    struct ampi_exchange_message *message;
    _Atomic int result; /* of the machine: not MACHINE_DONE if a copy has failed */
};

/* An item. */
struct copy {
    struct source *source;
    uint64_t from; /* its address there */
    void *to;
    size_t n_bytes;
};

struct ampi_exchange_listing {
    struct source *sources;
    int n_sources;
    struct copy *copies;
    int n_copies;
    size_t n_bytes; /* of all */
    bool is_answered;
};

/* Adds the copies of a part's items. The receiver's list of addresses is that of the copies. */
static void add_copies(struct ampi_exchange *x, struct source *source)
{
    struct ampi_exchange_listing *listing = x->listing;
    int from = ampi_exchange_sender(x, source->message);
    struct ampi_exchange_block *part = &x->in[from];
    struct ampi_part_items items = ampi_part_items_of(x, x->proc[from], part);
    struct ampi_part_items first = items;
    struct copy *copies;
    int n = 0;

    while (ampi_part_next_item(&items))
        n++;
    part->addresses = ampi_exchange_alloc(x, (size_t)n * sizeof *part->addresses);
    copies = ampi_exchange_alloc(x, (size_t)(listing->n_copies + n) * sizeof *copies);
    if (listing->n_copies)
        memcpy(copies, listing->copies, (size_t)listing->n_copies * sizeof *copies);
    listing->copies = copies;
    for (int i = 0; ampi_part_next_item(&first); i++) {
        size_t n_bytes = (size_t)first.item->n_bytes;
        unsigned char *to = ampi_part_place_of_item(x, first.member, first.item);
        if (!to)
            to = ampi_exchange_alloc(x, n_bytes);
        part->addresses[i] = (uintptr_t)to;
        if (n_bytes)
            copies[listing->n_copies++] = (struct copy){source, first.address, to, n_bytes};
        listing->n_bytes += n_bytes;
    }
}

static void add_source(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    struct source *source = &x->listing->sources[x->listing->n_sources++];

    source->message = message;
    source->result = message->direct ? MACHINE_DONE : MACHINE_FAILED;
    if (message->direct)
        add_copies(x, source);
}

static void plan_copies(struct ampi_exchange *x)
{
    struct ampi_exchange_message *const lists[] = {x->got, x->kept};

    x->listing = ampi_exchange_alloc(x, sizeof *x->listing);
    *x->listing = (struct ampi_exchange_listing){
        .sources = ampi_exchange_alloc(x, (size_t)x->n_listed * sizeof *x->listing->sources)};
    x->n_listed = 0;
    for (size_t i = 0; i < BASE_COUNT(lists); i++)
        for (struct ampi_exchange_message *message = lists[i]; message; message = message->next)
            if (ampi_exchange_is_list(message))
                add_source(x, message);
}

/* A PE's share of the copies. */
static void copy_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_exchange_listing *listing = ampi_exchange_of(slot)->listing;

    for (int i = part; i < listing->n_copies; i += slot->state->n_parts) {
        const struct copy *copy = &listing->copies[i];
        int result =
            ampi_exchange_direct_copy(copy->source->message->direct, copy->from, copy->to, copy->n_bytes);
        if (result != MACHINE_DONE)
            atomic_store_explicit(&copy->source->result, result, memory_order_relaxed);
    }
}

/* Returns the number of parts that are sent a second time. */
static int answer_all(struct ampi_exchange *x)
{
    struct ampi_exchange_listing *listing = x->listing;
    int n_again = 0;

    listing->is_answered = true;
    for (int i = 0; i < listing->n_sources; i++) {
        struct source *source = &listing->sources[i];
        int result = atomic_load_explicit(&source->result, memory_order_relaxed);
        if (source->message->direct)
            ampi_exchange_direct_answer(source->message->direct, result);
        source->message->direct = NULL;
        x->has_failed |= result == MACHINE_PEER_FAILED;
        n_again += result == MACHINE_FAILED;
    }
    return n_again;
}

void ampi_exchange_copy_listed(struct ampi_exchange *x)
{
    int n_again;

    if (!x->listing) {
        plan_copies(x);
        ampi_exchange_share(x, copy_share, x->listing->n_bytes);
    } else if (!x->listing->is_answered) {
        n_again = answer_all(x);
        if (n_again)
            ampi_exchange_await(x, AMPI_EXCHANGE_TAG_AGAIN, n_again);
    } else {
        for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
            x->in[ampi_exchange_sender(x, message)] = ampi_exchange_part_of(message);
    }
}
