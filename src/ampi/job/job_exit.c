/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_exit.c: the exit of a process: a rank that has not called MPI_Finalize, a main thread that ends before the program's
 * other threads, and NCCL.
 */
#include "ampi/job/job.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "ampi/job/leaks.h"
#include "ampi/object/error.h"
#include "ampi/procs/procs.h"
#include "ampi/tool/trace.h"
#include "gpu/nccl/nccl.h"
#include "image/image.h"

void ampi_job_check_finalized(int code, void *arg)
{
    struct ampi_rank *rank = &ampi_job.ranks[0];

    (void)arg;
    if (ampi_job.is_forked)
        return;
    if (rank->state != AMPI_RANK_INITIALIZED) {
        ampi_trace_write();
        ampi_procs_close(code & 0xff);
        return;
    }
    rank->ult.call = NULL;
    ampi_report(rank, "ended with exit code %d, but has not called %s", code & 0xff,
                ampi_rank_missing_call(rank));
    ampi_leaks_report_sessions(rank);
    ampi_job_abort(code);
}

/* The process of the rank that ampi_job_watch_main watches. */
static pid_t watched;

void ampi_job_leave_at_once(int code)
{
    if (code == 0 && watched && getpid() == watched && ampi_job.ranks[0].state == AMPI_RANK_FINALIZED)
        ampi_procs_close(0);
}

/* The destructor of a key. It runs if the process's main thread ends by pthread_exit, but not by exit. Without
 * MPI_Finalize, the program's other threads continue to use MPI: the main thread waits for their end, which nothing else
 * reports. Then the threads of UCX and PMIx would keep the process, and so the job, alive for ever: they end here, and the
 * process ends with the last thread of the program. After a failure UCX's thread cannot be ended (table.c
 * of machine_ucx), so the process ends with its main thread. */
static void end_main(void *arg)
{
    const struct ampi_rank *rank = arg;

    if (!ampi_machine || ampi_job.is_forked)
        return;
    ampi_thread_await_others(rank);
    if (rank->state == AMPI_RANK_INITIALIZED)
        ampi_job_check_finalized(0, NULL);
    if (rank->state != AMPI_RANK_FINALIZED || gettid() != getpid())
        return;
    if (ampi_failed_any())
        exit(0);
    ampi_procs_close(0);
    if (ampi_failed_any()) /* in the meantime */
        exit(0);
}

void ampi_job_watch_main(struct ampi_rank *rank)
{
    pthread_key_t key;

    watched = getpid();
    image_process_catch_exits();
    if (pthread_key_create(&key, end_main) == 0)
        pthread_setspecific(key, rank);
}

/* CUDA's driver and runtime end in exit handlers of their own, which were registered before this one. */
static void leave_nccl(int code, void *arg)
{
    if (ampi_job.is_forked)
        return;
    if (!ampi_job.is_virtual)
        ampi_job_check_finalized(code, arg);
    gpu_nccl_leave(code, GPU_NCCL_SETTLE_S);
}

void ampi_job_watch_exit(void)
{
    on_exit(leave_nccl, NULL);
}
