/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_latency: the time of small work requests (docs/gpu-extensions.md, "Work requests"), with the kernel that stays on the GPU, and without it
 * (+gpu no-service).
 *
 *      start.B      from the submission by one rank until a thread of the host sees that a request of B blocks has begun
 *      end.B        ... until MPI_Wait has returned
 *      all.B        per round, if all ranks submit such a request and wait, again and again
 *      bare.start, bare.end    start.1 and end.1 of a launch by the runtime, with cudaStreamQuery in a loop
 *
 *      nvcc -std=c++17 -O2 -arch=native -I PREFIX/include work_latency.cu -o work_latency -L PREFIX/lib -lmpi_abi
 *      mpirun -n 4 ./work_latency +p 1
 *
 * Output: lines "name value us": the median of 2,000 samples, after as many that do not count.
 */
#include <mpi-ext-work.cuh>
#include <mpi-ext.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "mpi_check.cuh"

enum { SAMPLES = 2000, ELEMS = 1024, THREADS = 128 };

struct args {
    volatile int *begun; /* pinned; NULL: nobody looks */
    int number;
};

static __device__ void add(const struct args *args, const AMPI_GPU_Work_block *at)
{
    int *data = (int *)at->buffers[0];

    if (at->block == 0 && threadIdx.x == 0 && args->begun)
        *args->begun = args->number;
    for (unsigned i = at->block * THREADS + threadIdx.x; i < ELEMS; i += at->n_blocks * THREADS)
        data[i] += 1;
}

static __global__ void bare(volatile int *begun, int number, int *data)
{
    if (threadIdx.x == 0)
        *begun = number;
    for (unsigned i = threadIdx.x; i < ELEMS; i += THREADS)
        data[i] += 1;
}

static int rank;
static volatile int *begun;
static std::atomic<bool> is_over;
static std::atomic<double> begun_us; /* when the watcher saw the last number */
static std::atomic<int> seen;

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void watch()
{
    int last = 0;

    while (!is_over.load(std::memory_order_relaxed)) {
        int number = *begun;
        if (number == last)
            continue;
        begun_us.store(now_us(), std::memory_order_relaxed);
        seen.store(number, std::memory_order_release);
        last = number;
    }
}

static void report(const char *name, int blocks, std::vector<double> &samples)
{
    std::sort(samples.begin(), samples.end());
    if (rank != 0)
        return;
    if (blocks > 0)
        printf("%s.%d %.2f us\n", name, blocks, samples[samples.size() / 2]);
    else
        printf("%s %.2f us\n", name, samples[samples.size() / 2]);
    fflush(stdout);
}

static void submit(AMPI_GPU_Work work, int blocks, volatile int *flag, int number, int *data)
{
    struct args args = {flag, number};
    struct AMPI_GPU_Work_buffer buffer = {data, ELEMS, MPI_INT, AMPI_GPU_WORK_READWRITE};
    MPI_Request request;

    AMPI_GPU_Work_submit(work, blocks, &args, 1, &buffer, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Of the samples after those that warm up. */
struct times {
    std::vector<double> starts, ends;
};

/* Adds sample i, once the watcher has seen that this number has begun. */
static void add(struct times &times, int i, int number, double since, double end)
{
    while (seen.load(std::memory_order_acquire) != number)
        continue;
    if (i < SAMPLES)
        return;
    times.starts.push_back(begun_us.load(std::memory_order_relaxed) - since);
    times.ends.push_back(end - since);
}

/* By rank 0. */
static void measure_one(AMPI_GPU_Work work, int blocks, int *data, int *number)
{
    struct times times;

    for (int i = 0; i < 2 * SAMPLES; i++) {
        double since = now_us();
        submit(work, blocks, begun, ++*number, data);
        add(times, i, *number, since, now_us());
    }
    report("start", blocks, times.starts);
    report("end", blocks, times.ends);
}

static void measure_all(AMPI_GPU_Work work, int blocks, int *data)
{
    std::vector<double> samples;

    for (int i = 0; i < 2 * SAMPLES; i++) {
        double since = now_us();
        submit(work, blocks, NULL, 0, data);
        if (i >= SAMPLES)
            samples.push_back(now_us() - since);
    }
    report("all", blocks, samples);
}

static void measure_bare(int *number)
{
    struct times times;
    cudaStream_t stream;
    int *data;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&data, ELEMS * sizeof *data));
    for (int i = 0; i < 2 * SAMPLES; i++) {
        double since = now_us();
        bare<<<1, THREADS, 0, stream>>>(begun, ++*number, data);
        while (cudaStreamQuery(stream) == cudaErrorNotReady)
            continue;
        add(times, i, *number, since, now_us());
    }
    report("bare.start", 0, times.starts);
    report("bare.end", 0, times.ends);
    CHECK(cudaFree(data));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 4, 16};
    std::vector<int> data(ELEMS);
    std::thread watcher;
    void *flag = NULL;
    int number = 0, n_wrong = 0;
    AMPI_GPU_Work work;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaSetDevice(0));
    CHECK(cudaHostAlloc(&flag, sizeof *begun, cudaHostAllocMapped));
    begun = (volatile int *)flag;
    *begun = 0;
    AMPI_GPU_Work_register<struct args, add>("add", THREADS, NULL, &work);
    if (rank == 0) {
        watcher = std::thread(watch);
        measure_bare(&number);
    }
    for (int blocks : sizes) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            measure_one(work, blocks, data.data(), &number);
    }
    for (int blocks : sizes) {
        MPI_Barrier(MPI_COMM_WORLD);
        measure_all(work, blocks, data.data());
    }
    AMPI_GPU_Work_sync(data.data(), ELEMS * sizeof data[0]);
    for (int value : data)
        n_wrong += value != (rank == 0 ? 12 : 6) * SAMPLES;
    if (n_wrong > 0)
        printf("rank %d: %d numbers are wrong\n", rank, n_wrong);
    is_over = true;
    if (rank == 0)
        watcher.join();
    AMPI_GPU_Work_free(&work);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(cudaFreeHost(flag));
    MPI_Finalize();
    return n_wrong > 0;
}
