/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_hook.h: buffers of MPI's calls whose current data may be in a GPU's copy, because work requests used them (work/work.h). A program without
 * work requests pays a load and a branch.
 */
#ifndef AMPI_WORK_HOOK_H
#define AMPI_WORK_HOOK_H

#include "ampi/datatype/type.h"

/* Set before the first request is submitted; never reset. */
extern bool ampi_work_is_used;

/* Makes the host's memory current; is_written: the call writes to the buffer. count -1: all memory. Set before main (work/work_end.c). */
extern void (*ampi_work_settle)(const void *buf, MPI_Count count, const struct ampi_type *type,
                                bool is_written);

/* The program frees memory: its copies on GPUs are dropped. MPI_SUCCESS, or MPI_ERR_BASE, raised, without an effect: a request that is not
 * done uses it. May switch. Set before main (work/work_usage.c). */
extern int (*ampi_work_free)(const void *memory, size_t n_bytes);

/* At the start of a call, on its ULT. May switch. */
static inline void ampi_work_before(const void *buf, MPI_Count count, const struct ampi_type *type,
                                    bool is_written)
{
    if (BASE_UNLIKELY(__atomic_load_n(&ampi_work_is_used, __ATOMIC_RELAXED)))
        ampi_work_settle(buf, count, type, is_written);
}

#endif
