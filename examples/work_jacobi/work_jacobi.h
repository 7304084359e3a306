/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of a tile of rows, for the CPU and the GPU: buffers are the row above it, its rows, the row below it, and its new rows. */
#ifndef WORK_JACOBI_H
#define WORK_JACOBI_H

#include <mpi-ext.h>

struct tile {
    int n_rows;
    int n_cols;
};

#ifdef __CUDACC__
#define EVERYWHERE __host__ __device__
#else
#define EVERYWHERE
#endif

/* The new values of the points first, first + step, ... of the tile. The columns at both ends are fixed. */
static inline EVERYWHERE void do_points(const struct tile *tile, void *const *buffers, long first, long step)
{
    const float *above = (const float *)buffers[0], *old = (const float *)buffers[1],
                *below = (const float *)buffers[2];
    float *out = (float *)buffers[3];
    long n = tile->n_cols, n_points = n * tile->n_rows;

    for (long i = first; i < n_points; i += step) {
        long col = i % n;
        float up = i < n ? above[col] : old[i - n], down = i + n < n_points ? old[i + n] : below[col];
        out[i] = col == 0 || col == n - 1 ? old[i] : 0.25f * ((up + down) + (old[i - 1] + old[i + 1]));
    }
}

#ifdef __cplusplus
extern "C"
#endif
    /* Registers the kind, with its kernel if there is a GPU. */
    int
    register_tiles(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work);

#endif
