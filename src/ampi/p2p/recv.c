/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recv.c: the receiving half of a message, from MPI_Recv down to the matching engine.
 */
#include <stdio.h>

#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_failure.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/schedule.h"

void ampi_status_set_proc_null(MPI_Status *status)
{
    ampi_status_set_empty(status);
    status->MPI_SOURCE = MPI_PROC_NULL;
}

bool ampi_p2p_describe_truncated(const struct ampi_comm *comm, const MPI_Status *status, char *text,
                                 size_t size_bytes)
{
    char send[800] = "";

    if (status->MPI_ERROR != MPI_ERR_TRUNCATE || status->MPI_SOURCE < 0)
        return false;
    if (comm && ampi_p2p_is_checked(comm))
        ampi_p2p_checker.describe_long_send(comm, status, send, sizeof send);
    snprintf(text, size_bytes,
             "the message from rank %d with tag %d is longer than the receive's %lld bytes%s",
             status->MPI_SOURCE, status->MPI_TAG, (long long)ampi_status_bytes(status), send);
    return true;
}

void ampi_p2p_drop_error(const struct ampi_request *request)
{
    char text[8];

    if (BASE_UNLIKELY(request->status.MPI_ERROR == MPI_ERR_TRUNCATE) && ampi_request_is_recv(request) &&
        ampi_p2p_is_checked(request->comm))
        ampi_p2p_checker.describe_long_send(request->comm, &request->status, text, sizeof text);
}

static BASE_COLD int raise_failed(struct ampi_comm *comm, const MPI_Status *status)
{
    const char *gpu_text;
    char text[900];

    if (ampi_p2p_describe_truncated(comm, status, text, sizeof text))
        return ampi_raise_on_comm(comm, MPI_ERR_TRUNCATE, "%s", text);
    if (status->MPI_ERROR == MPI_ERR_TRUNCATE)
        return ampi_raise_on_comm(comm, MPI_ERR_TRUNCATE,
                                  "another rank sent more data than fits into this rank's buffer");
    if (status->MPI_ERROR == MPI_ERR_COUNT) /* of a collective */
        return ampi_raise_on_comm(
            comm, MPI_ERR_COUNT,
            "another rank sent less data than this rank receives, or the ranks contribute "
            "different amounts of data to a reduction");
    if (status->MPI_ERROR == MPI_ERR_PROC_ABORTED)
        return ampi_p2p_raise_failed(comm);
    gpu_text = ampi_device_error_text(ampi_self(), status->MPI_ERROR);
    if (gpu_text)
        return ampi_raise_on_comm(comm, status->MPI_ERROR, AMPI_DEVICE_FAILED, gpu_text);
    return ampi_raise_on_comm(comm, status->MPI_ERROR, "the operation failed");
}

int ampi_p2p_result(struct ampi_comm *comm, const MPI_Status *status)
{
    return BASE_LIKELY(status->MPI_ERROR == MPI_SUCCESS) ? MPI_SUCCESS : raise_failed(comm, status);
}

bool ampi_recv_try(struct ampi_rank *self, const struct ampi_recv_args *args, MPI_Status *status)
{
    struct ampi_match_node *node = ampi_match_take_unexpected(&args->comm->match, args->source, args->tag);
    struct ampi_message *message;

    if (!node)
        return false;
    message = BASE_CONTAINER(node, struct ampi_message, node);
    if (ampi_message_is_away(message, args->buf, args->count, args->type)) {
        args->comm->away = message;
        return false;
    }
    ampi_message_consume(self, message, args->buf, args->count, args->type, status);
    return true;
}

bool ampi_recv_try_known(struct ampi_request *request, const struct ampi_recv_args *args)
{
    struct ampi_match_node *node = ampi_match_take_unexpected(&args->comm->match, args->source, args->tag);
    struct ampi_message *message;

    if (!node)
        return false;
    message = BASE_CONTAINER(node, struct ampi_message, node);
    if ((BASE_UNLIKELY(message->is_remote) && ampi_remote_is_away(message)) || request->u.p2p.is_device ||
        (BASE_UNLIKELY(gpu_is_active) &&
         ampi_message_is_moved(message, args->buf, args->count, args->type))) {
        args->comm->away = message;
        return false;
    }
    ampi_message_consume(request->owner, message, args->buf, args->count, args->type, &request->status);
    return true;
}

bool ampi_recv_post_specially(struct ampi_request *request, int source)
{
    struct ampi_comm *comm = request->comm;
    struct ampi_message *away = comm->away;

    comm->away = ampi_p2p_mark_of(comm);
    if (away != &ampi_message_failed_mark && away != &ampi_message_watch_mark)
        ampi_message_receive(away, request);
    else if (comm->has_failed && ampi_p2p_is_failed(comm, source))
        ampi_p2p_fail_recv(request);
    else
        return false;
    return true;
}

void ampi_recv_post(struct ampi_request *request, int source, int tag)
{
    if (BASE_UNLIKELY(request->comm->away != NULL) && ampi_recv_post_specially(request, source))
        return;
    request->u.p2p.is_posted = true;
    ampi_match_add_posted(&request->comm->match, &request->u.p2p.node, source, tag);
}

void ampi_recv_fill(struct ampi_request *request, const struct ampi_recv_args *args)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    p2p->buf = args->buf;
    p2p->count = args->count;
    p2p->type = args->type;
    p2p->is_posted = false;
    p2p->is_device = ampi_device_has(args->buf, args->count, args->type);
    p2p->node.source = args->source;
    p2p->node.tag = args->tag;
}

static void release_recv(struct ampi_request *request)
{
    ampi_type_unref(request->u.p2p.type);
}

/* Receives at once, or posts: the common part of MPI_Irecv and MPI_Start. */
static void start_active(struct ampi_request *request, const struct ampi_recv_args *args)
{
    if (args->source == MPI_PROC_NULL) {
        ampi_status_set_proc_null(&request->status);
        ampi_request_complete(request);
    } else if ((BASE_LIKELY(!args->comm->at_post) ||
                !ampi_schedule_defers(args->comm, args->source, args->tag)) &&
               ampi_recv_try_known(request, args)) {
        ampi_request_complete(request);
    } else {
        ampi_recv_post(request, args->source, args->tag);
    }
}

/* Where a message comes from. */
struct where {
    int source;
    int tag;
};

static inline void start_filled(struct ampi_request *request, const struct ampi_recv_args *args)
{
    ampi_recv_fill(request, args);
    ampi_type_ref(args->type);
    start_active(request, args);
}

/* In a call that leaves the fast path, with arguments in registers (see send.c). */
static BASE_COLD struct ampi_request *start_specially(struct ampi_request *request, void *buf,
                                                      MPI_Count count, struct ampi_type *type,
                                                      struct where where)
{
    struct ampi_recv_args args = {buf, count, type, where.source, where.tag, request->comm};

    request->u.p2p.peer_rank = ampi_schedule_receive(request->comm, &args.source, &args.tag);
    ampi_p2p_before_recv(&args);
    ampi_p2p_watch(request);
    start_filled(request, &args);
    return request;
}

/* MPI_Start of a persistent receive: its source and tag are kept in the node. */
static int start_recv(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_recv_args args = {p2p->buf,         p2p->count,    p2p->type,
                                  p2p->node.source, p2p->node.tag, request->comm};

    p2p->is_device = ampi_request_is_on_device(request);
    request->state = AMPI_REQUEST_ACTIVE;
    if (ampi_schedule_asks())
        ampi_schedule_start(request, &args);
    start_active(request, &args);
    return MPI_SUCCESS;
}

void ampi_recv_end_cancelled(struct ampi_request *request)
{
    request->u.p2p.is_posted = false;
    ampi_status_set_empty(&request->status);
    ampi_status_set_cancelled(&request->status, true);
    ampi_request_complete(request);
}

/* A receive can be cancelled until it has matched. */
static int cancel_recv(struct ampi_request *request)
{
    if (!request->u.p2p.is_posted)
        return MPI_SUCCESS;
    ampi_match_remove_posted(&request->comm->match, &request->u.p2p.node);
    ampi_recv_end_cancelled(request);
    return MPI_SUCCESS;
}

const struct ampi_request_kind ampi_recv_kind = {
    .name = "receive",
    .start = start_recv,
    .cancel = cancel_recv,
    .release = release_recv,
};

struct ampi_request *ampi_recv_start(struct ampi_rank *self, const struct ampi_recv_args *args)
{
    struct ampi_request *request = ampi_request_create(self, &ampi_recv_kind, args->comm, false);

    if (BASE_UNLIKELY(args->comm->at_post))
        return start_specially(request, args->buf, args->count, args->type,
                               (struct where){args->source, args->tag});
    start_filled(request, args);
    return request;
}

static BASE_COLD void end_specially(const struct ampi_recv_args *args, int number, const MPI_Status *status)
{
    ampi_schedule_received(args->comm->owner, number, status);
    ampi_p2p_after_recv(args->comm, status);
}

/* number: of ampi_schedule_receive, if it is watched. */
static inline __attribute__((always_inline)) int run(struct ampi_rank *self,
                                                     const struct ampi_recv_args *args, MPI_Status *status,
                                                     bool is_watched, int number)
{
    struct ampi_request request;

    if (BASE_UNLIKELY(args->source == MPI_PROC_NULL)) {
        ampi_status_set_proc_null(&request.status);
    } else if ((is_watched && ampi_schedule_defers(args->comm, args->source, args->tag)) ||
               !ampi_recv_try(self, args, &request.status)) {
        ampi_request_init_on_stack(&request, self, &ampi_recv_kind, args->comm);
        ampi_recv_fill(&request, args);
        ampi_recv_post(&request, args->source, args->tag);
        ampi_request_await(&request);
    }
    if (is_watched)
        end_specially(args, number, &request.status);
    ampi_status_hand_out(status, &request.status);
    return ampi_p2p_result(args->comm, &request.status);
}

static BASE_COLD int run_specially(void *buf, MPI_Count count, struct ampi_type *type, struct ampi_comm *comm,
                                   struct where where, MPI_Status *status)
{
    struct ampi_recv_args args = {buf, count, type, where.source, where.tag, comm};

    int number = ampi_schedule_receive(comm, &args.source, &args.tag);

    ampi_p2p_before_recv(&args);
    return run(comm->owner, &args, status, true, number);
}

int ampi_recv_blocking(struct ampi_rank *self, const struct ampi_recv_args *args, MPI_Status *status)
{
    return BASE_LIKELY(!args->comm->at_post) ? run(self, args, status, false, -1)
                                             : run_specially(args->buf, args->count, args->type, args->comm,
                                                             (struct where){args->source, args->tag}, status);
}

/* MPI_Recv and MPI_Recv_c. */
static ULT_JUMPS_BACK BASE_NOINLINE BASE_FLATTEN int recv_either(void *buf, MPI_Count count,
                                                                 MPI_Datatype datatype, int source, int tag,
                                                                 MPI_Comm comm, MPI_Status *status)
{
    struct ampi_rank *self = ampi_entered();
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    int error = ampi_check_recv(self, datatype, comm, &args);

    if (BASE_UNLIKELY(error))
        return error;
    return ampi_recv_blocking(self, &args, status);
}

AMPI_EXPORT(Recv);
int PMPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    ampi_enter("MPI_Recv");
    return recv_either(buf, count, datatype, source, tag, comm, status);
}

AMPI_EXPORT(Recv_c);
int PMPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                MPI_Status *status)
{
    ampi_enter("MPI_Recv_c");
    return recv_either(buf, count, datatype, source, tag, comm, status);
}
