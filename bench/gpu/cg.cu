/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cg.cu: a conjugate gradient solver of a 2D five-point stencil, in rows over the ranks, as mini-apps of implicit heat
 * conduction have it: per iteration 5 kernels, two sums that the host reads, two MPI_Allreduce and a halo of device buffers.
 * Small grids show what a rank costs apart from computing. Arguments: N (grid N x N, default 512), iterations (default
 * 400), and what to leave out: halo, sums (no copy to the host, no MPI_Allreduce), allreduce, kernels.
 *
 *   nvcc -O2 -arch=native -I INST/include bench/gpu/cg.cu -o cg -L INST/lib -lmpi_abi -Xlinker -rpath=INST/lib
 *   for n in 1 8; do mpirun -n $n ./cg 512; mpirun -n $n ./cg 512 400 halo sums; done
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mpi_check.cuh"

enum { THREADS = 256 };

struct grid {
    int n, rows; /* columns; own rows, without the two of neighbors */
    size_t n_cells;
    double *u, *r, *p, *w, *partial, *sum;
};

__device__ void add_up(double value, double *partial)
{
    __shared__ double parts[THREADS];

    parts[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        partial[blockIdx.x] = parts[0];
}

__global__ void start(struct grid g)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    double value = 0;

    if (i < g.n_cells) {
        g.u[i] = 0;
        value = g.r[i] = g.p[g.n + i] = 1 + (double)(i % 7);
    }
    add_up(value * value, g.partial);
}

/* w = A p, and the parts of p * w. */
__global__ void apply(struct grid g, bool has_above, bool has_below)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    double value = 0;

    if (i < g.n_cells) {
        int x = (int)(i % g.n), y = (int)(i / g.n);
        const double *p = g.p + g.n + i;
        value = 4.1 * *p;
        value -= x > 0 ? p[-1] : 0;
        value -= x < g.n - 1 ? p[1] : 0;
        value -= y > 0 || has_above ? p[-g.n] : 0;
        value -= y < g.rows - 1 || has_below ? p[g.n] : 0;
        g.w[i] = value;
        value *= *p;
    }
    add_up(value, g.partial);
}

/* u += alpha p, r -= alpha w, and the parts of r * r. */
__global__ void advance(struct grid g, double alpha)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    double value = 0;

    if (i < g.n_cells) {
        g.u[i] += alpha * g.p[g.n + i];
        value = g.r[i] -= alpha * g.w[i];
    }
    add_up(value * value, g.partial);
}

__global__ void direct(struct grid g, double beta)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < g.n_cells)
        g.p[g.n + i] = g.r[i] + beta * g.p[g.n + i];
}

__global__ void finish_sum(struct grid g, int n_parts)
{
    double value = 0;

    for (int i = threadIdx.x; i < n_parts; i += THREADS)
        value += g.partial[i];
    add_up(value, g.sum);
}

static bool has_halo = true, has_sums = true, has_allreduce = true, has_kernels = true;

static double sum_of(struct grid g, int n_blocks)
{
    double own = 1, all;

    if (has_kernels)
        finish_sum<<<1, THREADS>>>(g, n_blocks);
    if (!has_sums)
        return 1;
    CHECK(cudaMemcpy(&own, g.sum, sizeof own, cudaMemcpyDeviceToHost));
    if (!has_allreduce)
        return own;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void exchange(struct grid g, int above, int below)
{
    double *last = g.p + (size_t)g.rows * g.n;

    MPI_Sendrecv(g.p + g.n, g.n, MPI_DOUBLE, above, 0, last + g.n, g.n, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, g.n, MPI_DOUBLE, below, 1, g.p, g.n, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, n = 512, iterations = 400;
    struct grid g = {};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        n = atoi(argv[1]);
    if (argc > 2)
        iterations = atoi(argv[2]);
    for (int i = 3; i < argc; i++) {
        has_halo &= strcmp(argv[i], "halo") != 0;
        has_sums &= strcmp(argv[i], "sums") != 0;
        has_allreduce &= strcmp(argv[i], "allreduce") != 0;
        has_kernels &= strcmp(argv[i], "kernels") != 0;
    }
    g.n = n;
    g.rows = n / size + (rank < n % size);
    g.n_cells = (size_t)n * g.rows;
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    int n_blocks = (int)((g.n_cells + THREADS - 1) / THREADS);
    CHECK(cudaMalloc(&g.u, g.n_cells * sizeof(double)));
    CHECK(cudaMalloc(&g.r, g.n_cells * sizeof(double)));
    CHECK(cudaMalloc(&g.w, g.n_cells * sizeof(double)));
    CHECK(cudaMalloc(&g.p, (g.n_cells + 2 * (size_t)n) * sizeof(double)));
    CHECK(cudaMalloc(&g.partial, n_blocks * sizeof(double)));
    CHECK(cudaMalloc(&g.sum, sizeof(double)));
    double rr = 0, first = 0, best = 1e9;
    for (int round = 0; round < 4; round++) { /* the first one warms up */
        start<<<n_blocks, THREADS>>>(g);
        rr = first = sum_of(g, n_blocks);
        CHECK(cudaDeviceSynchronize());
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < iterations; i++) {
            if (has_halo)
                exchange(g, above, below);
            if (has_kernels)
                apply<<<n_blocks, THREADS>>>(g, above != MPI_PROC_NULL, below != MPI_PROC_NULL);
            double alpha = rr / sum_of(g, n_blocks);
            if (has_kernels)
                advance<<<n_blocks, THREADS>>>(g, alpha);
            double next = sum_of(g, n_blocks);
            if (has_kernels)
                direct<<<n_blocks, THREADS>>>(g, next / rr);
            rr = next;
        }
        CHECK(cudaDeviceSynchronize());
        MPI_Barrier(MPI_COMM_WORLD);
        double us = (MPI_Wtime() - begin) * 1e6 / iterations;
        if (round > 0 && us < best)
            best = us;
    }
    if (rank == 0) {
        printf("cg %d x %d, %d ranks: %.1f us per iteration, residual %.3g of %.3g", n, n, size, best, rr,
               first);
        for (int i = 3; i < argc; i++)
            printf(", no %s", argv[i]);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
