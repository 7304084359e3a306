/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory_file.h: unnamed files in memory (memfd_create), for memory that processes share.
 */
#ifndef BASE_MEMORY_FILE_H
#define BASE_MEMORY_FILE_H

#include <stddef.h>

/* Creates a zeroed file, of which only written pages take memory. name: for /proc. Returns its descriptor, which is
 * closed on exec; -1: the kernel or the user's limit of file sizes does not permit it. */
int base_memory_file_create(const char *name, size_t n_bytes);

#endif
