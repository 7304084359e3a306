/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offload_threads.c: a pool of threads for calls that may block: reads and writes of files.
 *
 * The threads are not PEs. They start when there is work and none of them is free, and end after some idle time. Work that is
 * done returns to its PE as a wake-up.
 *
 * Why threads and not io_uring: at the same number of requests in progress neither is faster, because buffered reads and writes
 * spend their time in the page cache or wait for the disk, which takes as long (random reads of 4 KiB, disk behind virtio,
 * pages not in memory: 64 threads 10 to 23 us each, io_uring with 64 requests 40 to 47, with 200 14 to 23; pages in memory:
 * 2.2 to 2.8 us of CPU time for both). So the number of threads is large, and they do everything else that may block, too.
 *
 * All signals are blocked: the program's handlers run on its own threads, and a write beyond the limit of `ulimit -f` is an
 * error (EFBIG) instead of SIGXFSZ.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "ult/pe.h"

/* Most threads: a disk is fast only with many requests at a time. */
#define THREADS_MAX 64

/* An idle thread ends after this time. */
#define IDLE_S 5

static struct {
    pthread_mutex_t lock;      /* guards all but the last two */
    pthread_cond_t has_work;   /* signalled once for each start that finds an idle thread */
    struct ult_offload *first; /* work that waits for a thread, in order */
    struct ult_offload **end;  /* the last link */
    int n_waiting;             /* number of those */
    int n_threads;             /* threads of the pool */
    int n_idle;                /* threads that wait for work */
    cpu_set_t cores;           /* of this process */
    bool has_cores;            /* cores is known */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &pool.first};

void ult_offload_init(void)
{
    pthread_condattr_t attributes;

    if (pool.has_cores)
        return;
    pool.has_cores = sched_getaffinity(0, sizeof pool.cores, &pool.cores) == 0;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool.has_work, &attributes);
    pthread_condattr_destroy(&attributes);
}

int ult_core_count(void)
{
    return ult_job.n_cores;
}

/* On the PE. */
static void handle_done(struct ult_wakeup *wakeup)
{
    struct ult_offload *work = BASE_CONTAINER(wakeup, struct ult_offload, wakeup);

    work->pe->n_offloaded--;
    work->done(work);
}

/* Waits for work, and takes it; NULL: none came for a while. With the lock. */
static struct ult_offload *take_work(void)
{
    struct ult_offload *work;
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_S;
    pool.n_idle++;
    while (!pool.first && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&pool.has_work, &pool.lock, &until);
    pool.n_idle--;
    work = pool.first;
    if (!work)
        return NULL;
    pool.first = work->next;
    if (!pool.first)
        pool.end = &pool.first;
    pool.n_waiting--;
    return work;
}

static void *pool_thread(void *arg)
{
    struct ult_offload *work;

    pthread_setname_np(pthread_self(), "file");
    if (pool.has_cores)
        sched_setaffinity(0, sizeof pool.cores, &pool.cores); /* the thread that created it is pinned */
    pthread_mutex_lock(&pool.lock);
    while ((work = take_work()) != NULL) {
        struct ult_pe *pe = work->pe;
        pthread_mutex_unlock(&pool.lock);
        work->run(work);
        ult_post_wakeup(pe, &work->wakeup);
        pthread_mutex_lock(&pool.lock);
    }
    pool.n_threads--;
    pthread_mutex_unlock(&pool.lock);
    return arg;
}

/* False: no thread was created. With the lock. */
static bool add_thread(void)
{
    sigset_t all, before;
    pthread_t thread;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = ult_pe_create_thread(&thread, NULL, pool_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return false;
    pthread_detach(thread);
    pool.n_threads++;
    return true;
}

void ult_offload_start(struct ult_offload *work)
{
    bool has_thread = true;

    work->pe = ult_self()->pe;
    work->pe->n_offloaded++;
    work->wakeup.handle = handle_done;
    work->next = NULL;
    pthread_mutex_lock(&pool.lock);
    if (pool.n_waiting >= pool.n_idle && pool.n_threads < THREADS_MAX)
        has_thread = add_thread() || pool.n_threads > 0;
    if (has_thread) {
        *pool.end = work;
        pool.end = &work->next;
        pool.n_waiting++;
        if (pool.n_idle > 0)
            pthread_cond_signal(&pool.has_work);
    }
    pthread_mutex_unlock(&pool.lock);
    if (!has_thread) {
        work->run(work);
        ult_post_wakeup(work->pe, &work->wakeup);
    }
}
