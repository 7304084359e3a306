/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choices.c: see choices.h.
 *
 * The ranks of one PE run until all are blocked. Receives from any source have not been matched until then: they are
 * posted, and messages that they accept wait in the unexpected table. So all sources from which a receive can get a
 * message without another choice are known. One point of choice is decided, and the ranks run on.
 *
 * A choice is among the sources of a receive or probe, or the complete requests of MPI_Waitany. It has one more alternative: to
 * wait, with these sources asleep, until other choices have brought another source. mpirun runs it only if such a source was seen
 * in a run (has_late). If nothing but sleeping alternatives is left, another run has the same matches in another order, and
 * this one ends.
 *
 * A poll finds nothing when no choice is left, or at once if the rank's previous poll has found something.
 *
 * Why all orders are seen: matches at different receivers are independent. Those at one receiver depend on each other only if
 * they take the same message or are the same receive, and at each point all sources of one receive are tried. A source that
 * is not there yet sends independently of this receive. So it also sends in the runs below this point, where it is noticed.
 */
#include "ampi/p2p/choices.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/choices_log.h"
#include "base/log.h"

/* Alternatives of a point that are considered; a point with more ends the run. */
#define ALTERNATIVES_MAX 1024

/* A point of choice. */
struct point {
    struct ampi_comm *comm;      /* NULL: of any_wait */
    struct ampi_request *recv;   /* one of the three is set */
    struct ampi_prober **prober; /* the link to it */
    struct any_wait *any_wait;
    int ids[ALTERNATIVES_MAX]; /* sources or indices, without sleeping ones */
    int n_ids;
};

/* Alternatives of a point that are tried in other runs. */
struct asleep {
    struct asleep *next;
    const void *who; /* the receive, prober or any_wait */
    int n_ids;
    int ids[];
};

/* A receive or probe that has been decided: to notice sources that come later. */
struct decided {
    const struct ampi_comm *comm;
    int tag;        /* or MPI_ANY_TAG */
    uint32_t index; /* in the log */
    int n_ids;
    int *ids; /* the sources that it had */
};

/* A rank that waits for a choice among requests; on its stack. */
struct any_wait {
    struct any_wait *next;
    struct ult *ult;
    struct ampi_request *const *requests;
    int n_requests;
    int chosen;
};

/* A rank whose poll has found nothing; on its stack. */
struct poller {
    struct poller *next;
    struct ampi_rank *rank;
    struct ult *ult;
    bool looks_again;
};

static struct {
    struct base_choices_log *log;
    const char *rest; /* of the list of choices that are prescribed */
    struct asleep *asleep;
    struct decided *decided;
    uint32_t n_decided;
    struct any_wait *any_waits;
    struct poller *pollers;
    uint64_t n_changes;   /* decisions so far */
    uint64_t n_looked_at; /* n_changes at the pollers' last poll ... */
    bool has_looked;      /* ... and nothing else has happened since, unless n_changes differs */
    int mode;             /* of sends; -1: not chosen yet */
    uint8_t *has_failed;  /* by rank: its last poll found nothing */
} run = {.mode = -1};

/* ---- The log ---- */

/* Collective calls from which MPI lets a rank return before the others have called them. Here it waits for all. */
static const char *const waiting[] = {"MPI_Bcast",      "MPI_Ibcast",      "MPI_Gather",    "MPI_Igather",
                                      "MPI_Scatter",    "MPI_Iscatter",    "MPI_Reduce",    "MPI_Ireduce",
                                      "MPI_Scan",       "MPI_Iscan",       "MPI_Exscan",    "MPI_Iexscan",
                                      "MPI_Allgatherv", "MPI_Iallgatherv", "MPI_Alltoallv", "MPI_Ialltoallv",
                                      "MPI_Alltoallw",  "MPI_Ialltoallw",  "MPI_Neighbor_", "MPI_Ineighbor_"};

static void watch_call(const char *call, bool is_thread)
{
    const char *open = ampi_schedule_open_call(call, is_thread);

    run.log->has_waiting |= ampi_schedule_is_among(call, waiting, BASE_COUNT(waiting));
    if (!run.log->unseen[0] && open)
        snprintf(run.log->unseen, sizeof run.log->unseen, "%s", open);
}

void ampi_choices_begin(const char *list)
{
    const char *path = secure_getenv(BASE_CHOICES_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (ampi_job.n_pes > 1 || ampi_machine)
        base_fatal(2, "+schedule choices: only in a job of one process with one PE (+p 1)");
    if (fd >= 0) {
        run.log = mmap(NULL, sizeof *run.log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    if (!run.log || run.log == MAP_FAILED)
        run.log = base_calloc(1, sizeof *run.log, "choices");
    unsetenv(BASE_CHOICES_VARIABLE);
    run.rest = list;
    run.has_failed = base_calloc((size_t)ampi_job.n_local, 1, "choices");
    ampi_gate_watcher = watch_call;
}

static BASE_COLD void depart(const char *why) BASE_NORETURN;
static void depart(const char *why)
{
    run.log->has_departed = true;
    base_log("+schedule choices: choice %u: %s", run.log->n_choices, why);
    fflush(stdout);
    _exit(1);
}

/* Makes the next choice, and writes it into the log. 0 <= result < n, or n if the choice is to wait. */
static int choose(int n, enum base_choice_kind kind, int rank, bool can_wait)
{
    struct base_choice *choice;
    char *end;
    long chosen = strtol(run.rest, &end, 10);

    if (run.log->n_choices == BASE_CHOICES_MAX)
        depart("there are too many; use fewer ranks or messages");
    run.rest = *end == '.' ? end + 1 : end;
    if (chosen < 0 || chosen > n || (chosen == n && !can_wait))
        depart("the list does not fit this program, or the program does not repeat its run");
    choice = &run.log->choices[run.log->n_choices];
    *choice = (struct base_choice){
        .n_alternatives = (uint16_t)n, .chosen = (uint16_t)chosen, .kind = (uint8_t)kind, .rank = rank};
    run.log->n_choices++;
    return (int)chosen;
}

bool ampi_choices_sends_wait(void)
{
    if (run.mode < 0)
        run.mode = choose(2, BASE_CHOICE_SENDS, -1, false);
    return run.mode > 0;
}

/* ---- Who may get which message ---- */

static inline bool accepts(int source, int tag, const struct ampi_match_node *message)
{
    return (source == MPI_ANY_SOURCE || source == message->source) &&
           (tag == MPI_ANY_TAG || tag == message->tag);
}

/* The posted receive that is next in the order of posting after this number; NULL: none. */
static struct ampi_match_node *next_posted(const struct ampi_match *match, uint64_t after)
{
    struct ampi_match_node *next = NULL;

    for (uint32_t i = 0; i < 1u << match->posted.log2_chains; i++)
        for (struct ampi_match_node *node = match->posted.chains[i].first; node; node = node->next)
            if (node->seq > after && (!next || node->seq < next->seq))
                next = node;
    return next;
}

/* A receive that was posted before this number may get the message. */
static bool is_held(const struct ampi_match *match, const struct ampi_match_node *message, uint64_t before)
{
    const struct ampi_match_node *node = NULL;

    while ((node = next_posted(match, node ? node->seq : 0)) && node->seq < before)
        if (accepts(node->source, node->tag, message))
            return true;
    return false;
}

bool ampi_choices_defers(const struct ampi_comm *comm, int source, int tag)
{
    const struct ampi_match_node *message;

    if (!comm->match.is_lazy)
        return false;
    if (source == MPI_ANY_SOURCE)
        return true;
    message = ampi_match_find_unexpected(&comm->match, source, tag);
    return message && is_held(&comm->match, message, UINT64_MAX);
}

/* ---- Matching ---- */

static void receive(struct ampi_comm *comm, struct ampi_request *recv, struct ampi_match_node *node)
{
    struct ampi_message *message = BASE_CONTAINER(node, struct ampi_message, node);
    struct ampi_p2p *p2p = &recv->u.p2p;

    ampi_match_remove_unexpected(&comm->match, node);
    ampi_match_remove_posted(&comm->match, &p2p->node);
    p2p->is_posted = false;
    ampi_p2p_matched(&comm->match, &p2p->node, node->source, node->tag, false);
    if (ampi_message_is_away(message, p2p->buf, p2p->count, p2p->type)) {
        ampi_message_receive(message, recv);
        return;
    }
    ampi_message_consume(recv->owner, message, p2p->buf, p2p->count, p2p->type, &recv->status);
    ampi_request_complete(recv);
}

/* Matches a posted receive without choice, or wakes a probe whose message is not held any more. False: there is none. */
static bool settle_comm(struct ampi_comm *comm)
{
    struct ampi_match_node *node = NULL, *message;
    struct ampi_prober **link = &comm->probers, *prober;

    while ((node = next_posted(&comm->match, node ? node->seq : 0)))
        if (node->source != MPI_ANY_SOURCE &&
            (message = ampi_match_find_unexpected(&comm->match, node->source, node->tag)) &&
            !is_held(&comm->match, message, node->seq)) {
            receive(comm, BASE_CONTAINER(node, struct ampi_request, u.p2p.node), message);
            return true;
        }
    while ((prober = *link) && prober != &ampi_prober_watch) {
        message = prober->source == MPI_ANY_SOURCE
                      ? NULL
                      : ampi_match_find_unexpected(&comm->match, prober->source, prober->tag);
        if (message && !is_held(&comm->match, message, UINT64_MAX)) {
            *link = prober->next;
            ult_ready(prober->ult);
            return true;
        }
        link = &prober->next;
    }
    return false;
}

/* ---- Points of choice ---- */

static struct asleep **find_asleep(const void *who)
{
    struct asleep **link = &run.asleep;

    while (*link && (*link)->who != who)
        link = &(*link)->next;
    return link;
}

static const void *who_of(const struct point *point)
{
    return point->recv     ? (const void *)point->recv
           : point->prober ? (const void *)*point->prober
                           : (const void *)point->any_wait;
}

static void put_to_sleep(const struct point *point)
{
    struct asleep **link = find_asleep(who_of(point)), *old = *link;
    int n_old = old ? old->n_ids : 0;
    struct asleep *both = base_malloc(sizeof *both + (size_t)(n_old + point->n_ids) * sizeof(int), "choices");

    *both = (struct asleep){old ? old->next : NULL, who_of(point), n_old + point->n_ids};
    if (old)
        memcpy(both->ids, old->ids, (size_t)n_old * sizeof(int));
    memcpy(both->ids + n_old, point->ids, (size_t)point->n_ids * sizeof(int));
    *link = both;
    free(old);
}

static bool has_id(const int *ids, int n_ids, int id)
{
    for (int i = 0; i < n_ids; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static void add_id(struct point *point, int id)
{
    const struct asleep *asleep = *find_asleep(who_of(point));

    if (asleep && has_id(asleep->ids, asleep->n_ids, id))
        return;
    if (point->n_ids == ALTERNATIVES_MAX)
        depart("it has too many alternatives");
    point->ids[point->n_ids++] = id;
}

/* The sources of messages that a receive or probe with any source can get: the first that it accepts of each source, unless a
 * receive that was posted before `before` may get it. */
static void find_sources(struct point *point, int tag, uint64_t before)
{
    const struct ampi_match *match = &point->comm->match;

    for (const struct ampi_match_node *node = match->first_arrived; node; node = node->later) {
        const struct ampi_match_node *earlier = match->first_arrived;
        while (earlier != node && !(earlier->source == node->source && accepts(MPI_ANY_SOURCE, tag, earlier)))
            earlier = earlier->later;
        if (earlier == node && accepts(MPI_ANY_SOURCE, tag, node) && !is_held(match, node, before))
            add_id(point, node->source);
    }
}

static void remember(const struct point *point, int tag)
{
    const struct asleep *asleep = *find_asleep(who_of(point));
    int n_asleep = asleep ? asleep->n_ids : 0;
    struct decided *all = realloc(run.decided, (run.n_decided + 1) * sizeof *all);
    int *ids = base_malloc((size_t)(point->n_ids + n_asleep) * sizeof *ids, "choices");

    if (!all)
        base_fatal(1, "out of memory: choices");
    run.decided = all;
    memcpy(ids, point->ids, (size_t)point->n_ids * sizeof *ids);
    if (asleep)
        memcpy(ids + point->n_ids, asleep->ids, (size_t)n_asleep * sizeof *ids);
    all[run.n_decided++] =
        (struct decided){point->comm, tag, run.log->n_choices - 1, point->n_ids + n_asleep, ids};
}

void ampi_choices_arrived(const struct ampi_comm *comm, int source, int tag)
{
    for (uint32_t i = 0; i < run.n_decided; i++) {
        const struct decided *decided = &run.decided[i];
        if (decided->comm == comm && (decided->tag == MPI_ANY_TAG || decided->tag == tag) &&
            !has_id(decided->ids, decided->n_ids, source))
            run.log->choices[decided->index].has_late = true;
    }
}

static void wake_up(const struct point *point)
{
    struct asleep **link = find_asleep(who_of(point)), *asleep = *link;

    if (asleep)
        *link = asleep->next;
    free(asleep);
}

/* Decides a point that has alternatives. False: it waits. */
static bool decide_message(struct point *point, int tag)
{
    struct ampi_comm *comm = point->comm;
    int chosen = choose(point->n_ids, BASE_CHOICE_MESSAGE, comm->owner->world_rank, true);

    if (chosen == point->n_ids) {
        put_to_sleep(point);
        return false;
    }
    run.log->choices[run.log->n_choices - 1].id = point->ids[chosen];
    remember(point, tag);
    wake_up(point);
    if (point->recv) {
        receive(comm, point->recv, ampi_match_find_unexpected(&comm->match, point->ids[chosen], tag));
    } else {
        struct ampi_prober *prober = *point->prober;
        *point->prober = prober->next;
        prober->source = point->ids[chosen];
        ult_ready(prober->ult);
    }
    return true;
}

static bool decide_comm(struct ampi_comm *comm)
{
    static struct point place;
    struct point *point = &place;
    struct ampi_match_node *node = NULL;

    *point = (struct point){.comm = comm};
    while ((node = next_posted(&comm->match, node ? node->seq : 0))) {
        if (node->source != MPI_ANY_SOURCE)
            continue;
        point->recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
        point->n_ids = 0;
        find_sources(point, node->tag, node->seq);
        if (point->n_ids > 0 && decide_message(point, node->tag))
            return true;
    }
    point->recv = NULL;
    for (struct ampi_prober **link = &comm->probers; *link && *link != &ampi_prober_watch;
         link = &(*link)->next) {
        if ((*link)->source != MPI_ANY_SOURCE)
            continue;
        point->prober = link;
        point->n_ids = 0;
        find_sources(point, (*link)->tag, UINT64_MAX);
        if (point->n_ids > 0 && decide_message(point, (*link)->tag))
            return true;
    }
    return false;
}

/* Of MPI_Waitany. Requests that are not complete may be, later. */
static bool decide_any_wait(struct any_wait **link, struct point *point)
{
    struct any_wait *wait = *link;
    int chosen;
    bool has_late = false;

    *point = (struct point){.any_wait = wait};
    for (int i = 0; i < wait->n_requests; i++)
        if (wait->requests[i] && wait->requests[i]->state == AMPI_REQUEST_COMPLETE)
            add_id(point, i);
        else if (wait->requests[i] && ampi_request_is_active(wait->requests[i]))
            has_late = true;
    if (point->n_ids == 0)
        return false;
    chosen = choose(point->n_ids, BASE_CHOICE_REQUEST, wait->ult->world_rank, true);
    run.log->choices[run.log->n_choices - 1].has_late = has_late;
    if (chosen == point->n_ids) {
        put_to_sleep(point);
        return false;
    }
    wake_up(point);
    wait->chosen = run.log->choices[run.log->n_choices - 1].id = point->ids[chosen];
    *link = wait->next;
    ult_ready(wait->ult);
    return true;
}

/* ---- Deciding ---- */

/* The communicators of all ranks in the order of ranks. The list is collected first, because a change may free one. */
struct comms {
    struct ampi_comm **all;
    int n;
    int room;
};

static void add_comm(struct ampi_comm *comm, void *arg)
{
    struct comms *comms = arg;

    if (!comm->match.is_lazy)
        return;
    if (comms->n == comms->room) {
        comms->room = 2 * comms->room + 16;
        comms->all = realloc(comms->all, (size_t)comms->room * sizeof *comms->all);
        if (!comms->all)
            base_fatal(1, "out of memory: choices");
    }
    comms->all[comms->n++] = comm;
}

/* Until the function has changed something. */
static bool visit_all(bool (*change)(struct ampi_comm *comm))
{
    static struct comms comms;
    bool has_changed = false;

    comms.n = 0;
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++)
        if (ampi_job.ranks[i].state != AMPI_RANK_ENDED)
            ampi_comm_each(&ampi_job.ranks[i], add_comm, &comms);
    for (int i = 0; i < comms.n && !has_changed; i++)
        has_changed = change(comms.all[i]);
    return has_changed;
}

static bool decide_any_waits(void)
{
    static struct point point;

    for (struct any_wait **link = &run.any_waits; *link; link = &(*link)->next)
        if (decide_any_wait(link, &point))
            return true;
    return false;
}

/* The rank of a poller gets ready, so that a message must not wake its probe. */
static void remove_prober(struct ampi_comm *comm, void *ult)
{
    struct ampi_prober **link = &comm->probers;

    while (*link && *link != &ampi_prober_watch && (*link)->ult != ult)
        link = &(*link)->next;
    if (*link && *link != &ampi_prober_watch)
        *link = (*link)->next;
}

/* Makes all pollers poll again, or find nothing. */
static bool wake_pollers(bool looks_again)
{
    bool has_any = run.pollers != NULL;

    while (run.pollers) {
        struct poller *poller = run.pollers;
        run.pollers = poller->next;
        poller->looks_again = looks_again;
        ampi_comm_each(poller->rank, remove_prober, poller->ult);
        ult_ready(poller->ult);
    }
    return has_any;
}

bool ampi_choices_decide(void)
{
    if (visit_all(settle_comm)) {
        run.n_changes++;
        return true;
    }
    if (!run.has_looked || run.n_looked_at != run.n_changes) {
        run.n_looked_at = run.n_changes;
        run.has_looked = true;
        if (wake_pollers(true))
            return true;
    }
    run.has_looked = false;
    if (visit_all(decide_comm) || decide_any_waits()) {
        run.n_changes++;
        return true;
    }
    if (run.asleep) {
        run.log->is_redundant = true;
        _exit(0);
    }
    return wake_pollers(false);
}

/* ---- Calls that ask ---- */

enum ampi_poll ampi_choices_poll(void)
{
    const struct ampi_rank *self = ampi_self();
    ptrdiff_t index = self - ampi_job.ranks;

    run.log->has_polls = true;
    if (index >= ampi_job.n_local || run.has_failed[index])
        return AMPI_POLL_ANY;
    return choose(2, BASE_CHOICE_POLL, self->world_rank, false) ? AMPI_POLL_NOTHING : AMPI_POLL_ANY;
}

bool ampi_choices_polls_again(void)
{
    struct poller poller = {run.pollers, ampi_self(), ult_self(), true};
    struct poller **link = &run.pollers;

    run.pollers = &poller;
    ult_suspend(); /* a message for a probe wakes it, too */
    while (*link && *link != &poller)
        link = &(*link)->next;
    if (*link)
        *link = poller.next;
    return poller.looks_again;
}

void ampi_choices_polled(bool has_found)
{
    ptrdiff_t index = ampi_self() - ampi_job.ranks;

    if (index < ampi_job.n_local)
        run.has_failed[index] = !has_found;
    run.n_changes++;
}

int ampi_choices_first(struct ampi_request *const *requests, int n_requests)
{
    struct any_wait wait = {run.any_waits, ult_self(), requests, n_requests, 0};

    run.any_waits = &wait;
    wait.ult->wait_for = requests;
    wait.ult->n_wait_for = n_requests;
    ult_suspend();
    wait.ult->n_wait_for = 0;
    return wait.chosen;
}
