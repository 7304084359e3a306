/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.c: telling which rank it was: crashes, stack overflows, deadlocks.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ampi/comm.h"
#include "ampi/error.h"
#include "ampi/job.h"
#include "ampi/p2p/p2p.h"
#include "ampi/request.h"
#include "base/log.h"
#include "image/image.h"
#include "ult/arch/arch.h"

/* Ranks that a deadlock report names one by one. */
#define DEADLOCK_RANKS_MAX 32

/* Requests that it names for each. */
#define DEADLOCK_REQUESTS_MAX 4

#define SIGNAL_STACK_BYTES 65536

int ampi_exit_code_of(int code)
{
    return (code & 0xff) ? code & 0xff : 1;
}

/* ---- Crashes ---- */

/* Runs on the PE's signal stack, with the rank's stack as it was: formats with what is safe here, then lets
 * the default action end the process with the signal. */
static void handle_crash(int signal_number, siginfo_t *info, void *context)
{
    const struct ult *u = ult_self();
    const struct ampi_rank *rank = u && u->world_rank >= 0 ? (const struct ampi_rank *)u : NULL;
    int overflown = ampi_memory_guard_of(info->si_addr);
    char place[256];

    if ((signal_number == SIGSEGV || signal_number == SIGBUS) && rank &&
        overflown == rank->world_rank - ampi_job.first_rank)
        ampi_report(rank,
                    "stack overflow: the stack of %zu KiB is full; give ranks larger ones with +stacksize",
                    ampi_memory_stack_bytes() >> 10);
    else
        ampi_report(rank, "%s (signal %d) at address %p%s%s%s", strsignal(signal_number), signal_number,
                    info->si_addr,
                    image_describe(ult_arch_context_pc(context), place, sizeof place) ? " in " : "", place,
                    rank && rank->call ? "; the call named is the last one of MPI" : "");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Gives the calling thread a stack for signals, unless it has one: AddressSanitizer does that, too, and takes
 * what it finds at the thread's end for its own. */
static void give_signal_stack(void)
{
    stack_t stack;

    if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
        return;
    stack = (stack_t){.ss_size = SIGNAL_STACK_BYTES};
    stack.ss_sp = mmap(NULL, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack.ss_sp == MAP_FAILED)
        base_fatal(1, "no memory for a signal stack: %s; raise `ulimit -v`", strerror(errno));
    sigaltstack(&stack, NULL);
}

void ampi_crash_handler_install(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_sigaction = handle_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    give_signal_stack();
    for (size_t i = 0; i < BASE_COUNT(signals); i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- Deadlocks ---- */

/* Appends to a text; what does not fit is left out. */
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

    append(text, size_bytes, "%s", request->kind->name);
    if (request->kind == &ampi_recv_kind) {
        if (p2p->node.source == MPI_ANY_SOURCE)
            append(text, size_bytes, " from any rank");
        else
            append(text, size_bytes, " from rank %d", p2p->node.source);
        if (p2p->node.tag == MPI_ANY_TAG)
            append(text, size_bytes, ", any tag");
        else
            append(text, size_bytes, ", tag %d", p2p->node.tag);
    } else if (request->kind == &ampi_send_kind) {
        append(text, size_bytes, " to rank %d, tag %d", p2p->peer_rank, p2p->tag);
    }
    if (request->comm && request->comm != request->owner->world)
        append(text, size_bytes, " (of a communicator of %d ranks)", request->comm->peer->n_ranks);
}

/* What a rank is blocked in: its requests and where it called MPI. */
static void describe_blocked(const struct ampi_rank *rank, char *text, size_t size_bytes)
{
    char place[256];
    int n_shown = 0;
    int n_left = 0;

    snprintf(text, size_bytes, "blocked");
    for (int i = 0; i < rank->n_wait_for; i++) {
        const struct ampi_request *request = rank->wait_for[i];
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
    if (image_describe(rank->ult.resume_at, place, sizeof place))
        append(text, size_bytes, "; called at %s", place);
    if (rank->coll_refused)
        append(text, size_bytes, "; it took no part in a collective before: %s", rank->coll_refused);
}

void ampi_report_blocked(void)
{
    char text[1024];
    int n_blocked = 0;

    fflush(stdout);
    for (int i = 0; i < ampi_job.n_local; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->state == AMPI_RANK_ENDED)
            continue;
        if (n_blocked++ >= DEADLOCK_RANKS_MAX)
            continue;
        describe_blocked(rank, text, sizeof text);
        ampi_report(rank, "%s", text);
    }
    if (n_blocked > DEADLOCK_RANKS_MAX)
        base_log("... and %d more ranks", n_blocked - DEADLOCK_RANKS_MAX);
}

void ampi_report_deadlock(void)
{
    fflush(stdout);
    base_log("deadlock: every rank is blocked and no message is under way");
    ampi_report_blocked();
    _exit(1);
}
