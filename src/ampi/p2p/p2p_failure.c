/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_failure.c: receives and probes whose sender has failed. See p2p_failure.h. remote_send.c handles
 * sends.
 */
#include "ampi/p2p/p2p_failure.h"

#include "ampi/object/error.h"
#include "ampi/p2p/message.h"

struct ampi_message ampi_message_failed_mark;

bool ampi_p2p_is_failed(const struct ampi_comm *comm, int source)
{
    const struct ampi_group *senders = comm->peer->layout->group;

    if (source < 0 && comm->match.n_streams && ampi_match_rank_of(&comm->match, source) >= 0)
        source = ampi_match_rank_of(&comm->match, source) * comm->match.n_streams;
    return source < 0 ? ampi_failed_in_group(senders)
                      : ampi_failed_is_rank(ampi_group_world_rank(senders, source));
}

static bool is_failed_source(int source, void *arg)
{
    return ampi_p2p_is_failed(arg, source);
}

void ampi_p2p_fail_recv(struct ampi_request *request)
{
    ampi_status_set_empty(&request->status);
    request->status.MPI_SOURCE = request->u.p2p.node.source;
    request->status.MPI_TAG = request->u.p2p.node.tag;
    request->status.MPI_ERROR = MPI_ERR_PROC_ABORTED;
    ampi_request_complete(request);
}

void ampi_p2p_handle_failure(struct ampi_comm *comm)
{
    struct ampi_match_node *node = ampi_match_take_all_posted(&comm->match, is_failed_source, comm);
    struct ampi_prober **link = &comm->probers, *prober;

    while (node) {
        struct ampi_request *request = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
        node = node->next;
        request->u.p2p.is_posted = false;
        ampi_p2p_fail_recv(request);
    }
    while ((prober = *link)) {
        if (prober->ult && ampi_p2p_is_failed(comm, prober->source)) {
            *link = prober->next;
            ult_ready(prober->ult);
        } else {
            link = &prober->next;
        }
    }
}

int ampi_p2p_raise_failed(struct ampi_comm *comm)
{
    char text[AMPI_FAILED_TEXT_MAX];

    ampi_failed_describe(comm ? comm->peer->layout->group : NULL, text);
    return ampi_raise_on_comm(comm, MPI_ERR_PROC_ABORTED, "%s", text);
}
