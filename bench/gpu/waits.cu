/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits.cu: the cost of waiting for the GPU for a rank, and the gain of the ranks of one PE by waiting at the
 * same time.
 *
 *      first_call          a rank's first call of CUDA, rank after rank: the first one's, the median and longest of the others'
 *      first_launch        then the first launch of a kernel and the wait for it, likewise
 *      launch_wait.WAIT    an empty kernel: launch and wait, by rank 0 while the others wait in a barrier; median
 *      busy.WAIT.N         N ranks on GPU 0, each launches a kernel of few blocks that lasts 50 us, and waits for it, again and
 *                          again: kernels per second of all; and how many times as many as one rank's
 * WAIT is stream (cudaStreamSynchronize of the rank's non-blocking stream), default (cudaDeviceSynchronize, default stream),
 * event (cudaEventSynchronize) or copy (cudaMemcpy of 8 bytes to the host, default stream).
 *
 * With an MPI, and without one (-DWITHOUT_MPI; one rank) for comparison:
 *      mpicxx -cxx=nvcc -std=c++17 -O2 -arch=native waits.cu -o waits && mpirun -n 8 ./waits +p 1
 *      nvcc -std=c++17 -O2 -arch=native -DWITHOUT_MPI waits.cu -o waits_bare && ./waits_bare
 * Options: -n OPERATIONS (2000)  -u MICROSECONDS of a busy kernel (50)  -b its BLOCKS (4)  -w WAIT,... (all)
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>
#include <cuda_runtime.h>
#ifndef WITHOUT_MPI
#include <mpi.h>
#endif

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        cudaError_t error_ = (call);                                                                  \
        if (error_ != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static int rank, size = 1;
static int n_operations = 2000, busy_us = 50, n_blocks = 4;
static std::string waits = "stream,default,event,copy";
static cudaStream_t stream;
static cudaEvent_t event;
static double *device_value;

/* ---- The functions of MPI in use ---- */

#ifdef WITHOUT_MPI
static void barrier() {}
static void wait_for_turn() {}
static void pass_turn() {}
static std::vector<double> gather(double value) { return {value}; }
#else
static void barrier()
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank after rank. */
static void wait_for_turn()
{
    if (rank > 0)
        MPI_Recv(nullptr, 0, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pass_turn()
{
    if (rank + 1 < size)
        MPI_Send(nullptr, 0, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
}

static std::vector<double> gather(double value)
{
    std::vector<double> all(size);
    MPI_Gather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return all;
}
#endif

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/* ---- Kernels ---- */

__global__ void empty()
{
}

__global__ void spin(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles)
        ;
}

/* The cycles that busy_us take, from the durations of two kernels: the launch drops out. */
static long long measure_cycles()
{
    const long long few = 1000000, many = 21000000;
    double us[2];
    for (int round = 0; round < 2; round++) { /* the first one raises the clock */
        for (int i = 0; i < 2; i++) {
            double begin = now_us();
            spin<<<n_blocks, 32, 0, stream>>>(i ? many : few);
            CHECK(cudaStreamSynchronize(stream));
            us[i] = now_us() - begin;
        }
    }
    return (long long)(busy_us * (many - few) / (us[1] - us[0]));
}

/* ---- Measurements ---- */

/* Rank 0 prints the first rank's time, and of the others the median and the longest. */
static void report_first(const char *key, double us)
{
    std::vector<double> all = gather(us);
    if (rank > 0)
        return;
    printf("%s.first %.1f us\n", key, all[0]);
    all.erase(all.begin());
    if (!all.empty())
        printf("%s.others %.1f us\n%s.others_max %.1f us\n", key, median(all), key, *std::max_element(all.begin(), all.end()));
}

static void measure_first()
{
    wait_for_turn();
    double begin = now_us();
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    double called = now_us();
    empty<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    double launched = now_us();
    pass_turn();
    barrier();
    report_first("first_call", called - begin);
    report_first("first_launch", launched - called);
}

/* Launches a kernel, empty if it lasts for 0 cycles, and waits for it. */
static void launch_and_wait(const std::string &wait, long long cycles)
{
    cudaStream_t in = wait == "stream" || wait == "event" ? stream : nullptr;
    double value;
    if (cycles > 0)
        spin<<<n_blocks, 32, 0, in>>>(cycles);
    else
        empty<<<1, 1, 0, in>>>();
    if (wait == "stream") {
        CHECK(cudaStreamSynchronize(stream));
    } else if (wait == "event") {
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaEventSynchronize(event));
    } else if (wait == "copy") {
        CHECK(cudaMemcpy(&value, device_value, sizeof value, cudaMemcpyDeviceToHost));
    } else {
        CHECK(cudaDeviceSynchronize());
    }
}

static void measure_launch_wait(const std::string &wait)
{
    std::vector<double> us;
    barrier();
    for (int i = 0; rank == 0 && i < n_operations + 100; i++) {
        double begin = now_us();
        launch_and_wait(wait, 0);
        if (i >= 100)
            us.push_back(now_us() - begin);
    }
    if (rank == 0)
        printf("launch_wait.%s %.2f us\n", wait.c_str(), median(us));
    barrier();
}

/* Kernels per second when the first n_active ranks are busy, from the first begin to the last end: on one PE, ranks whose
 * waits block run one after the other. All are on one node, so their clock is the same. */
static double measure_busy(const std::string &wait, int n_active, long long cycles)
{
    int count = std::max(20, n_operations / 10);
    for (int i = 0; rank < n_active && i < 5; i++)
        launch_and_wait(wait, cycles);
    barrier();
    double begin = now_us();
    for (int i = 0; rank < n_active && i < count; i++)
        launch_and_wait(wait, cycles);
    double end = now_us();
    std::vector<double> begins = gather(begin), ends = gather(end);
    if (rank > 0)
        return 0;
    return n_active * count * 1e6 /
           (*std::max_element(ends.begin(), ends.begin() + n_active) - *std::min_element(begins.begin(), begins.begin() + n_active));
}

static void report_busy(const std::string &wait, long long cycles)
{
    double alone = 0;
    for (int n_active = 1; n_active <= size; n_active *= 2) {
        double rate = measure_busy(wait, n_active, cycles);
        alone = n_active == 1 ? rate : alone;
        if (rank == 0)
            printf("busy.%s.%d %.0f kernels/s\nbusy.%s.%d.gain %.2f x\n", wait.c_str(), n_active, rate, wait.c_str(), n_active,
                   rate / alone);
    }
}

static void parse_options(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "n:u:b:w:")) != -1) {
        if (option == 'n')
            n_operations = std::max(1, atoi(optarg));
        else if (option == 'u')
            busy_us = std::max(1, atoi(optarg));
        else if (option == 'b')
            n_blocks = std::max(1, atoi(optarg));
        else if (option == 'w')
            waits = optarg;
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
#ifndef WITHOUT_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
    parse_options(argc, argv);
    measure_first();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&device_value, sizeof *device_value));
    wait_for_turn();
    long long cycles = measure_cycles();
    pass_turn();
    barrier();
    if (rank == 0)
        printf("# %d ranks, a busy kernel has %d blocks and lasts %d us (%lld cycles)\n", size, n_blocks, busy_us, cycles);
    for (size_t at = 0; at < waits.size(); at = waits.find(',', at) == std::string::npos ? waits.size() : waits.find(',', at) + 1) {
        std::string wait = waits.substr(at, waits.find(',', at) - at);
        measure_launch_wait(wait);
        report_busy(wait, cycles);
    }
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device_value));
#ifndef WITHOUT_MPI
    MPI_Finalize();
#endif
    return 0;
}
