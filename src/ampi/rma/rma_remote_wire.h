/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote_wire.h: the messages of rma_remote.h, for rma_remote.c and rma_remote_target.c. In the header (struct
 * ampi_wire), context_id names the window, tag is the message, source and dest are ranks of the window,
 * cookie comes back with the answer, and seq is an answer's error.
 */
#ifndef AMPI_RMA_REMOTE_WIRE_H
#define AMPI_RMA_REMOTE_WIRE_H

#include "ampi/rma/rma_remote.h"

enum ampi_rma_message {
    AMPI_RMA_OP = 1,
    AMPI_RMA_ANSWER,
    AMPI_RMA_LOCK,
    AMPI_RMA_GRANT,
    AMPI_RMA_UNLOCK,
    AMPI_RMA_LOCK_ALL,
    AMPI_RMA_UNLOCK_ALL,
    AMPI_RMA_POST,
    AMPI_RMA_COMPLETE,
};

/* Flags of LOCK and UNLOCK. */
#define AMPI_RMA_EXCLUSIVE 1
#define AMPI_RMA_HAS_OTHERS 2 /* the origin holds other locks of the window: win_lock.h */

enum ampi_rma_kind {
    AMPI_RMA_PLAIN,           /* put and get: not atomic */
    AMPI_RMA_COMBINE,         /* accumulate and its kin */
    AMPI_RMA_COMPARE_AND_SWAP /* the data is what is expected, then what replaces it */
};

/* The data of an OP begins with this; then come the pieces, then the data, packed. */
struct ampi_rma_head {
    uint16_t kind;
    uint16_t op;    /* the constant of the predefined operation */
    uint16_t basic; /* enum ampi_basic; AMPI_BASIC_NONE for what is only copied */
    bool is_fetching;
    uint32_t n_pieces;
    uint64_t n_bytes; /* of all pieces */
};

/* A header for a member of another process, from this one. */
struct ampi_wire ampi_rma_wire(const struct ampi_win *win, enum ampi_rma_message message, int to);

/* Sends it to wire->dest with data that was malloc'ed, and is freed. False: its process is lost. */
bool ampi_rma_post(const struct ampi_win_shared *shared, const struct ampi_wire *wire, void *data,
                   size_t n_bytes);

/* Answers. (rma_remote.c) */
void ampi_rma_handle_answer(const struct ampi_wire *wire, const void *bytes, size_t n_bytes);
void ampi_rma_handle_grant(const struct ampi_wire *wire);

/* The owner's operations on lost processes fail. On its PE. (rma_remote.c) */
void ampi_rma_lose_parts(struct ampi_win *win);

/* If the owner stands in the queue of a lock, it leaves it with MPI_ERR_PROC_ABORTED. On its PE. (lock.c) */
void ampi_rma_lose_lock(struct ampi_win *win);

#endif
