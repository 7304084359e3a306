/* SPDX-License-Identifier: BSD-3-Clause
 *
 * messages.c: +check usage: the type signatures of messages and receives inside a process (MPI 5.0, section 3.3.1).
 *
 * A send leaves a record of its data in a queue by destination, source and tag, and a match takes the first one: messages with the
 * same key are matched in their order, on every route. Messages without a record are not checked: those from other processes, of
 * streams, and of the library. A record has the structure of the data, not the data.
 */
#include "ampi/misuse/misuse.h"

#include <pthread.h>

#include "ampi/datatype/signature.h"
#include "ampi/p2p/message.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"
#include "base/text.h"

#define QUEUES 1024

/* A message that has not been matched, or belongs to the program after a matched probe. */
struct sent {
    struct sent *next;
    const void *at; /* key: the match table of the destination, or the message of a matched probe */
    int source;
    int tag;
    const void *buf;
    MPI_Count count;
    struct ampi_type *type; /* holds a reference */
    const struct ampi_rank *sender;
    struct ampi_misuse_call call;
};

static struct {
    pthread_mutex_t lock;
    struct sent *first, *last;
} queues[QUEUES];

static unsigned queue_of(const void *at, int source, int tag)
{
    uint64_t key = (uintptr_t)at >> 4 ^ (uint64_t)(uint32_t)source << 40 ^ (uint64_t)(uint32_t)tag << 20;

    return (unsigned)(key * 0x9e3779b97f4a7c15u >> 54);
}

static void add(struct sent *sent)
{
    unsigned i = queue_of(sent->at, sent->source, sent->tag);

    sent->next = NULL;
    pthread_mutex_lock(&queues[i].lock);
    if (queues[i].first)
        queues[i].last->next = sent;
    else
        queues[i].first = sent;
    queues[i].last = sent;
    pthread_mutex_unlock(&queues[i].lock);
}

/* The first record with the key; of this request, if that is not NULL. NULL: none. */
static struct sent *take(const void *at, int source, int tag, const struct ampi_request *sender)
{
    unsigned i = queue_of(at, source, tag);
    struct sent *sent, *prev = NULL;

    pthread_mutex_lock(&queues[i].lock);
    for (sent = queues[i].first; sent; prev = sent, sent = sent->next)
        if (sent->at == at && sent->source == source && sent->tag == tag &&
            (!sender || (sent->buf == sender->u.p2p.buf && sent->count == sender->u.p2p.count)))
            break;
    if (sent) {
        *(prev ? &prev->next : &queues[i].first) = sent->next;
        if (queues[i].last == sent)
            queues[i].last = prev;
    }
    pthread_mutex_unlock(&queues[i].lock);
    return sent;
}

static void drop(struct sent *sent)
{
    if (!sent)
        return;
    ampi_type_unref(sent->type);
    free(sent);
}

/* ---- Comparing ---- */

static BASE_COLD void report(const struct sent *sent, const struct ampi_rank *receiver,
                             const struct ampi_misuse_call *call, MPI_Count count, struct ampi_type *type,
                             MPI_Count index, const struct ampi_type *const leaves[2])
{
    char here[256], there[256], bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);

    ampi_signature_describe(type, count, here, sizeof here);
    ampi_signature_describe(sent->type, sent->count, there, sizeof there);
    ampi_misuse_add_site(&site, sent->call.from);
    ampi_misuse_end_job(
        receiver, call,
        "it receives %s, but rank %d sends %s by %s%s (tag %d): element %lld is %s here and %s "
        "there",
        here, ampi_rank_number(sent->sender), there, sent->call.name, bytes, sent->tag, (long long)index,
        leaves[1]->name, leaves[0]->name);
}

/* A receive has matched the message, and drops its record. */
static void compare(struct sent *sent, struct ampi_rank *receiver, const struct ampi_request *request,
                    MPI_Count count, struct ampi_type *type)
{
    const struct ampi_type *leaves[2] = {NULL, NULL};
    MPI_Count index = ampi_signature_compare(sent->type, sent->count, type, count, leaves);
    struct ampi_misuse_call call;

    if (BASE_UNLIKELY(index >= 0)) {
        if (!request)
            call = ampi_misuse_call();
        else if (!ampi_misuse_find_call(receiver, request, &call))
            call = (struct ampi_misuse_call){receiver->ult.call, receiver->ult.called_from};
        report(sent, receiver, &call, count, type, index, leaves);
    }
    drop(sent);
}

/* ---- The checker ---- */

static void send(const struct ampi_send_args *args)
{
    struct ampi_comm *comm = args->comm;
    struct sent *sent;

    if (args->dest == MPI_PROC_NULL)
        return;
    ampi_misuse_check_memory(comm->owner, args->buf, args->count, args->type, false);
    if (comm->peer->layout->pe_of[args->dest] == AMPI_PE_REMOTE)
        return;
    sent = base_malloc(sizeof *sent, "+check usage");
    *sent = (struct sent){.at = &comm->peer->handles[args->dest].match,
                          .source = comm->rank,
                          .tag = args->tag,
                          .buf = args->buf,
                          .count = args->count,
                          .type = args->type,
                          .sender = comm->owner,
                          .call = ampi_misuse_call()};
    ampi_type_ref(args->type);
    add(sent);
}

static void receive(const struct ampi_recv_args *args)
{
    struct ampi_misuse *own = ampi_misuse_of(args->comm->owner);

    if (args->source == MPI_PROC_NULL)
        return;
    ampi_misuse_check_memory(args->comm->owner, args->buf, args->count, args->type, true);
    own->recv_count = args->count;
    own->recv_type = args->type;
}

static bool is_in_probe(void)
{
    const char *call = ult_self()->call;

    return strncmp(call, "MPI_Mp", 6) == 0 || strncmp(call, "MPI_Imp", 7) == 0;
}

static void matched(struct ampi_comm *dest, struct ampi_match_node *node, int source, int tag,
                    bool was_unexpected)
{
    struct sent *sent = take(&dest->match, source, tag, NULL);
    const struct ampi_misuse *own = dest->owner->misuse;
    const struct ampi_request *recv;

    if (!sent)
        return;
    if (!was_unexpected) {
        recv = BASE_CONTAINER(node, const struct ampi_request, u.p2p.node);
        compare(sent, dest->owner, recv, recv->u.p2p.count, recv->u.p2p.type);
    } else if (is_in_probe()) {
        sent->at = BASE_CONTAINER(node, struct ampi_message, node);
        add(sent);
    } else if (own && own->recv_type) {
        compare(sent, dest->owner, NULL, own->recv_count, own->recv_type);
    } else {
        drop(sent);
    }
}

static void receive_probed(const struct ampi_message *message, const struct ampi_recv_args *args)
{
    struct sent *sent = take(message, message->node.source, message->node.tag, NULL);

    ampi_misuse_check_memory(args->comm->owner, args->buf, args->count, args->type, true);
    if (sent)
        compare(sent, args->comm->owner, NULL, args->count, args->type);
}

static void forget(const struct ampi_comm *dest, int source, int tag, const struct ampi_request *sender)
{
    drop(take(&dest->match, source, tag, sender));
}

void ampi_misuse_connect(void)
{
    for (int i = 0; i < QUEUES; i++)
        pthread_mutex_init(&queues[i].lock, NULL);
    ampi_p2p_checker = (struct ampi_p2p_checker){.send = send,
                                                 .receive = receive,
                                                 .matched = matched,
                                                 .receive_probed = receive_probed,
                                                 .forget = forget};
}
