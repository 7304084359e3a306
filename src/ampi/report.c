/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.c: telling which rank it was: crashes, stack overflows, deadlocks.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/comm.h"
#include "ampi/error.h"
#include "ampi/job.h"
#include "ampi/request.h"
#include "base/log.h"
#include "image/image.h"

/* Ranks that a deadlock report names one by one. */
#define DEADLOCK_RANKS_MAX 32

#define SIGNAL_STACK_BYTES 65536

int ampi_exit_code_of(int code)
{
    return (code & 0xff) ? code & 0xff : 1;
}

/* ---- Crashes ---- */

/* Runs on the PE's signal stack, with the rank's stack as it was: formats with what is safe here, then lets the default
 * action end the process with the signal. */
static void handle_crash(int signal_number, siginfo_t *info, void *context)
{
    const struct ult *u = ult_self();
    const struct ampi_rank *rank = u && u->world_rank >= 0 ? (const struct ampi_rank *)u : NULL;
    int overflown = ampi_memory_guard_of(info->si_addr);

    (void)context;
    if ((signal_number == SIGSEGV || signal_number == SIGBUS) && rank && overflown == rank->world_rank - ampi_job.first_rank)
        ampi_report(rank, "stack overflow: the stack of %zu KiB is full; give ranks larger ones with +stacksize",
                    ampi_memory_stack_bytes() >> 10);
    else
        ampi_report(rank, "%s (signal %d) at address %p%s", strsignal(signal_number), signal_number, info->si_addr,
                    rank && rank->call ? "; the call named is the last one of MPI" : "");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void ampi_crash_handler_install(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    stack_t stack = {.ss_sp = base_malloc(SIGNAL_STACK_BYTES, "a signal stack"), .ss_size = SIGNAL_STACK_BYTES};
    struct sigaction action = {.sa_sigaction = handle_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < BASE_COUNT(signals); i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- Deadlocks ---- */

void ampi_report_deadlock(void)
{
    int n_blocked = 0;

    fflush(stdout);
    base_log("deadlock: every rank is blocked and no message is under way");
    for (int i = 0; i < ampi_job.n_local; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->state == AMPI_RANK_ENDED)
            continue;
        if (n_blocked++ < DEADLOCK_RANKS_MAX)
            ampi_report(rank, "blocked, waiting for %u operation%s", rank->wait_left, rank->wait_left == 1 ? "" : "s");
    }
    if (n_blocked > DEADLOCK_RANKS_MAX)
        base_log("... and %d more ranks", n_blocked - DEADLOCK_RANKS_MAX);
    _exit(1);
}
