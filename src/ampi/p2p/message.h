/* SPDX-License-Identifier: BSD-3-Clause
 *
 * message.h: messages without a posted receive, while they wait in the destination's unexpected table (or
 * belong to the program, after a matched probe), and their memory pools.
 *
 *      eager       the data was copied after the header; the sender continues
 *      rendezvous  the data is in the sender's buffer; the sender waits and is completed at the match
 *      (a synchronous send of little data is a rendezvous, too)
 *
 * Pools are per PE and per size. Messages that are consumed on a PE other than their own are returned in
 * batches, so that one-way traffic does not drain one pool and fill the other.
 */
#ifndef AMPI_P2P_MESSAGE_H
#define AMPI_P2P_MESSAGE_H

#include "ampi/match/match.h"
#include "ampi/p2p/request.h"

/* Largest message that is sent eagerly; the largest size of the pools. */
#define AMPI_EAGER_MAX_BYTES 16384

struct transfer;
struct ampi_message {
    uint32_t magic;              /* AMPI_MAGIC_MESSAGE */
    uint8_t size_class;          /* its free list */
    bool is_remote;              /* from another process: remote.h */
    uint16_t home_pe;            /* the PE that owns its memory */
    struct ampi_match_node node; /* in the destination's unexpected table; source and tag */
    size_t size_bytes;           /* of the data */
    struct ampi_request *sender; /* rendezvous: the send request, ACTIVE, possibly of another PE; NULL:
                                  * eager */
    struct ampi_comm *comm;      /* the destination's handle */
    struct transfer *fetch;      /* the fetch of its data from a GPU: p2p_device.h; else NULL */
    struct ampi_message *next;   /* next in a free list or in a batch of returned messages */
    unsigned char data[] __attribute__((aligned(16)));
};

#define AMPI_MESSAGE_CLASSES 9 /* 64 bytes of data, then doubling, up to AMPI_EAGER_MAX_BYTES */

struct ampi_message_pool {
    struct ampi_message *free[AMPI_MESSAGE_CLASSES];
    uint16_t pe_id;
    size_t n_bytes;                 /* memory taken from the system; never returned */
    struct ampi_message **homeward; /* by home PE: others' messages consumed here */
    int *n_homeward;                /* lengths of these lists */
    _Atomic(struct ampi_message *) returned BASE_CACHE_ALIGNED; /* this PE's messages, consumed elsewhere; any
                                                                 * PE adds to it */
};

/* The pools of a process with this many PEs. */
struct ampi_message_pool *ampi_message_pools_create(int n_pes);

/* Creates a further pool whose messages count as the PE's. The caller makes sure that one thread at a time
 * uses it. */
struct ampi_message_pool *ampi_message_pool_create_apart(int pe_id);

/* The pool of a PE. */
struct ampi_message_pool *ampi_message_pool_of(int pe_id);

/* Temporary memory, from the pool if it is small; release it with the same pool and size. Pool of the
 * calling PE. */
void *ampi_message_scratch(struct ampi_message_pool *pool, size_t size_bytes, const char *what);
void ampi_message_scratch_free(struct ampi_message_pool *pool, void *scratch, size_t size_bytes);

/* A message with room for this much data; size_bytes <= AMPI_EAGER_MAX_BYTES. sender is NULL. Ends the job
 * if memory is exhausted. */
struct ampi_message *ampi_message_alloc(struct ampi_message_pool *pool, size_t size_bytes);

/* Frees it; pool is that of the calling PE. */
void ampi_message_free(struct ampi_message_pool *pool, struct ampi_message *message);

/* Adds a message without a matching posted receive to the unexpected table, and wakes its destination if
 * that is blocked in a probe for it. On the destination's PE. Never switches. */
void ampi_message_keep(struct ampi_comm *dest, struct ampi_message *message, int source, int tag);

/* Drops the unexpected messages of a communicator's handle that is freed. On the destination's PE. Never
 * switches. */
void ampi_message_drop_all(struct ampi_comm *dest);

/* Copies the message, which is not away (p2p_device.h), into a receive's buffer, completes its sender, and
 * frees it. Fills the status, whose MPI_ERROR is MPI_ERR_TRUNCATE if the data did not fit. On the
 * destination's PE. Never switches. */
void ampi_message_consume(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                          const struct ampi_type *type, MPI_Status *status);

#endif
