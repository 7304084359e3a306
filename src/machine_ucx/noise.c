/* SPDX-License-Identifier: BSD-3-Clause
 *
 * noise.c: suppresses UCX's reports of known errors. When a process fails, and when processes disconnect at
 * the end, UCX prints several lines for each broken connection; Heddle itself reports the failed process,
 * once. A user who requests UCX's messages (UCX_LOG_LEVEL) gets all of them.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucs/debug/log_def.h>

#include "machine_ucx/ucxm.h"

static struct {
    pthread_mutex_t lock;
    int n_holders;
    char text[4096];
    size_t n_bytes;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Keeps a message. Returns false if it must be printed now. */
static bool keep(const char *message, va_list args)
{
    bool is_held;

    pthread_mutex_lock(&kept.lock);
    is_held = kept.n_holders > 0;
    if (is_held && kept.n_bytes + 1 < sizeof kept.text) {
        size_t room = sizeof kept.text - kept.n_bytes - 1; /* reserves room for the end of the line */
        char text[512];
        int n;
        vsnprintf(text, sizeof text, message, args);
        n = snprintf(kept.text + kept.n_bytes, room, "UCX: %s", text);
        if (n > 0)
            kept.n_bytes += (size_t)n < room ? (size_t)n : room - 1;
        kept.text[kept.n_bytes++] = '\n';
    }
    pthread_mutex_unlock(&kept.lock);
    return is_held;
}

/* True if a process has failed. UCX notices that the files of a process of this node are gone before the
 * launcher reports the failure. */
static bool has_loss(void)
{
    if (ucxm_has_failed_peers())
        return true;
    for (int i = 0; i < ucxm.place.max_procs; i++)
        if (__atomic_load_n(&ucxm.processes[i].has_rings, __ATOMIC_ACQUIRE) &&
            !ucxm_rings_exist(&ucxm.processes[i].published->rings))
            return true;
    return false;
}

/* Receives UCX's messages, on any thread. */
static ucs_log_func_rc_t filter(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                const ucs_log_component_config_t *config, const char *message, va_list args)
{
    bool is_news = !__atomic_load_n(&ucxm.is_closing, __ATOMIC_ACQUIRE) && !(ucxm.processes && has_loss());

    (void)file;
    (void)line;
    (void)function;
    (void)config;
    if (level <= UCS_LOG_LEVEL_WARN && level != UCS_LOG_LEVEL_FATAL && keep(message, args))
        return UCS_LOG_FUNC_RC_STOP;
    return is_news || level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

void ucxm_noise_filter(void)
{
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_log_push_handler(filter);
}

void ucxm_noise_hold(void)
{
    pthread_mutex_lock(&kept.lock);
    if (kept.n_holders++ == 0)
        kept.n_bytes = 0;
    pthread_mutex_unlock(&kept.lock);
}

void ucxm_noise_release(bool is_printed)
{
    pthread_mutex_lock(&kept.lock);
    kept.n_holders--;
    if (is_printed) {
        fwrite(kept.text, 1, kept.n_bytes, stderr);
        kept.n_bytes = 0;
    }
    pthread_mutex_unlock(&kept.lock);
}
