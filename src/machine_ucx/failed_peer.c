/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failed_peer.c: failed processes: records each one once, and ends the communication with it.
 *
 * There are two sources of failures: the launcher's events (launcher.c, on PMIx's thread) and UCX's
 * endpoints (ucx_connect.c, on the port's thread). Endpoints to processes of the same node have no error
 * handling, because UCX would not give them shared memory otherwise; there the launcher is the only source.
 */
#include "machine_ucx/ucxm.h"

/* Maximum number of polls of a port for messages that a process had sent before it failed. */
#define DRAIN_POLLS 100000

void ucxm_peer_failed(int proc_id, const char *why)
{
    if (proc_id < 0 || proc_id >= ucxm.place.max_procs || proc_id == ucxm.place.proc_id || !ucxm.processes)
        return;
    if (!__atomic_exchange_n(&ucxm.processes[proc_id].is_failed, true, __ATOMIC_SEQ_CST) &&
        ucxm.client.failed && !__atomic_load_n(&ucxm.is_closing, __ATOMIC_ACQUIRE))
        ucxm.client.failed(proc_id, why);
}

bool ucxm_has_failed_peers(void)
{
    for (int i = 0; i < ucxm.place.max_procs; i++)
        if (ucxm_is_failed(i) && ucxm_members_concern(i))
            return true;
    return false;
}

bool ucxm_has_gone_peers(void)
{
    for (int i = 0; i < ucxm.place.max_procs && ucxm_members_may_grow(); i++)
        if (__atomic_load_n(&ucxm.processes[i].n_pes, __ATOMIC_ACQUIRE) > 0 && !ucxm_is_present(i) &&
            !ucxm_members_end_together(i))
            return true;
    return ucxm_has_failed_peers();
}

/* The order matters. Messages that have arrived are handled first, because UCX writes into the buffers of
 * fetches as long as its queues contain data of the process. Afterwards no more data can arrive there, and
 * the remaining operations can be given up although UCX still knows them. */
void ucxm_drop_peer(int pe_id, int proc_id)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];

    port->is_busy = true;
    for (int i = 0; i < DRAIN_POLLS && ucp_worker_progress(port->worker); i++)
        ;
    ucxm_rings_forget(port, proc_id);
    ucxm_abandon(port, proc_id);
    for (struct ucxm_request *request = port->pending, *next; request; request = next) {
        next = request->next;
        if (request->proc_id != proc_id)
            continue;
        ucxm_request_unlink(request);
        ucxm_request_give_up(request);
        next = port->pending; /* done may have started or ended other requests */
    }
}
