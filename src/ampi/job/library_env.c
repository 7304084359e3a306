/* SPDX-License-Identifier: BSD-3-Clause
 *
 * library_env.c: environment variables for libraries of which each rank has a copy. Settings of the user prevail.
 */
#include "ampi/job/job.h"
#include "ampi/procs/procs.h"
#include "base/log.h"
#include "image/image.h"

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

void ampi_library_env_set(int n_ranks, int n_cores)
{
    limit_thread_pools(n_ranks, n_cores);
    /* LLVM's and Intel's OpenMP libraries end the process if they find another copy of themselves in it. */
    setenv("KMP_DUPLICATE_LIB_OK", "TRUE", 0);
}

/* For CUDA's driver, and the ranks. */
static void set_for_all(const char *name, const char *value, bool are_copies)
{
    if (!secure_getenv(name) &&
        (setenv(name, value, 0) != 0 || (are_copies && !image_env_set_all(name, value))))
        base_fatal(1, "no memory for the environment");
}

/* CUDA's streams share 8 connections to a GPU by default. A stream or a kernel that waits for a message
 * holds up the streams behind it, even those that the message needs. Programs with such streams or kernels
 * get the maximum number of connections. The price is fewer contexts per GPU.
 *
 * The first launch of a kernel loads it by default, and waits for all work of the GPU: also for the stream that waits for
 * this kernel's result. In such programs kernels are loaded with their modules. */
void ampi_library_env_set_for_streams(bool are_copies)
{
    if (!ampi_procs_streams_wait())
        return;
    set_for_all("CUDA_DEVICE_MAX_CONNECTIONS", "32", are_copies);
    set_for_all("CUDA_MODULE_LOADING", "EAGER", are_copies);
}
