/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_connect.c: endpoints to ports of other processes, created by the first message there, and in the
 * reverse direction.
 *
 * A port that connects greets the other one, which connects back at once, although it may never send: UCX
 * arms only the transports that some endpoint uses, and a port that only receives would sleep through
 * messages.
 *
 * Endpoints inside a node are created without UCX's error handling, which rules out shared memory (UCX
 * 1.13); the launcher reports failed processes of this node. Between nodes UCX detects them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* ---- Looking up ---- */

static bool is_known(const struct ucxm_process *process)
{
    return __atomic_load_n(&process->n_pes, __ATOMIC_ACQUIRE) > 0;
}

static const char *look_up(int proc_id)
{
    struct ucxm_process *process = &ucxm.processes[proc_id];
    void *blob = NULL;
    size_t n_bytes = 0;
    const struct ucxm_published *published;
    uint32_t n_pes = 0;
    size_t at = sizeof *published;
    const void **addresses;
    const char *error = ucxm_launcher_look_up(proc_id, &blob, &n_bytes);

    if (error)
        return error;
    published = blob;
    if (n_bytes >= at)
        n_pes = published->n_pes;
    addresses = calloc(n_pes ? n_pes : 1, sizeof *addresses);
    for (uint32_t i = 0; addresses && i < n_pes; i++) {
        uint32_t length;
        memcpy(&length, (char *)blob + at, sizeof length);
        addresses[i] = (char *)blob + at + sizeof length;
        at += sizeof length + length;
    }
    if (!addresses || n_pes == 0 || at > n_bytes)
        return "the data that the process published is not an address";
    process->published = published;
    __atomic_store_n(&process->addresses, addresses, __ATOMIC_RELEASE);
    __atomic_store_n(&process->n_pes, (int)n_pes, __ATOMIC_RELEASE);
    return NULL;
}

int ucxm_n_pes_of(int proc_id)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ucxm_process *process = &ucxm.processes[proc_id];
    const char *error = NULL;

    if (ucxm_is_failed(proc_id))
        return -1;
    if (is_known(process))
        return process->n_pes;
    /* One port at a time: libpmix 5.0.1 fails, or crashes, when two threads get the same value at once. */
    pthread_mutex_lock(&lock);
    if (!is_known(process) && (error = look_up(proc_id)) && ucxm_members_concern(proc_id) &&
        ucxm_is_present(proc_id))
        base_log("process %d of %d cannot be found: %s", proc_id, ucxm.place.n_procs, error);
    pthread_mutex_unlock(&lock);
    return error ? -1 : process->n_pes;
}

/* ---- Connecting ---- */

/* How often to look for the launcher's report that a process has ended. */
#define LAUNCHER_LOOKS 200
#define LAUNCHER_LOOK_NS 10000000

/* what: "", or words before UCX's error. */
static void note_failed(int proc_id, const char *what, ucs_status_t status)
{
    char why[UCXM_HOST_BYTES + 128];

    snprintf(why, sizeof why, "host %s: %s%s", ucxm.processes[proc_id].published->host, what,
             ucs_status_string(status));
    if (!__atomic_load_n(&ucxm.is_closing, __ATOMIC_ACQUIRE))
        ucxm_peer_failed(proc_id, why);
}

/* UCX reports that the other side has failed, or that a spawned process or another job's, which may end before this one, has
 * closed a connection that is not shared memory. */
static void handle_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    const struct ucxm_peer *peer = arg;

    (void)ep;
    if (!ucxm_has_parted(peer->proc_id))
        note_failed(peer->proc_id, "connection lost: ", status);
}

static bool has_ended(int proc_id)
{
    return ucxm_is_failed(proc_id) || !ucxm_is_present(proc_id);
}

/* Creates an endpoint. A process of this node that cannot be reached has usually ended: then the launcher reports that, and
 * UCX's reports of missing files are dropped. *has_ended_out: it has. */
static ucs_status_t create_endpoint(struct ucxm_port *port, int proc_id, const ucp_ep_params_t *params,
                                    ucp_ep_h *ep_out, bool *has_ended_out)
{
    ucs_status_t status;

    ucxm_noise_hold();
    status = ucp_ep_create(port->worker, params, ep_out);
    for (int i = 0; i < LAUNCHER_LOOKS && status != UCS_OK && ucxm.is_near[proc_id] && !has_ended(proc_id);
         i++)
        nanosleep(&(struct timespec){.tv_nsec = LAUNCHER_LOOK_NS}, NULL);
    *has_ended_out = status != UCS_OK && has_ended(proc_id);
    ucxm_noise_release(!*has_ended_out);
    return status;
}

static ucp_ep_h connect_peer(struct ucxm_port *port, int proc_id, int pe_id)
{
    int n_pes = ucxm_n_pes_of(proc_id);
    struct ucxm_greeting_text greeting;
    struct ucxm_peer *peer;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode = ucxm.is_near[proc_id] ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER};
    ucs_status_t status;
    bool has_ended;

    if (n_pes < 0 || pe_id >= n_pes)
        return NULL;
    if (!port->peers[proc_id])
        port->peers[proc_id] = calloc((size_t)n_pes, sizeof *port->peers[proc_id]);
    if (!port->peers[proc_id])
        return NULL;
    peer = &port->peers[proc_id][pe_id];
    peer->proc_id = proc_id;
    peer->pe_id = port->pe_id;
    params.address = ucxm.processes[proc_id].addresses[pe_id];
    params.err_handler.cb = handle_failed;
    params.err_handler.arg = peer;
    status = create_endpoint(port, proc_id, &params, &peer->ep, &has_ended);
    if (has_ended) {
        peer->ep = NULL;
        return NULL;
    }
    if (status != UCS_OK) {
        base_log("process %d of %d on host %s (PE %d) cannot be reached: %s%s", proc_id, ucxm.place.n_procs,
                 ucxm.processes[proc_id].published->host, pe_id, ucs_status_string(status),
                 status == UCS_ERR_UNREACHABLE && !getenv("UCX_TLS")
                     ? " (UCX_TLS=all lets UCX use all its transports)"
                     : "");
        peer->ep = NULL;
        note_failed(proc_id, "", status); /* not tried again */
        return NULL;
    }
    peer->ring = ucxm_ring_connect(port, proc_id, pe_id, &ucxm.processes[proc_id].published->rings);
    if (peer->ring)
        __atomic_store_n(&ucxm.processes[proc_id].has_rings, true, __ATOMIC_RELEASE);
    greeting = (struct ucxm_greeting_text){port->name, peer->ring != NULL};
    ucxm_send_control(port, peer->ep, UCXM_GREETING_ID, &greeting, sizeof greeting);
    return peer->ep;
}

ucp_ep_h ucxm_endpoint(struct ucxm_port *port, int proc_id, int pe_id)
{
    const struct ucxm_peer *of_proc = port->peers[proc_id];

    if (ucxm_is_failed(proc_id) || port->is_disconnected)
        return NULL;
    port->is_busy = true;
    if (of_proc && of_proc[pe_id].ep)
        return of_proc[pe_id].ep;
    return connect_peer(port, proc_id, pe_id);
}

/* ---- Greetings ---- */

/* Another port has connected to this one. UCX's callbacks cannot create endpoints: the reply is sent after
 * them. */
static ucs_status_t handle_greeting(void *arg, const void *header, size_t header_bytes, void *data,
                                    size_t n_bytes, const ucp_am_recv_param_t *param)
{
    struct ucxm_port *port = arg;
    struct ucxm_greeting *greeting = malloc(sizeof *greeting);

    (void)data;
    (void)n_bytes;
    (void)param;
    if (!greeting || header_bytes != sizeof greeting->text) {
        base_log("a connection request from another process was dropped: %s",
                 greeting ? "it has a wrong size" : "out of memory");
        free(greeting);
        return UCS_OK;
    }
    memcpy(&greeting->text, header, sizeof greeting->text);
    greeting->next = port->greetings;
    port->greetings = greeting;
    return UCS_OK;
}

void ucxm_answer_greetings(struct ucxm_port *port)
{
    ucxm_descriptors_connected();
    while (port->greetings) {
        struct ucxm_greeting *greeting = port->greetings;
        port->greetings = greeting->next;
        ucxm_endpoint(port, greeting->text.from.proc_id, greeting->text.from.pe_id);
        if (greeting->text.has_ring)
            ucxm_ring_accept(port, &greeting->text.from);
        free(greeting);
    }
}

/* Nothing to do: the message has woken the port. */
static ucs_status_t handle_nudge(void *arg, const void *header, size_t header_bytes, void *data,
                                 size_t n_bytes, const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_bytes;
    (void)data;
    (void)n_bytes;
    (void)param;
    return UCS_OK;
}

const char *ucxm_connect_init(struct ucxm_port *port)
{
    const char *error;

    port->name = (struct ucxm_port_name){ucxm.place.proc_id, port->pe_id};
    port->peers = calloc((size_t)ucxm.place.max_procs, sizeof(struct ucxm_peer *));
    if (!port->peers)
        return "out of memory";
    error = ucxm_handler_set(port, UCXM_GREETING_ID, handle_greeting);
    return error ? error : ucxm_handler_set(port, UCXM_NUDGE_ID, handle_nudge);
}

/* ---- Disconnecting ---- */

/* Makes progress on this port, or after the end of the PEs on all ports of the process: an endpoint may wait
 * for a port of the peer that itself waits for another port of this process. */
static void progress(const struct ucxm_port *port)
{
    if (!port->is_disconnected) {
        ucp_worker_progress(port->worker);
        return;
    }
    for (int i = 0; i < ucxm.n_pes; i++)
        ucp_worker_progress(ucxm.ports[i].worker);
}

static void close_endpoint(struct ucxm_port *port, ucp_ep_h ep, bool is_near)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = is_near ? 0 : UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        progress(port);
    ucp_request_free(request);
}

void ucxm_abandon(struct ucxm_port *port, int proc_id)
{
    int n_pes = __atomic_load_n(&ucxm.processes[proc_id].n_pes, __ATOMIC_ACQUIRE);

    for (int i = 0; port->peers[proc_id] && i < n_pes; i++) {
        struct ucxm_peer *peer = &port->peers[proc_id][i];
        if (peer->ep && !ucxm.is_near[proc_id])
            close_endpoint(port, peer->ep, false);
        peer->ep = NULL;
        ucxm_ring_disconnect(peer->ring);
        peer->ring = NULL;
    }
}

/* Nothing may refer to a ring or an endpoint while it is being closed: closing handles messages, and
 * handlers may send. */
static void disconnect_peer(struct ucxm_port *port, struct ucxm_peer *peer, bool is_near)
{
    ucp_ep_h ep = peer->ep;

    ucxm_ring_disconnect(peer->ring);
    peer->ring = NULL;
    peer->ep = NULL;
    if (ep)
        close_endpoint(port, ep, is_near);
}

void ucxm_disconnect(struct ucxm_port *port)
{
    port->is_disconnected = true;
    for (int proc = 0; proc < ucxm.place.max_procs; proc++)
        for (int pe = 0; port->peers[proc] && pe < ucxm.processes[proc].n_pes; pe++)
            disconnect_peer(port, &port->peers[proc][pe], ucxm.is_near[proc]);
}
