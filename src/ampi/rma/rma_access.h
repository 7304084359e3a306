/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_access.h: put and get on memory of other processes without a message to the target. See rma_access.c.
 */
#ifndef AMPI_RMA_ACCESS_H
#define AMPI_RMA_ACCESS_H

#include "ampi/rma/rma.h"

/* Begins a put or get, already checked, whose target is in another process. False: a message is needed.
 * Never switches. */
bool ampi_rma_access(struct ampi_rma *rma, bool is_put);

/* Begins to flush the owner's puts into a target's memory, or into all (-1). The flush counts as a pending
 * operation until it is complete there. Called if win->has_unflushed. Never switches. */
void ampi_rma_access_flush(struct ampi_win *win, int rank);

/* The key of the owner's memory for others, malloc'ed; NULL: it can be accessed by messages only. */
void *ampi_rma_access_pack_key(struct ampi_win *win, size_t *n_bytes_out);

/* Handles a member's key (n_bytes 0: it has none). On the owner's PE. */
void ampi_rma_access_handle_key(struct ampi_win *win, int rank, const void *packed, size_t n_bytes);

/* Called when the owner frees a window over several processes, after all members have ended their epochs. On
 * its PE. */
void ampi_rma_access_release(struct ampi_win *win);

#endif
