/* SPDX-License-Identifier: BSD-3-Clause
 *
 * segment.h: memory shared by processes of a node: a memfd, which others open by /proc/PID/fd if the kernel
 * permits that (like the machine's shared-memory rings).
 */
#ifndef AMPI_PROCS_SEGMENT_H
#define AMPI_PROCS_SEGMENT_H

#include "base/base.h"

/* Its location, for other processes. */
struct ampi_segment_place {
    int64_t pid; /* 0: none */
    int64_t fd;
    uint64_t n_bytes;
    uint64_t alignment_bytes; /* of its address in every process */
};

/* Creates a zeroed segment and maps it at a multiple of alignment_bytes, a power of two. NULL: not permitted, or out of
 * memory. Its file stays open until ampi_segment_close. */
void *ampi_segment_create(size_t n_bytes, size_t alignment_bytes, struct ampi_segment_place *place_out);
void ampi_segment_close(const struct ampi_segment_place *place);

/* Maps another process's segment. NULL: not permitted, or out of address space. */
void *ampi_segment_open(const struct ampi_segment_place *place);

void ampi_segment_unmap(void *memory, size_t n_bytes);

#endif
