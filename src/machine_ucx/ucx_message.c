/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_message.c: active messages. Data that arrived with its header stays in UCX's buffer as long as the
 * client needs it; large data stays at the sender until the client fetches it. UCX chooses between the two.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* Ends the process if UCX is out of memory: without the data nobody can continue, and the other process has
 * not failed. */
int ucxm_result_of(ucs_status_t status)
{
    if (status == UCS_OK)
        return MACHINE_DONE;
    if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_INVALID_PARAM)
        base_fatal(1, "UCX cannot move data between processes: %s", ucs_status_string(status));
    return MACHINE_PEER_FAILED;
}

static ucs_status_t handle_message(void *arg, const void *header, size_t header_bytes, void *data,
                                   size_t n_bytes, const ucp_am_recv_param_t *param)
{
    struct ucxm_port *port = arg;
    bool is_away = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    struct machine_data incoming = {
        .bytes = is_away ? NULL : data,
        .n_bytes = n_bytes,
        .token = data,
        .can_keep = is_away || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA),
    };

    if (port->n_handled)
        port->n_handled[ucxm.client.source(header)]++;
    return ucxm.client.handle(port->pe_id, header, header_bytes, &incoming) ? UCS_INPROGRESS : UCS_OK;
}

const char *ucxm_handler_set(struct ucxm_port *port, unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = handler,
        .arg = port,
    };
    ucs_status_t status = ucp_worker_set_am_recv_handler(port->worker, &param);

    return status == UCS_OK ? NULL : ucs_status_string(status);
}

const char *ucxm_messages_init(struct ucxm_port *port)
{
    if (ucxm.client.source) {
        port->n_handled = calloc((size_t)ucxm.place.max_procs, sizeof *port->n_handled);
        if (!port->n_handled)
            return "out of memory";
    }
    return ucxm_handler_set(port, UCXM_MESSAGE_ID, handle_message);
}

/* ---- Requests ---- */

void ucxm_request_link(struct ucxm_request *request, struct ucxm_port *port, int proc_id, bool is_fetch,
                       machine_done_fn done, void *arg)
{
    *request = (struct ucxm_request){done, arg, port, proc_id, is_fetch, port->pending, &port->pending};
    port->n_fetching += is_fetch;
    if (port->pending)
        port->pending->link = &request->next;
    port->pending = request;
}

void ucxm_request_unlink(struct ucxm_request *request)
{
    request->port->n_fetching -= request->is_fetch;
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
}

void ucxm_request_give_up(struct ucxm_request *request)
{
    machine_done_fn done = request->done;

    request->done = NULL;
    done(request->arg, MACHINE_PEER_FAILED);
}

/* UCX reuses the same memory for another request afterwards. */
static void request_done(struct ucxm_request *request, ucs_status_t status)
{
    struct ucxm_request ours = *request;

    if (ours.done)
        ucxm_request_unlink(request);
    ucp_request_free(request);
    if (ours.done)
        ours.done(ours.arg, ucxm_result_of(status));
}

/* ---- Sending ---- */

void ucxm_request_sent(void *request, ucs_status_t status, void *arg)
{
    (void)arg;
    request_done(request, status);
}

/* UCX's parameters for a message. Its fastest path ignores the memory type: it assumes host memory as long
 * as its hooks have seen no allocation of device memory, which they miss before they are installed. Naming the
 * datatype, bytes, keeps it off that path, but not in UCX 1.20 to 1.22 whose libucm_cuda.so cannot be loaded. */
static ucp_request_param_t send_param(enum machine_memory memory)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb.send = ucxm_request_sent,
                                 .memory_type = ucxm_memory_type(memory)};

    if (BASE_UNLIKELY(memory != MACHINE_HOST)) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(1);
    }
    return param;
}

static int send_message(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                        const void *data, size_t n_bytes, ucp_request_param_t param, machine_done_fn done,
                        void *arg)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    ucs_status_ptr_t started;
    ucp_ep_h ep = ucxm_endpoint(port, dest_proc, dest_pe);

    if (!ep)
        return MACHINE_PEER_FAILED;
    started = ucp_am_send_nbx(ep, UCXM_MESSAGE_ID, header, header_bytes, data, n_bytes, &param);
    if (UCS_PTR_IS_ERR(started))
        return ucxm_result_of(UCS_PTR_STATUS(started));
    port->peers[dest_proc][dest_pe].n_sent++;
    if (started == NULL)
        return MACHINE_DONE;
    ucxm_request_link(started, port, dest_proc, false, done, arg);
    return MACHINE_PENDING;
}

int ucxm_send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
              const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg)
{
    struct ucxm_peer *of_proc = ucxm.ports[pe_id].peers[dest_proc];

    if (BASE_UNLIKELY(!of_proc)) { /* the first message, too: UCX's would wait for this process's next call */
        ucxm_endpoint(&ucxm.ports[pe_id], dest_proc, dest_pe);
        of_proc = ucxm.ports[pe_id].peers[dest_proc];
    }
    if (of_proc && of_proc[dest_pe].ring && memory == MACHINE_HOST &&
        ucxm_ring_send(&of_proc[dest_pe], header, header_bytes, data, n_bytes))
        return MACHINE_DONE;
    return send_message(pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, send_param(memory),
                        done, arg);
}

/* UCX asks the receiver before it sends large data. Over TCP the question waits behind all data that was sent before,
 * and the answer behind that of the other side: the connection is idle until it comes. */
int ucxm_push(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
              const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg)
{
    ucp_request_param_t param = send_param(memory);

    if (memory != MACHINE_HOST || ucxm.is_near[dest_proc] || ucxm.has_rdma)
        return ucxm_send(pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, memory, done, arg);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    return send_message(pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, param, done, arg);
}

static void said(void *request, ucs_status_t status, void *copy)
{
    (void)status;
    free(copy);
    ucp_request_free(request);
}

/* UCX 1.13 requires that the header stays valid until the message leaves, which is later on a connection
 * that is being established. */
void ucxm_send_control(struct ucxm_port *port, ucp_ep_h ep, unsigned id, const void *header,
                       size_t header_bytes)
{
    void *copy = header_bytes ? malloc(header_bytes) : NULL;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = said,
                                 .user_data = copy};

    if (header_bytes && !copy)
        base_fatal(1, "out of memory: cannot allocate a control message");
    if (copy)
        memcpy(copy, header, header_bytes);
    port->is_busy = true;
    if (!UCS_PTR_IS_PTR(ucp_am_send_nbx(ep, id, copy, header_bytes, NULL, 0, &param)))
        free(copy);
}

/* ---- Receiving ---- */

static void fetch_done(void *request, ucs_status_t status, size_t n_bytes, void *arg)
{
    (void)n_bytes;
    (void)arg;
    request_done(request, status);
}

int ucxm_fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
               machine_done_fn done, void *arg)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb.recv_am = fetch_done,
                                 .memory_type = ucxm_memory_type(memory)};
    ucs_status_ptr_t started;

    if (ucxm_is_failed(src_proc))
        return MACHINE_PEER_FAILED; /* the data that UCX holds is not released */
    port->is_busy = true;
    started = ucp_am_recv_data_nbx(port->worker, token, buf, n_bytes, &param);
    if (started == NULL)
        return MACHINE_DONE;
    if (UCS_PTR_IS_ERR(started))
        return ucxm_result_of(UCS_PTR_STATUS(started));
    ucxm_request_link(started, port, src_proc, true, done, arg);
    return MACHINE_PENDING;
}

bool ucxm_is_moving(int pe_id)
{
    return ucxm.ports[pe_id].pending != NULL;
}

void ucxm_traffic(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out)
{
    const struct ucxm_port *port = &ucxm.ports[pe_id];

    *traffic_out =
        (struct machine_traffic){.n_handled = ucxm_rings_count(port, is_left_out),
                                 .n_fetching = port->n_fetching,
                                 .n_armed = atomic_load_explicit(&port->n_armed, memory_order_relaxed)};
    for (int proc = 0; proc < ucxm.place.max_procs; proc++) {
        if (is_left_out && is_left_out[proc])
            continue;
        traffic_out->n_handled += port->n_handled ? port->n_handled[proc] : 0;
        for (int pe = 0; port->peers[proc] && pe < ucxm.processes[proc].n_pes; pe++)
            traffic_out->n_sent += port->peers[proc][pe].n_sent;
    }
}

void ucxm_release(int pe_id, void *token)
{
    ucp_am_data_release(ucxm.ports[pe_id].worker, token);
}
