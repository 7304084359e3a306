/* SPDX-License-Identifier: BSD-3-Clause
 *
 * partitioned.c: partitioned point-to-point communication (MPI 5.0, chapter 4).
 *
 * The two ends agree on a channel when they are created: MPI_Psend_init sends its channel number as a
 * message with the user's tag; MPI_Precv_init receives it, so channels pair up in the order of the init
 * calls, as the standard requires. The data of a started channel is one message with the channel's own tag,
 * sent when the last partition is ready, unless both ends are on one PE (partitioned.h). Both kinds of
 * messages travel on the hidden communicator, where no receive of the program can match them.
 */
#include "ampi/datatype/work_hook.h"
#include "ampi/object/info.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"

/* Data of channel c has tag CHANNEL_TAG_BASE + c; hello messages have the user's tags, which are not
 * negative. */
#define CHANNEL_TAG_BASE (-2000000000)
#define CHANNELS_MAX 1900000000

/* ---- Data ---- */

/* The message of a started channel has been sent, or received. */
static void data_done(struct ampi_request *part, struct ampi_request *whole)
{
    const struct ampi_partitioned *end = whole->u.extra;

    if (end->is_send) {
        whole->status.MPI_ERROR = part->status.MPI_ERROR;
    } else {
        whole->status = part->status;
        whole->status.MPI_TAG = end->tag;
    }
    part->state = AMPI_REQUEST_INACTIVE;
    ampi_prequest_end_round(whole);
    ampi_request_complete(whole); /* this may free it, and part with it */
}

/* The persistent request for the messages of all rounds. */
static struct ampi_request *make_message(struct ampi_request *request, const struct ampi_request_kind *kind)
{
    struct ampi_partitioned *end = request->u.extra;
    struct ampi_request *message = ampi_request_create(request->owner, kind, end->hidden, true);

    message->whole = request;
    message->on_complete = data_done;
    ampi_type_ref(end->type);
    return end->message = message;
}

static void send_data(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;

    if (BASE_UNLIKELY(!end->message)) {
        ampi_send_fill(make_message(request, &ampi_send_kind),
                       &(struct ampi_send_args){.buf = end->buf,
                                                .count = end->count,
                                                .type = end->type,
                                                .dest = end->peer_rank,
                                                .tag = CHANNEL_TAG_BASE + end->channel,
                                                .comm = end->hidden,
                                                .mode = AMPI_SEND_STANDARD});
        ampi_send_keep(end->message, false);
    }
    end->is_sent = true;
    (void)end->message->kind->start(end->message);
}

static void receive_data(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;

    if (BASE_UNLIKELY(!end->message)) {
        ampi_recv_fill(make_message(request, &ampi_recv_kind),
                       &(struct ampi_recv_args){.buf = end->buf,
                                                .count = end->count,
                                                .type = end->type,
                                                .source = end->peer_rank,
                                                .tag = CHANNEL_TAG_BASE + end->channel,
                                                .comm = end->hidden});
        ampi_recv_keep(end->message);
    }
    (void)end->message->kind->start(end->message);
}

/* ---- Creating and freeing an end ---- */

static void free_end(struct ampi_partitioned *end)
{
    ampi_partitioned_unbind(end);
    if (end->message)
        ampi_request_destroy(end->message);
    ampi_pair_unref(end->pair);
    ampi_prequest_destroy(end->prequest);
    ampi_type_unref(end->type);
    free(end->is_ready);
    if (!end->is_send)
        free(end->n_left);
    free(end);
}

/* The round of both ends has begun. */
static void begin_round(struct ampi_request *send, struct ampi_request *recv)
{
    ((struct ampi_partitioned *)recv->u.extra)->is_waiting = false;
    if (!ampi_partitioned_agree(send, recv))
        receive_data(recv);
}

/* A started receive whose hello has arrived. */
static void start_receive(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;
    const struct ampi_partitioned *other = end->peer ? end->peer->u.extra : NULL;

    if (BASE_UNLIKELY(end->hello.is_announced) && ampi_p2p_is_checked(request->comm))
        ampi_p2p_checker.check_partitioned(request);
    end->hello.is_announced = false; /* once */
    if (end->pair && ampi_pair_start_receive(request))
        return;
    if (other && other->round < end->round)
        end->is_waiting = true;
    else if (other && other->round == end->round && !other->is_sent)
        begin_round(end->peer, request);
    else
        receive_data(request);
}

/* Called when a send starts: its receive may have started already. */
static void meet_receive(struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra, *other = end->peer ? end->peer->u.extra : NULL;

    if (other && other->is_waiting && other->round == end->round)
        begin_round(request, end->peer);
}

/* Completes a round without data. */
static void complete(struct ampi_request *request)
{
    ampi_prequest_end_round(request);
    ampi_request_complete(request);
}

static int start(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;
    int error = ampi_prequest_check_start(request);

    if (BASE_UNLIKELY(error))
        return error;
    request->state = AMPI_REQUEST_ACTIVE;
    ampi_status_set_empty(&request->status);
    end->n_ready = 0;
    end->round++;
    end->is_sent = end->is_direct = false;
    if (end->is_send)
        memset(end->is_ready, 0, (size_t)end->n_partitions * sizeof *end->is_ready);
    if (BASE_UNLIKELY(end->prequest != NULL))
        ampi_prequest_start(request);
    if (end->peer_rank == MPI_PROC_NULL) {
        if (!end->is_send)
            ampi_status_set_proc_null(&request->status);
        if (!end->is_send || end->n_partitions == 0)
            complete(request);
    } else if (end->is_send && end->n_partitions == 0) {
        send_data(request);
    } else if (end->is_send) {
        meet_receive(request);
    } else if (end->channel >= 0) {
        start_receive(request);
    } else {
        end->is_waiting_for_hello = true;
    }
    return MPI_SUCCESS;
}

static void release(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;

    if (!end->is_send && end->channel < 0 && end->peer_rank != MPI_PROC_NULL) {
        end->is_dropped = true; /* the hello will free it */
        ampi_prequest_destroy(end->prequest);
        end->prequest = NULL;
    } else {
        free_end(end);
    }
}

/* A send is settled when its partitions are ready. */
static void settle(const struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;

    if (!end->is_send)
        ampi_work_before(end->buf, end->count, end->type, true);
}

static const struct ampi_request_kind partitioned_kind = {
    .name = "partitioned operation",
    .start = start,
    .settle = settle,
    .release = release,
};

static struct ampi_p2p_message message_of(const struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;

    if (request->kind != &partitioned_kind)
        return (struct ampi_p2p_message){.role = AMPI_P2P_REPORTS_ITSELF};
    return (struct ampi_p2p_message){end->is_send ? AMPI_P2P_SENDS : AMPI_P2P_RECEIVES, end->peer_rank,
                                     end->tag, end->count, end->type};
}

bool ampi_request_is_partitioned(const struct ampi_request *request)
{
    return request && request->kind == &partitioned_kind;
}

/* NULL after raising an error if no context id is left for the hidden communicator. */
static struct ampi_request *create(struct ampi_rank *self, bool is_send, int n_partitions, void *buf,
                                   MPI_Count count, struct ampi_type *type, int peer_rank, int tag,
                                   struct ampi_comm *comm)
{
    struct ampi_comm *hidden = ampi_comm_hidden(comm);
    struct ampi_request *request;
    struct ampi_partitioned *end;

    if (BASE_UNLIKELY(!hidden)) {
        ampi_raise(comm, MPI_ERR_OTHER, "no context id is left: free communicators that are not needed");
        return NULL;
    }
    __atomic_store_n(&ampi_p2p_partitioned_message, message_of, __ATOMIC_RELAXED);
    request = ampi_request_create(self, &partitioned_kind, comm, true);
    end = base_calloc(1, sizeof *end, "a partitioned operation");
    *end = (struct ampi_partitioned){.is_send = is_send,
                                     .n_partitions = n_partitions,
                                     .buf = buf,
                                     .count = count * n_partitions,
                                     .type = type,
                                     .peer_rank = peer_rank,
                                     .tag = tag,
                                     .hidden = hidden,
                                     .channel = -1};
    ampi_type_ref(type);
    if (is_send)
        end->is_ready = base_calloc((size_t)n_partitions, sizeof *end->is_ready, "a partitioned operation");
    request->u.extra = end;
    return request;
}

/* The hello of a receiving end has arrived. whole is the program's request, which may have been freed. */
static void hello_done(struct ampi_request *part, struct ampi_request *whole)
{
    struct ampi_partitioned *end = BASE_CONTAINER(part->u.p2p.buf, struct ampi_partitioned, hello);

    ampi_request_destroy(part);
    if (end->is_dropped) {
        end->pair = end->hello.pair;
        free_end(end);
        return;
    }
    end->channel = end->hello.channel;
    end->pair = end->hello.pair;
    ampi_partitioned_bind(whole);
    if (end->is_waiting_for_hello) {
        end->is_waiting_for_hello = false;
        start_receive(whole);
    }
}

static int check_partitions(struct ampi_comm *comm, int partitions, MPI_Count count,
                            const struct ampi_type *type, MPI_Info info, const MPI_Request *request)
{
    MPI_Count n_elems;

    if (BASE_UNLIKELY(info != MPI_INFO_NULL && !ampi_info_of(comm->owner, info)))
        return ampi_raise(comm, MPI_ERR_INFO, "the info argument is not a valid info object");
    if (BASE_UNLIKELY(partitions < 0))
        return ampi_raise(comm, MPI_ERR_ARG, "the number of partitions %d is negative", partitions);
    if (BASE_UNLIKELY(__builtin_mul_overflow(count, partitions, &n_elems) ||
                      ampi_type_is_too_much(type, n_elems)))
        return ampi_raise(comm, MPI_ERR_COUNT, "%d partitions of " AMPI_TYPE_TOO_MUCH, partitions,
                          (long long)count, (long long)type->size_bytes);
    if (BASE_UNLIKELY(!request))
        return ampi_raise(comm, MPI_ERR_ARG, "the address of the request is NULL");
    return MPI_SUCCESS;
}

/* Sends the hello and waits. If the destination has failed, the error is returned by the operation, not here:
 * nothing may be raised on the hidden communicator, whose errors are fatal. */
static void send_hello(struct ampi_rank *self, const struct ampi_partitioned *end)
{
    size_t n_bytes = end->hello.is_announced ? sizeof end->hello : offsetof(struct ampi_hello, announced);
    struct ampi_request *sent = ampi_send_start(self, &(struct ampi_send_args){.buf = &end->hello,
                                                                               .count = (MPI_Count)n_bytes,
                                                                               .type = ampi_type_of(MPI_BYTE),
                                                                               .dest = end->peer_rank,
                                                                               .tag = end->tag,
                                                                               .comm = end->hidden,
                                                                               .mode = AMPI_SEND_STANDARD});

    ampi_request_await(sent);
    ampi_request_destroy(sent);
}

AMPI_EXPORT(Psend_init);
int PMPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                    int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Psend_init");
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};
    struct ampi_request *made;
    struct ampi_partitioned *end;
    struct ampi_marks_choice marks = {false, false};
    int error = ampi_check_send(self, datatype, comm, &args);

    if (error || (error = check_partitions(args.comm, partitions, count, args.type, info, request)) ||
        (info != MPI_INFO_NULL && (error = ampi_marks_choose(args.comm, info, &marks))))
        return error;
    made = create(self, true, partitions, (void *)buf, count, args.type, dest, tag, args.comm);
    if (BASE_UNLIKELY(!made))
        return MPI_ERR_OTHER;
    end = made->u.extra;
    end->marks = marks;
    if (dest != MPI_PROC_NULL) {
        end->channel = (int)(end->hidden->next_channel++ % CHANNELS_MAX);
        if (end->hidden->peer->layout->pe_of[dest] != AMPI_PE_REMOTE)
            end->pair = ampi_pair_create();
        end->hello = (struct ampi_hello){.channel = end->channel, .pair = end->pair, .request = made};
        if (ampi_p2p_is_checked(args.comm)) {
            ampi_p2p_checker.announce_partitioned(made, end->hello.announced);
            end->hello.is_announced = true;
        }
        send_hello(self, end);
    }
    *request = (MPI_Request)made;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Precv_init);
int PMPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                    MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Precv_init");
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    struct ampi_request *made, *hello;
    struct ampi_partitioned *end;
    int error = ampi_check_recv(self, datatype, comm, &args);

    if (error || (error = check_partitions(args.comm, partitions, count, args.type, info, request)))
        return error;
    if (BASE_UNLIKELY(source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG))
        return ampi_raise(args.comm, source == MPI_ANY_SOURCE ? MPI_ERR_RANK : MPI_ERR_TAG,
                          "partitioned receives do not support wildcards");
    made = create(self, false, partitions, buf, count, args.type, source, tag, args.comm);
    if (BASE_UNLIKELY(!made))
        return MPI_ERR_OTHER;
    end = made->u.extra;
    if (source != MPI_PROC_NULL) {
        hello = ampi_recv_start(self, &(struct ampi_recv_args){.buf = &end->hello,
                                                               .count = sizeof end->hello,
                                                               .type = ampi_type_of(MPI_BYTE),
                                                               .source = source,
                                                               .tag = tag,
                                                               .comm = end->hidden});
        ampi_request_attach(made, hello, hello_done);
    }
    *request = (MPI_Request)made;
    return MPI_SUCCESS;
}

/* ---- Partitions ---- */

/* request NULL: it is not partitioned. */
static BASE_COLD int raise_ready(const struct ampi_request *request, int partition)
{
    const struct ampi_partitioned *end = request ? request->u.extra : NULL;

    if (!end || !end->is_send)
        return ampi_raise_self(MPI_ERR_REQUEST, "the request is not a partitioned send");
    if (!ampi_request_is_active(request))
        return ampi_raise(request->comm, MPI_ERR_REQUEST, "the partitioned send has not been started");
    return ampi_raise(request->comm, MPI_ERR_ARG, "partition %d is not one of 0 to %d", partition,
                      end->n_partitions - 1);
}

/* The sending end for MPI_Pready, after checking a range of its partitions. */
static inline int check_ready(MPI_Request handle, int low, int high, struct ampi_request **request_out)
{
    struct ampi_request *request = ampi_request_of(handle);
    const struct ampi_partitioned *end;

    if (BASE_UNLIKELY(!request || request->kind != &partitioned_kind))
        return raise_ready(NULL, low);
    end = request->u.extra;
    if (BASE_UNLIKELY(!end->is_send || !ampi_request_is_active(request) || low < 0 ||
                      high >= end->n_partitions))
        return raise_ready(request, low < 0 ? low : high);
    *request_out = request;
    return MPI_SUCCESS;
}

static BASE_COLD int raise_ready_twice(const struct ampi_request *request, int partition)
{
    return ampi_raise(request->comm, MPI_ERR_ARG, "partition %d was already marked ready", partition);
}

static inline int mark_ready(struct ampi_request *request, int partition)
{
    struct ampi_partitioned *end = request->u.extra;

    if (BASE_UNLIKELY(end->is_ready[partition]))
        return raise_ready_twice(request, partition);
    if (BASE_UNLIKELY(end->prequest != NULL))
        return ampi_prequest_ready(request, partition) ? MPI_SUCCESS : raise_ready_twice(request, partition);
    end->is_ready[partition] = true;
    if (end->is_direct)
        ampi_partitioned_copy(end, partition);
    if (++end->n_ready < end->n_partitions)
        return MPI_SUCCESS;
    if (end->is_direct)
        ampi_partitioned_finish(request);
    else
        ampi_partitioned_send(request);
    return MPI_SUCCESS;
}

/* Makes the partitions' data current that work requests have written since the start. */
static inline void settle_ready(const struct ampi_request *request, int low, int high)
{
    const struct ampi_partitioned *end = request->u.extra;
    MPI_Count n_elems = end->count / end->n_partitions;

    if (high >= low && end->peer_rank != MPI_PROC_NULL)
        ampi_work_before((const char *)end->buf + low * n_elems * end->type->extent_bytes,
                         (high - low + 1) * n_elems, end->type, false);
}

/* True if it has a prequest: then marking the last partition does not complete it at once. */
static inline bool is_for_kernels(const struct ampi_request *request)
{
    return ((const struct ampi_partitioned *)request->u.extra)->prequest != NULL;
}

void ampi_partitioned_send(struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;

    if (end->peer_rank == MPI_PROC_NULL)
        complete(request);
    else
        send_data(request);
}

AMPI_EXPORT(Pready);
int PMPI_Pready(int partition, MPI_Request request)
{
    struct ampi_request *object = NULL;
    bool has_prequest;
    int error;

    ampi_enter("MPI_Pready");
    error = check_ready(request, partition, partition, &object);
    if (BASE_UNLIKELY(error))
        return error;
    settle_ready(object, partition, partition);
    has_prequest = is_for_kernels(object);
    error = mark_ready(object, partition);
    if (BASE_UNLIKELY(has_prequest))
        ampi_prequest_flush(object);
    return error;
}

AMPI_EXPORT(Pready_range);
int PMPI_Pready_range(int partition_low, int partition_high, MPI_Request request)
{
    struct ampi_request *object = NULL;
    bool has_prequest;
    int error;

    ampi_enter("MPI_Pready_range");
    error = check_ready(request, partition_low, partition_high, &object);
    if (!error)
        settle_ready(object, partition_low, partition_high);
    has_prequest = !error && is_for_kernels(object);
    for (int i = partition_low; i <= partition_high && !error; i++)
        error = mark_ready(object, i);
    if (BASE_UNLIKELY(has_prequest))
        ampi_prequest_flush(object);
    return error;
}

AMPI_EXPORT(Pready_list);
int PMPI_Pready_list(int length, const int array_of_partitions[], MPI_Request request)
{
    struct ampi_request *object = NULL;
    bool has_prequest;
    int error = MPI_SUCCESS;

    ampi_enter("MPI_Pready_list");
    if (BASE_UNLIKELY(length < 0 || (length > 0 && !array_of_partitions)))
        return ampi_raise_self(MPI_ERR_ARG, "a list of %d partitions", length);
    for (int i = 0; i < length && !error; i++)
        error = check_ready(request, array_of_partitions[i], array_of_partitions[i], &object);
    for (int i = 0; i < length && !error; i++)
        settle_ready(object, array_of_partitions[i], array_of_partitions[i]);
    has_prequest = !error && length > 0 && is_for_kernels(object);
    for (int i = 0; i < length && !error; i++)
        error = mark_ready(object, array_of_partitions[i]);
    if (BASE_UNLIKELY(has_prequest))
        ampi_prequest_flush(object);
    return error;
}

AMPI_EXPORT(Parrived);
int PMPI_Parrived(MPI_Request request, int partition, int *flag)
{
    struct ampi_request *object = ampi_request_of(request);
    const struct ampi_partitioned *end;

    ampi_enter("MPI_Parrived");
    if (BASE_UNLIKELY(!flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    if (request == MPI_REQUEST_NULL) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (BASE_UNLIKELY(!ampi_request_is_partitioned(object) ||
                      ((struct ampi_partitioned *)object->u.extra)->is_send))
        return ampi_raise_self(MPI_ERR_REQUEST, "the request is not a partitioned receive");
    end = object->u.extra;
    if (BASE_UNLIKELY(partition < 0 || partition >= end->n_partitions))
        return ampi_raise(object->comm, MPI_ERR_ARG, "partition %d is not one of 0 to %d", partition,
                          end->n_partitions - 1);
    if (ampi_request_is_active(object) && !end->is_direct)
        ult_progress();
    *flag = !ampi_request_is_active(object) || (end->is_direct && end->n_left[partition] == 0) ||
            (BASE_UNLIKELY(end->is_by_kernels) && ampi_prequest_has_arrived(object, partition));
    if (!*flag)
        ult_yield();
    return MPI_SUCCESS;
}
