/* SPDX-License-Identifier: BSD-3-Clause
 *
 * leaks.c: see leaks.h.
 *
 * Each rank has a table of the handles that it holds, with the function and the return address of the call that made each. The
 * same handle can be held several times (an error handler, a datatype): it is in the table as often.
 *
 * Sessions, info objects and error handlers may be freed after MPI_Finalize, and anything while a session is open. These are
 * reported at the end of the process, for the ranks of this process; all else in MPI_Finalize, for all processes.
 */
#include "ampi/job/leaks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/datatype/recipe.h"
#include "ampi/job/report.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/message.h"
#include "ampi/tool/collect.h"
#include "base/log.h"

#define CHAINS_MIN 64

/* Maximum numbers of lines that a rank reports, and of messages that it examines. */
#define LINES_MAX 64
#define MESSAGES_MAX 1000

/* Groups of ranks that are printed. */
#define GROUPS_SHOWN_MAX 50

/* A handle that a rank holds. */
struct held {
    struct held *next; /* in its chain: the newest first */
    uintptr_t handle;
    const char *call;      /* that made it */
    const void *from;      /* the return address of that call */
    const MPI_Comm *later; /* of a request: the communicator that it makes; NULL: none */
    unsigned long seq;     /* order of the calls of this rank */
    enum ampi_leak kind;
};

struct ampi_leaks {
    pthread_mutex_t lock; /* a thread may wait for its requests outside of its PE: p2p/thread/ */
    unsigned long seq;    /* of the next handle */
    unsigned n;           /* handles */
    unsigned n_chains;    /* a power of two */
    struct held **chains;
};

/* A report. */
struct lines {
    struct ampi_line *lines;
    int n;
};

static bool is_off(void)
{
    return BASE_LIKELY(!base_settings.check_leaks) || ampi_job.is_forked;
}

/* ---- The table ---- */

static struct held **chain_of(const struct ampi_leaks *leaks, uintptr_t handle)
{
    return &leaks->chains[(handle >> 4 ^ handle >> 13 ^ handle) & (leaks->n_chains - 1)];
}

/* Gives the table more chains. The order in each is kept. */
static void grow(struct ampi_leaks *leaks)
{
    struct ampi_leaks old = *leaks;

    leaks->n_chains = old.n_chains ? 4 * old.n_chains : CHAINS_MIN;
    leaks->chains = base_calloc(leaks->n_chains, sizeof *leaks->chains, "+check leaks");
    for (unsigned i = 0; i < old.n_chains; i++)
        for (struct held *held = old.chains[i], *next; held; held = next) {
            struct held **end = chain_of(leaks, held->handle);
            while (*end)
                end = &(*end)->next;
            next = held->next;
            held->next = NULL;
            *end = held;
        }
    free(old.chains);
}

static void add(struct ampi_rank *rank, const struct held *held)
{
    struct ampi_leaks *leaks = rank->leaks;
    struct held *copy = base_malloc(sizeof *copy, "+check leaks");
    struct held **chain;

    if (!leaks) {
        leaks = base_calloc(1, sizeof *leaks, "+check leaks");
        pthread_mutex_init(&leaks->lock, NULL);
        rank->leaks = leaks;
    }
    *copy = *held;
    pthread_mutex_lock(&leaks->lock);
    copy->seq = leaks->seq++;
    if (leaks->n++ >= leaks->n_chains)
        grow(leaks);
    chain = chain_of(leaks, held->handle);
    copy->next = *chain;
    *chain = copy;
    pthread_mutex_unlock(&leaks->lock);
}

/* Takes the handle out of the table. False: the program did not get it from a function that gives handles. */
static bool take(struct ampi_rank *rank, enum ampi_leak kind, uintptr_t handle, struct held *held_out)
{
    struct ampi_leaks *leaks = rank->leaks;
    struct held **link, *found;

    if (!leaks)
        return false;
    pthread_mutex_lock(&leaks->lock);
    link = chain_of(leaks, handle);
    while (*link && ((*link)->handle != handle || (*link)->kind != kind))
        link = &(*link)->next;
    found = *link;
    if (found) {
        *link = found->next;
        leaks->n--;
    }
    pthread_mutex_unlock(&leaks->lock);
    if (found)
        *held_out = *found;
    free(found);
    return found != NULL;
}

bool ampi_leaks_can_leave(const struct ampi_rank *rank)
{
    return !rank->leaks || rank->leaks->n == 0;
}

void ampi_leaks_leave_rank(struct ampi_rank *rank)
{
    if (!rank->leaks)
        return;
    pthread_mutex_destroy(&rank->leaks->lock);
    free(rank->leaks->chains);
    free(rank->leaks);
    rank->leaks = NULL;
}

/* ---- The gates ---- */

static uintptr_t handle_at(enum ampi_leak kind, const void *handles, MPI_Count i)
{
    return kind == AMPI_LEAK_KEYVAL ? (uintptr_t)(unsigned)((const int *)handles)[i]
                                    : ((const uintptr_t *)handles)[i];
}

void *ampi_leaks_before(enum ampi_leak kind, MPI_Count n, const void *handles)
{
    size_t n_bytes = (size_t)n * (kind == AMPI_LEAK_KEYVAL ? sizeof(int) : sizeof(void *));
    void *copy;

    if ((is_off() && !ampi_misuse_is_on()) || n <= 0 || !handles)
        return NULL;
    copy = base_malloc(n_bytes, "+check leaks");
    memcpy(copy, handles, n_bytes);
    return copy;
}

/* The caller's rank. NULL: none. */
static struct ampi_rank *caller(const void *from)
{
    struct ampi_rank *self = ampi_self();

    return self ? self : ampi_gate_rank(from);
}

void ampi_leaks_freed(enum ampi_leak kind, void *before, const char *call, const void *from, MPI_Count n,
                      const void *handles)
{
    struct ampi_rank *rank = before ? caller(NULL) : NULL;
    struct held held;

    if (before && kind != AMPI_LEAK_KEYVAL && ampi_misuse_is_on())
        ampi_misuse_freed(kind, call, from, n, before, handles);
    for (MPI_Count i = 0; rank && !is_off() && i < n; i++)
        if (handle_at(kind, before, i) != handle_at(kind, handles, i) &&
            take(rank, kind, handle_at(kind, before, i), &held) && held.later)
            ampi_leaks_made(AMPI_LEAK_COMM, held.call, held.from, 1, (void *)(uintptr_t)held.later, NULL);
    free(before);
}

/* All sends that were complete at once have the same request: gives the program one of its own. */
static void set_own_request(struct ampi_rank *self, MPI_Request *handle)
{
    struct ampi_request *own;

    if (*handle != (MPI_Request)&ampi_request_done || self != ampi_self())
        return;
    own = ampi_request_create(self, ampi_request_done.kind, NULL, false);
    own->state = AMPI_REQUEST_COMPLETE;
    own->status = ampi_request_done.status;
    *handle = (MPI_Request)own;
}

/* True for handles that a program need not free. */
static bool is_predefined(enum ampi_leak kind, uintptr_t handle)
{
    if (kind == AMPI_LEAK_KEYVAL)
        return handle == (unsigned)MPI_KEYVAL_INVALID;
    return ampi_handle_is_predefined((void *)handle) ||
           (kind == AMPI_LEAK_DATATYPE && ((const struct ampi_type *)handle)->is_predefined);
}

void ampi_leaks_made(enum ampi_leak kind, const char *call, const void *from, MPI_Count n, void *handles,
                     const void *later)
{
    struct ampi_rank *rank = is_off() || !handles ? NULL : caller(from);
    struct held held = {.call = call, .kind = kind, .later = later};
    char here;

    if (handles && kind != AMPI_LEAK_KEYVAL && ampi_misuse_is_on())
        ampi_misuse_made(kind, call, from, n, handles);
    if (!rank)
        return;
    held.from = ult_self() == &rank->ult ? ampi_call_site_of(rank, from, &here, rank->ult.stack_hi) : from;
    for (MPI_Count i = 0; i < n; i++) {
        if (kind == AMPI_LEAK_REQUEST)
            set_own_request(rank, (MPI_Request *)handles + i);
        held.handle = handle_at(kind, handles, i);
        if (!is_predefined(kind, held.handle))
            add(rank, &held);
    }
}

MPI_Count ampi_leaks_contents(MPI_Datatype handle)
{
    const struct ampi_type *type = ampi_type_of(handle);

    return type && type->recipe ? type->recipe->n_types : 0;
}

/* ---- Handles that a rank has not freed ---- */

/* Adds a line, or counts it in an equal one. */
static void add_line(struct lines *out, const struct ampi_line *line)
{
    for (int i = 0; i < out->n; i++) {
        struct ampi_line *old = &out->lines[i];
        if (strcmp(old->text, line->text) == 0 &&
            memcmp(old->numbers, line->numbers, sizeof line->numbers) == 0) {
            old->count++;
            return;
        }
    }
    if (out->n == LINES_MAX)
        return;
    if (!out->lines)
        out->lines = base_calloc(LINES_MAX, sizeof *out->lines, "+check leaks");
    out->lines[out->n++] = *line;
}

/* The state of a request, as an adjective. */
static const char *state_of(uintptr_t handle)
{
    const struct ampi_request *request = ampi_request_of((MPI_Request)handle);

    if (!request)
        return NULL; /* a function that has no gate has freed it: those of heddle_mpi_stream.h */
    return request->state == AMPI_REQUEST_ACTIVE     ? "pending "
           : request->state == AMPI_REQUEST_COMPLETE ? "completed "
                                                     : "inactive persistent ";
}

static void add_held(struct lines *out, const struct ampi_rank *rank, const struct held *held)
{
    struct ampi_line line = {.rank = ampi_rank_number(rank), .count = 1};
    const char *state = held->kind == AMPI_LEAK_REQUEST ? state_of(held->handle) : "";
    char site[AMPI_CALL_SITE_BYTES];

    if (!state)
        return;
    ampi_line_add(&line, "%s%s of %s", state, ampi_leak_nouns[held->kind], held->call);
    if (ampi_call_site_describe(held->from, site))
        ampi_line_add(&line, ", called at %s", site);
    add_line(out, &line);
}

static int compare(const void *a, const void *b)
{
    unsigned long seq_a = (*(struct held *const *)a)->seq, seq_b = (*(struct held *const *)b)->seq;

    return seq_a < seq_b ? -1 : seq_a > seq_b;
}

/* Takes the handles of kinds from `begin` to below `end` out of the rank's table, as lines in the order of the calls. */
static void take_held(struct lines *out, struct ampi_rank *rank, enum ampi_leak begin, enum ampi_leak end)
{
    struct ampi_leaks *leaks = rank->leaks;
    struct held **all;
    unsigned n = 0;

    if (!leaks || leaks->n == 0)
        return;
    all = base_malloc(leaks->n * sizeof *all, "+check leaks");
    for (unsigned i = 0; i < leaks->n_chains; i++)
        for (struct held **link = &leaks->chains[i], *held; (held = *link);) {
            if (held->kind < begin || held->kind >= end) {
                link = &held->next;
                continue;
            }
            *link = held->next;
            all[n++] = held;
        }
    leaks->n -= n;
    qsort(all, n, sizeof *all, compare);
    for (unsigned i = 0; i < n; i++) {
        add_held(out, rank, all[i]);
        free(all[i]);
    }
    free(all);
}

/* The messages to the owner of a communicator that no receive has matched. */
static void add_messages(struct ampi_comm *comm, void *arg)
{
    const struct ampi_match_node *node = comm->match.first_arrived;
    struct lines *out = arg;

    for (int i = 0; node && i < MESSAGES_MAX; i++, node = node->later) {
        const struct ampi_message *message = BASE_CONTAINER(node, const struct ampi_message, node);
        struct ampi_line line = {.rank = ampi_rank_number(comm->owner), .count = 1};
        int size = comm->peer->n_ranks;
        char data[3 * AMPI_CALL_SITE_BYTES];

        ampi_line_add_number(&line, "message from rank ", node->source, comm->rank, size);
        ampi_line_add_number(&line, ", tag ", node->tag, comm->rank, 0);
        ampi_line_add_number(&line, ", ", (int)message->size_bytes, comm->rank, 0);
        ampi_line_add(&line, " bytes, never received");
        if (comm != comm->owner->world)
            ampi_line_add(&line, ", on %s of size %d", comm->name ? comm->name : "a communicator", size);
        if (ampi_misuse_describe_unreceived(comm, node->source, node->tag, data, sizeof data))
            ampi_line_add(&line, ": %s", data);
        add_line(out, &line);
    }
}

/* ---- Reports ---- */

/* The plural of a noun at the start of a text: "windows", "info objects". */
static void write_plural(const char *text, struct base_text *out)
{
    const char *from = strstr(text, " from"), *end = strstr(text, " of MPI_");
    char word[200];

    if (!end || (from && from < end))
        end = from;
    snprintf(word, sizeof word, "%.*ss", end ? (int)(end - text) : 0, text);
    base_text_add(out, end ? word : "");
    base_text_add(out, end ? end : text);
}

static void print_group(const struct ampi_line_group *group)
{
    char bytes[AMPI_LINE_BYTES + 500], text_bytes[AMPI_LINE_BYTES + 200];
    struct base_text out = base_text_in(bytes, sizeof bytes);
    struct base_text text = base_text_in(text_bytes, sizeof text_bytes);

    ampi_lines_write_ranks(group, &out);
    ampi_lines_write_text(group, &text);
    base_text_add(&out, ": ");
    base_text_add_number(&out, group->low);
    if (group->high > group->low) {
        base_text_add(&out, " to ");
        base_text_add_number(&out, group->high);
    }
    base_text_add(&out, " ");
    if (group->high == 1)
        base_text_add(&out, text_bytes);
    else
        write_plural(text_bytes, &out);
    base_log("  %s", bytes);
}

/* Prints the groups, and frees them. */
static void print(struct ampi_lines *groups, const struct ampi_spawned *world, const char *when)
{
    int n_more = groups->n > GROUPS_SHOWN_MAX ? groups->n - GROUPS_SHOWN_MAX : 0;
    int none = 0;

    if (groups->n == 0)
        return;
    if (world && world->number > 0)
        base_log("+check leaks: spawn %d: not freed before %s (numbers are those of each rank):",
                 world->number, when);
    else
        base_log("+check leaks: not freed before %s (numbers are those of each rank):", when);
    for (int i = 0; i < groups->n - n_more; i++)
        print_group(&groups->groups[i]);
    if (n_more + groups->n_left_out > 0)
        base_log("  ... and %d more", n_more + groups->n_left_out);
    ampi_lines_fini(groups);
    atomic_compare_exchange_strong(&ampi_job.exit_code, &none, 1);
}

/* At rank 0: adds the lines of all ranks and prints them. */
static void collect(struct ampi_rank *self, struct ampi_comm *comm, struct lines *own)
{
    struct ampi_lines groups = {0};

    for (int rank = 0; rank < comm->local->n_ranks; rank++) {
        struct lines other = {0}, *lines = rank == 0 ? own : &other;
        if (rank > 0 && (!ampi_collect_receive(self, comm, rank, &other.n, sizeof other.n) || !other.n))
            continue;
        if (rank > 0)
            other.lines = base_calloc((size_t)other.n, sizeof *other.lines, "+check leaks");
        if (rank == 0 ||
            ampi_collect_receive(self, comm, rank, other.lines, (size_t)other.n * sizeof *other.lines))
            for (int i = 0; i < lines->n; i++)
                ampi_lines_add(&groups, &lines->lines[i]);
        free(other.lines);
    }
    print(&groups, self->spawned, "MPI_Finalize");
}

void ampi_leaks_finalize(struct ampi_rank *self)
{
    struct lines own = {0};
    struct ampi_comm *hidden;

    if (is_off())
        return;
    ampi_coll_barrier(self->world, AMPI_COLL_WITHIN_FINALIZE); /* all messages have been sent */
    ult_progress_fully();
    take_held(&own, self, AMPI_LEAK_COMM, self->n_sessions > 0 ? AMPI_LEAK_COMM : AMPI_LEAK_SESSION);
    ampi_comm_each(self, add_messages, &own);
    hidden = ampi_comm_hidden(self->world);
    if (!hidden)
        base_log("+check leaks: no context id is left");
    else if (hidden->rank == 0)
        collect(self, hidden, &own);
    else if (ampi_collect_send(self, hidden, 0, &own.n, sizeof own.n) && own.n > 0)
        ampi_collect_send(self, hidden, 0, own.lines, (size_t)own.n * sizeof *own.lines);
    free(own.lines);
}

/* Adds the handles that a rank still holds. */
static void add_rank(struct ampi_lines *groups, struct ampi_rank *rank, enum ampi_leak begin,
                     enum ampi_leak end)
{
    struct lines lines = {0};

    take_held(&lines, rank, begin, end);
    for (int i = 0; i < lines.n; i++)
        ampi_lines_add(groups, &lines.lines[i]);
    free(lines.lines);
}

void ampi_leaks_report_sessions(struct ampi_rank *rank)
{
    struct ampi_lines groups = {0};

    if (is_off() || rank->n_sessions == 0)
        return;
    add_rank(&groups, rank, AMPI_LEAK_SESSION, AMPI_LEAK_INFO);
    print(&groups, rank->spawned, "the end of the rank");
}

int ampi_leaks_end(int exit_code)
{
    struct ampi_lines groups = {0};

    if (is_off() || !ampi_job.ranks)
        return exit_code;
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++)
        add_rank(&groups, &ampi_job.ranks[i], AMPI_LEAK_COMM, AMPI_LEAK_KINDS);
    print(&groups, ampi_job.spawned, "the end of the process");
    return exit_code ? exit_code : atomic_load(&ampi_job.exit_code);
}

/* The last exit handler, because it is the first that was registered. */
static void end_at_exit(int code, void *arg)
{
    int new_code;

    (void)arg;
    if (ampi_job.is_virtual || (code & 0xff))
        return;
    new_code = ampi_leaks_end(0);
    if (new_code == 0 || ampi_job.is_forked)
        return;
    fflush(NULL);
    _exit(new_code);
}

void ampi_leaks_watch_exit(void)
{
    on_exit(end_at_exit, NULL);
}
