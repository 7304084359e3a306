/* SPDX-License-Identifier: BSD-3-Clause */
/* The three kinds of work of a tiled Cholesky factorization. A tile has size x size numbers, column by column. */
#ifndef WORK_CHOLESKY_H
#define WORK_CHOLESKY_H

#include <mpi-ext.h>

struct tile {
    int size;
};

enum kind {
    FACTOR, /* the lower triangle of tile 0 becomes its Cholesky factor */
    SOLVE,  /* tile 1 becomes tile 1 times the inverse of the transposed factor in tile 0 */
    UPDATE, /* tile 2 loses tile 0 times the transposed tile 1 */
    N_KINDS
};

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the kinds, with their kernels if there is a GPU. */
void register_kinds(AMPI_GPU_Work_cpu_fn *const cpu[N_KINDS], AMPI_GPU_Work works[N_KINDS]);

/* The number of blocks of a request. */
int blocks_of(enum kind kind, int size);

#ifdef __cplusplus
}
#endif

#endif
