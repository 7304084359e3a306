/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy.h: the parts of the copy between layouts: kernels (copy_kernels.c), columns (copy_columns.c), and
 * their combination (copy.c). No function switches or allocates.
 */
#ifndef AMPI_DATATYPE_COPY_H
#define AMPI_DATATYPE_COPY_H

#include "ampi/datatype/cursor.h"

/* Copies n blocks, with the given distances between blocks. */
void ampi_copy_blocks(uintptr_t to, int64_t dst_stride, uintptr_t from, int64_t src_stride, size_t block,
                      size_t n);

/* Copies n blocks between base + disps[i] and consecutive memory at flat; is_pack: to flat. */
void ampi_copy_offsets(uintptr_t base, const int64_t *disps, uintptr_t flat, size_t block, size_t n,
                       bool is_pack);

/* The same for a table of blocks of various sizes, as many of the n as fit into room bytes; *n_out is their
 * number. Returns the bytes. */
size_t ampi_copy_entries(uintptr_t base, const struct base_node_entry *entries, int64_t n, uintptr_t flat,
                         size_t room, bool is_pack, int64_t *n_out);

/* Copies many repetitions of a small leaf at once if both cursors permit it: one is at the start of a leaf
 * in a loop, the other too with the same blocks, or in consecutive memory. Advances both, except
 * packed_bytes. Returns the bytes copied, 0 if none. */
size_t ampi_copy_columns(struct ampi_cursor *dst, struct ampi_cursor *src, size_t n_bytes);

#endif
