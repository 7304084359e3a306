/* SPDX-License-Identifier: BSD-3-Clause
 *
 * port.c: ports: one UCX worker per PE, their addresses, progress.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/launched.h"
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
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | (ucxm_memory_is_keyed() ? UCP_FEATURE_RMA : 0),
        .request_size = sizeof(struct ucxm_request),
        .mt_workers_shared = n_pes > 1,
        .estimated_num_eps = (size_t)ucxm.place.n_procs,
        .estimated_num_ppn = (size_t)ucxm.place.node_n_procs,
        .name = "heddle",
    };
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return failed("ucp_config_read", status);
    if (!getenv("UCX_KEEPALIVE_INTERVAL"))
        ucp_config_modify(config, "KEEPALIVE_INTERVAL",
                          "1s"); /* a failed process is detected within seconds */
    ucxm_transports_choose(config);
    ucxm.has_rdma = ucxm_transports_have_rdma();
    status = ucp_init(&params, config, &ucxm.context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return failed("ucp_init", status);
    if (ucp_context_query(ucxm.context, &attributes) == UCS_OK)
        ucxm.memory_types = attributes.memory_types;
    return NULL;
}

bool ucxm_takes(enum machine_memory memory)
{
    return memory == MACHINE_HOST || (ucxm.memory_types >> ucxm_memory_type(memory) & 1);
}

void ucxm_describe(char *text, size_t text_bytes)
{
    Dl_info place = {.dli_fname = "?"};

    (void)dladdr((void *)(uintptr_t)ucp_get_version_string, &place);
    snprintf(text, text_bytes, "UCX %s (%s), which %s", ucp_get_version_string(), place.dli_fname,
             ucxm_takes(MACHINE_CUDA) ? "supports CUDA memory" : "no GPU memory");
}

static const char *open_port(struct ucxm_port *port, int pe_id)
{
    ucp_worker_params_t params = {.field_mask =
                                      UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                  .events = UCP_WAKEUP_AMO | UCP_WAKEUP_RMA | UCP_WAKEUP_TX | UCP_WAKEUP_RX};
    ucs_status_t status = ucp_worker_create(ucxm.context, &params, &port->worker);
    const char *error;

    if (status != UCS_OK)
        return failed("ucp_worker_create", status);
    port->pe_id = pe_id;
    if (ucp_worker_get_efd(port->worker, &port->fd) != UCS_OK)
        port->fd = -1;
    port->is_busy = true;
    if ((error = ucxm_connect_init(port)) || (error = ucxm_shutdown_init(port)))
        return error;
    return ucxm_messages_init(port);
}

static const char *publish(void)
{
    size_t n_bytes = sizeof(struct ucxm_published);
    char *blob = calloc(1, n_bytes);
    struct ucxm_published *published = (struct ucxm_published *)blob;
    const char *error;

    if (!blob)
        return "out of memory";
    ucxm_host_describe(published->host, sizeof published->host);
    published->n_pes = (uint32_t)ucxm.n_pes;
    published->program_id = ucxm_program_id();
    published->rings = ucxm_rings_place();
    published->probe = ucxm_memory_probe();
    for (int i = 0; i < ucxm.n_pes; i++) {
        ucp_address_t *address = NULL;
        size_t length = 0;
        ucs_status_t status = ucp_worker_get_address(ucxm.ports[i].worker, &address, &length);
        uint32_t length32 = (uint32_t)length;
        char *grown;
        if (status != UCS_OK)
            return failed("ucp_worker_get_address", status);
        grown = realloc(blob, n_bytes + sizeof length32 + length);
        if (!grown)
            return "out of memory";
        blob = grown;
        memcpy(blob + n_bytes, &length32, sizeof length32);
        memcpy(blob + n_bytes + sizeof length32, address, length);
        ucp_worker_release_address(ucxm.ports[i].worker, address);
        n_bytes += sizeof length32 + length;
    }
    error = ucxm_launcher_publish(blob, n_bytes);
    free(blob);
    return error;
}

/* UCX's part of opening: the context and a worker for each port. */
static const char *open_workers(int n_pes)
{
    sigset_t signals;
    const char *error;

    ucxm_signals_block(&signals);
    error = open_context(n_pes);
    memset(ucxm.ports, 0, (size_t)n_pes * sizeof *ucxm.ports);
    for (int i = 0; i < n_pes && !error; i++)
        error = open_port(&ucxm.ports[i], i);
    ucxm_signals_allow(&signals);
    return error;
}

/* Closes the workers that open_workers has created, after a failure. */
static void drop_workers(int n_pes)
{
    for (int i = 0; i < n_pes; i++) {
        if (ucxm.ports[i].worker)
            ucp_worker_destroy(ucxm.ports[i].worker);
        ucxm.ports[i].worker = NULL;
    }
    if (ucxm.context)
        ucp_cleanup(ucxm.context);
    ucxm.context = NULL;
}

/* The same; cleans up after a failure. UCX's messages are printed only if is_last, or if the failure has
 * another cause than lack of room. */
static const char *try_workers(int n_pes, bool is_last, bool *is_refused_out)
{
    const char *error;

    ucxm_noise_hold();
    error = open_workers(n_pes);
    *is_refused_out = error && ucxm.context != NULL;
    ucxm_noise_release(is_last || !*is_refused_out);
    if (error)
        drop_workers(n_pes);
    return error;
}

/* One process of the node at a time tries one place after another. */
static const char *open_workers_in_turn(int n_pes)
{
    int turn = ucxm_room_lock();
    bool has_room = ucxm_room_suffices(n_pes, 1) || ucxm_room_move(n_pes);
    bool is_refused = false;
    const char *error = try_workers(n_pes, !has_room, &is_refused);

    while (error && is_refused && has_room) {
        has_room = ucxm_room_move(n_pes);
        error = try_workers(n_pes, !has_room, &is_refused);
    }
    ucxm_room_unlock(turn);
    ucxm_room_report(n_pes);
    if (error)
        ucxm_room_remove();
    return error;
}

/* If there is no room for UCX's shared memory, it is moved to another folder (room.c). */
static const char *open_workers_with_room(int n_pes)
{
    bool is_refused = false;
    const char *error = NULL;

    if (!ucxm_room_is_needed())
        return open_workers(n_pes);
    if (!ucxm_room_is_permitted())
        return "the limit of file sizes (ulimit -f) is below UCX's shared memory: raise it to 5000 or more";
    if (ucxm_room_suffices(n_pes, ucxm.place.node_n_procs)) {
        error = try_workers(n_pes, false, &is_refused);
        if (!is_refused)
            return error;
    }
    return open_workers_in_turn(n_pes);
}

const char *ucxm_ports_open(int n_pes)
{
    const char *error = ucxm_launcher_find_near(&ucxm.is_near);

    if (error)
        return error;
    ucxm.n_pes = n_pes;
    ucxm.ports = calloc((size_t)n_pes, sizeof *ucxm.ports);
    if (!ucxm.ports)
        return "out of memory";
    ucxm_noise_filter();
    if ((error = open_workers_with_room(n_pes)))
        return error;
    ucxm_rings_open();
    if ((error = publish()))
        return error;
    if (ucxm_has_failed_peers())
        return "a process has failed";
    ucxm_members_set(BASE_LAUNCHED_OPEN);
    if (ucxm.place.proc_id >= ucxm.place.n_procs)
        return ucxm_members_await(BASE_LAUNCHED_OPEN, NULL, 0);
    return ucxm_launcher_fence(NULL, 0);
}

/* ---- Progress ---- */

/* While messages come through rings, and for RING_POLLS polls after the last one, UCX is polled only once
 * in POLLS_PER_UCX_POLL polls: polling it takes a considerable part of a message's time. The first poll after an
 * attempt to sleep always includes UCX (ucxm_port_arm). */
#define POLLS_PER_UCX_POLL 8
#define RING_POLLS 128

int ucxm_port_poll(int pe_id)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    int n_events;

    if (BASE_UNLIKELY(port->is_armed)) {
        port->is_armed = false;
        ucxm_rings_disarm(port);
    }
    n_events = ucxm_rings_poll(port);
    if (n_events > 0)
        port->ring_polls = RING_POLLS;
    else if (port->ring_polls > 0)
        port->ring_polls--;
    if (port->ring_polls == 0 || ++port->n_polls % POLLS_PER_UCX_POLL == 0) {
        n_events += (int)ucp_worker_progress(port->worker);
        port->is_busy = n_events > 0;
    } else if (n_events > 0) {
        port->is_busy = true;
    }
    if (BASE_UNLIKELY(port->greetings != NULL))
        ucxm_answer_greetings(port);
    return n_events;
}

int ucxm_port_fd(int pe_id)
{
    return ucxm.ports[pe_id].fd;
}

/* UCX may be armed only after a poll of UCX that found nothing, and if nothing was started since: operations may continue
 * in the next poll. A message on a transport without an endpoint of this process, such as the first one of another
 * process, is announced by a thread of UCX, which writes into the worker's eventfd; only a poll arms such a transport
 * again (seen in UCX 1.13). ucp_worker_arm reads that eventfd, and then fails. So a second attempt without a poll of UCX
 * in between would succeed, and the PE would sleep although the message is there. */
bool ucxm_port_arm(int pe_id)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];

    BASE_ASSERT(!port->is_armed);
    port->n_polls = POLLS_PER_UCX_POLL - 1; /* the next poll includes UCX */
    if (port->is_busy || !ucxm_rings_arm(port))
        return false;
    port->is_armed = true;
    if (ucp_worker_arm(port->worker) != UCS_OK)
        return false;
    atomic_fetch_add_explicit(&port->n_armed, 1, memory_order_relaxed);
    return true;
}

/* ---- Closing ---- */

static void progress_all(void)
{
    for (int i = 0; i < ucxm.n_pes; i++)
        while (ucxm_port_poll(i) || ucp_worker_progress(ucxm.ports[i].worker))
            ;
}

/* Answers the processes that still work. */
static void serve(void)
{
    bool is_fetching = false;

    progress_all();
    for (int i = 0; i < ucxm.n_pes; i++)
        is_fetching = is_fetching || ucxm.ports[i].n_fetching > 0;
    if (!is_fetching && ucxm.client.idle)
        ucxm.client.idle();
}

/* Time limit for the last control messages to leave; the receivers are waiting for them. */
#define PARTING_S 2

/* Time for data to leave after a process of another job has ended. */
#define GONE_S 0.5

/* Waits until all sent data has left. Data for a failed process never leaves; its requests are complete
 * already. False: timeout. */
static bool flush(double until_s)
{
    double gone_until_s = ucxm_now_s() + GONE_S;

    for (int i = 0; i < ucxm.n_pes && !ucxm_has_failed_peers(); i++) {
        ucp_request_param_t param = {0};
        ucs_status_ptr_t request = ucp_worker_flush_nbx(ucxm.ports[i].worker, &param);
        if (!UCS_PTR_IS_PTR(request))
            continue;
        while (ucp_request_check_status(request) == UCS_INPROGRESS && !ucxm_has_failed_peers()) {
            progress_all();
            if (until_s > 0 && ucxm_now_s() > until_s)
                return false;
            if (ucxm_now_s() > gone_until_s && ucxm_has_gone_peers())
                break;
        }
        ucp_request_free(request);
    }
    return true;
}

bool ucxm_ports_flush(double limit_s)
{
    double until_s = limit_s > 0 ? ucxm_now_s() + limit_s : 0;

    __atomic_store_n(&ucxm.is_closing, true, __ATOMIC_RELEASE);
    if (!flush(until_s))
        return false;
    if (ucxm_members_may_grow()) {
        ucxm_members_set(BASE_LAUNCHED_PARTING);
        if (ucxm_members_await(BASE_LAUNCHED_PARTING, serve, until_s) == ucxm_launcher_is_late)
            return false;
        (void)flush(ucxm_now_s() + PARTING_S);
        ucxm_members_set(BASE_LAUNCHED_PARTED);
        return ucxm_members_await(BASE_LAUNCHED_PARTED, serve, until_s) != ucxm_launcher_is_late;
    }
    if (!ucxm_shutdown(progress_all, until_s))
        return false;
    (void)flush(ucxm_now_s() + PARTING_S);
    /* After a failure this is the only process that waits. */
    return ucxm_launcher_fence(progress_all, until_s) != ucxm_launcher_is_late;
}

void ucxm_ports_close(void)
{
    for (int i = 0; i < ucxm.n_pes; i++)
        ucxm_disconnect(&ucxm.ports[i]);
    for (int i = 0; i < ucxm.n_pes; i++)
        ucp_worker_destroy(ucxm.ports[i].worker);
    ucxm_rings_close();
    ucp_cleanup(ucxm.context);
}
