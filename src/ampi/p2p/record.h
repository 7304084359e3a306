/* SPDX-License-Identifier: BSD-3-Clause
 *
 * record.h: records the choices that MPI leaves open, and repeats them (+schedule record:FILE, replay:FILE).
 */
#ifndef AMPI_P2P_RECORD_H
#define AMPI_P2P_RECORD_H

#include "ampi/p2p/schedule.h"

/* Creates the file, or reads it. Ends the process with a message if that fails. */
void ampi_record_begin(const char *path);
void ampi_replay_begin(const char *path);

/* The run has ended normally. */
void ampi_record_end(void);

/* The functions of schedule.h. */
int ampi_record_receive(const struct ampi_rank *rank);
void ampi_record_received(const struct ampi_rank *rank, int number, int source, int tag);
void ampi_record_probed(const struct ampi_rank *rank, int source, int tag);
void ampi_record_polled(const struct ampi_rank *rank, bool has_found);
void ampi_record_found(const struct ampi_rank *rank, int index);
void ampi_record_found_some(const struct ampi_rank *rank, const int *indices, int n);

/* The number of the receive; replaces the wildcards. */
int ampi_replay_receive(const struct ampi_comm *comm, int *source, int *tag);
enum ampi_poll ampi_replay_poll(const struct ampi_rank *rank);
void ampi_replay_polled(const struct ampi_rank *rank, bool has_found);
void ampi_replay_probed(const struct ampi_rank *rank);
void ampi_replay_probe(const struct ampi_comm *comm, int *source, int *tag);
int ampi_replay_first(const struct ampi_rank *rank, struct ampi_request *const *requests, int n_requests);
void ampi_replay_some(const struct ampi_rank *rank, struct ampi_request *const *requests, int n_requests,
                      bool *is_meant);

#endif
