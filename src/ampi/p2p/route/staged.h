/* SPDX-License-Identifier: BSD-3-Clause
 *
 * staged.h: large GPU messages to other processes, if the machine supports only host memory: in pieces,
 * which are copied from the GPU to pinned memory, sent, fetched to pinned memory and copied to the other
 * GPU, in a pipeline.
 *
 *      sender                                   receiver
 *      offer: the header and the size    -->    matched like any message; its data is away
 *                                        <--    PULL: the number of bytes, and the receive
 *      PIECE, several at a time          -->    each is stored at its offset
 *
 * So it is a rendezvous: the sender's request completes when all pieces have left, the receive's when all
 * are stored. A sender that cannot read its data reports that in a last piece.
 */
#ifndef AMPI_P2P_PIPE_H
#define AMPI_P2P_PIPE_H

#include "ampi/p2p/p2p.h"
#include "ampi/p2p/route/remote_peer.h"

/* Larger messages are staged, in pieces of this size at most. */
#define AMPI_STAGED_FROM_BYTES ((size_t)32 << 10)
#define AMPI_STAGED_PIECE_BYTES ((size_t)512 << 10)

/* The header of an offer. */
struct ampi_offer {
    struct ampi_am_header am; /* with the flag AMPI_AM_STAGED; the cookie identifies the sender's flow */
    uint64_t n_bytes;
};

/* ---- On the sender's PE ---- */

/* Sends the request, whose buffer is in GPU memory, in pieces; its header is filled in already. */
void ampi_staged_send(struct ampi_request *request, const struct ampi_peer *peer, size_t n_bytes);

/* Reports that the data of the message with this header could not be read from its GPU: its receive fails
 * with this CUDA error. */
void ampi_staged_send_failure(const struct ampi_am_header *am, const struct ampi_peer *peer, size_t n_bytes,
                              int error);

/* ---- On the receiver's PE ---- */

/* A receive has matched an offer. */
void ampi_staged_receive(struct ampi_request *recv, const struct ampi_peer *peer, uint64_t cookie,
                         size_t n_bytes, int source, int tag);

/* ---- On the destination's PE (p2p_connect.c). Returns true if the data is kept. ---- */
void ampi_staged_handle_pull(int pe_id, const struct ampi_am_header *am);
bool ampi_staged_handle_piece(int pe_id, const struct ampi_am_header *am, const struct machine_data *data);

/* ---- The process has failed: the PE's communication with it fails ---- */
void ampi_staged_handle_failure(int pe_id, int proc_id);
void ampi_staged_send_handle_failure(int pe_id, int proc_id); /* the sending side, called by the first one */

#endif
