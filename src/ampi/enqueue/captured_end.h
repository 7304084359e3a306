/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured_end.h: the operations in CUDA graphs, and their matching; for captured.c. See captured.h.
 */
#ifndef AMPI_CAPTURED_END_H
#define AMPI_CAPTURED_END_H

#include "ampi/enqueue/captured.h"

/* Tags of messages between processes must be less than this. */
#define AMPI_CAPTURED_REMOTE_TAGS_MAX (1 << 15)

/* An operation in a graph: one end of a message, or a rank's part in a collective. */
struct ampi_captured {
    struct gpu_graph_end end;
    struct ampi_captured *next;      /* link of the list of all ends */
    struct ampi_captured *next_here; /* link of the stream's operations that no wait covers yet */
    struct ampi_captured_args args;  /* collective: comm and stream alone */
    struct ampi_rank *owner;
    struct ampi_comm *hidden;              /* of a message, if the PEs do it */
    struct ampi_request *coll;             /* a collective; NULL: a message */
    const struct ampi_request *persistent; /* the request that the program started; NULL: none. Only
                                            * compared, as it may be freed */
    size_t n_bytes;
    uint64_t capture;          /* the capture that it belongs to */
    int wire_tag;              /* if the PEs do it */
    bool is_matched;           /* its other end is known, or it needs none */
    bool is_in_graph;          /* its node has been added */
    bool is_abandoned;         /* the request was freed */
    bool is_closed;            /* the communicator is freed, and this end with it when n_uses is 0 */
    int n_uses;                /* the program's handle, and launches that the PE is serving */
    struct ampi_request whole; /* parent of a launch's request; otherwise unused */
};

/* Creates an end and matches it. Raises errors of CUDA and of the match. May switch. */
int ampi_captured_add_end(const struct ampi_captured_args *args, uint64_t capture,
                          struct ampi_captured **made_out);

/* Creates a collective, which PEs do. Takes over the request (ampi_coll_create_start), also after an
 * error. */
int ampi_captured_add_coll(const struct ampi_captured_args *args, struct ampi_request *coll, uint64_t capture,
                           struct ampi_captured **made_out);

/* The program's handle is gone. */
void ampi_captured_drop_use(struct ampi_captured *captured);

#endif
