/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.c: reports the blocking calls of all ranks in a deadlock. Crashes: crash.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/job/report.h"
#include "ampi/p2p/choices.h"
#include "ampi/job/job.h"
#include "ampi/tool/trace.h"
#include "base/log.h"
#include "image/image.h"
#include "ult/arch/ult_arch.h"

/* Up to this many blocked ranks have a line each; more are grouped. */
#define RANKS_APART 8

/* Finding what a rank waits for may visit all other ranks: ranks are described within this number of visits. */
#define LOOKS_MAX 100000000

int ampi_exit_code_of(int code)
{
    return (code & 0xff) ? code & 0xff : 1;
}

void ampi_report_errand(const struct ult *u)
{
    struct ampi_line line = {.text = "called "};

    if (u->user_fn)
        ampi_blocked_add_user_fn(&line, u->user_fn);
    else
        ampi_line_add(&line, "while the rank waits in another call");
    ampi_report_on(u, "%s", line.text);
    ampi_job_abort(1);
}

/* ---- Blocked ranks ---- */

static struct ampi_line line_of(const struct ampi_rank *rank)
{
    struct ampi_line line = {.rank = ampi_rank_number(rank), .count = 1};

    ampi_line_add(&line, "of %d", ampi_rank_world_size(rank));
    if (ampi_rank_spawn(rank) > 0)
        ampi_line_add(&line, " (spawn %d)", ampi_rank_spawn(rank));
    ampi_line_add(&line, ": ");
    return line;
}

/* Adds the line of a thread. */
static void add_thread(struct ampi_lines *lines, const struct ult *u, int pe_id)
{
    const struct ampi_rank *rank = u->owner;
    struct ampi_line line = line_of(rank);

    if (u != &rank->ult)
        ampi_line_add(&line, "another thread: ");
    ampi_blocked_describe(u, pe_id, &line);
    ampi_lines_add(lines, &line);
}

/* Prints the line of a thread, with its host and PE. */
static void print_thread(const struct ult *u, int pe_id)
{
    const struct ampi_rank *rank = u->owner;
    struct ampi_lines lines = {0};
    char bytes[AMPI_LINE_BYTES + 200];
    struct base_text text = base_text_in(bytes, sizeof bytes);
    struct ampi_line line = {.rank = ampi_rank_number(rank)};
    struct ult without_call = {.owner = u->owner};
    size_t call_len = u->call ? strlen(u->call) + 2 : 0;

    ampi_blocked_describe(u, pe_id, &line);
    ampi_lines_add(&lines, &line);
    ampi_lines_write_text(&lines.groups[0], &text);
    if (u == &rank->ult)
        ampi_report_on(&without_call, "%s", bytes);
    else
        ampi_report_on(u, "another thread: %s", bytes + call_len);
    ampi_lines_fini(&lines);
}

/* The lines of a rank's threads that join others. */
struct joins {
    const struct ampi_rank *rank;
    struct ampi_lines *lines; /* NULL: prints them */
};

static void add_join(const void *from, void *arg)
{
    const struct joins *joins = arg;
    struct ampi_line line = {.text = ""};

    if (joins->lines)
        line = line_of(joins->rank);
    ampi_line_add(&line, "another thread: ");
    ampi_blocked_add_join(&line, from);
    if (joins->lines)
        ampi_lines_add(joins->lines, &line);
    else
        ampi_report_on(&(const struct ult){.owner = (void *)joins->rank}, "%s", line.text);
}

/* Calls the function for the blocked threads of a rank. */
static void visit_threads(const struct ampi_rank *rank, struct ampi_lines *lines, int pe_id)
{
    const struct ampi_thread *thread = rank->threads;

    for (const struct ult *u = &rank->ult; u;
         u = thread ? &thread->ult : NULL, thread = thread ? thread->next : NULL)
        if (u == &rank->ult || ult_is_blocked(u)) {
            if (lines)
                add_thread(lines, u, pe_id);
            else
                print_thread(u, pe_id);
        }
    if (pe_id < 0)
        ampi_join_visit(rank, add_join, &(struct joins){rank, lines});
}

/* ---- Reports ---- */

void ampi_report_blocked(void)
{
    int n = atomic_load(&ampi_job.n_present), n_blocked = 0, n_shown = 0;
    int limit = n > LOOKS_MAX / n ? LOOKS_MAX / n : n;
    struct ampi_lines lines = {0};

    ampi_trace_write();
    ampi_entered_begin();
    fflush(stdout);
    for (int i = 0; i < n; i++)
        n_blocked += ampi_job.ranks[i].state != AMPI_RANK_ENDED;
    for (int i = 0; i < n; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        struct ampi_line line = line_of(rank);
        if (rank->state != AMPI_RANK_ENDED) {
            if (n_shown++ < limit)
                visit_threads(rank, n_blocked > RANKS_APART ? &lines : NULL, -1);
        } else if (n_blocked > 0 && !ampi_job_is_free(i)) {
            ampi_line_add(&line, "ended%s",
                          rank->world_state == AMPI_RANK_FINALIZED ? " after MPI_Finalize" : "");
            ampi_lines_add(&lines, &line);
        }
    }
    ampi_lines_print(&lines);
    if (n_blocked > limit)
        base_log("... and %d more ranks", n_blocked - limit);
}

void *ampi_report_waits(size_t *n_bytes_out)
{
    int n = atomic_load(&ampi_job.n_present);
    struct ampi_wait *waits = base_malloc((size_t)n * sizeof *waits, "a report");
    size_t n_waits = 0;

    for (int i = 0; i < n && n <= LOOKS_MAX / n; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        int for_rank = ampi_blocked_waits_for(rank);
        if (for_rank >= 0)
            waits[n_waits++] =
                (struct ampi_wait){rank->world_rank, ampi_rank_number(rank), for_rank, ampi_rank_spawn(rank)};
    }
    *n_bytes_out = n_waits * sizeof *waits;
    return waits;
}

void ampi_report_pe(int pe_id)
{
    int n = atomic_load(&ampi_job.n_present), n_ranks = 0;
    struct ampi_lines lines = {0};

    ampi_entered_begin();
    for (int i = 0; i < n; i++)
        n_ranks += ampi_job.ranks[i].pe_id == pe_id;
    for (int i = 0; i < n; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->pe_id == pe_id && rank->state != AMPI_RANK_ENDED)
            visit_threads(rank, n_ranks > RANKS_APART ? &lines : NULL, pe_id);
    }
    ampi_lines_print(&lines);
}

/* "PREFIX at PROGRAM+0x1234 (function+0x10)", or nothing if the place is not known. */
static BASE_COLD void describe_place(const struct ult *u, const char *prefix, char *text, size_t size_bytes)
{
    char place[256];

    *text = '\0';
    if (image_describe(u->called_from, place, sizeof place))
        snprintf(text, size_bytes, "%s at %s", prefix, place);
}

void ampi_report_overlap(const struct ult *second, const struct ult *first)
{
    const struct ampi_rank *rank = second->owner;
    const struct ult *main = &rank->ult;
    char second_place[300], first_place[300];

    describe_place(second, "", second_place, sizeof second_place);
    describe_place(first, ", called", first_place, sizeof first_place);
    ampi_report_on(second,
                   "MPI_ERR_OTHER: called by %s%s while %s is in %s%s; at the thread level "
                   "MPI_THREAD_SERIALIZED threads call MPI one after another",
                   second == main ? "the main thread" : "a thread", second_place,
                   first == main ? "the main thread" : "another thread", first->call ? first->call : "MPI",
                   first_place);
}

void ampi_report_deadlock(void)
{
    char schedule[200];
    size_t n_bytes;
    void *waits;

    if (ampi_schedule == AMPI_SCHEDULE_CHOICES && ampi_choices_decide()) {
        ult_wake_all(); /* the PE was about to sleep */
        return;
    }
    fflush(stdout);
    base_log("deadlock: every rank is blocked and no message is under way");
    ampi_report_blocked();
    waits = ampi_report_waits(&n_bytes);
    ampi_report_cycle(waits, n_bytes);
    free(waits);
    if (ampi_schedule_describe(schedule, sizeof schedule))
        base_log("this run had %s", schedule);
    ampi_job_flush_output();
    _exit(1);
}
