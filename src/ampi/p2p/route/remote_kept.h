/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_kept.h: a message from another process while it waits for its receive or its communicator; for
 * remote.c and remote_cancel.c alone.
 */
#ifndef AMPI_P2P_REMOTE_KEPT_H
#define AMPI_P2P_REMOTE_KEPT_H

#include "ampi/p2p/message.h"
#include "ampi/p2p/route/remote_peer.h"

/* A message that cannot be delivered yet. */
struct waiting {
    struct waiting *next;
    struct ampi_am_header am;
    const void *bytes; /* NULL: away */
    size_t n_bytes;
    void *token;       /* NULL: the bytes follow this struct */
    size_t room_bytes; /* allocated size of this struct */
    unsigned char copy[];
};

/* The beginning of a kept message's data[]. */
struct kept {
    const void *bytes;      /* NULL: away */
    void *token;            /* NULL: the bytes follow this struct */
    uint64_t cookie;        /* of a synchronous send */
    struct ampi_peer *peer; /* the sender */
    bool is_sync;
    bool is_offer;        /* staged.h; the cookie is that of the offer */
    bool is_fetching : 1; /* its data is being copied to copy */
    bool is_dropped : 1;  /* ... and is no longer needed */
    bool has_failed;      /* its data will never arrive */
    uint32_t seq;         /* the message's number between the two PEs */
    union {
        struct ampi_request *recv; /* fetching: the waiting receive; NULL: none yet */
        struct ampi_rank *owner;   /* after the communicator was freed: the rank it was sent to */
    };
    void *memory; /* malloc'ed, if there is no room after this struct; else NULL */
    unsigned char copy[];
};
_Static_assert(sizeof(struct kept) <= 64, "fits into the smallest message");

static inline struct kept *kept_of(const struct ampi_message *message)
{
    return (struct kept *)(uintptr_t)message->data;
}

/* Returns a message's share of the sender's window. (remote.c) */
void ampi_remote_give_back(struct ampi_peer *peer, size_t n_bytes);

/* Drops a kept message, a struct ampi_message, whose bytes are here. (remote.c) */
void ampi_remote_release_message(struct ampi_rank *owner, void *what);

/* Handles a cancel message, in its order. Returns true if its data is being fetched. (remote_cancel.c) */
bool ampi_remote_handle_cancel(int pe_id, const struct ampi_am_header *am,
                               const struct machine_data *data) BASE_COLD;

#endif
