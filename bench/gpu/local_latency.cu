/* SPDX-License-Identifier: BSD-3-Clause
 *
 * local_latency: half of a round trip between two ranks whose buffers are on one GPU, beside a bare copy with
 * a wait, while the GPU is idle and while kernels of the program fill it (blocks of 10 and of 1000 us, two
 * streams of lowest priority, queued by a thread of rank 0).
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 -I PREFIX/include local_latency.cu -o local_latency -L PREFIX/lib -lmpi_abi
 *      mpirun +vp 2 ./local_latency [LARGEST_SIZE]
 */
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                 \
    do {                                                                                            \
        cudaError_t result_ = (call);                                                               \
        if (result_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(result_)); \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

__global__ void load_kernel(unsigned block_ns, float *out)
{
    uint64_t begin, now;
    float x = threadIdx.x;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        for (int i = 0; i < 100; i++)
            x = x * 1.0001f + 0.5f;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < block_ns);
    if (x == 0.123f)
        *out = x;
}

static std::atomic<bool> stop;

static void load(unsigned block_us)
{
    cudaStream_t streams[2];
    cudaEvent_t events[2][3];
    int least, greatest, n_sms;

    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, 0));
    for (int s = 0; s < 2; s++) {
        CHECK(cudaStreamCreateWithPriority(&streams[s], cudaStreamNonBlocking, least));
        for (int i = 0; i < 3; i++)
            CHECK(cudaEventCreateWithFlags(&events[s][i], cudaEventDisableTiming));
    }
    for (unsigned turn = 0; !stop; turn++) {
        for (int s = 0; s < 2; s++) {
            if (turn >= 3)
                while (cudaEventQuery(events[s][turn % 3]) != cudaSuccess && !stop)
                    std::this_thread::sleep_for(std::chrono::microseconds(200));
            load_kernel<<<n_sms * 8 * std::max(1u, 3000 / block_us), 256, 0, streams[s]>>>(block_us * 1000, nullptr);
            CHECK(cudaEventRecord(events[s][turn % 3], streams[s]));
        }
    }
    for (int s = 0; s < 2; s++)
        CHECK(cudaStreamSynchronize(streams[s]));
}

static double median(std::vector<double> &times)
{
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static double bare_us(char *to, char *from, size_t n, cudaStream_t stream)
{
    std::vector<double> times;

    for (int i = 0; i < 200; i++) {
        double begin = now_us();
        CHECK(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        times.push_back(now_us() - begin);
    }
    return median(times);
}

static double half_trip_us(int rank, char *buffer, int n)
{
    std::vector<double> times;

    for (int i = 0; i < 320; i++) {
        double begin = now_us();
        if (rank == 0) {
            MPI_Send(buffer, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (i >= 20)
            times.push_back((now_us() - begin) / 2);
    }
    return median(times);
}

int main(int argc, char **argv)
{
    static const unsigned loads[] = {0, 10, 1000};
    int rank, least, greatest, largest = argc > 1 ? atoi(argv[1]) : 4 << 20;
    cudaStream_t stream;
    char *a, *b;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    CHECK(cudaMalloc(&a, 4 << 20));
    CHECK(cudaMalloc(&b, 4 << 20));
    for (unsigned block_us : loads) {
        std::thread thread;
        stop = false;
        if (rank == 0 && block_us) {
            thread = std::thread(load, block_us);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        if (rank == 0)
            printf("load %u us\n|  bytes   | bare us | message us | ratio |\n", block_us);
        for (int n = 8; n <= largest; n *= n == 8 ? 128 : 2) {
            double bare, message;
            MPI_Barrier(MPI_COMM_WORLD);
            bare = rank == 0 ? bare_us(b, a, (size_t)n, stream) : 0;
            MPI_Barrier(MPI_COMM_WORLD);
            message = half_trip_us(rank, a, n);
            if (rank == 0)
                printf("| %8d | %7.2f | %10.2f | %5.2f |\n", n, bare, message, message / bare);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        stop = true;
        if (thread.joinable())
            thread.join();
    }
    MPI_Finalize();
    return 0;
}
