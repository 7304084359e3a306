/* SPDX-License-Identifier: BSD-3-Clause
 *
 * probe.c: probing for a message without receiving it, and matched probes (MPI 5.0, section 3.8).
 *
 * A blocking probe registers in the communicator's handle: the next unexpected message that matches wakes it
 * (ampi_message_keep). Each thread of a rank can be in a probe. A message wakes all probes that it matches,
 * and they search again.
 */
#include "ampi/p2p/p2p_calls.h"

#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_failure.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/schedule.h"
#include "ampi/datatype/work_hook.h"

/* The status of a message that has not been received. */
static void fill_status(MPI_Status *status, const struct ampi_message *message)
{
    MPI_Status found;

    ampi_status_set_empty(&found);
    found.MPI_SOURCE = message->node.source;
    found.MPI_TAG = message->node.tag;
    ampi_status_set_bytes(&found, (MPI_Count)message->size_bytes);
    ampi_status_hand_out(status, &found);
}

static void fill_proc_null(MPI_Status *status)
{
    MPI_Status nobody;

    ampi_status_set_proc_null(&nobody);
    ampi_status_hand_out(status, &nobody);
}

/* The first message that matches, removed from the table if `take`; NULL: none yet. */
static struct ampi_message *find_message(struct ampi_comm *comm, int source, int tag, bool take)
{
    struct ampi_match_node *node;

    if (BASE_UNLIKELY(comm->at_post) && ampi_schedule_defers(comm, source, tag))
        return NULL;
    node = take ? ampi_match_take_unexpected(&comm->match, source, tag)
                : ampi_match_find_unexpected(&comm->match, source, tag);
    return node ? BASE_CONTAINER(node, struct ampi_message, node) : NULL;
}

/* The same, with one round of progress if there is none. */
static struct ampi_message *poll(struct ampi_comm *comm, int source, int tag, bool take)
{
    struct ampi_message *message = find_message(comm, source, tag, take);

    if (message)
        return message;
    ult_progress();
    return find_message(comm, source, tag, take);
}

/* True if there is no message yet, and the sender may have failed. */
static inline bool is_hopeless(const struct ampi_comm *comm, int source)
{
    return BASE_UNLIKELY(comm->has_failed) && ampi_p2p_is_failed(comm, source);
}

/* Waits for a matching message. NULL: it may never arrive. */
static struct ampi_message *await(struct ampi_comm *comm, int source, int tag, bool take)
{
    struct ampi_message *message;

    if (ampi_schedule_asks())
        ampi_schedule_probe(comm, &source, &tag);
    while (!(message = poll(comm, source, tag, take)) && !is_hopeless(comm, source)) {
        struct ampi_prober prober = {comm->probers, ult_self(), source, tag};
        comm->probers = &prober;
        ult_suspend();
        source = prober.source;
    }
    if (ampi_schedule_asks() && message)
        ampi_schedule_probed(comm, message->node.source, message->node.tag);
    return message;
}

/* As poll, with +schedule: polls as often as +schedule requires. */
static BASE_COLD struct ampi_message *poll_specially(struct ampi_comm *comm, int source, int tag, bool take)
{
    enum ampi_poll how = ampi_poll_begin();
    struct ampi_message *message = NULL;
    bool looks_again = how != AMPI_POLL_NOTHING;

    if (how == AMPI_POLL_SUCCESS)
        ampi_schedule_probe(comm, &source, &tag);
    while (looks_again && !(message = find_message(comm, source, tag, take))) {
        struct ampi_prober prober = {comm->probers, ult_self(), source, tag};
        struct ampi_prober **link = &comm->probers;
        if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
            comm->probers = &prober;
        looks_again = ampi_poll_again(how);
        while (*link && *link != &prober)
            link = &(*link)->next;
        if (*link)
            *link = prober.next;
        source = prober.source;
    }
    if (!message && how == AMPI_POLL_ANY) /* progress may have brought it */
        message = find_message(comm, source, tag, take);
    if (message)
        ampi_schedule_probed(comm, message->node.source, message->node.tag);
    else
        ampi_poll_end(false);
    return message;
}

/* For a call that does not wait. */
static struct ampi_message *poll_once(struct ampi_comm *comm, int source, int tag, bool take)
{
    return ampi_schedule_asks() ? poll_specially(comm, source, tag, take) : poll(comm, source, tag, take);
}

AMPI_EXPORT(Probe);
ULT_JUMPS_BACK int PMPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct ampi_comm *object = NULL;
    struct ampi_message *found;
    int error = ampi_check_probe(ampi_enter("MPI_Probe"), comm, source, tag, &object);

    if (error)
        return error;
    if (source == MPI_PROC_NULL) {
        fill_proc_null(status);
        return MPI_SUCCESS;
    }
    found = await(object, source, tag, false);
    if (!found)
        return ampi_p2p_raise_failed(object);
    fill_status(status, found);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Iprobe);
ULT_JUMPS_BACK int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    struct ampi_comm *object = NULL;
    struct ampi_message *message;
    int error = ampi_check_probe(ampi_enter("MPI_Iprobe"), comm, source, tag, &object);

    if (error)
        return error;
    if (BASE_UNLIKELY(!flag))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the flag is NULL");
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        fill_proc_null(status);
    } else if ((message = poll_once(object, source, tag, false))) {
        fill_status(status, message);
    } else {
        *flag = 0;
        if (is_hopeless(object, source))
            return ampi_p2p_raise_failed(object);
        ult_yield();
    }
    return MPI_SUCCESS;
}

/* Gives the program a message that was removed from matching. It holds its communicator until it is received. */
static MPI_Message hand_out(struct ampi_message *message)
{
    message->comm->n_pending++;
    return (MPI_Message)message;
}

AMPI_EXPORT(Mprobe);
ULT_JUMPS_BACK int PMPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    struct ampi_comm *object = NULL;
    struct ampi_message *taken;
    int error = ampi_check_probe(ampi_enter("MPI_Mprobe"), comm, source, tag, &object);

    if (error)
        return error;
    if (BASE_UNLIKELY(!message))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the message is NULL");
    if (source == MPI_PROC_NULL) {
        *message = MPI_MESSAGE_NO_PROC;
        fill_proc_null(status);
        return MPI_SUCCESS;
    }
    taken = await(object, source, tag, true);
    if (!taken) {
        *message = MPI_MESSAGE_NULL;
        return ampi_p2p_raise_failed(object);
    }
    fill_status(status, taken);
    *message = hand_out(taken);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Improbe);
ULT_JUMPS_BACK int PMPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                                MPI_Status *status)
{
    struct ampi_comm *object = NULL;
    struct ampi_message *taken;
    int error = ampi_check_probe(ampi_enter("MPI_Improbe"), comm, source, tag, &object);

    if (error)
        return error;
    if (BASE_UNLIKELY(!flag || !message))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the %s is NULL", flag ? "message" : "flag");
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        *message = MPI_MESSAGE_NO_PROC;
        fill_proc_null(status);
    } else if ((taken = poll_once(object, source, tag, true))) {
        fill_status(status, taken);
        *message = hand_out(taken);
    } else {
        *flag = 0;
        *message = MPI_MESSAGE_NULL;
        if (is_hopeless(object, source))
            return ampi_p2p_raise_failed(object);
        ult_yield();
    }
    return MPI_SUCCESS;
}

/* ---- Receiving a matched message ---- */

/* The arguments of MPI_Mrecv and MPI_Imrecv. *message_out is NULL for MPI_MESSAGE_NO_PROC. Errors are those
 * of the message's communicator. */
static int check_mrecv(const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *handle,
                       struct ampi_type **type_out, struct ampi_message **message_out)
{
    struct ampi_comm *comm;

    if (BASE_UNLIKELY(!handle || (*handle != MPI_MESSAGE_NO_PROC &&
                                  !ampi_handle_has_magic(*handle, AMPI_MAGIC_MESSAGE))))
        return ampi_raise_self(MPI_ERR_REQUEST, "the message is %s",
                               handle && *handle == MPI_MESSAGE_NULL ? "MPI_MESSAGE_NULL" : "not a message");
    *message_out = *handle == MPI_MESSAGE_NO_PROC ? NULL : (struct ampi_message *)*handle;
    comm = *message_out ? (*message_out)->comm : NULL;
    if (BASE_UNLIKELY(count < 0))
        return ampi_raise_on_comm(comm, MPI_ERR_COUNT, "the count %lld is negative", (long long)count);
    *type_out = ampi_type_of(datatype);
    if (BASE_UNLIKELY(!*type_out || !(*type_out)->is_committed))
        return ampi_raise_on_comm(comm, MPI_ERR_TYPE, "the datatype is %s",
                                  *type_out ? "not committed" : "not a datatype");
    if (ampi_type_is_too_much(*type_out, count))
        return ampi_raise_on_comm(comm, MPI_ERR_COUNT, AMPI_TYPE_TOO_MUCH, (long long)count,
                                  (long long)(*type_out)->size_bytes);
    if (comm)
        ampi_work_before(buf, count, *type_out, true);
    return comm ? ampi_check_address(comm, buf, count, *type_out) : MPI_SUCCESS;
}

/* True if its events are wanted: reports the start of its receive. */
static inline bool is_watched(const struct ampi_message *message, void *buf, MPI_Count count,
                              struct ampi_type *type)
{
    if (!message || BASE_LIKELY(!(message->comm->at_post & AMPI_AT_POST_EVENTS)))
        return false;
    ampi_p2p_before_probed(message, &(struct ampi_recv_args){buf, count, type, message->node.source,
                                                             message->node.tag, message->comm});
    return true;
}

/* Receives it into the buffer; always fills *status. May switch. */
static void receive(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                    const struct ampi_type *type, MPI_Status *status)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .type = (struct ampi_type *)(uintptr_t)type};
    struct ampi_request request;

    if (!message) {
        ampi_status_set_proc_null(status);
    } else if (!ampi_message_is_away(message, buf, count, type)) {
        ampi_message_consume(self, message, buf, count, type, status);
    } else {
        ampi_request_init_on_stack(&request, self, &ampi_recv_kind, message->comm);
        ampi_recv_fill(&request, &args);
        ampi_message_receive(message, &request);
        ampi_request_await(&request);
        *status = request.status;
    }
}

int ampi_mrecv(struct ampi_rank *self, void *buf, MPI_Count count, MPI_Datatype datatype,
               MPI_Message *message, MPI_Status *status)
{
    struct ampi_type *type = NULL;
    struct ampi_message *object = NULL;
    struct ampi_comm *comm;
    MPI_Status own_status;
    bool is_reported;
    int error = check_mrecv(buf, count, datatype, message, &type, &object);

    if (error)
        return error;
    comm = object ? object->comm : NULL;
    is_reported = is_watched(object, buf, count, type);
    receive(self, object, buf, count, type, &own_status);
    *message = MPI_MESSAGE_NULL;
    if (is_reported)
        ampi_p2p_after_recv(comm, &own_status);
    ampi_status_hand_out(status, &own_status);
    error = ampi_p2p_result(comm, &own_status);
    if (comm)
        ampi_comm_drop_pending(comm);
    return error;
}

int ampi_imrecv(struct ampi_rank *self, void *buf, MPI_Count count, MPI_Datatype datatype,
                MPI_Message *message, MPI_Request *request)
{
    struct ampi_recv_args args = {.buf = buf, .count = count};
    struct ampi_message *object = NULL;
    struct ampi_request *made;
    struct ampi_comm *comm;
    bool is_reported;
    int error = check_mrecv(buf, count, datatype, message, &args.type, &object);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    comm = object ? object->comm : NULL;
    is_reported = is_watched(object, buf, count, args.type);
    made = ampi_request_create(self, &ampi_recv_kind, comm, false);
    if (comm)
        ampi_comm_drop_pending(comm); /* the request keeps it now */
    ampi_recv_fill(made, &args);
    ampi_type_ref(args.type);
    if (object && ampi_message_is_away(object, buf, count, args.type)) {
        ampi_message_receive(object, made);
    } else {
        receive(self, object, buf, count, args.type, &made->status);
        ampi_request_complete(made);
    }
    if (is_reported)
        ampi_p2p_watch(made);
    *message = MPI_MESSAGE_NULL;
    *request = (MPI_Request)made;
    return MPI_SUCCESS;
}
