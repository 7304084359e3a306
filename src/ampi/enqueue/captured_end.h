/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured_end.h: the operations in CUDA graphs, and their matching; for captured.c. See captured.h.
 */
#ifndef AMPI_CAPTURED_END_H
#define AMPI_CAPTURED_END_H

#include "ampi/enqueue/captured.h"

/* Tags of messages between processes are less. */
#define AMPI_CAPTURED_REMOTE_TAGS_MAX (1 << 15)

/* An operation in a graph: one end of a message, or a rank's part in a collective. */
struct ampi_captured {
    struct gpu_graph_end end;
    struct ampi_captured *next;      /* of all */
    struct ampi_captured *next_here; /* of the stream's that are not waited for yet */
    struct ampi_captured_args args;  /* collective: comm and stream alone */
    struct ampi_rank *owner;
    struct ampi_comm *hidden;              /* of a message, if the PEs do it */
    struct ampi_request *coll;             /* a collective; NULL: a message */
    const struct ampi_request *persistent; /* that was started; NULL: none. Only compared: it may be freed */
    size_t n_bytes;
    uint64_t capture;          /* that it is in */
    int wire_tag;              /* if the PEs do it */
    bool is_matched;           /* has its other end, or needs none */
    bool is_in_graph;          /* its node is there */
    bool is_abandoned;         /* the request was freed */
    bool is_closed;            /* the communicator is freed ... */
    int n_uses;                /* ... but not the program's handle, or a launch is being served */
    struct ampi_request whole; /* what a launch's request is a part of; unused */
};

/* Creates an end and matches it. Raises errors: the GPU's, and those of the match. May switch. */
int ampi_captured_add_end(const struct ampi_captured_args *args, uint64_t capture,
                          struct ampi_captured **made_out);

/* Creates a collective, which the PEs do; takes the request (ampi_coll_create_start), also after an error. */
int ampi_captured_add_coll(const struct ampi_captured_args *args, struct ampi_request *coll, uint64_t capture,
                           struct ampi_captured **made_out);

/* The program's handle does not need it any more. */
void ampi_captured_drop_use(struct ampi_captured *captured);

#endif
