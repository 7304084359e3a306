/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_connect.c: registers point-to-point messages with the rooms below: handlers of messages from other
 * processes, and state of communicators.
 */
#include <string.h>

#include "ampi/p2p/bsend_buffer.h"
#include "ampi/p2p/p2p_failure.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/route/remote.h"
#include "ampi/p2p/route/staged.h"

/* ---- Messages between processes ---- */

/* An offer: its data is away, but the machine does not have it. */
static bool handle_offer(int pe_id, const void *header)
{
    struct ampi_offer offer;
    struct machine_data data = {.can_keep = true};

    memcpy(&offer, header, sizeof offer);
    data.n_bytes = offer.n_bytes;
    ampi_remote_handle(pe_id, &offer.am, &data);
    return false;
}

static bool handle_send(int pe_id, const struct ampi_am_header *am, const void *header,
                        const struct machine_data *data)
{
    if (BASE_UNLIKELY(am->flags & AMPI_AM_STAGED))
        return handle_offer(pe_id, header);
    return ampi_remote_handle(pe_id, am, data);
}

static bool handle_ack(int pe_id, const struct ampi_am_header *am, const void *header,
                       const struct machine_data *data)
{
    ampi_remote_handle_ack(am);
    return false;
}

static bool handle_cancelled(int pe_id, const struct ampi_am_header *am, const void *header,
                             const struct machine_data *data)
{
    ampi_remote_handle_cancelled(am);
    return false;
}

static bool handle_credit(int pe_id, const struct ampi_am_header *am, const void *header,
                          const struct machine_data *data)
{
    ampi_remote_handle_credit(pe_id, am);
    return false;
}

static bool handle_pull(int pe_id, const struct ampi_am_header *am, const void *header,
                        const struct machine_data *data)
{
    ampi_staged_handle_pull(pe_id, am);
    return false;
}

static bool handle_piece(int pe_id, const struct ampi_am_header *am, const void *header,
                         const struct machine_data *data)
{
    return ampi_staged_handle_piece(pe_id, am, data);
}

/* ---- Communicators ---- */

static void release(struct ampi_comm *comm)
{
    ampi_bsend_release(comm->bsend);
    comm->bsend = NULL;
}

static void mark_failed(struct ampi_comm *comm)
{
    if (!comm->away || comm->away == &ampi_message_watch_mark)
        comm->away = &ampi_message_failed_mark;
}

void ampi_p2p_connect(void)
{
    static const struct ampi_procs_client procs_client = {.retry = ampi_remote_retry,
                                                          .must_retry = ampi_remote_must_retry,
                                                          .forget = ampi_remote_handle_failure};
    static const struct ampi_comm_client comm_client = {.close = ampi_message_drop_all,
                                                        .release = release,
                                                        .mark_failed = mark_failed,
                                                        .watch = ampi_p2p_watch_comm,
                                                        .fail = ampi_p2p_handle_failure};

    ampi_match_watcher = ampi_p2p_matched;
    ampi_procs_add_client(&procs_client);
    ampi_comm_add_client(&comm_client);
    ampi_procs_set_handler(AMPI_AM_SEND, handle_send);
    ampi_procs_set_handler(AMPI_AM_ACK, handle_ack);
    ampi_procs_set_handler(AMPI_AM_CANCELLED, handle_cancelled);
    ampi_procs_set_handler(AMPI_AM_CREDIT, handle_credit);
    ampi_procs_set_handler(AMPI_AM_PULL, handle_pull);
    ampi_procs_set_handler(AMPI_AM_PIECE, handle_piece);
}
