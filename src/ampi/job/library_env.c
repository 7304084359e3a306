/* SPDX-License-Identifier: BSD-3-Clause
 *
 * library_env.c: environment variables for libraries of which each rank has a copy. Settings of the user prevail.
 */
#include "ampi/job/job.h"

#include <stdio.h>
#include <stdlib.h>

/* Each rank's copy of OpenBLAS starts a thread pool, with one thread per visible core. Limits the total to
 * the number of cores, unless the user sets more. */
static void limit_thread_pools(int n_ranks, int n_cores)
{
    char share[16];

    if (secure_getenv("OPENBLAS_NUM_THREADS") || secure_getenv("GOTO_NUM_THREADS") ||
        secure_getenv("OMP_NUM_THREADS"))
        return;
    snprintf(share, sizeof share, "%d", n_cores > n_ranks ? n_cores / n_ranks : 1);
    setenv("OPENBLAS_NUM_THREADS", share, 0);
}

/* LLVM's and Intel's OpenMP libraries end the process if they find another copy of themselves in it. */
static void allow_openmp_copies(void)
{
    setenv("KMP_DUPLICATE_LIB_OK", "TRUE", 0);
}

void ampi_library_env_set(int n_ranks, int n_cores)
{
    limit_thread_pools(n_ranks, n_cores);
    allow_openmp_copies();
}
