/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failure.c: the consequences of a failed process.
 *
 * The thread that detects the failure (the launcher's, or a PE whose connection broke) sets the process's
 * flag and wakes all PEs. In its next poll each PE ends its own ranks' communication with that process: no
 * PE touches another PE's requests, and the message path is not involved. Communicators with a failed member
 * get a mark in each handle (ampi_comm_mark_failed), which keeps later receives and collectives off the
 * fast path.
 *
 * `epoch` counts the reasons for a PE to check all communicators again: a failure, or a communicator that
 * was created after one.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* Time for Heddle's mpirun to end a job with a failed process, and to report the cause, before this
 * process does it with less information. */
#define LAUNCHER_US 300000

/* Maximum length of a reason: a host with its addresses, and an error. */
#define WHY_MAX 384

struct failed_process {
    _Atomic bool is_failed;
    _Atomic int n_handled; /* PEs that have ended the communication with it */
    char why[WHY_MAX];     /* written before is_failed is set */
};

static struct {
    struct failed_process *processes; /* by process number */
    _Atomic uint32_t n_failed;
    _Atomic uint32_t epoch;
    _Atomic bool is_tolerant; /* a rank of this process prefers errors to the job's end */
    struct {
        uint32_t epoch;  /* last epoch that it has handled */
        bool *forgotten; /* by process: communication with it has ended; NULL: none yet */
    } BASE_CACHE_ALIGNED pes[AMPI_PES_MAX];
} failures;

void ampi_failed_init(void)
{
    failures.processes = base_calloc((size_t)ampi_job.max_procs, sizeof *failures.processes, "processes");
}

void ampi_failed_tolerate(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    static atomic_bool is_notified;

    if (!ampi_machine || atomic_load(&is_notified))
        return;
    pthread_mutex_lock(&lock); /* the second caller returns when the launcher knows, too */
    if (!atomic_exchange(&failures.is_tolerant, true))
        ampi_machine->tolerate();
    atomic_store(&is_notified, true);
    pthread_mutex_unlock(&lock);
}

/* ---- Queries ---- */

void ampi_failed_record(int proc_id, const char *why)
{
    struct failed_process *process = &failures.processes[proc_id];

    snprintf(process->why, sizeof process->why, "%s", why);
    atomic_store(&process->is_failed, true);
    atomic_fetch_add(&failures.n_failed, 1);
    atomic_fetch_add(&failures.epoch, 1);
    ult_wake_all();
}

bool ampi_failed_any(void)
{
    return atomic_load_explicit(&failures.n_failed, memory_order_relaxed) > 0;
}

bool ampi_failed_is(int proc_id)
{
    return ampi_failed_any() &&
           atomic_load_explicit(&failures.processes[proc_id].is_failed, memory_order_seq_cst);
}

bool ampi_failed_is_handled(int proc_id)
{
    return ampi_failed_any() && atomic_load(&failures.processes[proc_id].n_handled) == ampi_job.n_pes;
}

bool ampi_failed_is_rank(int world_rank)
{
    return ampi_failed_any() && ampi_failed_is(ampi_procs_of_rank(world_rank));
}

uint32_t ampi_failed_fingerprint(const bool *is_failed)
{
    uint32_t sum = 0;

    for (int i = 0; i < ampi_job.max_procs; i++)
        if (is_failed[i]) {
            uint32_t hash = ((uint32_t)i + 1) * 0x9e3779b1u;
            sum += (hash ^ hash >> 15) * 0x85ebca6bu;
        }
    return sum;
}

void ampi_failed_describe_process(int proc_id, char *text)
{
    int first = ampi_procs_first_rank(proc_id);
    int last = ampi_procs_first_rank(proc_id + 1) - 1;
    char ranks[48];

    if (!ampi_procs_is_own(proc_id)) {
        snprintf(text, AMPI_FAILED_TEXT_MAX, "a process of another job has failed");
        return;
    }
    if (first == last)
        snprintf(ranks, sizeof ranks, "rank %d", first);
    else
        snprintf(ranks, sizeof ranks, "ranks %d to %d", first, last);
    snprintf(text, AMPI_FAILED_TEXT_MAX, "process %d of %d (%s) has failed: %s", proc_id, ampi_job.n_procs,
             ranks, failures.processes[proc_id].why);
}

/* ---- Handling on a PE ---- */

static BASE_COLD void end_job(int proc_id)
{
    char text[AMPI_FAILED_TEXT_MAX];

    ampi_failed_describe_process(proc_id, text);
    usleep(LAUNCHER_US);
    base_log("%s; the job ends", text);
    ampi_job_abort(MPI_ERR_PROC_ABORTED);
}

bool ampi_failed_must_handle(int pe_id)
{
    return atomic_load_explicit(&failures.epoch, memory_order_seq_cst) != failures.pes[pe_id].epoch;
}

static BASE_COLD int handle(int pe_id)
{
    bool **forgotten = (bool **)&failures.pes[pe_id].forgotten;

    failures.pes[pe_id].epoch = atomic_load(&failures.epoch);
    if (!*forgotten)
        *forgotten = base_calloc((size_t)ampi_job.max_procs, sizeof(bool), "processes");
    for (int i = 0; i < ampi_job.max_procs; i++) {
        if (!ampi_failed_is(i) || (*forgotten)[i])
            continue;
        if (!atomic_load(&failures.is_tolerant) && ampi_procs_is_own(i))
            end_job(i);
        (*forgotten)[i] = true;
        ampi_machine->forget(pe_id, i);
        ampi_procs_call_forget(pe_id, i);
        atomic_fetch_add(&failures.processes[i].n_handled, 1);
    }
    ampi_procs_call_check(pe_id);
    return 1;
}

int ampi_failed_handle(int pe_id)
{
    return BASE_LIKELY(atomic_load_explicit(&failures.epoch, memory_order_relaxed) ==
                       failures.pes[pe_id].epoch)
               ? 0
               : handle(pe_id);
}

void ampi_failed_check_again(void)
{
    atomic_fetch_add(&failures.epoch, 1);
}
