/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured_end.c: operations in CUDA graphs: their matching, and the PE's part in launches. See
 * captured_end.h.
 */
#include "ampi/enqueue/captured_end.h"

#include <pthread.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/datatype/buffer.h"
#include "base/log.h"

/* Messages that the PEs move have negative tags on the hidden communicator, other than MPI_ANY_TAG and those
 * of partitioned communication (partitioned.c). Each pair of ends has a tag. Between processes it is
 * computed from the program's tag and the number of earlier messages between the two ranks with that tag,
 * which both ends count. */
#define PAIR_TAG_FIRST (MPI_ANY_TAG - 1)
#define PAIRS_MAX 90000000
#define REMOTE_TAG_BASE (-2140000000)
#define REMOTE_NUMBERS (1 << 12)

/* Ends of all ranks, the newest first. Ranks of different PEs add theirs while they capture. */
static struct {
    pthread_mutex_t lock;
    struct ampi_captured *first;
    unsigned n_pairs;
    atomic_bool is_used;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Launches that the PE serves ---- */

static void destroy(struct ampi_captured *captured)
{
    if (captured->coll)
        ampi_request_destroy(captured->coll);
    else
        ampi_type_unref(captured->args.type);
    ampi_stream_unref(captured->args.stream);
    free(captured);
}

void ampi_captured_drop_use(struct ampi_captured *captured)
{
    if (--captured->n_uses == 0 && captured->is_closed)
        destroy(captured);
}

static void inner_done(struct ampi_request *inner, struct ampi_request *whole)
{
    struct ampi_captured *captured = BASE_CONTAINER(whole, struct ampi_captured, whole);
    struct ampi_comm *comm = captured->args.comm;

    if (BASE_UNLIKELY(inner->status.MPI_ERROR != MPI_SUCCESS))
        ampi_enqueue_report(captured->args.call, comm, captured->args.stream, &inner->status);
    if (inner != captured->coll)
        ampi_request_destroy(inner);
    gpu_graph_release(&captured->end);
    ampi_captured_drop_use(captured);
    ampi_comm_drop_pending(comm);
}

static struct ampi_request *create_inner(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;

    if (args->is_send)
        return ampi_enqueue_create_send(&(struct ampi_send_args){.buf = args->buf,
                                                                 .count = args->count,
                                                                 .type = args->type,
                                                                 .dest = args->peer,
                                                                 .tag = captured->wire_tag,
                                                                 .comm = captured->hidden,
                                                                 .mode = AMPI_SEND_STANDARD});
    return ampi_enqueue_create_recv(&(struct ampi_recv_args){.buf = args->buf,
                                                             .count = args->count,
                                                             .type = args->type,
                                                             .source = args->peer,
                                                             .tag = captured->wire_tag,
                                                             .comm = captured->hidden});
}

static void reached(struct gpu_graph_end *end)
{
    struct ampi_captured *captured = BASE_CONTAINER(end, struct ampi_captured, end);
    struct ampi_request *inner = captured->coll ? captured->coll : create_inner(captured);

    captured->n_uses++;
    captured->args.comm->n_pending++;
    inner->on_complete = NULL;
    if (captured->coll)
        ampi_coll_start_later(inner);
    else
        ampi_enqueue_start_p2p(inner);
    ampi_request_attach(&captured->whole, inner, inner_done);
}

static void lonely(struct gpu_graph_end *end)
{
    const struct ampi_captured *captured = BASE_CONTAINER(end, struct ampi_captured, end);

    base_log("rank %d: a CUDA graph waits at its %s rank %d with tag %d, but that rank has captured no %s "
             "that matches",
             captured->owner->world_rank, captured->args.is_send ? "send to" : "receive from",
             captured->args.peer, captured->args.tag, captured->args.is_send ? "receive" : "send");
}

/* ---- Matching ---- */

/* The earliest end that matches. Lock held. */
static struct ampi_captured *find_other(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    struct ampi_captured *found = NULL;

    for (struct ampi_captured *i = all.first; i; i = i->next)
        if (!i->is_matched && i->args.is_send != args->is_send && i->args.tag == args->tag &&
            i->args.comm->shared == args->comm->shared && i->args.peer == args->comm->rank &&
            i->args.comm->rank == args->peer)
            found = i;
    return found;
}

/* Lock held. */
static void add(struct ampi_captured *captured)
{
    captured->next = all.first;
    all.first = captured;
    atomic_store_explicit(&all.is_used, true, memory_order_release);
}

/* Lock held. */
static int match(struct ampi_captured *captured)
{
    struct ampi_captured *other = find_other(captured);
    struct ampi_captured *send = captured->args.is_send ? captured : other;
    struct ampi_captured *recv = captured->args.is_send ? other : captured;

    if (other && send->n_bytes > recv->n_bytes)
        return MPI_ERR_TRUNCATE;
    if (other) {
        captured->is_matched = other->is_matched = true;
        captured->wire_tag = other->wire_tag = PAIR_TAG_FIRST - (int)(all.n_pairs++ % PAIRS_MAX);
        (void)gpu_graph_agree(&send->end, &recv->end, &captured->end, send->n_bytes);
    }
    add(captured);
    return MPI_SUCCESS;
}

/* The number of this rank's earlier ends with the same other rank, direction and tag. Lock held. */
static unsigned count_alike(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    unsigned n = 0;

    for (const struct ampi_captured *i = all.first; i; i = i->next)
        n += i->args.comm == args->comm && i->args.is_send == args->is_send && i->args.peer == args->peer &&
             i->args.tag == args->tag;
    return n;
}

static void match_remote(struct ampi_captured *captured)
{
    bool is_send = captured->args.is_send;

    captured->is_matched = true;
    (void)gpu_graph_agree(is_send ? &captured->end : NULL, is_send ? NULL : &captured->end, &captured->end,
                          captured->n_bytes);
    pthread_mutex_lock(&all.lock);
    captured->wire_tag =
        REMOTE_TAG_BASE + captured->args.tag * REMOTE_NUMBERS + (int)(count_alike(captured) % REMOTE_NUMBERS);
    add(captured);
    pthread_mutex_unlock(&all.lock);
}

/* ---- Creating ---- */

static int prepare(struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    bool is_block = ampi_type_is_block(args->type, args->count);
    int error =
        gpu_graph_prepare(args->stream->sync, &captured->end,
                          is_block ? (char *)args->buf + args->type->true_lb_bytes : NULL, captured->n_bytes);

    return error ? ampi_enqueue_raise_cuda(args->comm, error) : MPI_SUCCESS;
}

static struct ampi_captured *create(const struct ampi_captured_args *args, uint64_t capture)
{
    struct ampi_captured *made = base_calloc(1, sizeof *made, "a captured operation");

    made->end.reached = reached;
    made->args = *args;
    made->owner = args->comm->owner;
    made->capture = capture;
    ampi_stream_ref(args->stream);
    return made;
}

int ampi_captured_add_end(const struct ampi_captured_args *args, uint64_t capture,
                          struct ampi_captured **made_out)
{
    struct ampi_captured *made = create(args, capture);
    int error;

    made->end.lonely = lonely;
    made->n_bytes = (size_t)args->count * args->type->size_bytes;
    made->hidden = ampi_comm_hidden(args->comm);
    ampi_type_ref(args->type);
    error = made->hidden ? prepare(made)
                         : ampi_raise(args->comm, MPI_ERR_OTHER, "no context id is left: free communicators");
    if (!error && args->comm->peer->layout->pe_of[args->peer] == AMPI_PE_REMOTE) {
        match_remote(made);
    } else if (!error) {
        pthread_mutex_lock(&all.lock);
        error = match(made);
        pthread_mutex_unlock(&all.lock);
        if (error) {
            gpu_graph_forget(&made->end);
            error = ampi_raise(args->comm, error,
                               "the captured send is longer than the captured receive that it matches");
        }
    }
    if (error) {
        destroy(made);
        return error;
    }
    *made_out = made;
    return MPI_SUCCESS;
}

int ampi_captured_add_coll(const struct ampi_captured_args *args, struct ampi_request *coll, uint64_t capture,
                           struct ampi_captured **made_out)
{
    struct ampi_captured *made = create(args, capture);
    int error = gpu_graph_prepare(args->stream->sync, &made->end, NULL, 1);

    made->coll = coll;
    if (error) {
        destroy(made);
        return ampi_enqueue_raise_cuda(args->comm, error);
    }
    made->is_matched = true;
    pthread_mutex_lock(&all.lock);
    (void)gpu_graph_agree(NULL, &made->end, &made->end, 1);
    add(made);
    pthread_mutex_unlock(&all.lock);
    *made_out = made;
    return MPI_SUCCESS;
}

/* ---- The end ---- */

/* Takes the communicator's ends of this rank out of the list. */
static struct ampi_captured *take_all(const struct ampi_comm *comm)
{
    struct ampi_captured **link = &all.first, *captured, *taken = NULL;

    pthread_mutex_lock(&all.lock);
    while ((captured = *link)) {
        if (captured->args.comm != comm) {
            link = &captured->next;
            continue;
        }
        *link = captured->next;
        captured->next = taken;
        taken = captured;
    }
    pthread_mutex_unlock(&all.lock);
    return taken;
}

/* The communicator is freed: its graphs must not be launched any more. */
static void close_comm(struct ampi_comm *comm)
{
    struct ampi_captured *next;

    if (!atomic_load_explicit(&all.is_used, memory_order_acquire))
        return;
    for (struct ampi_captured *captured = take_all(comm); captured; captured = next) {
        next = captured->next;
        gpu_graph_forget(&captured->end);
        if (captured->args.stream->captured)
            captured->args.stream->captured =
                NULL; /* of this communicator or a duplicate: the capture is in vain */
        captured->is_closed = true;
        if (captured->n_uses == 0)
            destroy(captured);
    }
}

void ampi_enqueue_connect(void)
{
    static const struct ampi_comm_client client = {.release = close_comm};

    ampi_comm_add_client(&client);
}
