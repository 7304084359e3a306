/* SPDX-License-Identifier: BSD-3-Clause
 *
 * registry.c: see registry.h. Owns the tables of the ports of this process and, in process 0, of the published names.
 *
 * Calls for another process are messages (AMPI_AM_REGISTRY), and so are their answers. Invariants:
 *   1. A call gets exactly one answer, unless its home fails. Its struct may be gone afterwards.
 *   2. An accept or a connect is in the queue of its port until it is answered: by a partner, by CLOSE, by WITHDRAW,
 *      or dropped because its process has failed.
 *   3. A call for another process is in `awaited` of its PE, and only that PE handles the answer.
 *
 * The tables are lists: a job has few ports and names, and connecting is rare.
 */
#include "ampi/dynamic/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "ampi/procs/procs.h"
#include "base/log.h"

/* How often a call checks whether a process of another job, which would answer it, has ended. */
#define LOOK_NS 20000000

/* Origin of a call. */
struct origin {
    int proc_id;
    int pe_id;
    int world_rank;  /* of the caller */
    uint64_t cookie; /* the address of its struct ampi_registry_call, in that process */
};

/* An accept or a connect that waits. */
struct waiting {
    struct waiting *next; /* next in the queue of its port */
    struct origin origin;
    bool is_accept;
};

struct port {
    struct port *next; /* next in the table */
    char name[64];
    struct waiting *queue; /* all accepts, or all connects */
    unsigned n_connections;
};

struct service {
    struct service *next; /* next in the table */
    char *name;
    char *port;
};

static struct {
    pthread_mutex_t lock;
    struct port *ports;
    unsigned n_opened;
    struct service *services;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Invariant 3, by PE. */
static struct ampi_registry_call *awaited[AMPI_PES_MAX];

/* Waiting calls, and connections in progress. */
static _Atomic int n_waiting;

/* Names of ports begin with this: a port of a universe is not one of a job outside. */
#define PORT "heddle-port:"
#define UNIVERSE_PORT "heddle-universe:"

/* ---- Answers ---- */

static void handle_answered(struct ult_wakeup *wakeup)
{
    struct ampi_registry_call *call = BASE_CONTAINER(wakeup, struct ampi_registry_call, wakeup);
    struct ult *waiter = call->waiter; /* the call may be gone when its request is complete */

    ampi_request_complete(&call->request);
    ult_end_sleep(waiter);
}

static void complete(struct ampi_registry_call *call, int error, int peer_world_rank, const char *text)
{
    call->error = error;
    call->peer_world_rank = peer_world_rank;
    snprintf(call->answer, sizeof call->answer, "%s", text);
    call->wakeup.handle = handle_answered;
    if (call->request.owner->ult.pe == ult_self()->pe)
        handle_answered(&call->wakeup);
    else
        ult_post_wakeup(call->request.owner->ult.pe, &call->wakeup);
}

static void answer(const struct origin *to, int error, int peer_world_rank, const char *text)
{
    struct ampi_am_header am = {.kind = AMPI_AM_REGISTRY,
                                .flags = AMPI_AM_DONE,
                                .cookie = to->cookie,
                                .tag = error,
                                .source = peer_world_rank};
    size_t n_bytes = strlen(text) + 1;
    char *copy;

    if (to->proc_id == ampi_job.proc_id) {
        complete((struct ampi_registry_call *)(uintptr_t)to->cookie, error, peer_world_rank, text);
        return;
    }
    copy = base_malloc(n_bytes, "an answer about a port");
    memcpy(copy, text, n_bytes);
    ampi_procs_post(to->proc_id, to->pe_id, &am, copy, n_bytes);
}

/* ---- Ports; with the lock ---- */

static struct port **find_port(const char *name)
{
    struct port **link = &table.ports;

    while (*link && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static void connect_two(struct port *port, const struct origin *a, const struct origin *b)
{
    char text[sizeof port->name + 16];

    snprintf(text, sizeof text, "%s/%u", port->name, ++port->n_connections);
    answer(a, MPI_SUCCESS, b->world_rank, text);
    answer(b, MPI_SUCCESS, a->world_rank, text);
}

static void join_queue(struct port *port, const struct origin *from, bool is_accept)
{
    struct waiting **link = &port->queue;
    struct waiting *first = port->queue;

    if (first && first->is_accept != is_accept) {
        port->queue = first->next;
        connect_two(port, from, &first->origin);
        free(first);
        return;
    }
    while (*link)
        link = &(*link)->next;
    *link = base_malloc(sizeof **link, "a connection");
    **link = (struct waiting){.origin = *from, .is_accept = is_accept};
}

static void close_port(struct port **link)
{
    struct port *port = *link;

    *link = port->next;
    while (port->queue) {
        struct waiting *waiting = port->queue;
        port->queue = waiting->next;
        answer(&waiting->origin, MPI_ERR_PORT, 0, "");
        free(waiting);
    }
    free(port);
}

static void serve_port(enum ampi_registry_op op, const struct origin *from, const char *name)
{
    struct port **link = find_port(name);

    if (!*link) {
        answer(from, MPI_ERR_PORT, 0, "");
        return;
    }
    if (op == AMPI_REGISTRY_ACCEPT || op == AMPI_REGISTRY_CONNECT) {
        join_queue(*link, from, op == AMPI_REGISTRY_ACCEPT);
        return;
    }
    if (op == AMPI_REGISTRY_CLOSE)
        close_port(link);
    answer(from, MPI_SUCCESS, 0, "");
}

/* Removes the waiting accepts and connects of a process from all queues; cookie 0: all of them, without an answer. */
static void withdraw(int proc_id, uint64_t cookie)
{
    for (struct port *port = table.ports; port; port = port->next)
        for (struct waiting **link = &port->queue; *link;) {
            struct waiting *waiting = *link;
            if (waiting->origin.proc_id != proc_id || (cookie && waiting->origin.cookie != cookie)) {
                link = &waiting->next;
                continue;
            }
            *link = waiting->next;
            if (cookie)
                answer(&waiting->origin, MPI_ERR_PENDING, 0, "");
            free(waiting);
        }
}

/* ---- Names; with the lock ---- */

static char *copy_of(const char *text)
{
    size_t n_bytes = strlen(text) + 1;

    return memcpy(base_malloc(n_bytes, "a published name"), text, n_bytes);
}

static void serve_name(enum ampi_registry_op op, const struct origin *from, const char *name,
                       const char *port)
{
    struct service **link = &table.services;
    struct service *service;

    while (*link && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    service = *link;
    if (op == AMPI_REGISTRY_LOOKUP) {
        answer(from, service ? MPI_SUCCESS : MPI_ERR_NAME, 0, service ? service->port : "");
        return;
    }
    if (op == AMPI_REGISTRY_PUBLISH ? service != NULL : !service || strcmp(service->port, port) != 0) {
        answer(from, MPI_ERR_SERVICE, 0, "");
        return;
    }
    if (op == AMPI_REGISTRY_PUBLISH) {
        *link = base_malloc(sizeof **link, "a published name");
        **link = (struct service){.name = copy_of(name), .port = copy_of(port)};
    } else {
        *link = service->next;
        free(service->name);
        free(service->port);
        free(service);
    }
    answer(from, MPI_SUCCESS, 0, "");
}

/* At the call's home. port and service may be empty. */
static void serve(enum ampi_registry_op op, const struct origin *from, const char *port, const char *service)
{
    pthread_mutex_lock(&table.lock);
    if (op == AMPI_REGISTRY_WITHDRAW)
        withdraw(from->proc_id, from->cookie);
    else if (op >= AMPI_REGISTRY_PUBLISH)
        serve_name(op, from, service, port);
    else
        serve_port(op, from, port);
    pthread_mutex_unlock(&table.lock);
}

bool ampi_registry_open_port(char *name_out)
{
    struct port *port;
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    port = base_calloc(1, sizeof *port, "a port");
    pthread_mutex_lock(&table.lock);
    snprintf(port->name, sizeof port->name, "%s%d:%u:%016llx%016llx", ampi_job.own_end ? UNIVERSE_PORT : PORT,
             ampi_job.proc_id, table.n_opened++, (unsigned long long)random[0],
             (unsigned long long)random[1]);
    port->next = table.ports;
    table.ports = port;
    snprintf(name_out, MPI_MAX_PORT_NAME, "%s", port->name);
    pthread_mutex_unlock(&table.lock);
    return true;
}

/* ---- Calls ---- */

/* The process of a port; -1: the name is not that of a port here. */
static int proc_of_port(const char *port)
{
    const char *start = ampi_job.own_end ? UNIVERSE_PORT : PORT;
    int proc_id;

    return strncmp(port, start, strlen(start)) == 0 && sscanf(port + strlen(start), "%d:", &proc_id) == 1 &&
                   proc_id >= 0 && proc_id < ampi_job.max_procs
               ? proc_id
               : -1;
}

/* No rank accepts or connects at a port of the process any more. */
static bool has_ended(int proc_id)
{
    return ampi_machine ? !ampi_procs_may_begin(proc_id) : proc_id > 0;
}

/* The call gets no answer: process 0 keeps the published names also while it is in MPI_Finalize. */
static bool is_lost(const struct ampi_registry_call *call, int home)
{
    return call->op >= AMPI_REGISTRY_PUBLISH && ampi_machine ? !ampi_procs_is_present(home) : has_ended(home);
}

bool ampi_registry_is_alive(const char *port)
{
    int proc_id = proc_of_port(port);

    return proc_id < 0 || !has_ended(proc_id);
}

void ampi_registry_explain(const char *port, char *text, size_t text_bytes)
{
    const char *other = ampi_job.own_end ? PORT : UNIVERSE_PORT;

    snprintf(text, text_bytes, "%.*s is not an open port of this %s%s", MPI_MAX_PORT_NAME, port,
             ampi_job.own_end ? "universe" : "job",
             strncmp(port, other, strlen(other)) == 0
                 ? ". It belongs to another job: start both programs with mpirun --universe (one rank: -n 1)"
                 : "");
}

/* The process that serves the call; -1: none, because the port's name is wrong. */
static int home_of(const struct ampi_registry_call *call)
{
    int proc_id = call->op >= AMPI_REGISTRY_PUBLISH ? 0 : proc_of_port(call->port);

    if (proc_id < 0 || !is_lost(call, proc_id))
        return proc_id;
    /* of this job: the call says that it was lost */
    return ampi_machine && ampi_procs_is_own(proc_id) && ampi_procs_is_started(proc_id) ? proc_id : -1;
}

static void send_call(struct ampi_registry_call *call, enum ampi_registry_op op)
{
    struct ampi_am_header am = {.kind = AMPI_AM_REGISTRY,
                                .cookie = (uint64_t)(uintptr_t)call,
                                .tag = (int32_t)op,
                                .source = call->request.owner->world_rank};
    const char *port = call->port ? call->port : "", *service = call->service ? call->service : "";
    size_t port_bytes = strlen(port) + 1, service_bytes = strlen(service) + 1;
    char *bytes = base_malloc(port_bytes + service_bytes, "a call about a port");

    memcpy(bytes, port, port_bytes);
    memcpy(bytes + port_bytes, service, service_bytes);
    ampi_procs_post(call->home, 0, &am, bytes, port_bytes + service_bytes);
}

static void start(struct ampi_registry_call *call, enum ampi_registry_op op)
{
    struct origin self = {.proc_id = ampi_job.proc_id,
                          .world_rank = call->request.owner->world_rank,
                          .cookie = (uint64_t)(uintptr_t)call};

    if (call->home == ampi_job.proc_id)
        serve(op, &self, call->port ? call->port : "", call->service ? call->service : "");
    else
        send_call(call, op);
}

/* Removes a call from the PE's list. False: it is not there. */
static bool take_awaited(int pe_id, const struct ampi_registry_call *call)
{
    struct ampi_registry_call **link = &awaited[pe_id];

    while (*link && *link != call)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = call->next;
    return true;
}

/* The process will not answer: it has ended, or will soon, unless it is one of this job, which still answers. */
static bool is_silent(int home)
{
    return ampi_procs_is_own(home) && ampi_machine ? !ampi_procs_is_present(home) : has_ended(home);
}

/* Waits for the answer until the call's time limit; then withdraws the call, and waits for the answer to that. A
 * process of another job or spawn may end without an answer. */
static void await_limited(struct ampi_registry_call *call, bool is_limited)
{
    uint64_t end_ns = is_limited ? ult_now_ns() + (uint64_t)(call->timeout_s * 1e9) : UINT64_MAX;

    while (ampi_request_is_active(&call->request)) {
        uint64_t now_ns = ult_now_ns();
        if (now_ns >= end_ns) {
            end_ns = UINT64_MAX;
            start(call, AMPI_REGISTRY_WITHDRAW);
        } else if (is_silent(call->home) && take_awaited(call->request.owner->pe_id, call)) {
            complete(call, MPI_ERR_PORT, 0, "");
        } else { /* the answer ends the sleep */
            ult_sleep_ns(LOOK_NS < end_ns - now_ns ? LOOK_NS : end_ns - now_ns);
        }
    }
}

int ampi_registry_run(struct ampi_registry_call *call)
{
    static const struct ampi_request_kind accept_kind = {.name = "accept, and no rank connects to the port"};
    static const struct ampi_request_kind outside_kind = {
        .name = "accept, and no rank connects to the port (ranks of other jobs cannot, without mpirun "
                "--universe)"};
    static const struct ampi_request_kind connect_kind = {.name = "connect, and no rank accepts at the port"};
    static const struct ampi_request_kind other_kind = {.name = "a question about a port or a name"};
    struct ampi_rank *self = ampi_self();
    bool is_limited =
        (call->op == AMPI_REGISTRY_ACCEPT || call->op == AMPI_REGISTRY_CONNECT) && call->timeout_s >= 0;
    bool is_waiting;

    if (ampi_job.own_end && call->op >= AMPI_REGISTRY_PUBLISH)
        return ampi_names_run(call);
    call->home = home_of(call);
    if (call->home < 0)
        return MPI_ERR_PORT;
    call->waiter = ult_self();
    ampi_request_init_on_stack(&call->request, self,
                               call->op == AMPI_REGISTRY_ACCEPT
                                   ? (ampi_job.own_end ? &accept_kind : &outside_kind)
                               : call->op == AMPI_REGISTRY_CONNECT ? &connect_kind
                                                                   : &other_kind,
                               NULL);
    if (call->home != ampi_job.proc_id) {
        struct ampi_registry_call **list = &awaited[self->pe_id];
        if (ampi_failed_is(call->home) || ampi_procs_is_failing(call->home))
            return MPI_ERR_PROC_ABORTED;
        if (is_lost(call, call->home)) /* a port ends with its process */
            return call->op >= AMPI_REGISTRY_PUBLISH ? MPI_ERR_PROC_ABORTED : MPI_ERR_PORT;
        call->next = *list;
        *list = call;
    }
    is_waiting = ampi_registry_begin_wait(call->op, call->port);
    start(call, call->op);
    if (is_limited || !ampi_procs_is_own(call->home))
        await_limited(call, is_limited);
    ampi_request_await(&call->request);
    ampi_registry_end_wait(is_waiting);
    return call->error;
}

/* ---- Messages and failures ---- */

static void handle_bytes(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct origin from = {
        .proc_id = (int)am->src_proc, .pe_id = am->src_pe, .world_rank = am->source, .cookie = am->cookie};
    struct ampi_registry_call *call = (struct ampi_registry_call *)(uintptr_t)am->cookie;
    const char *text = bytes;

    if (!(am->flags & AMPI_AM_DONE))
        serve((enum ampi_registry_op)am->tag, &from, text, text + strlen(text) + 1);
    else if (take_awaited(ult_pe_id(ult_self()->pe), call))
        complete(call, am->tag, am->source, text);
    free(bytes);
}

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, handle_bytes);
}

static void forget(int pe_id, int proc_id)
{
    for (struct ampi_registry_call **link = &awaited[pe_id]; *link;) {
        struct ampi_registry_call *call = *link;
        if (call->home != proc_id) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        complete(call, MPI_ERR_PROC_ABORTED, 0, "");
    }
    pthread_mutex_lock(&table.lock);
    withdraw(proc_id, 0);
    pthread_mutex_unlock(&table.lock);
}

bool ampi_registry_begin_wait(enum ampi_registry_op op, const char *port)
{
    int proc_id = port ? proc_of_port(port) : -1;
    bool is_waiting = op == AMPI_REGISTRY_ACCEPT || (proc_id >= 0 && !ampi_procs_is_own(proc_id));

    atomic_fetch_add(&n_waiting, is_waiting);
    return is_waiting;
}

void ampi_registry_end_wait(bool is_waiting)
{
    atomic_fetch_sub(&n_waiting, is_waiting);
}

/* A rank of any job of the universe may come to a port. */
static bool is_linked(bool *is_linked)
{
    (void)is_linked;
    return atomic_load(&n_waiting) > 0;
}

void ampi_registry_connect(void)
{
    static const struct ampi_procs_client client = {.forget = forget, .is_linked = is_linked};

    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_AM_REGISTRY, handle);
}
