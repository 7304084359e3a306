/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats.c: +stats. See stats.h.
 *
 * A rank's events go here as they happen, without the queue of event_queue.h. At the end rank 0 gathers the sums, so that there is
 * one table for all processes. Ranks whose processes have failed are left out. Messages are those of the program; a message to
 * itself counts as one on the same PE.
 */
#include "ampi/tool/stats.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "ampi/tool/collect.h"
#include "ampi/tool/event_queue.h"
#include "ampi/tool/stats_matrix.h"
#include "base/log.h"
#include "base/settings.h"

#define CALLS_MAX 8
#define CALL_BYTES 40
#define ROWS_MAX 32 /* of the table */
#define NAME_BYTES 1024

/* The time that a rank was blocked in a function of MPI. */
struct call {
    char name[CALL_BYTES]; /* "": unused; the last entry is for all others */
    int64_t blocked_ns;
    int64_t n_blocked;
};

/* Plain data, sent to rank 0. */
struct ampi_stats {
    int pe_id, proc_id;
    int64_t since_ns; /* start; at the end: the time since then; 0: the rank has failed */
    int64_t n_sent[AMPI_ROUTE_COUNT];
    int64_t bytes_sent[AMPI_ROUTE_COUNT];
    int64_t n_received, bytes_received;
    int64_t n_unexpected;
    int64_t longest_unexpected; /* of any communicator */
    int64_t n_collectives;
    int64_t n_one_sided, bytes_one_sided;
    int64_t blocked_ns;
    int64_t switches; /* its PE's */
    int64_t idle_ns;  /* its PE's */
    struct call calls[CALLS_MAX];
    struct ampi_stats_cell sent_to[AMPI_STATS_BINS_MAX]; /* by bin of ranks of the job's start */
};

static const char *const routes[] = {"same_pe", "other_pe", "other_process"};

void ampi_stats_begin(struct ampi_rank *self)
{
    struct ampi_events *events;

    if (BASE_LIKELY(!base_settings.stats) || (self->events && self->events->stats))
        return;
    events = ampi_events_of(self);
    events->stats = base_calloc(1, sizeof *events->stats, "statistics");
    events->stats->since_ns = (int64_t)ult_now_ns();
    ampi_events_update(events);
}

static enum ampi_route route_of(const struct ampi_rank *rank, const struct ampi_comm *comm, int dest)
{
    int pe_id = comm->peer->layout->pe_of[dest];

    if (pe_id == AMPI_PE_REMOTE)
        return AMPI_ROUTE_OTHER_PROCESS;
    return pe_id == rank->pe_id ? AMPI_ROUTE_SAME_PE : AMPI_ROUTE_OTHER_PE;
}

/* Adds data for a rank to the matrix. */
static void add_to(struct ampi_stats *stats, const struct ampi_comm *comm, int dest, int64_t n_bytes)
{
    int world_rank = ampi_group_world_rank(comm->peer->layout->group, dest);

    if (world_rank < ampi_job.n_ranks) {
        struct ampi_stats_cell *cell = &stats->sent_to[ampi_stats_bin_of(world_rank)];
        cell->n++;
        cell->n_bytes += n_bytes;
    }
}

static void add_sent(struct ampi_stats *stats, const struct ampi_rank *rank, const struct ampi_comm *comm,
                     int dest, int64_t n_bytes)
{
    enum ampi_route route = route_of(rank, comm, dest);

    stats->n_sent[route]++;
    stats->bytes_sent[route] += n_bytes;
    add_to(stats, comm, dest, n_bytes);
}

static void add_one_sided(struct ampi_stats *stats, const struct ampi_comm *comm, const int64_t *values)
{
    stats->n_one_sided++;
    stats->bytes_one_sided += values[3];
    if (!ampi_event_is_get((const char *)(intptr_t)values[2]))
        add_to(stats, comm, (int)values[1], values[3]);
}

static void add_blocked(struct ampi_stats *stats, const char *name, int64_t ns)
{
    struct call *call = stats->calls;

    while (call < &stats->calls[CALLS_MAX - 1] && call->name[0] && strcmp(call->name, name) != 0)
        call++;
    if (!call->name[0])
        snprintf(call->name, sizeof call->name, "%s", call == &stats->calls[CALLS_MAX - 1] ? "others" : name);
    call->blocked_ns += ns;
    call->n_blocked++;
    stats->blocked_ns += ns;
}

void ampi_stats_take(struct ampi_stats *stats, const struct ampi_rank *rank, enum ampi_event_kind kind,
                     const struct ampi_comm *comm, const int64_t *values)
{
    switch (kind) {
    case AMPI_EVENT_SEND_POSTED:
        add_sent(stats, rank, comm, (int)values[1], values[3]);
        break;
    case AMPI_EVENT_RECEIVE_COMPLETED:
        stats->n_received++;
        stats->bytes_received += values[3];
        break;
    case AMPI_EVENT_MESSAGE_UNEXPECTED:
        stats->n_unexpected++;
        if (comm->match.unexpected.n_nodes > stats->longest_unexpected)
            stats->longest_unexpected = comm->match.unexpected.n_nodes;
        break;
    case AMPI_EVENT_COLLECTIVE_BEGIN:
        stats->n_collectives++;
        break;
    case AMPI_EVENT_ONE_SIDED:
        add_one_sided(stats, comm, values);
        break;
    case AMPI_EVENT_RANK_RESUMED:
        add_blocked(stats, (const char *)(intptr_t)values[0], values[1]);
        break;
    case AMPI_EVENT_PE_IDLE:
        stats->idle_ns += values[1];
        break;
    default:
        break;
    }
}

/* ---- Output ---- */

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/* The PE's share of time with a rank to run, in percent. */
static double load(const struct ampi_stats *stats)
{
    return stats->since_ns > 0 ? 100.0 - 100.0 * (double)stats->idle_ns / (double)stats->since_ns : 0;
}

static bool is_first_of_pe(const struct ampi_stats *all, int i)
{
    for (int k = i - 1; k >= 0; k--)
        if (all[k].since_ns > 0 && all[k].pe_id == all[i].pe_id && all[k].proc_id == all[i].proc_id)
            return false;
    return all[i].since_ns > 0;
}

static void print_table(FILE *out, const struct ampi_stats *all, int n)
{
    fprintf(out, "Heddle: %d ranks, %.3f s\n", n, (double)all[0].since_ns / 1e9);
    fprintf(out, "%8s %4s %4s | %31s | %31s | %9s %7s | %9s %9s %10s | %s\n", "rank", "proc", "PE",
            "sent: same PE, others, processes", "bytes", "received", "longest", "collect.", "one-sided",
            "blocked ms", "most in");
    for (int i = 0; i < n && i < ROWS_MAX; i++) {
        const struct ampi_stats *s = &all[i];
        const struct call *most = &s->calls[0];
        if (s->since_ns == 0) {
            fprintf(out, "%8d has failed\n", i);
            continue;
        }
        for (int k = 1; k < CALLS_MAX; k++)
            if (s->calls[k].blocked_ns > most->blocked_ns)
                most = &s->calls[k];
        fprintf(
            out,
            "%8d %4d %4d | %10lld %10lld %10lld  | %10lld %10lld %10lld | %9lld %7lld | %9lld %9lld %10.3f | "
            "%s\n",
            i, s->proc_id, s->pe_id, (long long)s->n_sent[0], (long long)s->n_sent[1],
            (long long)s->n_sent[2], (long long)s->bytes_sent[0], (long long)s->bytes_sent[1],
            (long long)s->bytes_sent[2], (long long)s->n_received, (long long)s->longest_unexpected,
            (long long)s->n_collectives, (long long)s->n_one_sided, ms(s->blocked_ns), most->name);
    }
    if (n > ROWS_MAX)
        fprintf(out, "%8s (%d more ranks: +stats FILE.json has all)\n", "...", n - ROWS_MAX);
    for (int i = 0; i < n; i++)
        if (is_first_of_pe(all, i))
            fprintf(out, "process %d, PE %d: load %.1f %%, %lld switches\n", all[i].proc_id, all[i].pe_id,
                    load(&all[i]), (long long)all[i].switches);
}

static int64_t count_waits(const struct ampi_stats *stats)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS_MAX; i++)
        n += stats->calls[i].n_blocked;
    return n;
}

static void print_routes(FILE *out, const char *name, const int64_t *values)
{
    fprintf(out, "\"%s\": {", name);
    for (int i = 0; i < AMPI_ROUTE_COUNT; i++)
        fprintf(out, "%s\"%s\": %lld", i ? ", " : "", routes[i], (long long)values[i]);
    fprintf(out, "}, ");
}

static void print_json(FILE *out, const struct ampi_stats *all, int n)
{
    fprintf(out, "{\"ranks\": [\n");
    for (int i = 0; i < n; i++) {
        const struct ampi_stats *s = &all[i];
        if (s->since_ns == 0) {
            fprintf(out, "  {\"rank\": %d, \"has_failed\": true}%s\n", i, i < n - 1 ? "," : "");
            continue;
        }
        fprintf(out, "  {\"rank\": %d, \"process\": %d, \"pe\": %d, \"seconds\": %.6f, ", i, s->proc_id,
                s->pe_id, (double)s->since_ns / 1e9);
        print_routes(out, "sent", s->n_sent);
        print_routes(out, "bytes_sent", s->bytes_sent);
        ampi_stats_print_row(out, s->sent_to);
        fprintf(out,
                "\"received\": %lld, \"bytes_received\": %lld, \"unexpected\": %lld, \"longest_unexpected\": "
                "%lld, ",
                (long long)s->n_received, (long long)s->bytes_received, (long long)s->n_unexpected,
                (long long)s->longest_unexpected);
        fprintf(out,
                "\"collectives\": %lld, \"one_sided\": %lld, \"bytes_one_sided\": %lld, \"waits\": %lld, "
                "\"pe_switches\": %lld, \"pe_load_percent\": %.1f, \"blocked_ms\": {",
                (long long)s->n_collectives, (long long)s->n_one_sided, (long long)s->bytes_one_sided,
                (long long)count_waits(s), (long long)s->switches, load(s));
        for (int k = 0; k < CALLS_MAX && s->calls[k].name[0]; k++)
            fprintf(out, "%s\"%s\": %.3f", k ? ", " : "", s->calls[k].name, ms(s->calls[k].blocked_ns));
        fprintf(out, "}}%s\n", i < n - 1 ? "," : "");
    }
    fprintf(out, "]}\n");
}

static void print_svg(FILE *out, const struct ampi_stats *all, int n)
{
    int n_bins = ampi_stats_n_bins();
    struct ampi_stats_cell *matrix =
        base_calloc((size_t)n_bins * (size_t)n_bins, sizeof *matrix, "statistics");

    for (int i = 0; i < n && i < ampi_job.n_ranks; i++)
        for (int k = 0; k < n_bins; k++) {
            struct ampi_stats_cell *cell = &matrix[ampi_stats_bin_of(i) * n_bins + k];
            cell->n += all[i].sent_to[k].n;
            cell->n_bytes += all[i].sent_to[k].n_bytes;
        }
    ampi_stats_print_matrix(out, matrix);
    free(matrix);
}

/* FILE; of a spawned MPI_COMM_WORLD FILE.PROCESS.NUMBER, because it ends when others write theirs. */
static void choose_name(const struct ampi_rank *self, const char *file, int len, char name[NAME_BYTES])
{
    if (ampi_rank_spawn(self) > 0 && strncmp(file, "/dev/", 5) != 0)
        snprintf(name, NAME_BYTES, "%.*s.%d.%d", len, file, ampi_job.proc_id - ampi_job.own_first,
                 ampi_rank_spawn(self));
    else
        snprintf(name, NAME_BYTES, "%.*s", len, file);
}

static void print_file(const struct ampi_rank *self, const char *file, int len, const struct ampi_stats *all,
                       int n)
{
    bool is_svg = len > 4 && strncmp(file + len - 4, ".svg", 4) == 0;
    char name[NAME_BYTES];
    FILE *out;

    choose_name(self, file, len, name);
    out = fopen(name, "w");
    if (out)
        (is_svg ? print_svg : print_json)(out, all, n);
    if (!out || fclose(out) != 0)
        base_log("+stats %s: %s", name, strerror(errno));
}

static void print_all(const struct ampi_rank *self, const struct ampi_stats *all, int n)
{
    int len;

    for (const char *word = base_settings.stats; *word; word += len + (word[len] == ',')) {
        len = (int)strcspn(word, ",");
        if (len == 5 && strncmp(word, "table", 5) == 0)
            print_table(stderr, all, n);
        else if (len > 0)
            print_file(self, word, len, all, n);
    }
}

/* ---- The end ---- */

/* At rank 0; own: its own. */
static void collect(struct ampi_rank *self, struct ampi_comm *comm, const struct ampi_stats *own)
{
    int n = comm->local->n_ranks;
    struct ampi_stats *all = base_calloc((size_t)n, sizeof *all, "statistics");

    all[0] = *own;
    for (int i = 1; i < n; i++)
        if (!ampi_collect_receive(self, comm, i, &all[i], sizeof *all))
            memset(&all[i], 0, sizeof *all);
    print_all(self, all, n);
    free(all);
}

void ampi_stats_end(struct ampi_rank *self)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    struct ampi_stats *own = self->events ? self->events->stats : NULL;
    struct ampi_comm *comm;

    if (BASE_LIKELY(!own))
        return;
    self->events->stats = NULL; /* what follows is not the program's */
    ampi_events_update(self->events);
    own->pe_id = self->pe_id;
    own->proc_id = ampi_job.proc_id - ampi_job.own_first;
    own->since_ns = (int64_t)ult_now_ns() - own->since_ns;
    own->switches = (int64_t)ult_pe_switches(self->ult.pe);
    comm = ampi_comm_hidden(self->world);
    if (!comm)
        base_log("+stats: no context id is left");
    else if (comm->rank == 0)
        collect(self, comm, own);
    else if (!ampi_collect_send(self, comm, 0, own, sizeof *own) && !atomic_flag_test_and_set(&is_reported))
        base_log("+stats: rank 0, which prints all, has failed");
    free(own);
}

void ampi_stats_end_session(const struct ampi_rank *self)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;

    if (base_settings.stats && self->world_state < AMPI_RANK_INITIALIZED && ampi_rank_number(self) == 0 &&
        !atomic_flag_test_and_set(&is_reported))
        base_log(
            "+stats: only ranks that call MPI_Init are summed up; this program has called MPI_Session_init");
}
