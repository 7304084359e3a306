/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mrma.h: windows for the programs that test operations: allocated by MPI, or with the argument "created" on
 * the program's own memory. Libraries may access the two in different ways.
 */
#ifndef MRMA_H
#define MRMA_H

#include "mtest.h"

static int mrma_is_created;

/* After mtest_init: takes "created" out of the arguments, where it may be the last one. */
static inline void mrma_init(int *argc, char **argv)
{
    mrma_is_created = *argc > 1 && strcmp(argv[*argc - 1], "created") == 0;
    *argc -= mrma_is_created;
}

/* A window on MPI_COMM_WORLD; base: the address of the pointer to its memory. */
static inline int mrma_window(MPI_Aint n_bytes, int disp_unit, void *base, MPI_Win *win)
{
    void *memory;

    if (!mrma_is_created)
        return MPI_Win_allocate(n_bytes, disp_unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win);
    MPI_Alloc_mem(n_bytes, MPI_INFO_NULL, &memory);
    *(void **)base = memory;
    return MPI_Win_create(memory, n_bytes, disp_unit, MPI_INFO_NULL, MPI_COMM_WORLD, win);
}

static inline int mrma_free(void *base, MPI_Win *win)
{
    int error = MPI_Win_free(win);

    if (mrma_is_created)
        MPI_Free_mem(base);
    return error;
}

#endif
