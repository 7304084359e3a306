/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocked.c: see report.h.
 */

#include <string.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "ampi/job/report.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/message.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "ampi/p2p/schedule.h"
#include "ampi/rma/epoch.h"
#include "base/log.h"
#include "image/image.h"

/* Maximum number of requests that are listed. */
#define REQUESTS_MAX 4

/* Messages or receives that are compared with a pending one. */
#define LOOKS_MAX 1000

/* ---- Requests ---- */

/* "from rank 3, tag 5" of a receive or a probe on the communicator. */
static void add_source(struct ampi_line *line, const struct ampi_comm *comm, int source, int tag)
{
    if (source == AMPI_SCHEDULE_NOBODY)
        ampi_line_add(line, " from nobody, as in the record");
    else if (source == MPI_ANY_SOURCE)
        ampi_line_add(line, " from any rank");
    else
        ampi_line_add_number(line, " from rank ", source, comm->rank, comm->peer->n_ranks);
    if (tag == MPI_ANY_TAG)
        ampi_line_add(line, ", any tag");
    else
        ampi_line_add_number(line, ", tag ", tag, comm->rank, 0);
}

/* The peer belongs to the remote group of an intercommunicator. */
static void add_comm(struct ampi_line *line, const struct ampi_comm *comm)
{
    if (comm && comm != comm->owner->world)
        ampi_line_add(line, " (of %s%s of size %d)", comm->shared->is_inter ? "the remote group of " : "",
                      comm->name               ? comm->name
                      : comm->shared->is_inter ? "an intercommunicator,"
                                               : "a communicator",
                      comm->peer->n_ranks);
}

static void add_partitioned(struct ampi_line *line, const struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;
    const struct ampi_comm *comm = request->comm;

    ampi_line_add_number(line, end->is_send ? "partitioned send to rank " : "partitioned receive from rank ",
                         end->peer_rank, comm->rank, comm->peer->n_ranks);
    ampi_line_add_number(line, ", tag ", end->tag, comm->rank, 0);
    if (end->is_send && end->n_ready < end->n_partitions)
        ampi_line_add(line, ", without MPI_Pready for %d of %d partitions", end->n_partitions - end->n_ready,
                      end->n_partitions);
    add_comm(line, comm);
}

static void add_request(struct ampi_line *line, const struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;
    size_t len = strlen(line->text);

    if (request->kind->describe) {
        request->kind->describe(request, line->text + len, sizeof line->text - len);
        return;
    }
    if (ampi_request_is_partitioned(request)) {
        add_partitioned(line, request);
        return;
    }
    ampi_line_add(line, "%s", request->kind->name);
    if (ampi_request_is_recv(request)) {
        add_source(line, request->comm, p2p->node.source, p2p->node.tag);
    } else if (ampi_request_is_send(request)) {
        ampi_line_add_number(line, " to rank ", p2p->peer_rank, request->comm->rank,
                             request->comm->peer->n_ranks);
        ampi_line_add_number(line, ", tag ", p2p->tag, request->comm->rank, 0);
    }
    add_comm(line, request->comm);
}

static int partitioned_peer(const struct ampi_request *request)
{
    return ((const struct ampi_partitioned *)request->u.extra)->peer_rank;
}

static void add_requests(struct ampi_line *line, const struct ult *u)
{
    struct ampi_request *const *wait_for = u->wait_for;
    int n_shown = 0, n_left = 0;

    for (int i = 0; i < u->n_wait_for; i++) {
        if (!wait_for[i] || !ampi_request_is_active(wait_for[i]))
            continue;
        if (n_shown >= REQUESTS_MAX) {
            n_left++;
            continue;
        }
        ampi_line_add(line, "%s", n_shown++ ? ", " : " in ");
        add_request(line, wait_for[i]);
    }
    if (n_left > 0)
        ampi_line_add(line, " and %d more", n_left);
}

/* ---- The place of the call ---- */

void ampi_blocked_add_user_fn(struct ampi_line *line, const void *user_fn)
{
    struct image_place place;
    char text[AMPI_CALL_SITE_BYTES];
    struct base_text name = base_text_in(text, sizeof text);

    image_place_find_line(user_fn, &place);
    if (place.function[0])
        ampi_backtrace_add_place(&name, &place, false);
    ampi_line_add(line, "in the function %s%sof a reduction operation, which may not wait for other ranks",
                  text, place.function[0] ? " " : "");
}

/* u->sp is that of its last wait: on the stack of a process's main thread only a rank that still waits is searched for. */
static void add_call(struct ampi_line *line, const struct ult *u, bool waits)
{
    const void *from = u->called_from ? u->called_from : u->resume_at;
    char text[AMPI_CALL_SITE_BYTES];

    if (!ult_is_bound(u) && u->sp && (const char *)u->sp >= u->stack_lo && (u->stack_lo || waits))
        from = ampi_call_site_of(u->owner, from, u->sp, u->stack_hi);
    if (ampi_call_site_describe(from, text))
        ampi_line_add(line, "; called at %s", text);
}

/* ---- Near misses ---- */

/* A pending receive, probe or send, and its nearest miss. */
struct wanted {
    const struct ampi_comm *comm;
    int source, tag;
    bool is_any_peer;                 /* with the same tag and communicator, and another peer */
    const struct ampi_comm *found_on; /* NULL: nothing found */
    int found_source, found_tag;
};

static int world_rank_of(const struct ampi_comm *comm, int source)
{
    return ampi_group_world_rank(comm->peer->layout->group, source);
}

/* A message or receive (source, tag) on a communicator of the same rank: with the same peer and another tag, or with the same tag
 * and another communicator, or, if there is no such one, with another peer. */
static bool is_near(const struct wanted *wanted, const struct ampi_comm *comm, int source, int tag)
{
    bool is_any = source == MPI_ANY_SOURCE || wanted->source == MPI_ANY_SOURCE;
    bool is_tag = tag == wanted->tag || tag == MPI_ANY_TAG || wanted->tag == MPI_ANY_TAG;

    if (source == AMPI_SCHEDULE_NOBODY || wanted->source == AMPI_SCHEDULE_NOBODY)
        return false;
    if (wanted->is_any_peer)
        return comm == wanted->comm && tag == wanted->tag;
    if (!is_any && world_rank_of(comm, source) != world_rank_of(wanted->comm, wanted->source))
        return false;
    return comm == wanted->comm ? !is_any && !is_tag : is_tag;
}

static void take_near(struct wanted *wanted, const struct ampi_comm *comm, const struct ampi_match_node *node)
{
    if (wanted->found_on || !is_near(wanted, comm, node->source, node->tag))
        return;
    wanted->found_on = comm;
    wanted->found_source = node->source;
    wanted->found_tag = node->tag;
}

/* Searches the unexpected messages of a communicator. */
static void find_message(struct ampi_comm *comm, void *arg)
{
    const struct ampi_match_node *node = comm->match.first_arrived;

    if (comm->shared->window || comm->shared->file)
        return;
    for (int i = 0; node && i < LOOKS_MAX; i++, node = node->later)
        take_near(arg, comm, node);
}

/* Searches the posted receives of a communicator. */
static void find_receive(struct ampi_comm *comm, void *arg)
{
    const struct ampi_match_table *table = &comm->match.posted;
    int n = 0;

    for (uint32_t i = 0; table->n_nodes > 0 && i < 1u << table->log2_chains; i++)
        for (const struct ampi_match_node *node = table->chains[i].first; node && n < LOOKS_MAX;
             node = node->next, n++)
            take_near(arg, comm, node);
}

static void add_found(struct ampi_line *line, const struct wanted *wanted)
{
    const struct ampi_comm *on = wanted->found_on;

    if (wanted->found_source == MPI_ANY_SOURCE)
        ampi_line_add(line, " from any rank");
    else
        ampi_line_add_number(line, " from rank ", wanted->found_source, on->rank, on->peer->n_ranks);
    if (wanted->found_tag == MPI_ANY_TAG)
        ampi_line_add(line, ", any tag");
    else
        ampi_line_add_number(line, ", tag ", wanted->found_tag, on->rank, 0);
    if (on != wanted->comm)
        ampi_line_add(line,
                      on == on->owner->world ? ", on MPI_COMM_WORLD"
                      : on->name             ? ", on %s of size %d"
                                             : ", on another communicator%.0s of size %d",
                      on->name ? on->name : "", on->peer->n_ranks);
}

static void add_near_message(struct ampi_line *line, const struct ampi_comm *comm, int source, int tag)
{
    const struct ampi_match_node *first = comm->match.first_arrived;
    struct wanted wanted = {comm, source, tag, false, NULL, 0, 0};

    ampi_comm_each(comm->owner, find_message, &wanted);
    if (!wanted.found_on && first && !first->later) { /* one of many would say nothing */
        wanted.is_any_peer = true;
        take_near(&wanted, comm, first);
    }
    if (!wanted.found_on)
        return;
    ampi_line_add(line, "; near miss: a message");
    add_found(line, &wanted);
}

/* A receive at the destination of a send, which is a rank of this process. */
static void add_near_receive(struct ampi_line *line, const struct ampi_request *send, int pe_id)
{
    const struct ampi_comm_side *side = send->comm->peer;
    struct ampi_comm *peer = side->layout->pe_of[send->u.p2p.peer_rank] == AMPI_PE_REMOTE
                                 ? NULL
                                 : &side->handles[send->u.p2p.peer_rank];
    struct wanted wanted = {peer, send->comm->rank, send->u.p2p.tag, false, NULL, 0, 0};

    if (!peer || (pe_id >= 0 && peer->owner->pe_id != pe_id))
        return;
    ampi_comm_each(peer->owner, find_receive, &wanted);
    if (!wanted.found_on)
        return;
    ampi_line_add_number(line, "; near miss: rank ", send->u.p2p.peer_rank, send->comm->rank,
                         send->comm->peer->n_ranks);
    ampi_line_add(line, " receives");
    add_found(line, &wanted);
}

static void add_near_misses(struct ampi_line *line, const struct ult *u, int pe_id)
{
    struct ampi_request *const *wait_for = u->wait_for;
    int n = 0;

    for (int i = 0; i < u->n_wait_for && n < REQUESTS_MAX; i++) {
        const struct ampi_request *request = wait_for[i];
        if (!request || !ampi_request_is_active(request) || !request->comm || request->kind->describe)
            continue;
        n++;
        if (ampi_request_is_recv(request))
            add_near_message(line, request->comm, request->u.p2p.node.source, request->u.p2p.node.tag);
        else if (ampi_request_is_send(request))
            add_near_receive(line, request, pe_id);
    }
}

/* ---- Probes ---- */

/* The probe that a thread is blocked in. */
struct probe {
    const struct ult *ult;
    const struct ampi_comm *comm; /* NULL: none */
    const struct ampi_prober *prober;
};

static void find_probe(struct ampi_comm *comm, void *arg)
{
    struct probe *probe = arg;

    for (const struct ampi_prober *prober = comm->probers; prober; prober = prober->next)
        if (prober->ult == probe->ult) {
            probe->comm = comm;
            probe->prober = prober;
        }
}

/* ---- A blocked thread ---- */

/* The main thread of a rank with threads, in the program's own code: it may wait there for others. */
static void add_outside(const struct ult *u, struct ampi_line *line)
{
    long call = ult_tid(u) == gettid() ? -1 : ampi_stuck_call_of(ult_tid(u));

    ampi_line_add(line, "outside MPI");
    if (call >= 0)
        ampi_line_add(line, ", in the system call %s", ampi_stuck_call_name(call));
    if (u->call)
        ampi_line_add(line, "; last MPI call: %s", u->call);
}

/* True if a rank sleeps, or waits for something else than MPI by sleeping again and again. Its PE may not have seen yet that the
 * time is over; then it is not in MPI if it is in the library, but has not passed the gate (gate.h). */
static bool is_asleep_now(const struct ult *u)
{
    return u->state == ULT_BLOCKED && u->wake_at_ns > 0 &&
           (u->wake_at_ns > ult_now_ns() || (u->depth > 0 && !u->called_from && !u->waits_for));
}

/* The thread that a main thread waits for in pthread_join, if that is blocked; NULL: none. */
static const struct ult *find_joined(const struct ult *u, const void **from_out)
{
    const struct ampi_rank *rank = u->owner;

    return u == &rank->ult ? ampi_join_of_main(rank, from_out) : NULL;
}

void ampi_blocked_add_join(struct ampi_line *line, const void *from)
{
    char text[AMPI_CALL_SITE_BYTES];

    ampi_line_add(line, "pthread_join: blocked");
    if (ampi_call_site_describe(from, text))
        ampi_line_add(line, "; called at %s", text);
}

/* A thread that is not blocked in MPI. False: it is. */
static bool add_state(const struct ult *u, struct ampi_line *line)
{
    bool is_asleep = is_asleep_now(u);

    if (ult_is_blocked(u) && !is_asleep)
        return false;
    if (u->state == ULT_RUNNING && u->depth == 0 && ult_pe_is_shared(u->pe) &&
        u == &((const struct ampi_rank *)u->owner)->ult) {
        add_outside(u, line);
        return true;
    }
    if (u->call)
        ampi_line_add(line, "%s: ", u->call);
    ampi_line_add(line, "%s", is_asleep ? "then sleeps" : u->call ? "runs, or is ready to run" : "runs");
    add_call(line, u, false);
    return true;
}

void ampi_blocked_describe(const struct ult *u, int pe_id, struct ampi_line *line)
{
    struct probe probe = {u, NULL, NULL};
    const struct ampi_rank *rank = u->owner;
    struct ampi_entered entered;
    const void *from;

    if (pe_id >= 0 && add_state(u, line))
        return;
    if (find_joined(u, &from)) {
        ampi_blocked_add_join(line, from);
        return;
    }
    entered = ampi_entered_of(u, pe_id < 0);
    if (u->call)
        ampi_line_add(line, "%s: ", u->call);
    ampi_line_add(line, "blocked");
    add_requests(line, u);
    ampi_entered_add_comm(line, &entered, u);
    if (u->n_wait_for == 0)
        ampi_comm_each(rank, find_probe, &probe);
    if (probe.prober) {
        ampi_line_add(line, " in probe");
        add_source(line, probe.comm, probe.prober->source, probe.prober->tag);
        add_comm(line, probe.comm);
    }
    add_call(line, u, pe_id < 0);
    if (u->user_fn) {
        ampi_line_add(line, "; ");
        ampi_blocked_add_user_fn(line, u->user_fn);
    }
    if (rank->coll_refused)
        ampi_line_add(line, "; it did not take part in an earlier collective: %s", rank->coll_refused);
    ampi_entered_add_missing(line, &entered);
    add_near_misses(line, u, pe_id);
    if (probe.prober)
        add_near_message(line, probe.comm, probe.prober->source, probe.prober->tag);
}

/* The world rank that a message comes from or goes to; -1: none, or not known. */
static int peer_of(const struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;
    int peer = -1;

    if (!request->comm || request->kind->describe)
        return -1;
    if (ampi_request_is_recv(request))
        peer = p2p->node.source;
    else if (ampi_request_is_send(request))
        peer = p2p->peer_rank;
    else if (ampi_request_is_partitioned(request))
        peer = partitioned_peer(request);
    return peer >= 0 ? world_rank_of(request->comm, peer) : -1;
}

int ampi_blocked_waits_for(const struct ampi_rank *rank)
{
    struct ampi_request *const *wait_for;
    const struct ult *u, *joined;
    struct probe probe = {NULL, NULL, NULL};
    struct ampi_entered entered;
    int peer = -1, holder = -1, n_active = 0;
    const void *from;

    if (rank->state == AMPI_RANK_ENDED)
        return -1;
    joined = find_joined(&rank->ult, &from);
    u = joined ? joined : &rank->ult;
    if (!ult_is_blocked(u))
        return -1;
    wait_for = u->wait_for;
    for (int i = 0; i < u->n_wait_for; i++) {
        const struct ampi_request *request = wait_for[i];
        if (!request || !ampi_request_is_active(request))
            continue;
        n_active++;
        if (request->kind->describe && holder < 0)
            holder = ampi_epoch_waits_for(request);
        if (peer < 0)
            peer = peer_of(request);
    }
    if (u->wait_left < (unsigned)n_active)
        return -1;
    if (u->n_wait_for == 0) {
        probe.ult = u;
        ampi_comm_each(rank, find_probe, &probe);
    }
    if (probe.prober && probe.prober->source >= 0)
        peer = world_rank_of(probe.comm, probe.prober->source);
    entered = ampi_entered_of(u, true);
    if (peer < 0 && entered.comm)
        peer = ampi_entered_first_missing(&entered);
    return peer >= 0 ? peer : holder;
}
