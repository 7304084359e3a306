/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With CUDA's runtime, which cannot run on the fake driver: a rank that sets CUDA_VISIBLE_DEVICES sees what a process does that
 * begins with this value, also its errors, and can use these GPUs. tests/gpu/run --parts settings builds it. Arguments, one for
 * each rank: LIST=ANSWER, where ANSWER is what the program prints with the one argument "plain" in that environment.
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void set(int *memory, int value)
{
    *memory = value;
}

/* Number of GPUs and the error, and the buses of the first and the last. */
static void answer(char *text, size_t n_bytes)
{
    char first[32] = "", last[32] = "";
    int n = 0, error = cudaGetDeviceCount(&n);

    if (error == cudaSuccess) {
        cudaDeviceGetPCIBusId(first, sizeof first, 0);
        cudaDeviceGetPCIBusId(last, sizeof last, n - 1);
    }
    snprintf(text, n_bytes, "%d %d %s %s", error == cudaSuccess ? n : 0, error, first, last);
}

/* A kernel, a copy and a message on the rank's last GPU. */
static int use(int rank, int n)
{
    int *memory = nullptr, device = -1, got[2] = {-1, -1};

    if (cudaSetDevice(n - 1) != cudaSuccess || cudaMalloc(&memory, 2 * sizeof(int)) != cudaSuccess)
        return 0;
    set<<<1, 1>>>(memory, rank);
    if (cudaDeviceSynchronize() != cudaSuccess || cudaGetDevice(&device) != cudaSuccess)
        return 0;
    MPI_Sendrecv(memory, 1, MPI_INT, rank, 0, memory + 1, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return cudaMemcpy(got, memory, sizeof got, cudaMemcpyDefault) == cudaSuccess && got[0] == rank && got[1] == rank &&
           device == n - 1;
}

int main(int argc, char **argv)
{
    char text[128], *wanted;
    int rank, is_good;

    if (argc > 1 && strcmp(argv[1], "plain") == 0) {
        answer(text, sizeof text);
        puts(text);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wanted = rank + 1 < argc ? strrchr(argv[rank + 1], '=') : nullptr;
    if (!wanted)
        MPI_Abort(MPI_COMM_WORLD, 2);
    *wanted++ = '\0';
    setenv("CUDA_VISIBLE_DEVICES", argv[rank + 1], 1);
    answer(text, sizeof text);
    is_good = strcmp(text, wanted) == 0;
    if (!is_good)
        fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s: %s in a rank, %s in a process\n", argv[rank + 1], text, wanted);
    else if (atoi(text) > 0 && !(is_good = use(rank, atoi(text))))
        fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s: the GPU cannot be used: %s\n", argv[rank + 1],
                cudaGetErrorString(cudaGetLastError()));
    MPI_Finalize();
    return !is_good;
}
