/* SPDX-License-Identifier: BSD-3-Clause
 *
 * output.c: text that the ranks' programs have printed, and that is still in buffers when the job ends at once: those of the C library, and
 * those of each rank's Fortran runtime.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "ampi/job/job.h"
#include "base/log.h"
#include "image/image.h"

/* The time limit for runtimes. A runtime waits for ever if its rank is inside of a WRITE statement, or if
 * nobody reads the output. */
#define FORTRAN_LIMIT_NS 500000000

/* Of libgfortran: writes the buffer of one unit, or of all. */
#define FORTRAN_FLUSH "_gfortran_flush_i4"
typedef void flush_fn(int *unit);

static sem_t is_flushed;

static void flush_by(void *address)
{
    flush_fn *flush = (flush_fn *)(uintptr_t)address;

    if (flush)
        flush(NULL);
}

static void *flush_fortran(void *arg)
{
    if (!ampi_job.is_virtual)
        flush_by(dlsym(RTLD_DEFAULT, FORTRAN_FLUSH));
    for (int i = 0; i < atomic_load(&ampi_job.n_present) && ampi_job.is_virtual && ampi_job.ranks; i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->image && rank->state != AMPI_RANK_ENDED)
            flush_by(image_dlsym(RTLD_DEFAULT, FORTRAN_FLUSH, image_base(rank->image)));
    }
    sem_post(&is_flushed);
    return arg;
}

void ampi_job_flush_output(void)
{
    static atomic_bool has_begun;
    struct timespec until;
    pthread_t thread;

    base_flush_stdout();
    if (atomic_exchange(&has_begun, true) || sem_init(&is_flushed, 0, 0) != 0 ||
        pthread_create(&thread, NULL, flush_fortran, NULL) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += FORTRAN_LIMIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&is_flushed, &until) != 0 && errno == EINTR)
        ;
}
