/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.c: reports the blocking calls of all ranks in a deadlock. Crashes: crash.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/comm/comm.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/job/backtrace.h"
#include "ampi/job/job.h"
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/request.h"
#include "base/log.h"
#include "image/image.h"
#include "ult/arch/ult_arch.h"
#include "ult/shuffle.h"

/* Maximum number of ranks that a deadlock report lists. */
#define DEADLOCK_RANKS_MAX 32

/* Maximum number of requests that it lists for each. */
#define DEADLOCK_REQUESTS_MAX 4

/* Places whose lines it remembers. */
#define KNOWN_PLACES_MAX 8

int ampi_exit_code_of(int code)
{
    return (code & 0xff) ? code & 0xff : 1;
}

/* ---- Deadlocks ---- */

/* Appends to a text; truncates it if it does not fit. */
static void append(char *text, size_t size_bytes, const char *fmt, ...) BASE_PRINTF(3, 4);
static void append(char *text, size_t size_bytes, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + len, size_bytes - len, fmt, args);
    va_end(args);
}

static void append_request(char *text, size_t size_bytes, const struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;

    if (request->kind->describe) {
        size_t len = strlen(text);
        request->kind->describe(request, text + len, size_bytes - len);
        return;
    }
    append(text, size_bytes, "%s", request->kind->name);
    if (ampi_request_is_recv(request)) {
        if (p2p->node.source == MPI_ANY_SOURCE)
            append(text, size_bytes, " from any rank");
        else
            append(text, size_bytes, " from rank %d", p2p->node.source);
        if (p2p->node.tag == MPI_ANY_TAG)
            append(text, size_bytes, ", any tag");
        else
            append(text, size_bytes, ", tag %d", p2p->node.tag);
    } else if (ampi_request_is_send(request)) {
        append(text, size_bytes, " to rank %d, tag %d", p2p->peer_rank, p2p->tag);
    }
    if (request->comm && request->comm != request->owner->world)
        append(text, size_bytes, " (of a communicator of size %d)", request->comm->peer->n_ranks);
}

/* Libraries between the program's Fortran and this one. */
static bool is_runtime(const char *place)
{
    return strstr(place, "libheddle_mpifort") || strstr(place, "libgfortran");
}

/* The place in the program whose call of a Fortran procedure the ULT is blocked in. It is the next return
 * address on the stack after that of libheddle_mpifort. Seldom a remnant of an earlier call is there, and the
 * place is wrong. NULL: not found. */
static BASE_COLD const void *find_fortran_call(const struct ult *u, const void *called_from)
{
    const struct ampi_rank *rank = u->owner;
    bool has_passed = false;
    char place[256];
    const char *word;

    if (!rank->image || ult_is_bound(u) || (const char *)u->sp < u->stack_lo)
        return NULL;
    for (const char *at = u->sp; at + sizeof word <= u->stack_hi; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (word == called_from)
            has_passed = true;
        else if (has_passed && image_has_code(rank->image, word) && image_has_code(rank->image, word - 7) &&
                 ult_arch_follows_call(word) && image_describe(word, place, sizeof place) &&
                 !is_runtime(place))
            return word;
    }
    return NULL;
}

/* The place of an address. Many ranks are blocked in the same place, and a search reads the program's line
 * tables: it is done once for each of the first places. Only one PE writes a report. */
static BASE_COLD const struct image_place *find_place(const void *addr)
{
    static struct image_place known[KNOWN_PLACES_MAX];
    static int n_known;
    struct image_place place;
    int i = 0;

    image_place_find(addr, &place);
    for (; i < n_known; i++)
        if (place.path && known[i].path && strcmp(known[i].path, place.path) == 0 &&
            known[i].vaddr == place.vaddr)
            return &known[i];
    i = n_known < KNOWN_PLACES_MAX ? n_known++ : KNOWN_PLACES_MAX - 1;
    image_places_find(&addr, 1, &known[i]);
    return &known[i];
}

/* Writes the place in the program of the call that the ULT is blocked in: function and source line, or without
 * debug information the address in the file. False: not known. */
static bool describe_call(const struct ult *u, char *text, size_t size_bytes)
{
    const void *from = u->called_from ? u->called_from : u->resume_at;
    const struct image_place *place;
    const void *outer = NULL;
    struct base_text source;

    if (!image_describe(from, text, size_bytes))
        return false;
    if (is_runtime(text))
        outer = find_fortran_call(u, from);
    if (outer)
        from = outer;
    place = find_place((const char *)from - 1); /* of the call; `from` may belong to the next line */
    if (!place->line)
        return image_describe(from, text, size_bytes);
    source = base_text_in(text, size_bytes);
    ampi_backtrace_add_place(&source, place, false);
    return true;
}

/* Appends the function of the operation that a ULT runs, with its place if that is known. */
static BASE_COLD void append_user_fn(char *text, size_t size_bytes, const struct image_place *place)
{
    size_t len;

    append(text, size_bytes, "in the function ");
    len = strlen(text);
    if (place->function[0]) {
        struct base_text name = base_text_in(text + len, size_bytes - len);
        ampi_backtrace_add_place(&name, place, false);
        append(text, size_bytes, " ");
    }
    append(text, size_bytes, "of a reduction operation, which may not wait for other ranks");
}

void ampi_report_errand(const struct ult *u)
{
    char text[600] = "called ";
    struct image_place place; /* find_place is for one PE at a time */

    if (u->user_fn) {
        image_places_find(&u->user_fn, 1, &place);
        append_user_fn(text, sizeof text, &place);
    } else {
        append(text, sizeof text, "while the rank waits in another call");
    }
    ampi_report_on(u, "%s", text);
    ampi_job_abort(1);
}

/* Describes where a thread of a rank is blocked: its requests, and the place of its call of MPI. */
static void describe_blocked(const struct ult *u, char *text, size_t size_bytes)
{
    struct ampi_request *const *wait_for = u->wait_for;
    const struct ampi_rank *rank = u->owner;
    char place[256];
    int n_shown = 0;
    int n_left = 0;

    snprintf(text, size_bytes, "blocked");
    for (int i = 0; i < u->n_wait_for; i++) {
        const struct ampi_request *request = wait_for[i];
        if (!request || !ampi_request_is_active(request))
            continue;
        if (n_shown < DEADLOCK_REQUESTS_MAX) {
            append(text, size_bytes, "%s", n_shown++ ? ", " : " in ");
            append_request(text, size_bytes, request);
        } else {
            n_left++;
        }
    }
    if (n_left > 0)
        append(text, size_bytes, " and %d more", n_left);
    if (describe_call(u, place, sizeof place))
        append(text, size_bytes, "; called at %s", place);
    if (u->user_fn) {
        append(text, size_bytes, "; ");
        append_user_fn(text, size_bytes, find_place(u->user_fn));
    }
    if (rank->coll_refused)
        append(text, size_bytes, "; it did not take part in an earlier collective: %s", rank->coll_refused);
}

/* Other threads of a rank that are blocked. */
static void report_threads(const struct ampi_rank *rank)
{
    char text[1024];

    for (const struct ampi_thread *thread = rank->threads; thread; thread = thread->next)
        if (ult_is_blocked(&thread->ult)) {
            describe_blocked(&thread->ult, text, sizeof text);
            ampi_report_on(&thread->ult, "another thread: %s", text);
        }
}

void ampi_report_blocked(void)
{
    char text[1024];
    int n_blocked = 0;

    fflush(stdout);
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->state == AMPI_RANK_ENDED)
            continue;
        if (n_blocked++ >= DEADLOCK_RANKS_MAX)
            continue;
        describe_blocked(&rank->ult, text, sizeof text);
        ampi_report(rank, "%s", text);
        report_threads(rank);
    }
    if (n_blocked > DEADLOCK_RANKS_MAX)
        base_log("... and %d more ranks", n_blocked - DEADLOCK_RANKS_MAX);
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
    fflush(stdout);
    base_log("deadlock: every rank is blocked and no message is under way");
    ampi_report_blocked();
    if (ult_shuffles)
        base_log("this run had +schedule random:%llu", (unsigned long long)ult_shuffle_seed());
    ampi_job_flush_output();
    _exit(1);
}
