/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pipe.h: large messages of GPUs to other processes, where the machine takes data from the host's memory
 * only: in pieces, which are copied from the GPU to pinned memory, sent, fetched to pinned memory and copied
 * to the other GPU, all at the same time.
 *
 *      sender                                   receiver
 *      offer: the header, and how much   -->    matched like any message; its data is away
 *                                        <--    PULL: how much of it, and for which receive
 *      PIECE, some at a time             -->    each to its place, wherever that is
 *
 * So it is a rendezvous: the sender's request completes when all pieces have left, the receive's when all are
 * in place. A sender that cannot read its data says so in a last piece.
 */
#ifndef AMPI_P2P_PIPE_H
#define AMPI_P2P_PIPE_H

#include "ampi/p2p/p2p.h"
#include "ampi/p2p/remote_peer.h"

/* Messages of more bytes go this way, in pieces of this size at most. */
#define AMPI_PIPE_FROM_BYTES ((size_t)32 << 10)
#define AMPI_PIPE_PIECE_BYTES ((size_t)512 << 10)

/* The header of an offer. */
struct ampi_offer {
    struct ampi_wire wire; /* with the flag AMPI_WIRE_PIPE; the cookie is what to pull from */
    uint64_t n_bytes;
};

/* ---- On the sender's PE ---- */

/* Sends the request, whose buffer is a GPU's, in pieces; its header is filled in. */
void ampi_pipe_send(struct ampi_request *request, const struct ampi_peer *peer, size_t n_bytes);

/* A message with this header could not be read from its GPU: its receive will fail with this error of
 * CUDA's. */
void ampi_pipe_send_failure(const struct ampi_wire *wire, const struct ampi_peer *peer, size_t n_bytes,
                            int error);

/* ---- On the receiver's PE ---- */

/* A receive has matched an offer. */
void ampi_pipe_receive(struct ampi_request *recv, const struct ampi_peer *peer, uint64_t cookie,
                       size_t n_bytes, int source, int tag);

/* ---- On the destination's PE (p2p_connect.c). Returns true if the data is kept. ---- */
void ampi_pipe_handle_pull(int pe_id, const struct ampi_wire *wire);
bool ampi_pipe_handle_piece(int pe_id, const struct ampi_wire *wire, const struct machine_data *data);

/* ---- The process is lost: what the PE has under way with it fails ---- */
void ampi_pipe_lose(int pe_id, int proc_id);
void ampi_pipe_send_lose(int pe_id, int proc_id); /* of the first, what is sent */

#endif
