/* SPDX-License-Identifier: BSD-3-Clause
 *
 * collect.h: plain data of the ranks in internal messages, which raise no errors: rank 0 collects sums in MPI_Finalize.
 */
#ifndef AMPI_TOOL_COLLECT_H
#define AMPI_TOOL_COLLECT_H

#include "ampi/p2p/p2p.h"

/* Sends data to a rank of a hidden communicator. False: its process has failed. May switch. */
bool ampi_collect_send(struct ampi_rank *self, struct ampi_comm *hidden, int dest, const void *data,
                       size_t n_bytes);

/* Receives the next data of a rank, of n_bytes or less. False: its process has failed. May switch. */
bool ampi_collect_receive(struct ampi_rank *self, struct ampi_comm *hidden, int source, void *data,
                          size_t n_bytes);

#endif
