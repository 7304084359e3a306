/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failed_peer.c: processes that are gone: noting them once, and ending what is under way with them.
 *
 * Two sources tell of a loss: the launcher's events (launcher.c, on PMIx's thread) and UCX's endpoints
 * (ucx_connect.c, on the port's thread). Endpoints to processes of the same node have no error handling, or
 * UCX would not give them shared memory; there the launcher is the only source.
 */
#include "machine_ucx/ucxm.h"

/* How often a port is polled, at most, for what a process had sent before it was gone. */
#define DRAIN_POLLS 100000

void ucxm_lost_note(int proc_id, const char *why)
{
    if (proc_id < 0 || proc_id >= ucxm.place.n_procs || proc_id == ucxm.place.proc_id || !ucxm.processes)
        return;
    if (!__atomic_exchange_n(&ucxm.processes[proc_id].is_lost, true, __ATOMIC_SEQ_CST) && ucxm.client.lost &&
        !__atomic_load_n(&ucxm.is_closing, __ATOMIC_ACQUIRE))
        ucxm.client.lost(proc_id, why);
}

bool ucxm_lost_any(void)
{
    for (int i = 0; i < ucxm.place.n_procs; i++)
        if (ucxm_is_lost(i))
            return true;
    return false;
}

/* The order matters: what has arrived is handled first, because UCX writes into the buffers of fetches for as
 * long as there is something of the process in its queues, and nothing can come into them any more. Then
 * those that are left can be given up, although UCX still knows of them. */
void ucxm_forget(int pe_id, int proc_id)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];

    for (int i = 0; i < DRAIN_POLLS && ucp_worker_progress(port->worker); i++)
        ;
    ucxm_lanes_forget(port, proc_id);
    ucxm_abandon(port, proc_id);
    for (struct ucxm_request *request = port->pending, *next; request; request = next) {
        next = request->next;
        if (request->proc_id != proc_id)
            continue;
        ucxm_request_unlink(request);
        ucxm_request_give_up(request);
        next = port->pending; /* done may have started others, or ended some */
    }
}
