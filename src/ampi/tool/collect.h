/* SPDX-License-Identifier: BSD-3-Clause
 *
 * collect.h: collecting plain data of the ranks in MPI_Finalize: rank 0 receives it by internal messages, which raise no errors.
 */
#ifndef AMPI_TOOL_COLLECT_H
#define AMPI_TOOL_COLLECT_H

#include "ampi/p2p/p2p.h"

/* Sends data to rank 0 of a hidden communicator. False: its process has failed. May switch. */
bool ampi_collect_send(struct ampi_rank *self, struct ampi_comm *hidden, const void *data, size_t n_bytes);

/* Receives the next data of a rank, of n_bytes or less. False: its process has failed. May switch. */
bool ampi_collect_receive(struct ampi_rank *self, struct ampi_comm *hidden, int source, void *data,
                          size_t n_bytes);

#endif
