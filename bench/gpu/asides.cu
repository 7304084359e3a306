/* SPDX-License-Identifier: BSD-3-Clause
 *
 * asides: the cost of calls that wait in CUDA's driver, and of launches, for one of several ranks of a PE:
 * the others wait in a barrier. Microseconds, medians; "busy": a kernel of the next rank runs for BUSY_US
 * meanwhile.
 *
 *      nvcc -ccbin mpicxx -O2 -std=c++17 -arch=sm_90 bench/gpu/asides.cu -o asides -lcuda
 *      mpirun -n 1 asides +p 1; mpirun -n 4 asides +p 1 [+gpu no-waits]
 */
#include <mpi.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "measure.cuh"

#define BUSY_US 300

static int rank, size;

__global__ void empty()
{
}

__global__ void spin(unsigned ns)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static void row(const char *name, const std::function<void()> &prepare, const std::function<void()> &call, int n_calls)
{
    for (int is_busy = 0; is_busy < (size > 1 ? 2 : 1); is_busy++) {
        std::vector<double> us;
        for (int i = 0; i < 60; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0)
                prepare();
            if (is_busy && rank == 1)
                spin<<<1, 1>>>(BUSY_US * 1000);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                double begin = now_us();
                call();
                us.push_back((now_us() - begin) / n_calls);
                CHECK(cudaDeviceSynchronize());
            }
        }
        if (rank == 0)
            printf("%-28s %s %8.2f us\n", name, is_busy ? "busy" : "idle", median(us));
    }
}

int main(int argc, char **argv)
{
    void *memory = nullptr;
    char *set;
    cudaStream_t stream, second;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&set, 4096));
    empty<<<1, 1>>>();
    spin<<<1, 1>>>(1000);
    CHECK(cudaDeviceSynchronize());
    auto nothing = [] {};
    row("launch, default stream", nothing, [&] { for (int i = 0; i < 200; i++) empty<<<1, 1>>>(); }, 200);
    row("launch, own stream", nothing, [&] { for (int i = 0; i < 200; i++) empty<<<1, 1, 0, stream>>>(); }, 200);
    row("launch, two streams", nothing, [&] { for (int i = 0; i < 100; i++) { empty<<<1, 1, 0, stream>>>(); empty<<<1, 1, 0, second>>>(); } }, 200);
    row("launch, 2,000 in a row", nothing, [&] { for (int i = 0; i < 2000; i++) empty<<<1, 1, 0, stream>>>(); }, 2000);
    row("cudaMemsetAsync", nothing, [&] { for (int i = 0; i < 200; i++) CHECK(cudaMemsetAsync(set, i, 64, stream)); }, 200);
    row("cudaMalloc of 1 MiB", nothing, [&] { CHECK(cudaMalloc(&memory, 1 << 20)); }, 1);
    row("cudaFree of 1 MiB", [&] { CHECK(cudaMalloc(&memory, 1 << 20)); }, [&] { CHECK(cudaFree(memory)); }, 1);
    row("cudaFree of 64 MiB", [&] { CHECK(cudaMalloc(&memory, 64 << 20)); }, [&] { CHECK(cudaFree(memory)); }, 1);
    row("cudaFreeHost of 4 KiB", [&] { CHECK(cudaMallocHost(&memory, 4096)); }, [&] { CHECK(cudaFreeHost(memory)); }, 1);
    MPI_Finalize();
    return 0;
}
