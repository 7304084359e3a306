/* SPDX-License-Identifier: BSD-3-Clause
 *
 * traffic.h: the processes that take part in a vote, and the numbers of messages that this one has exchanged with them. For
 * termination.c.
 */
#ifndef AMPI_PROCS_TRAFFIC_H
#define AMPI_PROCS_TRAFFIC_H

#include "base/base.h"

/* Messages of a process, without those exchanged with processes that take no part. */
struct ampi_counters {
    uint64_t n_sent; /* messages, except those of termination.c */
    uint64_t n_taken;
    uint64_t n_beside;  /* messages exchanged with processes in MPI_Finalize */
    uint64_t n_resumed; /* times that a rank went on; of a process that polls: its progress */
    uint64_t polls;     /* 1: ranks of the process only test and probe; 0: it is asleep */
    uint64_t out;       /* fingerprint of is_out; 64 bits: compared with memcmp, so no padding */
};

/* Messages of termination.c exchanged with a process. */
struct ampi_words {
    uint64_t n_sent;
    uint64_t n_taken;
};

/* What a PE has counted. */
struct ampi_pe_traffic {
    uint64_t n_sent;
    uint64_t n_taken;
    uint64_t n_beside;
    uint64_t n_armed; /* times that it has armed UCX */
    bool is_busy;     /* fetches, or must handle a failure */
};

struct ampi_traffic {
    struct ampi_words *words;    /* by process */
    bool *is_connected;          /* by process: of the own job, or of one that is connected to it */
    bool *is_out;                /* by process: takes no part */
    bool *is_beside;             /* by process: it is in MPI_Finalize, and serves this one */
    int collector;               /* the lowest process that takes part */
    struct ampi_pe_traffic *pes; /* by PE: at the last count */
    bool *was_out;               /* is_out, for the last count */
};
extern struct ampi_traffic ampi_traffic;

/* Allocates the arrays. */
void ampi_traffic_init(void);

/* Determines is_out and the collector. A failed process takes part until all PEs have ended the communication with it, which makes
 * ranks go on. */
void ampi_traffic_look_for_losses(void);

/* Times that a rank went on. While all PEs sleep. */
uint64_t ampi_traffic_count_resumed(void);

/* A count: begins it on one PE; then each PE counts, or another one for it while it sleeps; then the first PE adds up. False: the
 * process is not quiet. Sets all counters except n_resumed and polls. */
void ampi_traffic_begin(void);
void ampi_traffic_count(int pe_id);
bool ampi_traffic_sum(struct ampi_counters *counters_out) BASE_MUST_CHECK;

#endif
