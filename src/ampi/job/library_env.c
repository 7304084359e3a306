/* SPDX-License-Identifier: BSD-3-Clause
 *
 * library_env.c: environment variables for libraries of which each rank has a copy. Settings of the user prevail.
 */
#include "ampi/job/job.h"
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

/* CUDA's streams share 8 connections to a GPU by default. A stream or a kernel that waits for a message
 * holds up the streams behind it, even those that the message needs. Programs with such streams or kernels
 * get the maximum number of connections. The price is fewer contexts per GPU. */
void ampi_library_env_set_for_streams(void)
{
    const char *name = "CUDA_DEVICE_MAX_CONNECTIONS", *most = "32";

    if (secure_getenv(name) ||
        (!image_program_refers_to("MPIX_Stream_create") && !image_program_refers_to("MPIX_Prequest_create") &&
         !image_program_refers_to("AMPI_GPU_Handlers_create")))
        return;
    if (setenv(name, most, 0) != 0 || !image_env_set_all(name, most)) /* CUDA's driver, and the ranks */
        base_fatal(1, "no memory for the environment");
}
