/* SPDX-License-Identifier: BSD-3-Clause
 *
 * port.c: ports: one UCX worker per PE, their addresses, endpoints to others, progress.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

static const char *failed(const char *what, ucs_status_t status)
{
    static char text[256];

    snprintf(text, sizeof text, "%s: %s", what, ucs_status_string(status));
    return text;
}

/* ---- Opening ---- */

static const char *open_context(int n_pes)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE |
                      UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_PPN | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .request_size = sizeof(struct ucxm_request),
        .mt_workers_shared = n_pes > 1,
        .estimated_num_eps = (size_t)ucxm.place.n_procs,
        .estimated_num_ppn = (size_t)ucxm.place.node_n_procs,
        .name = "heddle",
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return failed("ucp_config_read", status);
    if (!getenv("UCX_KEEPALIVE_INTERVAL"))
        ucp_config_modify(config, "KEEPALIVE_INTERVAL", "1s"); /* a lost process is noticed within seconds */
    status = ucp_init(&params, config, &ucxm.context);
    ucp_config_release(config);
    return status == UCS_OK ? NULL : failed("ucp_init", status);
}

static const char *open_port(struct ucxm_port *port, int pe_id)
{
    ucp_worker_params_t params = {.field_mask =
                                      UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                  .events = UCP_WAKEUP_AMO | UCP_WAKEUP_RMA | UCP_WAKEUP_TX | UCP_WAKEUP_RX};
    ucs_status_t status = ucp_worker_create(ucxm.context, &params, &port->worker);

    if (status != UCS_OK)
        return failed("ucp_worker_create", status);
    port->pe_id = pe_id;
    port->peers = calloc((size_t)ucxm.place.n_procs, sizeof(struct ucxm_peer *));
    if (!port->peers)
        return "out of memory";
    if (ucp_worker_get_efd(port->worker, &port->fd) != UCS_OK)
        port->fd = -1;
    return ucxm_messages_init(port);
}

/* Number of PEs, then length and bytes of each address. */
static const char *publish(void)
{
    char *blob = NULL;
    size_t n_bytes = 0;
    uint32_t n_pes = (uint32_t)ucxm.n_pes;
    const char *error;

    for (int i = -1; i < ucxm.n_pes; i++) {
        ucp_address_t *address = NULL;
        size_t length = 0;
        uint32_t length32;
        char *grown;
        if (i >= 0) {
            ucs_status_t status = ucp_worker_get_address(ucxm.ports[i].worker, &address, &length);
            if (status != UCS_OK)
                return failed("ucp_worker_get_address", status);
        }
        grown = realloc(blob, n_bytes + sizeof length32 + length);
        if (!grown)
            return "out of memory";
        blob = grown;
        length32 = i < 0 ? n_pes : (uint32_t)length;
        memcpy(blob + n_bytes, &length32, sizeof length32);
        if (i >= 0) {
            memcpy(blob + n_bytes + sizeof length32, address, length);
            ucp_worker_release_address(ucxm.ports[i].worker, address);
        }
        n_bytes += sizeof length32 + length;
    }
    error = ucxm_launcher_publish(blob, n_bytes);
    free(blob);
    return error;
}

const char *ucxm_ports_open(int n_pes)
{
    const char *error = open_context(n_pes);

    if (error)
        return error;
    ucxm.n_pes = n_pes;
    ucxm.ports = calloc((size_t)n_pes, sizeof *ucxm.ports);
    ucxm.processes = calloc((size_t)ucxm.place.n_procs, sizeof *ucxm.processes);
    if (!ucxm.ports || !ucxm.processes)
        return "out of memory";
    for (int i = 0; i < n_pes; i++)
        if ((error = open_port(&ucxm.ports[i], i)))
            return error;
    if ((error = publish()))
        return error;
    return ucxm_launcher_fence(NULL);
}

/* ---- Looking up ---- */

/* Several ports may look the same process up: the last one wins, nothing is freed. */
static const char *look_up(int proc_id)
{
    struct ucxm_process *process = &ucxm.processes[proc_id];
    void *blob = NULL;
    size_t n_bytes = 0;
    size_t at = sizeof(uint32_t);
    uint32_t n_pes = 0;
    const void **addresses;
    const char *error = ucxm_launcher_look_up(proc_id, &blob, &n_bytes);

    if (error)
        return error;
    if (n_bytes >= sizeof n_pes)
        memcpy(&n_pes, blob, sizeof n_pes);
    addresses = calloc(n_pes ? n_pes : 1, sizeof *addresses);
    for (uint32_t i = 0; addresses && i < n_pes; i++) {
        uint32_t length;
        memcpy(&length, (char *)blob + at, sizeof length);
        addresses[i] = (char *)blob + at + sizeof length;
        at += sizeof length + length;
    }
    if (!addresses || n_pes == 0 || at > n_bytes)
        return "what the process published is not an address";
    __atomic_store_n(&process->addresses, addresses, __ATOMIC_RELEASE);
    __atomic_store_n(&process->n_pes, (int)n_pes, __ATOMIC_RELEASE);
    return NULL;
}

int ucxm_n_pes_of(int proc_id)
{
    struct ucxm_process *process = &ucxm.processes[proc_id];
    const char *error;

    if (__atomic_load_n(&process->n_pes, __ATOMIC_ACQUIRE) == 0 && (error = look_up(proc_id))) {
        base_log("process %d of %d cannot be found: %s", proc_id, ucxm.place.n_procs, error);
        return -1;
    }
    return process->n_pes;
}

/* ---- Connecting ---- */

/* UCX found that the other side is gone. */
static void handle_lost(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucxm_peer *peer = arg;

    (void)ep;
    if (peer->is_lost)
        return;
    peer->is_lost = true;
    if (ucxm.client.lost)
        ucxm.client.lost(peer->pe_id, peer->proc_id, ucs_status_string(status));
}

static ucp_ep_h connect_peer(struct ucxm_port *port, int proc_id, int pe_id)
{
    int n_pes = ucxm_n_pes_of(proc_id);
    struct ucxm_peer *peer;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucs_status_t status;

    if (n_pes < 0 || pe_id >= n_pes)
        return NULL;
    if (!port->peers[proc_id])
        port->peers[proc_id] = calloc((size_t)n_pes, sizeof *port->peers[proc_id]);
    if (!port->peers[proc_id])
        return NULL;
    peer = &port->peers[proc_id][pe_id];
    if (peer->is_lost)
        return NULL;
    peer->proc_id = proc_id;
    peer->pe_id = port->pe_id;
    params.address = ucxm.processes[proc_id].addresses[pe_id];
    params.err_handler.cb = handle_lost;
    params.err_handler.arg = peer;
    status = ucp_ep_create(port->worker, &params, &peer->ep);
    if (status != UCS_OK) {
        base_log("no connection to process %d, PE %d: %s", proc_id, pe_id, ucs_status_string(status));
        peer->ep = NULL;
        return NULL;
    }
    return peer->ep;
}

ucp_ep_h ucxm_endpoint(struct ucxm_port *port, int proc_id, int pe_id)
{
    const struct ucxm_peer *of_proc = port->peers[proc_id];

    if (of_proc && of_proc[pe_id].ep)
        return of_proc[pe_id].is_lost ? NULL : of_proc[pe_id].ep;
    return connect_peer(port, proc_id, pe_id);
}

/* ---- Progress ---- */

int ucxm_port_poll(int pe_id)
{
    return (int)ucp_worker_progress(ucxm.ports[pe_id].worker);
}

int ucxm_port_fd(int pe_id)
{
    return ucxm.ports[pe_id].fd;
}

bool ucxm_port_arm(int pe_id)
{
    return ucp_worker_arm(ucxm.ports[pe_id].worker) == UCS_OK;
}

/* ---- Closing ---- */

static void progress_all(void)
{
    for (int i = 0; i < ucxm.n_pes; i++)
        while (ucp_worker_progress(ucxm.ports[i].worker))
            ;
}

/* Lets everything leave that was sent. */
void ucxm_ports_flush(void)
{
    ucxm.client.lost = NULL; /* from now on the others may leave */
    for (int i = 0; i < ucxm.n_pes; i++) {
        ucp_request_param_t param = {0};
        ucs_status_ptr_t request = ucp_worker_flush_nbx(ucxm.ports[i].worker, &param);
        if (!UCS_PTR_IS_PTR(request))
            continue;
        while (ucp_request_check_status(request) == UCS_INPROGRESS)
            progress_all();
        ucp_request_free(request);
    }
    ucxm_launcher_fence(progress_all);
}

static void close_endpoint(struct ucxm_port *port, ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(port->worker);
    ucp_request_free(request);
}

void ucxm_ports_close(void)
{
    for (int i = 0; i < ucxm.n_pes; i++) {
        struct ucxm_port *port = &ucxm.ports[i];
        for (int proc = 0; proc < ucxm.place.n_procs; proc++)
            for (int pe = 0; port->peers[proc] && pe < ucxm.processes[proc].n_pes; pe++)
                if (port->peers[proc][pe].ep)
                    close_endpoint(port, port->peers[proc][pe].ep);
    }
    for (int i = 0; i < ucxm.n_pes; i++)
        ucp_worker_destroy(ucxm.ports[i].worker);
    ucp_cleanup(ucxm.context);
}
