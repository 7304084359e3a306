/* SPDX-License-Identifier: BSD-3-Clause
 *
 * service_delay: the time of a program's own CUDA calls just after small messages between device buffers, and
 * beside them: run it with and without +gpu no-service to see the cost of the resident kernel for others.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 -I PREFIX/include service_delay.cu -o service_delay -L PREFIX/lib -lmpi_abi -lcuda
 *      mpirun -n 3 ./service_delay +p 2 [+gpu no-service]
 *
 * Ranks 0 and 1 (first PE) exchange messages; after a burst of them, rank 0 calls CUDA ("after"). Then they exchange
 * messages without a pause while rank 2 on the second PE makes the same calls ("beside").
 */
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "measure.cuh"

__global__ void short_kernel(float *out)
{
    if (out)
        *out = 1;
}

static int rank;
static char *buffer;

static void exchange(int n)
{
    for (int i = 0; i < n; i++) {
        if (rank == 0) {
            MPI_Send(buffer, 64, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, 64, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, 64, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, 64, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    char *memory = nullptr, *host = nullptr;
    cudaStream_t stream, blocking;
    struct call {
        const char *name;
        std::function<void()> run, prepare, clean;
    };

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&buffer, 4096));
    CHECK(cudaMallocHost(&host, 4096));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&blocking));
    auto nothing = [] {};
    auto allocate = [&] { CHECK(cudaMalloc(&memory, 4 << 20)); };
    auto release = [&] { CHECK(cudaFree(memory)); };
    auto pin = [&] { CHECK(cudaMallocHost(&memory, 1 << 20)); };
    auto unpin = [&] { CHECK(cudaFreeHost(memory)); };
    std::vector<call> calls = {
        {"cudaDeviceSynchronize", [] { CHECK(cudaDeviceSynchronize()); }},
        {"kernel, legacy stream; cudaDeviceSynchronize",
         [] { short_kernel<<<1, 1>>>(nullptr); CHECK(cudaDeviceSynchronize()); }},
        {"kernel, legacy stream; cudaStreamSynchronize",
         [] { short_kernel<<<1, 1>>>(nullptr); CHECK(cudaStreamSynchronize(nullptr)); }},
        {"kernel, blocking stream; cudaStreamSynchronize",
         [&] { short_kernel<<<1, 1, 0, blocking>>>(nullptr); CHECK(cudaStreamSynchronize(blocking)); }},
        {"kernel, non-blocking stream; cudaStreamSynchronize",
         [&] { short_kernel<<<1, 1, 0, stream>>>(nullptr); CHECK(cudaStreamSynchronize(stream)); }},
        {"cudaMemcpy to the GPU", [&] { CHECK(cudaMemcpy(buffer, host, 64, cudaMemcpyHostToDevice)); }},
        {"cudaMemcpy within the GPU and cudaStreamSynchronize",
         [&] { CHECK(cudaMemcpy(buffer, buffer + 64, 64, cudaMemcpyDeviceToDevice)); CHECK(cudaStreamSynchronize(nullptr)); }},
        {"cudaMalloc of 4 MiB", allocate, nothing, release},
        {"cudaFree of them", release, allocate},
        {"cudaMallocHost of 1 MiB", pin, nothing, unpin},
        {"cudaFreeHost of it", unpin, pin},
    };
    if (rank == 0)
        printf("| what | after: median us | most | beside: median us | most |\n");
    for (const call &call : calls) {
        std::vector<double> times[2];
        int is_over = 0;
        auto measure = [&](std::vector<double> &to) {
            double begin = now_us();
            call.run();
            to.push_back(now_us() - begin);
        };
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 100 && rank < 2; i++) {
            if (rank == 0 && call.prepare)
                call.prepare();
            exchange(30);
            if (rank == 0)
                measure(times[0]);
            if (rank == 0 && call.clean)
                call.clean();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 2) {
            for (int i = 0; i < 100; i++) {
                if (call.prepare)
                    call.prepare();
                measure(times[1]);
                if (call.clean)
                    call.clean();
            }
            MPI_Send(times[1].data(), 100, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        }
        while (rank < 2 && !is_over) {
            exchange(20);
            if (rank == 0) {
                MPI_Iprobe(2, 1, MPI_COMM_WORLD, &is_over, MPI_STATUS_IGNORE);
                MPI_Send(&is_over, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
            } else {
                MPI_Recv(&is_over, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
        if (rank == 0) {
            times[1].resize(100);
            MPI_Recv(times[1].data(), 100, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("| %s |", call.name);
            for (auto &t : times) {
                std::sort(t.begin(), t.end());
                printf(" %.1f | %.0f |", t[t.size() / 2], t.back());
            }
            printf("\n");
            fflush(stdout);
        }
    }
    /* The time of each turn of a loop that waits for the GPU after some round trips. */
    for (int n : {1, 2, 4, 8, 16}) {
        double begin = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = -20; i < 300 && rank < 2; i++) {
            if (i == 0)
                begin = now_us();
            exchange(n);
            CHECK(cudaDeviceSynchronize());
        }
        if (rank == 0)
            printf("| %d round trips and cudaDeviceSynchronize: %.1f us a turn |\n", n, (now_us() - begin) / 300);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
