/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_pull.h: accumulates whose data the target copies from the origin's memory. See rma_pull.c.
 */
#ifndef AMPI_RMA_PULL_H
#define AMPI_RMA_PULL_H

#include "ampi/rma/rma.h"

/* At the origin: true if the target should get the address of the data instead of the data. Checked arguments. */
bool ampi_rma_can_pull(const struct ampi_rma *rma);

/* At the target: combines the data at `from` in a process with memory of the target. Returns the number of bytes that
 * are done: fewer than all if the kernel refuses to copy the rest, or if the process has failed. Never switches. */
size_t ampi_rma_pull(struct ampi_win *at, int proc_id, const struct ampi_op *op, enum ampi_basic basic,
                     struct ampi_rma_piece to, uintptr_t from);

#endif
