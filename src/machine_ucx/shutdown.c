/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shutdown.c: the end: no process closes its connections before every process has sent all its messages.
 *
 * A closed connection looks like a failed process to peers that still work. The launcher's fence cannot be
 * relied on for this: Slurm's (22.05, `SLURM_PMIX_FENCE=tree`, which it uses for fences without data)
 * releases processes before all have arrived. So the processes use a dissemination barrier of active
 * messages between their first ports: in round k each one notifies the process 2^k further on that it, and
 * all processes that it has heard from, have arrived. ceil(log2 P) rounds.
 */
#include <string.h>
#include <unistd.h>

#include "machine_ucx/ucxm.h"

/* More than the number of rounds for any number of processes. */
#define ROUNDS_MAX 32

/* Notifications received, by round: 0 or 1. Some arrive while this process's ranks are still working. */
static int n_notified[ROUNDS_MAX];

static ucs_status_t handle_parting(void *arg, const void *header, size_t header_bytes, void *data,
                                   size_t n_bytes, const ucp_am_recv_param_t *param)
{
    uint32_t round;

    (void)arg;
    (void)data;
    (void)n_bytes;
    (void)param;
    if (header_bytes != sizeof round)
        return UCS_OK;
    memcpy(&round, header, sizeof round);
    if (round < ROUNDS_MAX)
        __atomic_fetch_add(&n_notified[round], 1, __ATOMIC_RELEASE);
    return UCS_OK;
}

const char *ucxm_shutdown_init(struct ucxm_port *port)
{
    return port->pe_id == 0 ? ucxm_handler_set(port, UCXM_SHUTDOWN_ID, handle_parting) : NULL;
}

static void notify(int proc_id, uint32_t round)
{
    ucp_ep_h ep = ucxm_endpoint(&ucxm.ports[0], proc_id, 0);

    if (ep)
        ucxm_send_control(&ucxm.ports[0], ep, UCXM_SHUTDOWN_ID, &round, sizeof round);
}

bool ucxm_shutdown(void (*progress)(void), double until_s)
{
    int n_procs = ucxm.place.n_procs;
    uint32_t round = 0;

    for (int64_t step = 1; step < n_procs && !ucxm_has_failed_peers(); step *= 2, round++) {
        useconds_t pause_us = 0;
        notify((int)((ucxm.place.proc_id + step) % n_procs), round);
        while (__atomic_load_n(&n_notified[round], __ATOMIC_ACQUIRE) == 0 && !ucxm_has_failed_peers()) {
            progress();
            ucxm_pause(&pause_us);
            if (until_s > 0 && ucxm_now_s() > until_s)
                return false;
        }
    }
    return true;
}
