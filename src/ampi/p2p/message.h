/* SPDX-License-Identifier: BSD-3-Clause
 *
 * message.h: a message that found no posted receive, while it waits in its destination's unexpected table (or
 * in the hands of the program, after a matched probe), and the pools that the memory comes from.
 *
 *      eager       the data was copied behind the header; the sender went on
 *      rendezvous  the data lies in the sender's buffer; the sender waits and is completed at the match
 *      (a synchronous send of little data is a rendezvous, too)
 *
 * Pools are per PE and per size. A message that is consumed on another PE than the one that made it goes home
 * in batches, so that one-way traffic does not drain one pool and swell the other.
 */
#ifndef AMPI_P2P_MESSAGE_H
#define AMPI_P2P_MESSAGE_H

#include "ampi/match/match.h"
#include "ampi/p2p/request.h"

/* Largest message that is sent eagerly; the greatest size of the pools. */
#define AMPI_EAGER_MAX_BYTES 16384

struct transfer;
struct ampi_message {
    uint32_t magic;              /* AMPI_MAGIC_MESSAGE */
    uint8_t size_class;          /* which free list it belongs to */
    bool is_remote;              /* from another process: remote.h */
    uint16_t home_pe;            /* whose pool it came from */
    struct ampi_match_node node; /* in the destination's unexpected table; source and tag */
    size_t size_bytes;           /* of the data */
    struct ampi_request *sender; /* rendezvous: the send request, ACTIVE, maybe of another PE; NULL: eager */
    struct ampi_comm *comm;      /* the destination's handle */
    struct transfer *fetch;      /* its data is being fetched from a GPU: p2p_device.h; else NULL */
    struct ampi_message *next;   /* link of a free list or of a batch going home */
    unsigned char data[] __attribute__((aligned(16)));
};

#define AMPI_MESSAGE_CLASSES 9 /* 64 bytes of data, then twice as much each, up to AMPI_EAGER_MAX_BYTES */

struct ampi_message_pool {
    struct ampi_message *free[AMPI_MESSAGE_CLASSES];
    uint16_t pe_id;
    size_t n_bytes;                 /* memory that it has taken from the system; none goes back */
    struct ampi_message **homeward; /* by home PE: messages of others consumed here */
    int *n_homeward;                /* how many of each */
    _Atomic(struct ampi_message *) returned BASE_CACHE_ALIGNED; /* ours, consumed elsewhere; any PE adds */
};

/* The pools of a process with this many PEs. */
struct ampi_message_pool *ampi_message_pools_create(int n_pes);

/* That of a PE. */
struct ampi_message_pool *ampi_message_pool_of(int pe_id);

/* Memory for a while, from the pool if it is little; pool and size are the same for both. Of the calling
 * PE. */
void *ampi_message_scratch(struct ampi_message_pool *pool, size_t size_bytes, const char *what);
void ampi_message_scratch_free(struct ampi_message_pool *pool, void *scratch, size_t size_bytes);

/* A message with room for this much data; size_bytes <= AMPI_EAGER_MAX_BYTES. sender is NULL. Ends the job
 * when there is no memory. */
struct ampi_message *ampi_message_alloc(struct ampi_message_pool *pool, size_t size_bytes);

/* Gives it back; pool is that of the calling PE. */
void ampi_message_free(struct ampi_message_pool *pool, struct ampi_message *message);

/* Adds a message that no posted receive matches to the unexpected table, and wakes its destination if that is
 * blocked in a probe for it. On the destination's PE. Never switches. */
void ampi_message_keep(struct ampi_comm *dest, struct ampi_message *message, int source, int tag);

/* The communicator of this handle goes: drops the messages to it that have met no receive. On the
 * destination's PE. Never switches. */
void ampi_message_drop_all(struct ampi_comm *dest);

/* Copies the message, which is not away (p2p_device.h), into a receive's buffer, completes its sender, frees
 * it, and fills the status, whose MPI_ERROR becomes MPI_ERR_TRUNCATE if there was more data than room. On the
 * destination's PE. Never switches. */
void ampi_message_consume(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                          const struct ampi_type *type, MPI_Status *status);

#endif
