/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node_memory.h: memory of a process that the other processes of its node can read, for large data between
 * them.
 *
 * Each process has one segment (segment.h), created at first use, and allocates blocks in it. Data in a
 * block need not be sent: its receiver gets a reference (struct ampi_node_ref), reads the bytes in place,
 * and releases the reference. A block is free again when all references are released, in any process; there
 * is no notification, the owner checks when it needs room. So the data of a failed process stays readable,
 * and a process never reads the program's memory in another one.
 *
 * A process can use references to a segment once it has mapped it. The first attempt to lend it data fails
 * and sends an invitation, a message with the segment's location; the process maps it when it gets that
 * message, if the kernel permits it. Until then, and if there is no room, data is sent in messages.
 *
 * The segment begins with its magic number, the state of each process of the job (enum mapping_state, a byte), and
 * a reference count for each block.
 *
 * Any PE calls these; none of them may switch.
 */
#ifndef AMPI_PROCS_NODE_MEMORY_H
#define AMPI_PROCS_NODE_MEMORY_H

#include "base/base.h"

/* A reference to bytes in a block. */
struct ampi_node_ref {
    int32_t owner;    /* process that owns the block */
    uint32_t block;   /* its index there */
    uint64_t offset;  /* of the bytes in the segment */
    uint64_t n_bytes; /* 0: no reference */
};

/* Allocates a block of this process's memory for n_bytes, aligned to a cache line, with a reference to all
 * of it. NULL: no room now, or no such memory. */
void *ampi_node_memory_alloc(size_t n_bytes, struct ampi_node_ref *ref_out);

/* Makes a reference for another process, or for this one, to a part of the data of `ref`. False: the
 * process cannot use it, but perhaps later: it was invited, on its PE to_pe. */
bool ampi_node_memory_lend(const struct ampi_node_ref *ref, size_t from, size_t n_bytes, int to_proc,
                           int to_pe, struct ampi_node_ref *ref_out);

/* True if the process can use references to this one's memory; otherwise invites it. */
bool ampi_node_memory_reaches(int to_proc, int to_pe);

/* The address of a reference's bytes. It was lent to this process, or is its own. */
void *ampi_node_memory_at(const struct ampi_node_ref *ref);

/* Releases a reference. */
void ampi_node_memory_release(const struct ampi_node_ref *ref);

/* Registers the handler of this file's messages (job/connect.c). */
void ampi_node_memory_connect(void);

#endif
