/* SPDX-License-Identifier: BSD-3-Clause
 *
 * selection.h: selects the algorithm of an operation, inside a process and between processes, by its size.
 * One table for all operations, which can be printed (+help collectives) and changed (HEDDLE_COLL=OP:BYTES).
 */
#ifndef AMPI_COLL_SELECTION_H
#define AMPI_COLL_SELECTION_H

#include "base/base.h"

/* Contributions up to this size are copied into the slot at arrival: the data of many ranks is then
 * consecutive, and the last rank to arrive does not read that many cold cache lines. */
#define AMPI_COLL_PACK_BYTES 64

/* From this many processes on, trees and Bruck's algorithm send fewer messages, and rings take less time. */
#define AMPI_COLL_FEW 8

/* NCCL handles operations on GPU buffers from this size on, or from nccl_from if that is less, if the
 * transport between processes does not support GPU memory. */
#define AMPI_COLL_NCCL_STAGED_BYTES ((size_t)128 << 10)

enum ampi_coll_kind {
    AMPI_COLL_BCAST,
    AMPI_COLL_GATHER,
    AMPI_COLL_SCATTER,
    AMPI_COLL_ALLGATHER,
    AMPI_COLL_ALLTOALL,
    AMPI_COLL_REDUCE,
    AMPI_COLL_ALLREDUCE,
    AMPI_COLL_REDUCE_SCATTER,
    AMPI_COLL_SCAN,
    AMPI_COLL_NEIGHBOR,
    AMPI_COLL_USER_OP,     /* reductions by a user's function, in place of the operation's own row */
    AMPI_COLL_PAST_CACHES, /* not an operation: results that are written past the caches */
    AMPI_COLL_ONE_COPY,    /* not an operation: data that is copied once, from buffer to buffer */
    AMPI_COLL_NODE_MEMORY, /* not an operation: data that a process of the same node reads in place */
    AMPI_COLL_KIND_COUNT,
};

/* The algorithms between processes (exchange.h, reduction.h). */
enum ampi_between {
    AMPI_BETWEEN_ANY, /* the root's choice */
    AMPI_BETWEEN_BCAST_BINOMIAL,
    AMPI_BETWEEN_BCAST_LINEAR,
    AMPI_BETWEEN_BCAST_SCATTER,
    AMPI_BETWEEN_BCAST_CHAIN,
    AMPI_BETWEEN_GATHER_BINOMIAL,
    AMPI_BETWEEN_GATHER_LINEAR,
    AMPI_BETWEEN_SCATTER_BINOMIAL,
    AMPI_BETWEEN_SCATTER_LINEAR,
    AMPI_BETWEEN_ALLGATHER_BRUCK,
    AMPI_BETWEEN_ALLGATHER_RING,
    AMPI_BETWEEN_ALLTOALL_BRUCK,
    AMPI_BETWEEN_ALLTOALL_PAIRWISE,
    AMPI_BETWEEN_SPARSE,
    AMPI_BETWEEN_REDUCE_BINOMIAL,
    AMPI_BETWEEN_REDUCE_HALVING,
    AMPI_BETWEEN_ALLREDUCE_DOUBLING,
    AMPI_BETWEEN_ALLREDUCE_HALVING,
    AMPI_BETWEEN_REDUCE_PAIRWISE,
    AMPI_BETWEEN_REDUCE_RING,
    AMPI_BETWEEN_REDUCE_CHAIN,
    AMPI_BETWEEN_SCAN_DOUBLING,
    AMPI_BETWEEN_SCAN_CHAIN,
    AMPI_BETWEEN_NCCL, /* NCCL's own algorithm (coll_nccl.h) */
    AMPI_BETWEEN_COUNT,
};

/* "binomial tree", ... */
const char *ampi_coll_between_name(enum ampi_between algorithm);

struct ampi_coll_selection {
    const char *name;      /* of the operation, as the user writes it */
    const char *counted;   /* the size that is compared with share_from */
    size_t share_from;     /* from this size on all PEs share the work; below, the rank that arrives last
                            * does it */
    size_t pack_to;        /* contributions up to this size are copied into the slot at arrival; 0: none */
    enum ampi_between few; /* between fewer processes than AMPI_COLL_FEW: the algorithm for all sizes;
                            * AMPI_BETWEEN_ANY: by size as well */
    enum ampi_between few_large; /* ... from large_from on; AMPI_BETWEEN_ANY: as between many */
    enum ampi_between few_far; /* ... from far_from on if they are not on one node; AMPI_BETWEEN_ANY: the same
                                * as on one */
    size_t far_from;
    enum ampi_between small;     /* between processes: the algorithm */
    enum ampi_between large;     /* the one from large_from on */
    const char *between_counted; /* the size that is compared with large_from */
    size_t large_from;
    size_t each_from; /* ... and from this many bytes for each process on */
    size_t nccl_from; /* the size from which on NCCL does it for GPU buffers, if available; 0: NCCL has no
                       * such operation */
    bool is_given;    /* the user has changed it */
};

/* By kind. Read-only once ranks run. */
extern struct ampi_coll_selection ampi_coll_selections[AMPI_COLL_KIND_COUNT];

/* True if an operation that moves or combines this many bytes in total is worth waking all PEs. */
static inline bool ampi_coll_is_shared(enum ampi_coll_kind kind, size_t total_bytes)
{
    return total_bytes >= ampi_coll_selections[kind].share_from;
}

/* True if results with this total size, over all ranks of the process, should be written past the caches:
 * they do not fit, and an ordinary store first reads the line that it overwrites. */
static inline bool ampi_coll_is_stream(size_t total_bytes)
{
    return total_bytes >= ampi_coll_selections[AMPI_COLL_PAST_CACHES].share_from;
}

/* Fills in the values that depend on the machine. At start-up. */
void ampi_coll_selection_init(void);

/* Adapts the values that the user has not set to the number of the job's processes on this node. Where many
 * processes forward data, a process without a core delays those that copy from it. */
void ampi_coll_selection_fit(int node_n_procs);

/* Prints the table to stdout: +help collectives. */
void ampi_coll_print_selection(void);

/* Changes the entries that the environment variable HEDDLE_COLL lists; false: it is malformed. At start-up. */
bool ampi_coll_selection_read(void) BASE_MUST_CHECK;

/* The text of HEDDLE_COLL at start-up; "": there was none. */
const char *ampi_coll_selection_text(void);

/* Changes entries, OPERATION:SHARE_FROM[:PACK_TO[:LARGE_FROM[:NCCL_FROM[:RING_FROM]]]] separated by commas:
 * "allreduce:16K,bcast:inf:0:64K" (K, M and G are allowed). LARGE_FROM also applies between few processes; RING_FROM
 * is far_from.
 * False: the text is malformed, nothing has changed. Before ranks run. */
bool ampi_coll_override(const char *text);

#endif
