/* SPDX-License-Identifier: BSD-3-Clause
 *
 * schedule.h: +schedule decides the calls whose result MPI leaves open: receives and probes with wildcards, calls
 * that do not wait (a poll: MPI_Test, MPI_Iprobe), and the index of MPI_Waitany.
 *
 *      random    shuffle.h
 *      choices   each alternative in turn, in many runs: choices.c
 *      record    writes the results: record.c
 *      replay    gives the recorded results: record.c
 *
 * Without +schedule such a call costs a load and a branch. The fast paths of messages cost nothing: the last three
 * watch communicators (AMPI_AT_POST_EVENTS).
 */
#ifndef AMPI_P2P_SCHEDULE_H
#define AMPI_P2P_SCHEDULE_H

#include "ampi/p2p/p2p.h"

enum ampi_schedule {
    AMPI_SCHEDULE_USUAL,
    AMPI_SCHEDULE_RANDOM,
    AMPI_SCHEDULE_CHOICES,
    AMPI_SCHEDULE_RECORD,
    AMPI_SCHEDULE_REPLAY,
};

/* Constant while ranks run. */
extern enum ampi_schedule ampi_schedule;

/* Reads the value of +schedule. Ends the process with a message if it is not valid. Before the job is created. */
void ampi_schedule_read(const char *text);

/* Opens the files. Ends the process with a message if that fails. When the job has been created, before ranks run. */
void ampi_schedule_begin(void);

/* All ranks have ended. */
void ampi_schedule_end(void);

/* For reports: "+schedule ..." of this run into the text; false: in the usual order. */
bool ampi_schedule_describe(char *text, size_t size_bytes);

/* The call begins with one of these words. */
bool ampi_schedule_is_among(const char *call, const char *const *words, size_t n_words);

/* The call, or "MPI from threads", that choices, record and replay do not decide; NULL: they decide it. */
const char *ampi_schedule_open_call(const char *call, bool is_thread);

static inline bool ampi_schedule_asks(void)
{
    return BASE_UNLIKELY(ampi_schedule > AMPI_SCHEDULE_RANDOM);
}

/* ---- Receives and probes ---- */

/* A message may not be taken now by a receive or probe of the communicator's owner: another receive may get it, or the choice
 * among several has not been made. The receive is posted, the probe waits. */
bool ampi_schedule_defers(struct ampi_comm *comm, int source, int tag) BASE_COLD;

/* A receive starts: returns its number among those with wildcards of its rank (-1: it has none), and may replace them. */
int ampi_schedule_receive(const struct ampi_comm *comm, int *source, int *tag) BASE_COLD;

/* The same for MPI_Start of a receive, which keeps its number. */
void ampi_schedule_start(struct ampi_request *request, struct ampi_recv_args *args) BASE_COLD;

/* The source of a receive that got no message in the record. */
#define AMPI_SCHEDULE_NOBODY (-1000)

/* Such a receive has got a message. */
void ampi_schedule_received(const struct ampi_rank *rank, int number, const MPI_Status *status) BASE_COLD;

/* A blocking probe starts: may replace its wildcards. Followed by ampi_schedule_probed. */
void ampi_schedule_probe(const struct ampi_comm *comm, int *source, int *tag) BASE_COLD;
void ampi_schedule_probed(const struct ampi_comm *comm, int source, int tag) BASE_COLD;

/* A message has come to the communicator's owner. */
void ampi_schedule_arrived(const struct ampi_comm *comm, int source, int tag) BASE_COLD;

/* ---- Polls ---- */

/* The required result of a poll. */
enum ampi_poll { AMPI_POLL_ANY, AMPI_POLL_NOTHING, AMPI_POLL_SUCCESS };

enum ampi_poll ampi_schedule_poll(void) BASE_COLD;
bool ampi_schedule_polls_again(enum ampi_poll poll) BASE_COLD;
void ampi_schedule_polled(bool has_found) BASE_COLD;

/* A poll begins. */
static inline enum ampi_poll ampi_poll_begin(void)
{
    return ampi_schedule_asks() ? ampi_schedule_poll() : AMPI_POLL_ANY;
}

/* Makes progress after a poll has found nothing. True: poll again. May switch. */
static inline bool ampi_poll_again(enum ampi_poll poll)
{
    ult_progress();
    return ampi_schedule_asks() && ampi_schedule_polls_again(poll);
}

/* A poll ends with this result. Polls with several results report them below. */
static inline void ampi_poll_end(bool has_found)
{
    if (ampi_schedule_asks())
        ampi_schedule_polled(has_found);
}

/* ---- Several requests ---- */

/* Before MPI_Waitany waits, or when MPI_Testany has found a complete request: the first index to check. It may wait
 * until that request is complete. May switch. */
int ampi_schedule_first(struct ampi_request *const *requests, int n_requests);

/* It has found this one. */
void ampi_schedule_found(int index) BASE_COLD;

/* Before MPI_Waitsome waits, or when MPI_Testsome has found something: may wait until certain requests are complete, and restrict
 * the result to these: is_meant has a byte for each request. False: no restriction. May switch. */
bool ampi_schedule_some(struct ampi_request *const *requests, int n_requests, bool *is_meant) BASE_COLD;
void ampi_schedule_found_some(const int *indices, int n) BASE_COLD;

#endif
