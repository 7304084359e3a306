/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With CUDA's runtime and cuBLAS, which all ranks share and which cannot run on the fake driver: its work on
 * the default stream or another stream is ordered with the rank's other work there, ranks of one PE that
 * alternate do not block each other, and results are right. tests/gpu/run builds it with the static and with
 * the shared runtime.
 */
#include <mpi.h>

#include <cublas_v2.h>
#include <cstdio>
#include <vector>

static int rank, n_wrong;

#define CHECK(cond)                                                                \
    do {                                                                           \
        if (!(cond)) {                                                             \
            fprintf(stderr, "FAIL rank %d, line %d: %s\n", rank, __LINE__, #cond); \
            n_wrong++;                                                             \
        }                                                                          \
    } while (0)

__global__ void fill(float *a, int n, float value)
{
    long long start = clock64();

    while (clock64() - start < 50000)
        ;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = value;
}

/* All elements of n x n matrices of x, of y: their product has n * x * y. */
static void multiply(cublasHandle_t handle, cudaStream_t stream, float *a, float *b, float *c, int n, int round)
{
    float x = (float)(rank + 1), y = (float)(round % 7 + 1), one = 1, zero = 0, norm = 0;
    std::vector<float> result((size_t)n * n);
    size_t n_wrong_elements = 0;

    fill<<<1, 256, 0, stream>>>(a, n * n, x);
    fill<<<1, 256, 0, stream>>>(b, n * n, y);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n) == CUBLAS_STATUS_SUCCESS);
    if (round % 3 == 0) { /* waits inside of cuBLAS */
        CHECK(cublasSasum(handle, n * n, c, 1, &norm) == CUBLAS_STATUS_SUCCESS);
        CHECK(norm > 0.999f * n * x * y * n * n && norm < 1.001f * n * x * y * n * n);
    }
    CHECK(cudaMemcpyAsync(result.data(), c, result.size() * sizeof(float), cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    CHECK((round % 2 ? cudaStreamSynchronize(stream) : cudaDeviceSynchronize()) == cudaSuccess);
    for (float value : result)
        n_wrong_elements += value != n * x * y;
    CHECK(n_wrong_elements == 0);
}

int main(int argc, char **argv)
{
    const int n = 64;
    cublasHandle_t handle;
    cudaStream_t stream, blocking;
    float *a, *b, *c;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreate(&blocking) == cudaSuccess);
    CHECK(cudaMalloc(&a, n * n * sizeof *a) == cudaSuccess);
    CHECK(cudaMalloc(&b, n * n * sizeof *b) == cudaSuccess);
    CHECK(cudaMalloc(&c, n * n * sizeof *c) == cudaSuccess);
    for (int round = 0; round < 300; round++) {
        cudaStream_t where = round / 100 == 0 ? 0 : round / 100 == 1 ? stream : blocking;
        CHECK(cublasSetStream(handle, where) == CUBLAS_STATUS_SUCCESS);
        multiply(handle, where, a, b, c, n, round);
        if (round % 10 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (n_wrong == 0 && rank == 0)
        printf("right\n");
    return n_wrong != 0;
}
