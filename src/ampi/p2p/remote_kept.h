/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_kept.h: a message from another process while it waits for its receive or its communicator; for
 * remote.c and remote_cancel.c alone.
 */
#ifndef AMPI_P2P_REMOTE_KEPT_H
#define AMPI_P2P_REMOTE_KEPT_H

#include "ampi/p2p/message.h"
#include "ampi/p2p/remote_peer.h"

/* A message that cannot be delivered yet. */
struct waiting {
    struct waiting *next;
    struct ampi_wire wire;
    const void *bytes; /* NULL: away */
    size_t n_bytes;
    void *token;       /* NULL: bytes lie behind this struct */
    size_t room_bytes; /* of this struct */
    unsigned char copy[];
};

/* The beginning of a kept message's data[]. */
struct kept {
    const void *bytes;      /* NULL: away */
    void *token;            /* NULL: the bytes lie behind this */
    uint64_t cookie;        /* of a synchronous send */
    struct ampi_peer *peer; /* that it came from */
    bool is_sync;
    bool is_offer;        /* pipe.h; the cookie is that of the offer */
    bool is_fetching : 1; /* its data is on its way to copy */
    bool is_dropped : 1;  /* ... and is not wanted any more */
    bool has_failed;      /* it never came */
    uint32_t seq;         /* the message's number between the two PEs */
    union {
        struct ampi_request *recv; /* fetching: the receive that waits for it; NULL: none yet */
        struct ampi_rank *owner;   /* the communicator is gone: the rank that it was sent to */
    };
    void *memory; /* malloc'ed, where there is no room behind this; else NULL */
    unsigned char copy[];
};
_Static_assert(sizeof(struct kept) <= 64, "fits into the smallest message");

static inline struct kept *kept_of(const struct ampi_message *message)
{
    return (struct kept *)(uintptr_t)message->data;
}

/* Gives a message's part of the sender's window back. (remote.c) */
void ampi_remote_give_back(struct ampi_peer *peer, size_t n_bytes);

/* Drops a kept message, a struct ampi_message, whose bytes are here. (remote.c) */
void ampi_remote_release_message(struct ampi_rank *owner, void *what);

/* A message that takes back another one has come, in its order; shared: the communicator of both, NULL: it is
 * not there yet, or not any more. (remote_cancel.c) */
void ampi_remote_handle_cancel(struct ampi_remote *remote, int pe_id, struct ampi_comm_shared *shared,
                               const struct ampi_wire *wire, const struct machine_data *data) BASE_COLD;

#endif
