/* SPDX-License-Identifier: BSD-3-Clause
 *
 * progress.c: mpirun --progress: a thread writes the ranks' activities into memory that mpirun reads.
 *
 * So the ranks pay nothing: it reads the data of reports (quit.c) twice a second, without locks. mpirun could read
 * the process's memory instead, but not in containers that forbid it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "ampi/procs/launcher_env.h"
#include "base/log.h"
#include "base/progress.h"

static struct base_progress *shared;

static void write_rank(const struct ampi_rank *rank)
{
    char *text = shared->texts[rank->world_rank];
    const char *call = __atomic_load_n(&rank->ult.call, __ATOMIC_RELAXED);
    const char *waits_for = __atomic_load_n(&rank->ult.waits_for, __ATOMIC_RELAXED);
    const char *state = "starts";

    if (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_ENDED)
        state = "ended";
    else
        switch (__atomic_load_n(&rank->ult.state, __ATOMIC_RELAXED)) {
        case ULT_READY:
            state = "ready to run";
            break;
        case ULT_RUNNING:
            state = "runs";
            break;
        case ULT_BLOCKED:
        case ULT_PARKED:
            if (__atomic_load_n(&rank->ult.wake_at_ns, __ATOMIC_RELAXED) > ult_now_ns()) {
                state = "sleeps";
                break;
            }
            if (waits_for)
                snprintf(text, BASE_PROGRESS_TEXT_BYTES, "waits for %s", waits_for);
            else
                snprintf(text, BASE_PROGRESS_TEXT_BYTES, "blocked in %s", call ? call : "a wait");
            return;
        case ULT_ENDED:
            state = "ended";
        }
    snprintf(text, BASE_PROGRESS_TEXT_BYTES, "%s", state);
}

static void *publish(void *arg)
{
    struct timespec pause = {.tv_nsec = BASE_PROGRESS_PERIOD_NS};

    pthread_setname_np(pthread_self(), "heddle progress");
    for (;;) {
        for (int i = 0; i < ampi_job.n_local; i++)
            write_rank(&ampi_job.ranks[i]);
        atomic_store(&shared->n_ranks, (uint32_t)ampi_job.n_ranks);
        nanosleep(&pause, NULL);
    }
    return arg;
}

void ampi_progress_publish(void)
{
    const char *path = ampi_launched_progress();
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    size_t size = sizeof *shared + (size_t)ampi_job.n_ranks * sizeof shared->texts[0];
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    if (fd < 0 || ampi_job.spawned) /* a spawned process has other ranks than mpirun shows */
        return;
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BASE_THREAD_STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, publish, NULL);
    if (error)
        base_log("no thread for mpirun --progress: %s", strerror(error));
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
