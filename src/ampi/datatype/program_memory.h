/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program_memory.h: memory that MPI_Alloc_mem and MPI_Win_allocate give to the program: the host's, or CUDA's where the
 * hint "mpi_memory_alloc_kinds" asks for it.
 */
#ifndef AMPI_PROGRAM_MEMORY_H
#define AMPI_PROGRAM_MEMORY_H

#include "ampi/datatype/buffer.h"
#include "ampi/object/info.h"

/* The kind that the hint asks for: the first one of its list ("cuda:device,system") that there is. The host's without a
 * hint, or if it names no kind that is known. False: it names only kinds of CUDA, and no CUDA is used here. */
bool ampi_program_memory_kind(const struct ampi_info *info, enum gpu_memory *kind_out);

/* True if the value of "mpi_assert_memory_alloc_kinds" names only kinds that there are. */
bool ampi_program_memory_are_kinds(const char *value);

/* Sets the hint to the kinds that there are: for the info of a communicator, a session or a window in use. */
void ampi_program_memory_tell(struct ampi_info *info);

/* Memory for n_bytes > 0; alignment_bytes is a power of two, and for the host's memory. NULL: there is none. */
void *ampi_program_memory_alloc(enum gpu_memory kind, size_t alignment_bytes, size_t n_bytes);

/* Frees it, and any memory of malloc. NULL: nothing. */
void ampi_program_memory_free(void *memory);

#endif
