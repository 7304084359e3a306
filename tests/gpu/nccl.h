/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl.h: common parts of the NCCL programs: each rank's process and GPU, and the number of collectives that
 * NCCL has done.
 */
#ifndef GPU_TEST_NCCL_H
#define GPU_TEST_NCCL_H

#include <sys/syscall.h>
#include <unistd.h>

#include "counter.h"
#include "device.h"

static int nccl_n_procs;            /* of the job */
static int nccl_proc;               /* this rank's */
static int nccl_proc_of[64];        /* by rank of the world */
static enum gtest_place nccl_place; /* this process's GPU */

/* Collectives that NCCL has done for this process so far. */
static inline unsigned long long nccl_count(void)
{
    return gtest_counted();
}

/* After mtest_init: skips with one process, and without a GPU for each of them unless they are to share. */
static inline void nccl_init(int may_share)
{
    int pids[64], pid = (int)syscall(SYS_getpid);

    gtest_init();
    MTEST_OK(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++) {
        int first = 0;
        while (pids[first] != pids[i])
            first++;
        nccl_proc_of[i] = first == i ? nccl_n_procs++ : nccl_proc_of[first];
    }
    nccl_proc = nccl_proc_of[mtest_rank];
    if (nccl_n_procs < 2)
        mtest_skip("all ranks are in one process");
    if (gtest_n_devices < nccl_n_procs && !may_share)
        mtest_skip("there is not a GPU for each process");
    nccl_place = gtest_gpu(may_share ? 0 : nccl_proc);
    gtest_count("heddle_nccl_collectives");
}

#endif
