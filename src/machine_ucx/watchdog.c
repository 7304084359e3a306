/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watchdog.c: time limits for requests to the launcher. libpmix's calls block until it replies, and it
 * never does if it has crashed at a bad moment, was stopped, or does not know the request. A thread
 * monitors such a call, and ends the process with a message that names the request. Waiting for other
 * processes has no limit and is not monitored.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* Seconds; HEDDLE_LAUNCHER_TIMEOUT overrides it. */
#define LIMIT_S 60
#define LIMIT_MAX_S 1000000

int ucxm_watchdog_read(const char *variable, int preset_s)
{
    const char *given = secure_getenv(variable);
    char *end;
    long limit_s;

    if (!given)
        return preset_s;
    errno = 0;
    limit_s = strtol(given, &end, 10);
    if (end == given || *end || errno || limit_s < 1 || limit_s > LIMIT_MAX_S)
        base_fatal(2, "%s=%s: expected whole seconds from 1 to %d", variable, given, LIMIT_MAX_S);
    return (int)limit_s;
}

int ucxm_watchdog_limit_s(void)
{
    static int limit_s; /* first needed by PMIx_Init, before there are other threads */

    if (!limit_s)
        limit_s = ucxm_watchdog_read("HEDDLE_LAUNCHER_TIMEOUT", LIMIT_S);
    return limit_s;
}

void ucxm_signals_block(sigset_t *before_out)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before_out);
}

void ucxm_signals_allow(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

bool ucxm_watchdog_thread(pthread_t *thread_out, void *(*function)(void *), void *arg)
{
    sigset_t before;
    bool is_created;

    ucxm_signals_block(&before);
    is_created = pthread_create(thread_out, NULL, function, arg) == 0;
    ucxm_signals_allow(&before);
    return is_created;
}

/* Counts seconds instead of reading the clock: a stopped process has not waited. Must not read the
 * environment, which libpmix changes meanwhile. */
static void *watch(void *arg)
{
    struct ucxm_watchdog *watch = arg;

    pthread_setname_np(pthread_self(), "heddle watchdog");
    pthread_mutex_lock(&watch->lock);
    for (int seconds = 0; !watch->is_over && seconds < watch->limit_s; seconds++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        while (!watch->is_over && pthread_cond_timedwait(&watch->ended, &watch->lock, &until) == 0)
            ;
    }
    if (!watch->is_over)
        base_fatal(1,
                   "process %s: the launcher has not replied for %d s: %s (HEDDLE_LAUNCHER_TIMEOUT changes "
                   "the limit)",
                   watch->who, watch->limit_s, watch->what);
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

void ucxm_watchdog_begin(struct ucxm_watchdog *watch_out, const char *what)
{
    const char *rank = secure_getenv("PMIX_RANK");

    *watch_out = (struct ucxm_watchdog){.what = what,
                                        .limit_s = ucxm_watchdog_limit_s(),
                                        .lock = PTHREAD_MUTEX_INITIALIZER,
                                        .ended = PTHREAD_COND_INITIALIZER};
    snprintf(watch_out->who, sizeof watch_out->who, "%s", rank ? rank : "?");
    watch_out->has_thread = ucxm_watchdog_thread(&watch_out->thread, watch, watch_out);
}

void ucxm_watchdog_end(struct ucxm_watchdog *watch)
{
    if (!watch->has_thread) /* then without a limit */
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_over = true;
    pthread_cond_signal(&watch->ended);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
}
