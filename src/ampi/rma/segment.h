/* SPDX-License-Identifier: BSD-3-Clause
 *
 * segment.h: memory that processes of a node share: a file without a name, which others open by /proc/PID/fd as
 * long as the kernel allows them to (as the machine's lanes do).
 */
#ifndef AMPI_RMA_SEGMENT_H
#define AMPI_RMA_SEGMENT_H

#include "base/base.h"

/* Where other processes find it. */
struct ampi_segment_place {
    int64_t pid; /* 0: there is none */
    int64_t fd;
    uint64_t n_bytes;
};

/* Makes one, zeroed, and maps it. NULL: no memory. Its file stays open until ampi_segment_close. */
void *ampi_segment_create(size_t n_bytes, struct ampi_segment_place *place_out);
void ampi_segment_close(const struct ampi_segment_place *place);

/* Maps one of another process's. NULL: that is not allowed, or there is no room. */
void *ampi_segment_open(const struct ampi_segment_place *place);

void ampi_segment_unmap(void *memory, size_t n_bytes);

#endif
