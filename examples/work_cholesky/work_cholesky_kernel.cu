/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of work_cholesky: Heddle runs each for the tiles of many ranks at once. */
#include <mpi-ext-work.cuh>

#include "work_cholesky.h"

#define FACTOR_THREADS 256
#define ROWS 64 /* of a tile, solved by a block: one by each thread */
#define EDGE 32 /* of the part of a tile that a block updates */
#define UPDATE_THREADS 256

static __device__ void factor(const struct tile *tile, const struct AMPI_GPU_Work_block *at)
{
    double *a = (double *)at->buffers[0];
    int n = tile->size;

    for (int k = 0; k < n; k++) {
        __syncthreads();
        double diagonal = sqrt(a[k + (long)k * n]);
        __syncthreads();
        for (int i = k + (int)threadIdx.x; i < n; i += FACTOR_THREADS)
            a[i + (long)k * n] = i == k ? diagonal : a[i + (long)k * n] / diagonal;
        __syncthreads();
        int rest = n - k - 1;
        for (int at_pair = (int)threadIdx.x; at_pair < rest * rest; at_pair += FACTOR_THREADS) {
            int i = k + 1 + at_pair % rest, j = k + 1 + at_pair / rest;
            if (i >= j)
                a[i + (long)j * n] -= a[i + (long)k * n] * a[j + (long)k * n];
        }
    }
}

static __device__ void solve(const struct tile *tile, const struct AMPI_GPU_Work_block *at)
{
    const double *l = (const double *)at->buffers[0];
    double *x = (double *)at->buffers[1];
    int n = tile->size, row = (int)(at->block * ROWS + threadIdx.x);

    if (row >= n)
        return;
    for (int j = 0; j < n; j++) {
        double value = x[row + (long)j * n];
        for (int k = 0; k < j; k++)
            value -= x[row + (long)k * n] * l[j + (long)k * n];
        x[row + (long)j * n] = value / l[j + (long)j * n];
    }
}

static __device__ void update(const struct tile *tile, const struct AMPI_GPU_Work_block *at)
{
    __shared__ double left[EDGE][EDGE + 1], right[EDGE][EDGE + 1];
    const double *a = (const double *)at->buffers[0], *b = (const double *)at->buffers[1];
    double *c = (double *)at->buffers[2], sums[EDGE * EDGE / UPDATE_THREADS] = {0};
    int n = tile->size, n_parts = (n + EDGE - 1) / EDGE;
    int i = (int)threadIdx.x % EDGE, first = (int)threadIdx.x / EDGE, step = UPDATE_THREADS / EDGE;
    int row = (int)at->block % n_parts * EDGE, col = (int)at->block / n_parts * EDGE;

    for (int k = 0; k < n; k += EDGE) {
        for (int j = first; j < EDGE; j += step) {
            left[j][i] = row + i < n && k + j < n ? a[row + i + (long)(k + j) * n] : 0;
            right[j][i] = col + i < n && k + j < n ? b[col + i + (long)(k + j) * n] : 0;
        }
        __syncthreads();
        for (int l = 0; l < EDGE; l++)
            for (int j = first, s = 0; j < EDGE; j += step, s++)
                sums[s] += left[l][i] * right[l][j];
        __syncthreads();
    }
    for (int j = first, s = 0; j < EDGE; j += step, s++)
        if (row + i < n && col + j < n)
            c[row + i + (long)(col + j) * n] -= sums[s];
}

void register_kinds(AMPI_GPU_Work_cpu_fn *const cpu[N_KINDS], AMPI_GPU_Work works[N_KINDS])
{
    AMPI_GPU_Work_register<struct tile, factor>("factor", FACTOR_THREADS, cpu[FACTOR], &works[FACTOR]);
    AMPI_GPU_Work_register<struct tile, solve>("solve", ROWS, cpu[SOLVE], &works[SOLVE]);
    AMPI_GPU_Work_register<struct tile, update>("update", UPDATE_THREADS, cpu[UPDATE], &works[UPDATE]);
}

int blocks_of(enum kind kind, int size)
{
    int n_parts = (size + EDGE - 1) / EDGE;

    return kind == FACTOR ? 1 : kind == SOLVE ? (size + ROWS - 1) / ROWS : n_parts * n_parts;
}
