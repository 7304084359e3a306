/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi_job.h: runs a function as every rank of an MPI job inside a unit test: ULTs on several PEs, but no
 * copies of the program, so ranks share the function's variables. Sanitizers can check such a job
 * (docs/testing.md), and it has access to the library's internals. Ranks use ULT_CHECK, as in ult_job.h.
 */
#ifndef MPI_JOB_H
#define MPI_JOB_H

#include "ampi/comm/comm.h"
#include "ampi/job/job.h"
#include "ult_job.h"

static void (*mpi_job_body)(struct ampi_rank *self);
static struct ult_hooks mpi_job_hooks; /* for tests that want more of them */
static bool
    mpi_job_is_part; /* of a job whose other processes are not there: MPI_Finalize would wait for them */

static inline void mpi_job_run_rank(void *arg)
{
    struct ampi_rank *self = arg;

    ULT_CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    mpi_job_body(self);
    ULT_CHECK(mpi_job_is_part || MPI_Finalize() == MPI_SUCCESS);
    self->state = AMPI_RANK_ENDED;
}

static inline void mpi_job_pe_start(struct ult_pe *pe)
{
    for (int i = 0; i < ampi_job.n_local; i++) {
        struct ampi_rank *rank = &ampi_job.ranks[i];
        char *lo = job.stacks + (size_t)i * ULT_JOB_STACK_BYTES;
        if (rank->pe_id == ult_pe_id(pe))
            ult_create(&rank->ult, pe, lo, lo + ULT_JOB_STACK_BYTES, mpi_job_run_rank, rank);
    }
}

/* Runs body as each of n_ranks ranks on n_pes PEs, and fails the test if one found something wrong. */
static inline void mpi_job_start(int n_ranks, int n_pes, void (*body)(struct ampi_rank *self))
{
    mpi_job_hooks.deadlock = ampi_report_deadlock;
    mpi_job_hooks.pe_start = mpi_job_pe_start;
    mpi_job_body = body;
    job.stacks = mmap(NULL, (size_t)n_ranks * ULT_JOB_STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(job.stacks, MAP_FAILED);
    ampi_job_create(n_ranks, n_pes < n_ranks ? n_pes : n_ranks, true, &mpi_job_hooks);
    ult_job_run();
    munmap(job.stacks, (size_t)n_ranks * ULT_JOB_STACK_BYTES);
    ck_assert_msg(atomic_load(&job.n_wrong) == 0, "%s", job.wrong);
}

#endif
