/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quit.c: SIGQUIT (Ctrl-\) prints where the ranks are, and the job goes on.
 *
 * Only a PE may read the state of its ranks. The signal's handler prints the ranks that run, and sends each PE a
 * wake-up: a PE that is idle, or next polls in a call of MPI, prints its other ranks. A program's own handler
 * replaces this one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "base/log.h"
#include "base/text.h"
#include "ult/arch/ult_arch.h"

/* A PE's wake-up. */
struct request {
    struct ult_wakeup wakeup;
    atomic_bool is_posted; /* and not handled */
};

static struct request *requests; /* by PE */

static void handle_request(struct ult_wakeup *wakeup)
{
    struct request *request = BASE_CONTAINER(wakeup, struct request, wakeup);

    atomic_store(&request->is_posted, false);
    ampi_report_pe((int)(request - requests));
}

/* The system call that blocks a PE's thread; -1: none. */
static long blocked_in(const struct ult_pe *pe, void *context)
{
    if (ult_pe_tid(pe) == gettid())
        return ult_arch_context_system_call(context);
    return ampi_stuck_call_of(ult_pe_tid(pe));
}

/* Prints a rank that has the thread of its PE. Like a crash report: no locks, no memory, no printf. */
static void write_running(const struct ampi_rank *rank, long system_call)
{
    const char *call = __atomic_load_n(&rank->ult.call, __ATOMIC_RELAXED);
    char bytes[300];
    struct base_text text = base_text_in(bytes, sizeof bytes);

    base_text_add(&text, "rank ");
    base_text_add_number(&text, ampi_rank_number(rank));
    base_text_add(&text, " of ");
    base_text_add_number(&text, ampi_rank_world_size(rank));
    base_text_add(&text, system_call < 0 ? " runs on PE " : " blocks PE ");
    base_text_add_number(&text, rank->pe_id);
    if (system_call >= 0) {
        base_text_add(&text, " in the system call ");
        base_text_add(&text, ampi_stuck_call_name(system_call));
    }
    base_text_add(&text, call ? "; last MPI call: " : "");
    base_text_add(&text, call ? call : "");
    base_text_add(&text, "; other ranks of the PE are listed when it calls MPI");
    base_text_write_line(&text);
}

static void handle_quit(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;

    (void)info;
    if (ampi_job.is_forked) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        const struct ult_pe *pe = ult_pe_get(rank->pe_id);
        if (__atomic_load_n(&rank->ult.state, __ATOMIC_RELAXED) == ULT_RUNNING && !ult_pe_is_asleep(pe))
            write_running(rank, blocked_in(pe, context));
    }
    for (int i = 0; i < ampi_job.n_pes; i++)
        if (!atomic_exchange(&requests[i].is_posted, true))
            ult_post_wakeup(ult_pe_get(i), &requests[i].wakeup);
    errno = saved_errno;
}

void ampi_quit_install(void)
{
    struct sigaction action = {.sa_sigaction = handle_quit, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK},
                     old;

    if (sigaction(SIGQUIT, NULL, &old) != 0 || old.sa_handler != SIG_DFL)
        return;
    requests = base_calloc((size_t)ampi_job.n_pes, sizeof *requests, "SIGQUIT");
    for (int i = 0; i < ampi_job.n_pes; i++)
        requests[i].wakeup.handle = handle_request;
    sigaction(SIGQUIT, &action, NULL);
}
