/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore_all.c: --explore all: runs the program once for each order of its messages.
 *
 * A run is given by a list of choices. It takes these, then the first alternative of each further choice, and its log says how many
 * there were (ampi/p2p/choices.c). Every other alternative of a choice behind the list is a new list; these wait in a
 * queue, so that runs with few choices that differ from the first run come first. The alternative to wait is a new list if a
 * run below that choice has seen a late message.
 */
#include "launch/explore.h"

#include "base/choices_log.h"
#include "base/cores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RUNS_MAX = 10000 };

/* A list of choices that is to be run, or was. */
struct list {
    struct list *next;
    unsigned num;
    unsigned short choices[];
};

struct search {
    struct exploration *e;
    struct list *first, **last; /* to be run */
    struct list *waits;         /* lists that end with waiting, to run each once */
    int num_started, num_complete;
    bool has_polls;   /* a run has, as in the log */
    bool has_waiting; /* a run has, as in the log */
    char unseen[sizeof((struct base_choices_log *)0)->unseen];
};

/* The first num choices of the log, then the last one. */
static struct list *make_list(const struct base_choices_log *log, unsigned num, unsigned last)
{
    struct list *list = malloc(sizeof *list + (num + 1) * sizeof list->choices[0]);
    if (list == NULL)
        launch_fail(1, "out of memory");
    list->next = NULL;
    list->num = num + 1;
    for (unsigned i = 0; i < num; i++)
        list->choices[i] = log->choices[i].chosen;
    list->choices[num] = (unsigned short)last;
    return list;
}

static void append(struct search *search, struct list *list)
{
    *search->last = list;
    search->last = &list->next;
}

/* Adds the list that waits at choice i of the run, unless it is known. */
static void add_wait(struct search *search, const struct base_choices_log *log, unsigned i)
{
    struct list *list = make_list(log, i, log->choices[i].n_alternatives), *copy;
    for (const struct list *known = search->waits; known; known = known->next)
        if (known->num == list->num &&
            memcmp(known->choices, list->choices, list->num * sizeof list->choices[0]) == 0) {
            free(list);
            return;
        }
    copy = make_list(log, i, log->choices[i].n_alternatives);
    copy->next = search->waits;
    search->waits = copy;
    append(search, list);
}

/* The number of choices in "choices:0.2". */
static unsigned length_of(const char *schedule)
{
    unsigned num = 0;
    const char *at = strchr(schedule, ':') + 1;
    for (num = *at != '\0'; *at; at++)
        num += *at == '.';
    return num;
}

/* Adds the lists that follow from a run. False: another run is equal. */
static bool take_log(struct search *search, const struct run *run)
{
    struct base_choices_log *log = mmap(NULL, sizeof *log, PROT_READ, MAP_SHARED, run->log, 0);
    bool is_redundant;
    if (log == MAP_FAILED)
        launch_fail(1, "--explore: %s", strerror(errno));
    if (log->has_departed) {
        launch_explore_show_errors(run);
        launch_fail(1,
                    "--explore all: the run %s has ended; if its choices do not fit, the program does not "
                    "repeat its runs: "
                    "it depends on time, random numbers or threads",
                    run->schedule);
    }
    for (unsigned i = 0; i < log->n_choices; i++) {
        const struct base_choice *choice = &log->choices[i];
        for (unsigned k = 1; i >= length_of(run->schedule) && k < choice->n_alternatives; k++)
            append(search, make_list(log, i, k));
        if (choice->has_late && choice->chosen < choice->n_alternatives)
            add_wait(search, log, i);
    }
    search->has_polls |= log->has_polls;
    search->has_waiting |= log->has_waiting;
    if (search->unseen[0] == '\0')
        memcpy(search->unseen, log->unseen, sizeof search->unseen);
    is_redundant = log->is_redundant;
    search->num_complete += !is_redundant;
    munmap(log, sizeof *log);
    return !is_redundant;
}

/* Judges a run that has ended. */
static void judge(struct search *search, struct run *run)
{
    struct exploration *e = search->e;
    bool is_first = e->failed.number == 0 || run->number < e->failed.number;
    if (!take_log(search, run) || !is_first || !launch_explore_has_failed(e, run)) {
        launch_explore_drop(run);
        return;
    }
    if (e->failed.number > 0)
        launch_explore_drop(&e->failed);
    e->failed = *run;
}

static char *schedule_of(const struct list *list)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        launch_fail(1, "out of memory");
    fputs("choices:", stream);
    for (unsigned i = 0; i < list->num; i++)
        fprintf(stream, i > 0 ? ".%u" : "%u", (unsigned)list->choices[i]);
    fclose(stream);
    return text;
}

static void run_lists(struct search *search, int limit)
{
    int num = base_usable_cores(), num_running = 0;
    struct run *runs = calloc((size_t)num, sizeof *runs);
    if (runs == NULL)
        launch_fail(1, "out of memory");
    for (;;) {
        for (int i = 0;
             i < num && search->first && search->num_started < limit && search->e->failed.number == 0; i++)
            if (runs[i].pid == 0) {
                struct list *list = search->first;
                search->first = list->next;
                if (search->first == NULL)
                    search->last = &search->first;
                launch_explore_start(search->e, &runs[i], ++search->num_started, schedule_of(list));
                free(list);
                num_running++;
            }
        if (num_running == 0)
            break;
        judge(search, launch_explore_wait(runs, num));
        num_running--;
    }
    free(runs);
}

void launch_explore_all(struct exploration *e)
{
    int limit = e->command->explore_limit > 0 ? e->command->explore_limit : RUNS_MAX;
    struct search search = {.e = e, .num_started = 1};
    char what[64];
    search.last = &search.first;
    launch_explore_usual(e, "choices:");
    take_log(&search, &e->usual);
    run_lists(&search, limit);
    snprintf(what, sizeof what, "run %d", e->failed.number);
    if (e->failed.number > 0)
        launch_explore_report(e, what);
    else if (search.first)
        launch_say(
            "--explore: %d runs end like the first one; this is the limit: not all orders of matches seen "
            "(--explore-limit)",
            search.num_started);
    else if (search.unseen[0])
        launch_say("--explore: %d runs end like the first one; not all orders seen: the program calls %s",
                   search.num_complete, search.unseen);
    else
        launch_say("--explore: all orders of matches seen%s%s: %d runs",
                   search.has_polls ? ", with at most one failed test or probe in a row" : "",
                   search.has_waiting ? ", with collectives that wait for all ranks" : "",
                   search.num_complete);
    exit(e->failed.number > 0);
}
