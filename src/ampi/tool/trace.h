/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace.h: +trace: the timeline of a run: each PE's events (object/event.h) as a file for Perfetto and docs/timeline.html.
 *
 * Each PE has a ring of records. A full ring loses its oldest records, which are counted. A process adds its records
 * to the file when it ends, however it ends, if its code still runs (trace_file.c). Between two processes the file
 * is always valid JSON.
 *
 * A message is an arrow from a send to a match. The n-th send from one rank to another with a context and a tag is
 * the n-th match of these there, because such messages do not overtake each other. So both ends have the same name,
 * and messages carry nothing more. For that, a ring that loses records counts lost sends and matches. Arrows are left
 * out if there is no room for more counts, if a send of their name has no match (SEND_UNMATCHED), and on
 * communicators with streams. A one-sided operation is an arrow without duration.
 */
#ifndef AMPI_TOOL_TRACE_H
#define AMPI_TOOL_TRACE_H

#include <signal.h>

#include "ampi/object/event.h"

/* An event. */
struct ampi_trace_record {
    uint64_t time_ns;
    int32_t kind; /* enum ampi_event_kind */
    int32_t rank; /* world rank; -1: none */
    int32_t peer; /* world rank: the other end, who ended a wait, or who ran before; -1: none */
    int32_t tag;  /* of a message; root or error of a collective; state of the ULT before a switch */
    uint64_t context;
    int64_t value;    /* bytes; was_unexpected; the address of a name, of a copy or of a kernel; ns */
    const char *call; /* of a send, an unexpected receive, a window or a GPU: the function; or NULL */
};

/* How often something has been lost, by the hash of its name. */
struct ampi_trace_count {
    uint64_t hash; /* 0: unused */
    int64_t n;
};

/* Of one PE, which alone writes. */
struct ampi_trace_ring {
    _Atomic uint64_t n_written; /* records, also lost ones; record i is at i % n_records */
    uint64_t n_records;         /* a power of two */
    struct ampi_trace_record *records;
    struct ampi_trace_count *counts; /* 2 * n_records entries, an open hash table */
    uint64_t n_counts;               /* in use */
    bool has_lost_counts;            /* it was half full */
};

/* Of the process. */
struct ampi_trace {
    struct ampi_trace_ring *rings; /* by PE; NULL: no trace */
    _Atomic bool is_ended;         /* nothing more is recorded */
    int64_t clock_offset_ns;       /* added to this process's clock: that of process 0 */
    uint64_t start_ns;             /* of this process: time 0 of the file if it is process 0 */
    uint64_t base_ns;              /* time 0 of the file, on the clock of process 0; 0: as in the file */
};
extern struct ampi_trace ampi_trace;

/* At the start of MPI or of a session, on the rank: from now on its events are recorded, if +trace is set. May switch. */
void ampi_trace_begin(struct ampi_rank *self);

/* An event of the rank: ampi_events_take. */
void ampi_trace_take(const struct ampi_rank *rank, enum ampi_event_kind kind, const struct ampi_comm *comm,
                     const int64_t *values) BASE_COLD;

/* A PE was idle from since_ns to now. */
void ampi_trace_take_idle(int pe_id, uint64_t since_ns) BASE_COLD;

/* The begin or end of a copy on a PE, whose event all of its ranks get. */
void ampi_trace_take_copy(int pe_id, enum ampi_event_kind kind, const int64_t *values) BASE_COLD;

/* Counts one more message or collective of its name, and returns the number of those before it. -1: unknown, because it would be a
 * new name, and there are n_max. -2: it has none, because a SEND_UNMATCHED of its name has been counted. */
int64_t ampi_trace_count(struct ampi_trace_ring *ring, const struct ampi_trace_record *record,
                         uint64_t n_max);

/* These end a process, after its records are in the file. */
static const int ampi_trace_signals[] = {SIGTERM, SIGINT, SIGHUP};

/* Adds the process's records to the file, the first time that it is called; returns when they are there. Any thread, also in a
 * signal handler: takes no lock of the process, and no memory. */
void ampi_trace_write(void);

/* Writes the records of all PEs and ranks, which end at end_ns; returns the number of those that were lost. (trace_write.c) */
struct ampi_json;
int64_t ampi_trace_write_records(struct ampi_json *json, int64_t end_ns);

/* Creates the file without records: process 0 at the start. Prints a message if that fails. */
void ampi_trace_create_file(void);

/* Measures clock_offset_ns, on the first rank of the process. (trace_clock.c) May switch. */
void ampi_trace_measure_clock(struct ampi_rank *self);

#endif
