// SPDX-License-Identifier: BSD-3-Clause
//
// cusolver.cu: cuSOLVER's Cholesky factorization (double precision) of a matrix of n x n numbers that is on the GPU: the limit beside
// examples/work_cholesky, for bench/work. Prints the fastest of five.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <cusolverDn.h>

static void check(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "cusolver: %s failed\n", what);
        exit(1);
    }
}

/* Positive definite: the diagonal is larger than the sum of its row. */
static __global__ void fill(double *matrix, long n)
{
    for (long at = blockIdx.x * (long)blockDim.x + threadIdx.x; at < n * n; at += (long)gridDim.x * blockDim.x) {
        long i = at % n, j = at / n, low = i < j ? i : j, high = i < j ? j : i;
        matrix[at] = i == j ? (double)n : (double)((low * 7919 + high * 104729) % 1000) / 1000 - 0.5;
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2048, n_work = 0, *info, failed = 0;
    double *matrix, *work, best = 1e30;
    cusolverDnHandle_t solver;

    check(cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS, "cusolverDnCreate");
    check(cudaMalloc(&matrix, sizeof(double) * n * n) == cudaSuccess, "cudaMalloc");
    check(cudaMalloc(&info, sizeof(int)) == cudaSuccess, "cudaMalloc");
    check(cusolverDnDpotrf_bufferSize(solver, CUBLAS_FILL_MODE_LOWER, n, matrix, n, &n_work) == CUSOLVER_STATUS_SUCCESS,
          "cusolverDnDpotrf_bufferSize");
    check(cudaMalloc(&work, sizeof(double) * n_work) == cudaSuccess, "cudaMalloc");
    for (int i = 0; i < 6; i++) {
        fill<<<1024, 256>>>(matrix, n);
        check(cudaDeviceSynchronize() == cudaSuccess, "fill");
        auto began = std::chrono::steady_clock::now();
        check(cusolverDnDpotrf(solver, CUBLAS_FILL_MODE_LOWER, n, matrix, n, work, n_work, info) == CUSOLVER_STATUS_SUCCESS,
              "cusolverDnDpotrf");
        check(cudaDeviceSynchronize() == cudaSuccess, "cusolverDnDpotrf");
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
        if (i > 0 && seconds.count() < best)
            best = seconds.count();
        check(cudaMemcpy(&failed, info, sizeof failed, cudaMemcpyDeviceToHost) == cudaSuccess && failed == 0, "the factorization");
    }
    printf("n %d ms %.3f gflops %.1f\n", n, best * 1e3, (double)n * n * n / 3 / best * 1e-9);
    return 0;
}
