/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program_memory.h: memory of MPI_Alloc_mem and MPI_Win_allocate: host memory, or CUDA's if the hint
 * "mpi_memory_alloc_kinds" requests it.
 */
#ifndef AMPI_PROGRAM_MEMORY_H
#define AMPI_PROGRAM_MEMORY_H

#include "ampi/datatype/buffer.h"
#include "ampi/object/info.h"

/* Outputs the kind that the hint requests: the first available one of its list ("cuda:device,system"). It is
 * host memory without a hint, or if the hint names no known kind. False: it names only kinds of CUDA, and
 * this process does not use CUDA. */
bool ampi_program_memory_kind(const struct ampi_info *info, enum gpu_memory *kind_out);

/* True if the value of "mpi_assert_memory_alloc_kinds" names only known kinds. */
bool ampi_program_memory_are_kinds(const char *value);

/* Sets the hint to the supported kinds, for MPI_INFO_ENV and the info of a session, a communicator, a window or a file in
 * use: first those of its present value and of mpirun's -memory-alloc-kinds, the requests, then all others. The list is
 * the same before and after the program's first call of CUDA. */
void ampi_program_memory_add_kinds(struct ampi_info *info);

/* Allocates n_bytes > 0; alignment_bytes, a power of two, concerns host memory. NULL: out of memory. */
void *ampi_program_memory_alloc(enum gpu_memory kind, size_t alignment_bytes, size_t n_bytes);

/* The bytes of such host memory, at least as many as were asked for; 0: it is of CUDA, or NULL. */
size_t ampi_program_memory_bytes(void *memory);

/* Frees such memory, or memory of malloc. NULL: no effect. */
void ampi_program_memory_free(void *memory);

#endif
