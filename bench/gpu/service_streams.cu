/* SPDX-License-Identifier: BSD-3-Clause
 *
 * service_streams: shows whether the program's streams wait for the resident kernel. Streams share the GPU's
 * queues (8 unless CUDA_DEVICE_MAX_CONNECTIONS sets another number), where a kernel can delay the work behind
 * it. Two ranks on the first PE exchange small messages without a pause; a third on the second PE uses 48
 * streams of each priority, two short kernels and a wait for each, and messages of a vector type (Heddle's
 * kernels) to itself. Run it with and without +gpu no-service.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 -I PREFIX/include service_streams.cu -o service_streams -L PREFIX/lib -lmpi_abi -lcuda
 *      mpirun -n 3 ./service_streams +p 2
 */
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "measure.cuh"

#define STREAMS 48
#define ROUNDS 40

__global__ void short_kernel(float *out)
{
    if (out)
        *out = 1;
}

static void print(const char *what, std::vector<double> &times)
{
    std::sort(times.begin(), times.end());
    printf("| %s | %.1f | %.1f | %.0f |\n", what, times[times.size() / 2], times[times.size() * 99 / 100], times.back());
    fflush(stdout);
}

static void use_streams(const char *what, int priority)
{
    cudaStream_t streams[STREAMS];
    std::vector<double> times;

    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    for (int round = -1; round < ROUNDS; round++)
        for (auto &stream : streams) {
            double begin = now_us();
            short_kernel<<<1, 1, 0, stream>>>(nullptr);
            short_kernel<<<1, 1, 0, stream>>>(nullptr);
            CHECK(cudaStreamSynchronize(stream));
            if (round >= 0)
                times.push_back(now_us() - begin);
        }
    print(what, times);
    for (auto &stream : streams)
        CHECK(cudaStreamDestroy(stream));
}

static void use_vectors(char *memory)
{
    std::vector<double> times;
    MPI_Datatype type;

    MPI_Type_vector(1000, 8, 16, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int round = -10; round < ROUNDS * STREAMS; round++) {
        double begin = now_us();
        MPI_Sendrecv(memory, 1, type, 2, 5, memory + (1 << 20), 1, type, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (round >= 0)
            times.push_back(now_us() - begin);
    }
    print("message of a vector of 8 KB to itself", times);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    int rank, least, greatest, is_over = 0;
    char *memory;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&memory, 4 << 20));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) {
        printf("| what | median us | 99 %% | most |\n");
        use_streams("48 streams of lowest priority", least);
        use_streams("48 streams of highest priority", greatest);
        use_vectors(memory);
        MPI_Send(nullptr, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    while (rank < 2 && !is_over) {
        int partner = 1 - rank;
        for (int i = 0; i < 100; i++)
            MPI_Sendrecv(memory, 64, MPI_BYTE, partner, 0, memory + 64, 64, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Iprobe(2, 1, MPI_COMM_WORLD, &is_over, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Send(&is_over, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(&is_over, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        MPI_Recv(nullptr, 0, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
