/* SPDX-License-Identifier: BSD-3-Clause
 *
 * partitioned.h: the ends of partitioned channels, and channels whose ends are on one PE.
 *
 * Two ends on one PE with contiguous buffers know each other (`peer`). If both have started the same round
 * before the last partition is ready, the round is *direct*: MPI_Pready copies its partition into the
 * receive's buffer, and MPI_Parrived sees it at once. Otherwise the data of the round is one message.
 *
 *      the send starts    the receive has not, or is not bound   partitions are marked
 *                         the receive waits for this round       ampi_partitioned_agree: direct
 *      the receive starts the send has not started the round     it waits for that
 *                         the send has not sent its message      ampi_partitioned_agree: direct
 *                         the send has sent it                   it receives the message
 */
#ifndef AMPI_P2P_PARTITIONED_H
#define AMPI_P2P_PARTITIONED_H

#include <string.h>

#include "ampi/p2p/partitioned/prequest.h"

/* The message of MPI_Psend_init. */
struct ampi_hello {
    int channel;                  /* its number */
    struct ampi_pair *pair;       /* in one process; else NULL */
    struct ampi_request *request; /* for receives on the same PE: the send, unless it has been freed */
    bool is_announced;            /* +check usage: `announced` is set; else the message ends here */
    char announced[256];          /* the data and the call of the send: misuse/messages.c */
};

/* One end of a channel; attached to the program's persistent request. */
struct ampi_partitioned {
    bool is_send;
    int n_partitions;
    bool *is_ready; /* send: partitions for which MPI_Pready was called */
    int n_ready;
    void *buf;
    MPI_Count count; /* elements of the whole buffer */
    struct ampi_type *type;
    int peer_rank;
    int tag; /* the user's */
    struct ampi_comm *hidden;
    int channel;                  /* receive: -1 until the hello has arrived */
    struct ampi_hello hello;      /* from the send */
    struct ampi_request *message; /* the request of rounds that are not direct; NULL: there was no such
                                   * round yet */
    struct gpu_facts facts;       /* about the memory of its first byte */
    bool is_waiting_for_hello;    /* receive: started before the hello arrived */
    bool is_dropped;              /* receive: the request was freed, the hello has not arrived */
    bool is_waiting;              /* receive with a peer: started before it */
    bool is_sent;                 /* send: the data of this round is in a message */
    bool is_direct;               /* this round: see above */
    uint64_t round;               /* number of starts */
    struct ampi_request *peer;    /* the other end, on the same PE; NULL: none, or not known */
    size_t part_bytes;            /* of a partition */
    size_t *n_left;  /* with a peer: bytes of each partition of the receive that have not arrived;
                                * the receive's memory */
    char *data;      /* with a peer: the first byte of this end's data */
    char *peer_data; /* ... of the other's */
    size_t peer_part_bytes;
    struct ampi_pair *pair;         /* in one process; receive: NULL until the hello has arrived */
    struct ampi_prequest *prequest; /* NULL: it has had none */
    struct ampi_marks_choice marks; /* of a send's prequest */
    bool is_by_kernels;             /* receive, this round: direct, see prequest.h */
};

/* An end's data. */
static inline size_t ampi_partitioned_bytes(const struct ampi_partitioned *end)
{
    return (size_t)(end->count * end->type->size_bytes);
}

static inline char *ampi_partitioned_first(const struct ampi_partitioned *end)
{
    return (char *)end->buf + end->type->true_lb_bytes;
}

/* The number of the end's round, truncated to the bits that words of a prequest have. */
static inline uint32_t ampi_prequest_round(const struct ampi_partitioned *end)
{
    return HEDDLE_PREQUEST_ROUND(HEDDLE_PREQUEST_STATE(end->round, false, false));
}

/* Connects the two ends if they can be direct. request: the receive, whose hello has arrived. */
void ampi_partitioned_bind(struct ampi_request *request);

/* An end is freed: disconnects its peer. */
void ampi_partitioned_unbind(struct ampi_partitioned *end);

/* Both ends have started the same round: makes it direct, and copies the partitions that are ready. False:
 * the round cannot be direct. */
bool ampi_partitioned_agree(struct ampi_request *send, struct ampi_request *recv);

/* Counts a copied partition of the send where the receive has different partitions. */
void ampi_partitioned_count(struct ampi_partitioned *send, int partition);

/* In a direct round: copies a partition of the send. */
static inline void ampi_partitioned_copy(struct ampi_partitioned *send, int partition)
{
    size_t first = (size_t)partition * send->part_bytes;

    memcpy(send->peer_data + first, send->data + first, send->part_bytes);
    if (BASE_LIKELY(send->part_bytes == send->peer_part_bytes))
        send->n_left[partition] = 0;
    else
        ampi_partitioned_count(send, partition);
}

/* The last partition of a direct round has been copied: completes both requests. */
void ampi_partitioned_finish(struct ampi_request *send);

/* True if the request is an end of a channel. (partitioned.c) */
bool ampi_request_is_partitioned(const struct ampi_request *request);

/* All partitions of a send are ready, and its round is not direct: sends the message. (partitioned.c) */
void ampi_partitioned_send(struct ampi_request *send);

#endif
