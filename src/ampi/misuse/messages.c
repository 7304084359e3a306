/* SPDX-License-Identifier: BSD-3-Clause
 *
 * messages.c: +check usage: the type signatures of messages and receives (MPI 5.0, section 3.3.1).
 *
 * A send leaves a record of its data in a queue by destination, source and tag, and a match takes the first one: messages with the
 * same key are matched in their order, on every route. Messages without a record are not checked: those of streams, and of the
 * library. A record has the structure of the data, not the data. A send to another process announces it there, and the record
 * is made when the message arrives.
 */
#include "ampi/misuse/misuse.h"

#include <pthread.h>
#include <stdio.h>

#include "ampi/datatype/signature.h"
#include "ampi/p2p/message.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "ampi/p2p/route/remote.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"
#include "base/text.h"

#define QUEUES 1024

/* A message that has not been matched, or belongs to the program after a matched probe. */
struct sent {
    struct sent *next;
    const void *at; /* key: the destination's match table; the probed message; the destination, if too long */
    int source;
    int tag;
    const void *buf; /* NULL: from another process */
    MPI_Count count;
    MPI_Count n_bytes;
    struct ampi_type *type; /* holds a reference; NULL: from another process */
    struct ampi_misuse_call call;
    const struct ampi_rank *owner;    /* the sender; NULL: in another process, or its program is unmapped */
    int sender;                       /* its number for reports */
    uint32_t seq;                     /* from another process: the message's number */
    struct ampi_signature *signature; /* from another process; NULL: unknown */
    char *text;                       /* ...: the data and the call, for reports */
};

/* What a send tells another process: as small as a message that leaves at once, even if the sender makes no further call. */
#define ANNOUNCED_RUNS_MAX 16
struct announced {
    MPI_Count n_repeats;
    MPI_Count count;
    MPI_Count n_bytes;
    int sender;
    uint32_t n_runs; /* 0: unknown */
    uint32_t n[ANNOUNCED_RUNS_MAX];
    uint8_t leaves[ANNOUNCED_RUNS_MAX]; /* indices in ampi_type_predefined */
    char text[140];
};
_Static_assert(sizeof(struct announced) <= 256, "fits into a parcel (remote_send.c)");

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

/* The first record with the key; of this request, or with this number, unless these are NULL. NULL: none. */
static struct sent *take(const void *at, int source, int tag, const struct ampi_request *sender,
                         const uint32_t *seq)
{
    unsigned i = queue_of(at, source, tag);
    struct sent *sent, *prev = NULL;

    pthread_mutex_lock(&queues[i].lock);
    for (sent = queues[i].first; sent; prev = sent, sent = sent->next)
        if (sent->at == at && sent->source == source && sent->tag == tag &&
            (!sender || (sent->buf == sender->u.p2p.buf && sent->count == sender->u.p2p.count)) &&
            (!seq || sent->seq == *seq))
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
    if (sent->type)
        ampi_type_unref(sent->type);
    free(sent->signature);
    free(sent->text);
    free(sent);
}

/* ---- Comparing ---- */

/* "4 of MPI_INT by MPI_Send, called at main (a.c:12)". */
static void describe_send(struct ampi_type *type, MPI_Count count, const struct ampi_misuse_call *call,
                          char *text, size_t size_bytes)
{
    char data[256];
    struct base_text out = base_text_in(text, size_bytes);

    ampi_signature_describe(type, count, data, sizeof data);
    base_text_add(&out, data);
    base_text_add(&out, " by ");
    base_text_add(&out, call->name);
    ampi_misuse_add_site(&out, call->from);
}

void ampi_misuse_leave_messages(const struct ampi_rank *rank)
{
    char text[3 * AMPI_CALL_SITE_BYTES];

    for (int i = 0; i < QUEUES; i++) {
        pthread_mutex_lock(&queues[i].lock);
        for (struct sent *sent = queues[i].first; sent; sent = sent->next) {
            if (sent->owner != rank)
                continue;
            describe_send(sent->type, sent->count, &sent->call, text, sizeof text);
            sent->text = memcpy(base_malloc(strlen(text) + 1, "+check usage"), text, strlen(text) + 1);
            sent->owner = NULL;
        }
        pthread_mutex_unlock(&queues[i].lock);
    }
}

static BASE_COLD void report(const struct sent *sent, const struct ampi_rank *receiver,
                             const struct ampi_misuse_call *call, MPI_Count count, struct ampi_type *type,
                             MPI_Count index, const struct ampi_type *const leaves[2])
{
    char here[256], there[3 * AMPI_CALL_SITE_BYTES];

    ampi_signature_describe(type, count, here, sizeof here);
    if (!sent->text)
        describe_send(sent->type, sent->count, &sent->call, there, sizeof there);
    ampi_misuse_end_job(receiver, call,
                        "it receives %s, but rank %d sends %s (tag %d): element %lld is %s here and %s there",
                        here, sent->sender, sent->text ? sent->text : there, sent->tag, (long long)index,
                        leaves[1]->name, leaves[0]->name);
}

/* A receive has matched the message, whose record is dropped, or kept for the error that the receive will raise. */
static void compare(struct sent *sent, struct ampi_comm *dest, const struct ampi_request *request,
                    MPI_Count count, struct ampi_type *type)
{
    struct ampi_rank *receiver = dest->owner;
    const struct ampi_type *leaves[2] = {NULL, NULL};
    const struct ampi_signature *there = sent->type ? ampi_signature_of(sent->type) : sent->signature;
    MPI_Count index =
        there ? ampi_signature_compare(there, sent->count, ampi_signature_of(type), count, leaves) : -1;
    struct ampi_misuse_call call;

    if (BASE_UNLIKELY(index >= 0)) {
        if (!request)
            call = ampi_misuse_call();
        else if (!ampi_misuse_find_call(receiver, request, &call))
            call = (struct ampi_misuse_call){receiver->ult.call, receiver->ult.called_from};
        report(sent, receiver, &call, count, type, index, leaves);
    }
    if (BASE_UNLIKELY(sent->n_bytes > count * type->size_bytes)) {
        sent->at = dest;
        add(sent);
    } else {
        drop(sent);
    }
}

/* Drops the first record with the key: writes its data and call. Returns the sender's number; -1: the send is not known. */
static int take_description(const void *at, int source, int tag, char *text, size_t size_bytes)
{
    struct sent *sent = take(at, source, tag, NULL, NULL);
    int sender = -1;

    if (sent && (sent->text || sent->type)) {
        sender = sent->sender;
        if (sent->text)
            snprintf(text, size_bytes, "%s", sent->text);
        else
            describe_send(sent->type, sent->count, &sent->call, text, size_bytes);
    }
    drop(sent);
    return sender;
}

static void describe_long_send(const struct ampi_comm *dest, const MPI_Status *status, char *text,
                               size_t size_bytes)
{
    char data[3 * AMPI_CALL_SITE_BYTES];
    int sender = take_description(dest, status->MPI_SOURCE, status->MPI_TAG, data, sizeof data);

    if (sender >= 0)
        snprintf(text, size_bytes, ": rank %d sends %s", sender, data);
}

bool ampi_misuse_describe_unreceived(const struct ampi_comm *dest, int source, int tag, char *text,
                                     size_t size_bytes)
{
    return ampi_p2p_is_checked(dest) && take_description(&dest->match, source, tag, text, size_bytes) >= 0;
}

/* ---- Other processes ---- */

static void write_announced(const struct ampi_comm *comm, MPI_Count count, struct ampi_type *type,
                            struct announced *out)
{
    const struct ampi_signature *signature = ampi_signature_of(type);
    struct ampi_misuse_call call = ampi_misuse_call();

    *out = (struct announced){0};
    if (!signature->is_unknown && signature->n_runs <= ANNOUNCED_RUNS_MAX)
        out->n_runs = signature->n_runs;
    for (uint32_t i = 0; i < out->n_runs; i++) {
        out->leaves[i] = (uint8_t)((uintptr_t)signature->runs[i].leaf->predefined - AMPI_TYPE_FIRST);
        out->n[i] = (uint32_t)signature->runs[i].n;
        if (out->n[i] != signature->runs[i].n)
            out->n_runs = 0;
    }
    out->n_repeats = signature->n_repeats;
    out->count = count;
    out->n_bytes = count * type->size_bytes;
    out->sender = ampi_rank_number(comm->owner);
    describe_send(type, count, &call, out->text, sizeof out->text);
}

static BASE_COLD void announce(const struct ampi_send_args *args)
{
    struct announced out;

    write_announced(args->comm, args->count, args->type, &out);
    ampi_remote_announce(args, &out, offsetof(struct announced, text) + strlen(out.text) + 1);
}

static struct ampi_signature *read_signature(const struct announced *in)
{
    struct ampi_signature *out =
        base_calloc(1, sizeof *out + in->n_runs * sizeof out->runs[0], "+check usage");

    out->n_repeats = in->n_repeats;
    out->n_runs = in->n_runs;
    for (uint32_t i = 0; i < in->n_runs; i++) {
        out->runs[i].leaf = ampi_type_predefined[in->leaves[i]];
        out->runs[i].n = in->n[i];
        out->n_each += in->n[i];
    }
    return out;
}

static void read_announced(struct sent *sent, const struct announced *in)
{
    sent->count = in->count;
    sent->n_bytes = in->n_bytes;
    sent->sender = in->sender;
    sent->signature = in->n_runs ? read_signature(in) : NULL;
    sent->text = memcpy(base_malloc(strlen(in->text) + 1, "+check usage"), in->text, strlen(in->text) + 1);
}

static void arrived(struct ampi_comm *dest, const struct ampi_am_header *am, const void *announced)
{
    struct sent *sent = base_calloc(1, sizeof *sent, "+check usage");

    sent->at = &dest->match;
    sent->source = am->source;
    sent->tag = am->tag;
    sent->seq = am->seq;
    if (announced)
        read_announced(sent, announced);
    add(sent);
}

static void forget_arrived(const struct ampi_comm *dest, int source, int tag, uint32_t seq)
{
    drop(take(&dest->match, source, tag, NULL, &seq));
}

/* ---- Partitioned messages ---- */

static void announce_partitioned(const struct ampi_request *send, void *announced)
{
    const struct ampi_partitioned *end = send->u.extra;
    struct announced out;

    write_announced(send->comm, end->count, end->type, &out);
    memcpy(announced, &out, sizeof out);
}

static void check_partitioned(const struct ampi_request *recv)
{
    const struct ampi_partitioned *end = recv->u.extra;
    struct announced in;
    struct sent *sent = base_calloc(1, sizeof *sent, "+check usage");

    memcpy(&in, end->hello.announced, sizeof in);
    read_announced(sent, &in);
    sent->tag = end->tag;
    sent->n_bytes = 0; /* MPI reports one that is too long */
    compare(sent, recv->comm, recv, end->count, end->type);
}

/* ---- The checker ---- */

static void send(const struct ampi_send_args *args)
{
    struct ampi_comm *comm = args->comm;
    struct sent *sent;

    if (args->dest == MPI_PROC_NULL)
        return;
    ampi_misuse_check_memory(comm->owner, args->buf, args->count, args->type, false);
    if (comm->peer->layout->pe_of[args->dest] == AMPI_PE_REMOTE) {
        announce(args);
        return;
    }
    sent = base_malloc(sizeof *sent, "+check usage");
    *sent = (struct sent){.at = &comm->peer->handles[args->dest].match,
                          .source = comm->rank,
                          .tag = args->tag,
                          .buf = args->buf,
                          .count = args->count,
                          .n_bytes = args->count * args->type->size_bytes,
                          .type = args->type,
                          .owner = comm->owner,
                          .sender = ampi_rank_number(comm->owner),
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

static void exchange(const struct ampi_send_args *send_args, const struct ampi_recv_args *recv_args)
{
    struct ampi_misuse_pending recv = {
        .buf = recv_args->buf, .count = recv_args->count, .type = recv_args->type, .is_recv = true};

    ampi_misuse_check_pair(recv_args->comm->owner, &recv, send_args->buf, send_args->count, send_args->type);
}

static bool is_in_probe(void)
{
    const char *call = ult_self()->call;

    return strncmp(call, "MPI_Mp", 6) == 0 || strncmp(call, "MPI_Imp", 7) == 0;
}

static void matched(struct ampi_comm *dest, struct ampi_match_node *node, int source, int tag,
                    bool was_unexpected)
{
    struct sent *sent = take(&dest->match, source, tag, NULL, NULL);
    const struct ampi_misuse *own = dest->owner->misuse;
    const struct ampi_request *recv =
        was_unexpected ? NULL : BASE_CONTAINER(node, const struct ampi_request, u.p2p.node);

    if (recv) {
        ampi_misuse_set_guarded(recv, false);
        ampi_misuse_check_untouched(recv);
    }
    if (!sent)
        return;
    if (recv) {
        compare(sent, dest, recv, recv->u.p2p.count, recv->u.p2p.type);
    } else if (is_in_probe()) {
        sent->at = BASE_CONTAINER(node, struct ampi_message, node);
        add(sent);
    } else if (own && own->recv_type) {
        compare(sent, dest, NULL, own->recv_count, own->recv_type);
    } else {
        drop(sent);
    }
}

static void receive_probed(const struct ampi_message *message, const struct ampi_recv_args *args)
{
    struct sent *sent = take(message, message->node.source, message->node.tag, NULL, NULL);

    ampi_misuse_check_memory(args->comm->owner, args->buf, args->count, args->type, true);
    if (sent)
        compare(sent, args->comm, NULL, args->count, args->type);
}

static void completed(const struct ampi_request *recv)
{
    ampi_misuse_set_guarded(recv, true);
}

static void forget(const struct ampi_comm *dest, int source, int tag, const struct ampi_request *sender)
{
    drop(take(&dest->match, source, tag, sender, NULL));
}

void ampi_misuse_connect(void)
{
    ampi_misuse_windows_connect();
    for (int i = 0; i < QUEUES; i++)
        pthread_mutex_init(&queues[i].lock, NULL);
    ampi_p2p_checker = (struct ampi_p2p_checker){.send = send,
                                                 .receive = receive,
                                                 .exchange = exchange,
                                                 .matched = matched,
                                                 .receive_probed = receive_probed,
                                                 .completed = completed,
                                                 .forget = forget,
                                                 .arrived = arrived,
                                                 .forget_arrived = forget_arrived,
                                                 .announce_partitioned = announce_partitioned,
                                                 .check_partitioned = check_partitioned,
                                                 .describe_long_send = describe_long_send};
}
