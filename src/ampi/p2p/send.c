/* SPDX-License-Identifier: BSD-3-Clause
 *
 * send.c: the sending half of a message, from MPI_Send down to the destination's PE.
 *
 * Routes. Same PE: directly into the destination's matching engine. Other PE of this process: an item
 * through that PE's inbox, with the data in it, in a message of the pool, or in the sender's buffer until
 * the receiver fetches it. Other process: through the machine (remote_send.c). Data on a GPU always waits
 * in the sender's buffer (p2p_device.h).
 */
#include "ampi/p2p/channel.h"
#include "ampi/p2p/choices.h"
#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_watch.h"
#include "ult/shuffle.h"

/* Starts after which a persistent send no longer looks for a receive to be bound to. */
#define BIND_TRIES 64

/* Prefetched of a message while its receive is looked for. */
#define PREFETCH_BYTES 1024

/* The destination of a message. */
struct where {
    int dest;
    int tag;
};

/* The content of the items between PEs. */
struct send_item {
    struct ampi_comm *dest; /* the destination's handle */
    int source;             /* the sender's rank in the communicator */
    int tag;
    union {
        struct {
            uint32_t n_bytes;
            unsigned char data[ULT_ITEM_BYTES - 20];
        } inline_data;
        struct ampi_message *message;
        struct {
            struct ampi_request *request;
            size_t size_bytes;
        } rendezvous;
    } u;
};
_Static_assert(sizeof(struct send_item) <= ULT_ITEM_BYTES, "fits into an inbox item");

#define INLINE_MAX_BYTES sizeof(((struct send_item *)0)->u.inline_data.data)

/* The PE on which a member of the peer side runs. */
static inline int dest_pe(const struct ampi_comm *comm, int dest)
{
    return comm->peer->layout->pe_of[dest];
}

/* ---- Same PE ---- */

/* Matched already: copies into the receive, from layout to layout. */
static inline bool try_same_pe(struct ampi_rank *self, const struct ampi_send_args *args, size_t n_bytes)
{
    struct ampi_comm *dest = &args->comm->peer->handles[args->dest];
    int source = args->comm->rank;
    struct ampi_match_node *node;
    struct ampi_message *message;

    if (BASE_UNLIKELY(gpu_is_active) && n_bytes > AMPI_EAGER_MAX_BYTES)
        return false; /* the receive may be into a device buffer, which takes a while */
    node = ampi_match_take_posted(&dest->match, source, args->tag);
    if (node) {
        struct ampi_request *recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
        recv->u.p2p.is_posted = false;
        if (BASE_UNLIKELY(recv->u.p2p.is_device)) {
            message = ampi_message_alloc(self->messages, n_bytes);
            ampi_p2p_pack(message->data, args, n_bytes);
            ampi_device_take_message(recv, message, source, args->tag);
            return true;
        }
        if (BASE_LIKELY(ampi_type_is_block(args->type, args->count))) {
            ampi_p2p_unpack((const char *)args->buf + args->type->true_lb_bytes, n_bytes, source, args->tag,
                            recv->u.p2p.buf, recv->u.p2p.count, recv->u.p2p.type, &recv->status);
        } else {
            struct ampi_request sender = {
                .u.p2p = {.buf = (void *)args->buf, .count = args->count, .type = args->type}};
            ampi_p2p_copy_from_sender(&sender, n_bytes, source, args->tag, recv->u.p2p.buf, recv->u.p2p.count,
                                      recv->u.p2p.type, &recv->status);
        }
        ampi_request_complete(recv);
        self->n_sent[AMPI_ROUTE_SAME_PE]++;
        return true;
    }
    if (n_bytes > AMPI_EAGER_MAX_BYTES || args->mode == AMPI_SEND_SYNCHRONOUS)
        return false;
    message = ampi_message_alloc(self->messages, n_bytes);
    ampi_p2p_pack(message->data, args, n_bytes);
    ampi_message_keep(dest, message, source, args->tag);
    self->n_sent[AMPI_ROUTE_SAME_PE]++;
    return true;
}

/* ---- Other PE of this process ---- */

static void handle_inline(const struct ult_item *item)
{
    const struct send_item *send = (const struct send_item *)item->body;

    ampi_p2p_deliver_bytes(send->dest->owner->messages, send->dest, send->source, send->tag,
                           send->u.inline_data.data, send->u.inline_data.n_bytes);
}

static void handle_message(const struct ult_item *item)
{
    const struct send_item *send = (const struct send_item *)item->body;

    for (size_t at = 0; at < PREFETCH_BYTES; at += BASE_CACHE_LINE)
        __builtin_prefetch((const char *)send->u.message + at);
    ampi_p2p_deliver_message(send->dest->owner->messages, send->dest, send->source, send->tag,
                             send->u.message);
}

static void handle_rendezvous(const struct ult_item *item)
{
    const struct send_item *send = (const struct send_item *)item->body;

    __builtin_prefetch(&send->u.rendezvous.request->u.p2p.buf); /* prefetched during matching */
    __builtin_prefetch(&send->u.rendezvous.request->u.p2p.is_device);
    ampi_p2p_deliver_rendezvous(send->dest->owner->messages, send->dest, send->source, send->tag,
                                send->u.rendezvous.request, send->u.rendezvous.size_bytes);
}

static bool try_other_pe(struct ampi_rank *self, const struct ampi_send_args *args, size_t n_bytes, int pe_id)
{
    struct ult_item item;
    struct send_item *send = (struct send_item *)item.body;

    if (n_bytes > AMPI_EAGER_MAX_BYTES || args->mode == AMPI_SEND_SYNCHRONOUS)
        return false;
    send->dest = &args->comm->peer->handles[args->dest];
    send->source = args->comm->rank;
    send->tag = args->tag;
    if (n_bytes <= INLINE_MAX_BYTES) {
        item.handle = handle_inline;
        send->u.inline_data.n_bytes = (uint32_t)n_bytes;
        ampi_p2p_pack(send->u.inline_data.data, args, n_bytes);
    } else {
        item.handle = handle_message;
        send->u.message = ampi_message_alloc(self->messages, n_bytes);
        /* The receiver of an earlier message has its lines. */
        for (size_t at = 0; at < n_bytes; at += BASE_CACHE_LINE)
            base_own_line(send->u.message->data + at);
        ampi_p2p_pack(send->u.message->data, args, n_bytes);
    }
    ult_post_item(ult_pe_get(pe_id), &item);
    self->n_sent[AMPI_ROUTE_OTHER_PE]++;
    return true;
}

/* ---- All routes ---- */

/* Of data that the CPU can read. */
static inline bool try_from_host(struct ampi_rank *self, const struct ampi_send_args *args)
{
    size_t n_bytes = (size_t)(args->count * args->type->size_bytes);
    int pe_id = dest_pe(args->comm, args->dest);

    if (pe_id == self->pe_id)
        return try_same_pe(self, args, n_bytes);
    if (BASE_UNLIKELY(pe_id == AMPI_PE_REMOTE))
        return ampi_remote_try_send(self, args, n_bytes);
    return try_other_pe(self, args, n_bytes, pe_id);
}

bool ampi_send_try(struct ampi_rank *self, const struct ampi_send_args *args)
{
    return !ampi_device_has(args->buf, args->count, args->type) && try_from_host(self, args);
}

/* Queues a request whose memory is known: is_device. */
static BASE_NOINLINE void queue(struct ampi_rank *self, struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    size_t n_bytes = (size_t)(p2p->count * p2p->type->size_bytes);
    struct ampi_comm *dest = &request->comm->peer->handles[p2p->peer_rank];
    int pe_id = dest_pe(request->comm, p2p->peer_rank);
    struct ult_item item;
    struct send_item *send = (struct send_item *)item.body;

    if (pe_id == self->pe_id) {
        self->n_sent[AMPI_ROUTE_SAME_PE]++;
        ampi_p2p_deliver_rendezvous(self->messages, dest, request->comm->rank, p2p->tag, request, n_bytes);
        return;
    }
    if (BASE_UNLIKELY(pe_id == AMPI_PE_REMOTE)) {
        self->n_sent[AMPI_ROUTE_OTHER_PROCESS]++;
        ampi_remote_send(self, request);
        return;
    }
    self->n_sent[AMPI_ROUTE_OTHER_PE]++;
    if (BASE_UNLIKELY(p2p->is_device))
        ampi_device_count_away(1);
    item.handle = handle_rendezvous;
    send->dest = dest;
    send->source = request->comm->rank;
    send->tag = p2p->tag;
    send->u.rendezvous.request = request;
    send->u.rendezvous.size_bytes = n_bytes;
    ult_post_item(ult_pe_get(pe_id), &item);
}

void ampi_send_queue(struct ampi_rank *self, struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    p2p->is_device = ampi_device_has(p2p->buf, p2p->count, p2p->type);
    queue(self, request);
}

void ampi_send_queue_device(struct ampi_rank *self, struct ampi_request *request)
{
    request->u.p2p.is_device = true;
    queue(self, request);
}

void ampi_send_fill(struct ampi_request *request, const struct ampi_send_args *args)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    p2p->buf = (void *)args->buf;
    p2p->count = args->count;
    p2p->type = args->type;
    p2p->peer_rank = args->dest;
    p2p->tag = args->tag;
    p2p->mode = (uint8_t)args->mode;
    p2p->n_tries = 0;
    p2p->is_posted = false;
    p2p->is_device = false; /* until it is queued */
}

static void release_send(struct ampi_request *request)
{
    ampi_type_unref(request->u.p2p.type);
}

/* Binds a persistent send that is not bound yet, if its receive is on this PE, and posted. Sends that often
 * meet other receives stop looking. */
static bool try_bind(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    if (p2p->n_tries >= BIND_TRIES || request->kind != &ampi_send_kind || p2p->peer_rank == MPI_PROC_NULL ||
        dest_pe(request->comm, p2p->peer_rank) != request->owner->pe_id)
        return false;
    p2p->n_tries++;
    return ampi_channel_bind(request);
}

/* MPI_Start of a persistent send. */
static int start_send(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_send_args args = {p2p->buf, p2p->count,    p2p->type, p2p->peer_rank,
                                  p2p->tag, request->comm, p2p->mode};

    ampi_status_set_empty(&request->status);
    if (try_bind(request))
        return request->kind->start(request);
    request->state = AMPI_REQUEST_ACTIVE;
    if (args.dest == MPI_PROC_NULL) {
        ampi_request_complete(request);
        return MPI_SUCCESS;
    }
    p2p->is_device = ampi_request_is_on_device(request);
    if (!p2p->is_device && try_from_host(request->owner, &args))
        ampi_request_complete(request);
    else
        queue(request->owner, request);
    return MPI_SUCCESS;
}

const struct ampi_request_kind ampi_send_kind = {
    .name = "send",
    .start = start_send,
    .cancel = ampi_send_cancel,
    .release = release_send,
};

static inline __attribute__((always_inline)) struct ampi_request *start(struct ampi_rank *self,
                                                                        const struct ampi_send_args *args)
{
    struct ampi_request *request;

    if (args->dest == MPI_PROC_NULL || BASE_LIKELY(ampi_send_try(self, args)))
        return &ampi_request_done;
    request = ampi_request_create(self, &ampi_send_kind, args->comm, false);
    ampi_send_fill(request, args);
    ampi_type_ref(args->type);
    ampi_send_queue(self, request);
    return request;
}

/* The arguments of a call that leaves the fast path, in registers: their address would make the compiler assume that
 * they change on the whole path. */
#define IN_REGISTERS(args)                                                                             \
    (args)->buf, (args)->count, (args)->type, (args)->comm, (struct where){(args)->dest, (args)->tag}, \
        (args)->mode

/* A standard send may wait for its receive. Programs rely on short messages not to wait. The seed chooses how many
 * wait: none, some or all. */
static void choose_mode(struct ampi_send_args *args)
{
    static const uint32_t one_in[] = {UINT32_MAX, 4, 1};

    if ((args->comm->at_post & AMPI_AT_POST_SHUFFLED) && args->mode == AMPI_SEND_STANDARD &&
        (ult_shuffles
             ? ult_random(one_in[ult_random_trait(1, BASE_COUNT(one_in))]) == 0 && ult_random_counts()
             : ampi_schedule == AMPI_SCHEDULE_CHOICES && ampi_choices_sends_wait()))
        args->mode = AMPI_SEND_SYNCHRONOUS;
}

/* +check usage: gives a complete send its own request, so that its buffer is known until the program waits for it. */
static struct ampi_request *create_done(const struct ampi_send_args *args)
{
    struct ampi_request *request = ampi_request_create(args->comm->owner, &ampi_send_kind, args->comm, false);

    ampi_send_fill(request, args);
    ampi_type_ref(args->type);
    request->state = AMPI_REQUEST_COMPLETE;
    request->status = ampi_request_done.status;
    return request;
}

static BASE_COLD struct ampi_request *start_specially(const void *buf, MPI_Count count,
                                                      struct ampi_type *type, struct ampi_comm *comm,
                                                      struct where where, enum ampi_send_mode mode)
{
    struct ampi_send_args args = {buf, count, type, where.dest, where.tag, comm, mode};
    struct ampi_request *request;

    choose_mode(&args);
    ampi_p2p_before_send(&args);
    request = start(comm->owner, &args);
    if (request != &ampi_request_done) {
        ampi_p2p_watch(request);
        return request;
    }
    ampi_p2p_after_send(&args);
    return ampi_p2p_is_checked(comm) ? create_done(&args) : request;
}

struct ampi_request *ampi_send_start(struct ampi_rank *self, const struct ampi_send_args *args)
{
    return BASE_LIKELY(!args->comm->at_post) ? start(self, args) : start_specially(IN_REGISTERS(args));
}

static inline __attribute__((always_inline)) int run(struct ampi_rank *self,
                                                     const struct ampi_send_args *args)
{
    struct ampi_request request;

    if (args->dest == MPI_PROC_NULL || BASE_LIKELY(ampi_send_try(self, args)))
        return MPI_SUCCESS;
    ampi_request_init_on_stack(&request, self, &ampi_send_kind, args->comm);
    request.status.MPI_ERROR = MPI_SUCCESS;
    ampi_send_fill(&request, args);
    ampi_send_queue(self, &request);
    ampi_request_await(&request);
    return ampi_p2p_result(args->comm, &request.status);
}

static BASE_COLD int run_specially(const void *buf, MPI_Count count, struct ampi_type *type,
                                   struct ampi_comm *comm, struct where where, enum ampi_send_mode mode)
{
    struct ampi_send_args args = {buf, count, type, where.dest, where.tag, comm, mode};
    int error;

    choose_mode(&args);
    ampi_p2p_before_send(&args);
    error = run(comm->owner, &args);
    if (!error)
        ampi_p2p_after_send(&args);
    return error;
}

int ampi_send_blocking(struct ampi_rank *self, const struct ampi_send_args *args)
{
    return BASE_LIKELY(!args->comm->at_post) ? run(self, args) : run_specially(IN_REGISTERS(args));
}

/* MPI_Send and MPI_Send_c. */
static ULT_JUMPS_BACK BASE_NOINLINE BASE_FLATTEN int
send_either(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct ampi_rank *self = ampi_entered();
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_STANDARD};
    int error = ampi_check_send(self, datatype, comm, &args);

    if (BASE_UNLIKELY(error))
        return error;
    return ampi_send_blocking(self, &args);
}

AMPI_EXPORT(Send);
int PMPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    ampi_enter("MPI_Send");
    return send_either(buf, count, datatype, dest, tag, comm);
}

AMPI_EXPORT(Send_c);
int PMPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    ampi_enter("MPI_Send_c");
    return send_either(buf, count, datatype, dest, tag, comm);
}
