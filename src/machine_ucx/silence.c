/* SPDX-License-Identifier: BSD-3-Clause
 *
 * silence.c: reports nodes that do not answer. A node that loses its power or its network closes no
 * connection: for many minutes there is no error, and the job waits without a word. A thread reports such a
 * node after a while, and that it answers again. It ends nothing: the node may come back.
 *
 * The evidence is the kernel's (TCP_INFO): data or probes that are sent again and again, and nothing that
 * comes back. A process that is stopped, or that computes for long, is not silent in this sense, because its
 * kernel acknowledges. UCX's keepalive sends data to each connected process, so a process that only waits
 * notices the silence, too.
 *
 * Which node it is follows from the address of the connection's other end, which is in the description that
 * its processes have published. Connections of the program to other hosts are ignored. Networks other than
 * TCP have their own limits, after which UCX reports an error.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* Seconds without an answer before the report; HEDDLE_SILENCE_LIMIT overrides it. */
#define LIMIT_S 30

/* Number of polls in that time. */
#define POLLS 10

/* The state of a node, kept with the first process there that this process knows. */
struct node {
    int n_silent;     /* successive polls without an answer; at POLLS it is reported */
    bool is_silent;   /* in this poll: a connection gets no answer */
    bool is_answered; /* in this poll: a connection has got one */
};

static struct {
    struct node *nodes; /* by process */
    int limit_s;
    int n_reported; /* silent nodes that were reported */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards is_over */
    pthread_cond_t ended;
    bool is_over;
} silence = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* ---- Whose address it is ---- */

/* host: "node2 (10.1.0.2, 10.2.0.2)" (host.c). */
static bool has_address(const char *host, const char *address)
{
    size_t length = strlen(address);

    for (const char *at = strchr(host, '('); at; at = strchr(at, ' ')) {
        at++;
        if (strncmp(at, address, length) == 0 && (at[length] == ',' || at[length] == ')'))
            return true;
    }
    return false;
}

/* The host of a process of another node that this process knows; NULL: there is none. */
static const char *host_of(int proc_id)
{
    if (ucxm.is_near[proc_id] || __atomic_load_n(&ucxm.processes[proc_id].n_pes, __ATOMIC_ACQUIRE) == 0 ||
        ucxm_is_failed(proc_id))
        return NULL;
    return ucxm.processes[proc_id].published->host;
}

/* The node at the other end of a connection; NULL: none of the job. A silent node stays the same when this
 * process gets to know more of its processes. */
static struct node *find_node(int fd)
{
    struct node *found = NULL;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    const void *address;
    char text[INET6_ADDRSTRLEN];

    if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 ||
        (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
        return NULL;
    address = peer.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&peer)->sin_addr
                                        : &((struct sockaddr_in6 *)&peer)->sin6_addr;
    if (!inet_ntop(peer.ss_family, address, text, sizeof text))
        return NULL;
    for (int i = 0; i < ucxm.place.n_procs; i++) {
        const char *host = host_of(i);
        if (host && (!found || silence.nodes[i].n_silent > found->n_silent) && has_address(host, text))
            found = &silence.nodes[i];
    }
    return found;
}

/* ---- Polling ---- */

/* Zero windows are no silence: their probes are answered, which sets the number of probes to 0. */
static void poll_connection(int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    bool is_silent, is_answered;
    struct node *node;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return;
    is_answered = info.tcpi_last_ack_recv < (uint32_t)silence.limit_s * 1000 / POLLS;
    is_silent = !is_answered && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0);
    if (!is_silent && !(is_answered && silence.n_reported > 0))
        return;
    node = find_node(fd);
    if (node && is_silent)
        node->is_silent = true;
    else if (node)
        node->is_answered = true;
}

/* "process 2 of 4 on host node2 (10.1.0.2)" or "processes 2, 3 of 4 on host ...", as far as this process
 * knows them. */
static void describe(int first, char *text_out, size_t size)
{
    const char *host = ucxm.processes[first].published->host;
    char list[128] = "";
    size_t n_bytes = 0;
    int n = 0;

    for (int i = first; i < ucxm.place.n_procs && n_bytes + 20 < sizeof list; i++)
        if (host_of(i) && strcmp(host_of(i), host) == 0)
            n_bytes += (size_t)snprintf(list + n_bytes, sizeof list - n_bytes, n++ ? ", %d" : "%d", i);
    snprintf(text_out, size, "%s %s%s of %d on host %s", n == 1 ? "process" : "processes", list,
             n_bytes + 20 < sizeof list ? "" : ", ...", ucxm.place.n_procs, host);
}

static void judge(int proc_id, struct node *node)
{
    char who[UCXM_HOST_BYTES + 256];
    bool is_reported = node->n_silent >= POLLS;

    if (node->is_silent && !is_reported && ++node->n_silent == POLLS) {
        describe(proc_id, who, sizeof who);
        base_log("process %d: no answer for %d s from %s: its node or the network may have failed; the job "
                 "goes on when it answers",
                 ucxm.place.proc_id, silence.limit_s, who);
    }
    if (is_reported && !node->is_silent && node->is_answered) {
        describe(proc_id, who, sizeof who);
        base_log("process %d: answers again: %s", ucxm.place.proc_id, who);
        node->n_silent = 0;
    }
    if (!is_reported && !node->is_silent)
        node->n_silent = 0;
    node->is_silent = node->is_answered = false;
}

/* Waits until the next poll; false: the end. Counts polls instead of reading the clock: a stopped process has not
 * waited. */
static bool pause_poll(void)
{
    struct timespec until;
    bool is_over;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(silence.limit_s % POLLS) * (1000000000 / POLLS);
    until.tv_sec += silence.limit_s / POLLS + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&silence.lock);
    while (!silence.is_over && pthread_cond_timedwait(&silence.ended, &silence.lock, &until) == 0)
        ;
    is_over = silence.is_over;
    pthread_mutex_unlock(&silence.lock);
    return !is_over;
}

static void *watch(void *arg)
{
    pthread_setname_np(pthread_self(), "heddle silence");
    while (pause_poll()) {
        ucxm_descriptors_each(poll_connection);
        silence.n_reported = 0;
        for (int i = 0; i < ucxm.place.n_procs; i++) {
            if (ucxm_is_failed(i))
                silence.nodes[i].n_silent = 0;
            else
                judge(i, &silence.nodes[i]);
            silence.n_reported += silence.nodes[i].n_silent >= POLLS;
        }
    }
    return arg;
}

/* ---- Beginning and end ---- */

void ucxm_silence_begin(void)
{
    if (ucxm.place.node_n_procs == ucxm.place.n_procs)
        return;
    silence.limit_s = ucxm_watchdog_read("HEDDLE_SILENCE_LIMIT", LIMIT_S);
    silence.nodes = calloc((size_t)ucxm.place.n_procs, sizeof *silence.nodes);
    silence.has_thread = silence.nodes && ucxm_watchdog_thread(&silence.thread, watch, NULL);
}

void ucxm_silence_end(void)
{
    if (!silence.has_thread)
        return;
    pthread_mutex_lock(&silence.lock);
    silence.is_over = true;
    pthread_cond_signal(&silence.ended);
    pthread_mutex_unlock(&silence.lock);
    pthread_join(silence.thread, NULL);
    silence.has_thread = false;
}
