/* SPDX-License-Identifier: BSD-3-Clause
 *
 * noise.c: keeps UCX from reporting errors that are no news. When a process is lost, and when processes
 * disconnect at the end, UCX says in several lines for each connection that it is broken; who lost what is
 * said by us, once. A user who asks UCX for messages (UCX_LOG_LEVEL) gets all of them.
 */
#include <stdlib.h>
#include <ucs/debug/log_def.h>

#include "machine_ucx/ucxm.h"

/* Messages of UCX, by any thread. */
static ucs_log_func_rc_t filter(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                const ucs_log_component_config_t *config, const char *message, va_list args)
{
    bool is_news =
        !__atomic_load_n(&ucxm.is_closing, __ATOMIC_ACQUIRE) && !(ucxm.processes && ucxm_lost_any());

    (void)file;
    (void)line;
    (void)function;
    (void)config;
    (void)message;
    (void)args;
    return is_news || level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

void ucxm_noise_filter(void)
{
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_log_push_handler(filter);
}
