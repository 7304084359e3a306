/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote_header.h: the messages of rma_remote.h, for rma_remote*.c. In the header (struct
 * ampi_am_header), context_id names the window, tag is the message, source and dest are ranks of the window,
 * cookie and a lock's seq come back with the answer, and an operation's answer has its error in seq.
 */
#ifndef AMPI_RMA_REMOTE_HEADER_H
#define AMPI_RMA_REMOTE_HEADER_H

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
    AMPI_RMA_KEY_WANTED,
    AMPI_RMA_KEY,
    AMPI_RMA_HOLDERS_WANTED, /* for a report: of the lock that the origin waits for */
    AMPI_RMA_HOLDERS,        /* struct ampi_win_holders, to PE 0 */
    AMPI_RMA_CLAIM,
    AMPI_RMA_LEAVE, /* asks for a GRANT when all members of the process have called MPI_Win_free */
};

/* Flags of LOCK and UNLOCK, and of GRANT. */
#define AMPI_RMA_EXCLUSIVE 1
#define AMPI_RMA_HAS_OTHERS 2 /* the origin holds other locks: win_lock.h */
#define AMPI_RMA_REFUSED 4    /* the lock is not granted: its holder's process, or another one, has failed */

/* Flag of LOCK_ALL: answer at once. Flag of the GRANT: others hold the lock, it is not granted. */
#define AMPI_RMA_TRY 32
#define AMPI_RMA_BUSY 64

/* GRANT: the origin has passed a waiter too often: win_lock.h. */
#define AMPI_RMA_PASSED 128

/* Flag of HOLDERS_WANTED: the lock is the process's. */
#define AMPI_RMA_IS_ALL 16

/* Flag of ANSWER: the data could not be pulled (rma_pull.c). It carries the number of bytes that are done, a uint64_t. */
#define AMPI_RMA_SEND_REST 8

enum ampi_rma_kind {
    AMPI_RMA_PLAIN,           /* put and get: not atomic */
    AMPI_RMA_COMBINE,         /* accumulate and similar operations */
    AMPI_RMA_COMPARE_AND_SWAP /* the data is the expected value, then the new one */
};

/* An OP starts with this header, followed by the pieces and the packed data, or by its address. Its size and that of a piece
 * are multiples of 16 bytes: some elements need this alignment. */
struct ampi_rma_head {
    uint16_t kind;
    uint16_t op;    /* the constant of the predefined operation */
    uint16_t basic; /* enum ampi_basic; AMPI_BASIC_NONE if the data is only copied */
    bool is_fetching;
    bool is_pulled; /* one piece, and the data's address in the origin's process, a uint64_t */
    uint32_t n_pieces;
    uint32_t n_bytes; /* of all pieces */
};
_Static_assert(sizeof(struct ampi_rma_head) == 16 && sizeof(struct ampi_rma_piece) == 16,
               "the data is aligned as the message is");

/* The window of a message; NULL: all members of this process have freed it. On a PE with members, for the time of a handler.
 * (rma_remote_target.c) */
struct ampi_win_shared *ampi_rma_find_window(const struct ampi_am_header *am);

/* The header of an answer: swaps source and destination. */
struct ampi_am_header ampi_rma_answer_to(const struct ampi_am_header *am, enum ampi_rma_message message);

/* Answers when all members of this process have left, or at once if the window does not exist here any more.
 * (rma_leave.c) */
void ampi_rma_handle_leave(const struct ampi_am_header *am);

/* Makes a header for a member in another process. */
struct ampi_am_header ampi_rma_am(const struct ampi_win *win, enum ampi_rma_message message, int to);

/* Sends a message to am->dest with malloc'ed data, which is freed afterwards. False: the process has
 * failed. */
bool ampi_rma_post(const struct ampi_win_shared *shared, const struct ampi_am_header *am, void *data,
                   size_t n_bytes);

/* Begin and end a message or an access to the operation's target. Until the end, the call that completes the
 * owner's operations waits, and the request, if there is one, is not complete. error: MPI's class, which
 * that call raises. (rma_remote.c) */
struct ampi_rma_part *ampi_rma_part_begin(struct ampi_rma *rma);
void ampi_rma_part_end(struct ampi_rma_part *part, int error);

/* Answers. (rma_remote.c, rma_remote_lock.c) */
void ampi_rma_handle_key(const struct ampi_am_header *am, const void *bytes, size_t n_bytes);
void ampi_rma_handle_answer(const struct ampi_am_header *am, const void *bytes, size_t n_bytes);
void ampi_rma_handle_grant(const struct ampi_am_header *am);

/* The job is deadlocked: asks for the holders of the locks that the owner waits for. Returns the number of answers.
 * (rma_remote_lock.c) */
int ampi_rma_ask_for_holders(struct ampi_win *win);
void ampi_rma_handle_holders(const struct ampi_am_header *am, const void *bytes);

/* Fails the owner's operations on failed processes. On its PE. (rma_remote.c) */
void ampi_rma_fail_pieces(struct ampi_win *win);

/* Refuses the locks that the owner has asked failed processes for. On its PE. (rma_remote_lock.c) */
void ampi_rma_fail_grants(struct ampi_win *win);

#endif
