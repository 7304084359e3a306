/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_sends: the time of a step in which two ranks exchange what the blocks of a kernel have packed, one part per
 * block, and unpack it:
 *
 *      bulk       pack kernel, cudaStreamSynchronize, MPI_Isend and MPI_Irecv of all parts, MPI_Waitall, unpack kernel
 *      host       the same with partitioned requests and MPI_Pready_range
 *      block      the pack kernel sends (MPIX_Pready_block): its blocks copy their parts; MPI_Waitall, unpack kernel
 *      thread     the same by one thread of each block (MPIX_Pready), which copies up to 1 KiB; larger parts it signals, and the PE sends them
 *      parrived   the pack kernel sends, the unpack kernel waits (MPIX_Parrived), and both are launched together
 *
 * block and thread with the four places of marks (docs/gpu-extensions.md): flags or queue, in pinned memory or in the GPU's.
 *
 *      nvcc -std=c++17 -O2 -arch=native -I PREFIX/include kernel_sends.cu -o kernel_sends -L PREFIX/lib -lmpi_abi
 *      mpirun -n 2 ./kernel_sends [--blocks 9,27,108] [--bytes 1024,8192,65536] [--seconds 0.03] [--samples 15] [--limit 50] +p 2
 *
 * --bytes: of a part; --seconds: of the samples of a cell, 0: each is one step; the program is killed after --limit seconds, and a kernel that waits
 * gives up after 5 s. Output: lines "way[.marks.memory].blocks.bytes value us": the median of --samples. The data of each cell is checked; exit
 * code 1 if it is wrong.
 */
#include <mpi-ext-device.cuh>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "mpi_check.cuh"

enum way { BULK, HOST, BLOCK, THREAD, PARRIVED };
enum { THREADS = 256 };
#define PATIENCE_NS 5000000000ull

static const struct cell {
    enum way way;
    const char *name, *marks, *memory;
} cells[] = {
    {BULK, "bulk", NULL, NULL},
    {HOST, "host", NULL, NULL},
    {BLOCK, "block", "flags", "pinned"},
    {BLOCK, "block", "flags", "device"},
    {BLOCK, "block", "queue", "pinned"},
    {BLOCK, "block", "queue", "device"},
    {THREAD, "thread", "flags", "pinned"},
    {THREAD, "thread", "flags", "device"},
    {THREAD, "thread", "queue", "pinned"},
    {THREAD, "thread", "queue", "device"},
    {PARRIVED, "parrived", NULL, NULL},
};

struct exchange {
    double *field, *out, *in, *result;
    int *failed; /* in the GPU's memory: kernels add to it */
    MPI_Request plain[2], parts[2]; /* send, receive */
    MPIX_Prequest prequests[2];
    cudaStream_t streams[2];
    int n_blocks, n_each, rank, partner; /* elements of a part */
    int n_steps;                         /* done so far: the same in both ranks */
};

/* ---- Kernels ---- */

__global__ static void pack(const double *field, double *out, int n_each, double step, int way, MPIX_Prequest prequest, int *failed)
{
    int error = MPI_SUCCESS;

    for (int i = threadIdx.x; i < n_each; i += blockDim.x)
        out[(size_t)blockIdx.x * n_each + i] = field[(size_t)i * gridDim.x + blockIdx.x] + step;
    if (way == BLOCK || way == PARRIVED) {
        error = MPIX_Pready_block(blockIdx.x, prequest);
    } else if (way == THREAD) {
        __syncthreads();
        if (threadIdx.x == 0)
            error = MPIX_Pready(blockIdx.x, prequest);
    }
    if (error != MPI_SUCCESS)
        atomicAdd(failed, 1);
}

__device__ static unsigned long long now_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ static void unpack(double *result, const double *in, int n_each, int way, MPIX_Prequest prequest, int *failed)
{
    if (way == PARRIVED && threadIdx.x == 0) {
        unsigned long long begin = now_ns();
        for (int flag = 0; !flag;) {
            if (MPIX_Parrived(prequest, blockIdx.x, &flag) != MPI_SUCCESS || now_ns() - begin > PATIENCE_NS) {
                atomicAdd(failed, 1);
                break;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_each; i += blockDim.x)
        result[(size_t)i * gridDim.x + blockIdx.x] = in[(size_t)blockIdx.x * n_each + i];
}

/* ---- A step ---- */

static void step(struct exchange *x, int way)
{
    int n = x->n_blocks * x->n_each;
    MPI_Request *requests = way == BULK ? x->plain : x->parts;
    double number = ++x->n_steps;

    if (way == BULK)
        MPI_Irecv(x->in, n, MPI_DOUBLE, x->partner, 1, MPI_COMM_WORLD, &requests[1]);
    else
        MPI_Startall(2, requests);
    if (way >= BLOCK)
        MPIX_Pbuf_prepareall(2, requests);
    pack<<<x->n_blocks, THREADS, 0, x->streams[0]>>>(x->field, x->out, x->n_each, number, way, x->prequests[0], x->failed);
    if (way == PARRIVED)
        unpack<<<x->n_blocks, THREADS, 0, x->streams[1]>>>(x->result, x->in, x->n_each, way, x->prequests[1], x->failed);
    if (way <= HOST)
        CHECK(cudaStreamSynchronize(x->streams[0]));
    if (way == BULK)
        MPI_Isend(x->out, n, MPI_DOUBLE, x->partner, 1, MPI_COMM_WORLD, &requests[0]);
    else if (way == HOST)
        MPI_Pready_range(0, x->n_blocks - 1, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (way != PARRIVED)
        unpack<<<x->n_blocks, THREADS, 0, x->streams[1]>>>(x->result, x->in, x->n_each, way, x->prequests[1], x->failed);
    CHECK(cudaStreamSynchronize(x->streams[1]));
}

/* ---- Cells ---- */

static std::vector<double> first_values(int rank, size_t n)
{
    std::vector<double> values(n);
    for (size_t i = 0; i < n; i++)
        values[i] = 1e9 * (rank + 1) + (double)i;
    return values;
}

/* The result is the partner's field of the last step. */
static void check(const struct exchange *x, const char *name)
{
    size_t n = (size_t)x->n_blocks * x->n_each;
    std::vector<double> is(n), should = first_values(x->partner, n);
    int failed;

    CHECK(cudaMemcpy(is.data(), x->result, n * sizeof(double), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&failed, x->failed, sizeof failed, cudaMemcpyDeviceToHost));
    for (double &value : should)
        value += x->n_steps;
    if (is != should || failed) {
        size_t i = 0;
        while (i + 1 < n && is[i] == should[i])
            i++;
        fprintf(stderr, "FAIL rank %d, %s: element %zu is %.17g instead of %.17g; %d calls of kernels failed\n", x->rank, name, i, is[i],
                should[i], failed);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Seconds of so many steps, for both ranks the same. */
static double time_of(struct exchange *x, int way, int n_steps)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime(), seconds;
    for (int i = 0; i < n_steps; i++)
        step(x, way);
    seconds = MPI_Wtime() - begin;
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return seconds;
}

static void measure(struct exchange *x, const struct cell *cell, double seconds, int n_samples)
{
    std::string name = cell->name;
    std::vector<double> samples(n_samples);
    double each;
    int n_steps;

    if (cell->marks)
        name += std::string(".") + cell->marks + "." + cell->memory;
    name += "." + std::to_string(x->n_blocks) + "." + std::to_string(x->n_each * sizeof(double));
    n_steps = 1;
    if (seconds > 0) {
        time_of(x, cell->way, 2);
        each = time_of(x, cell->way, 3) / 3;
        n_steps = std::max(1, std::min(200, (int)(seconds / n_samples / each)));
    }
    for (double &sample : samples)
        sample = time_of(x, cell->way, n_steps) / n_steps * 1e6;
    std::sort(samples.begin(), samples.end());
    check(x, name.c_str());
    if (x->rank == 0)
        printf("%s %.2f us\n", name.c_str(), samples[n_samples / 2]), fflush(stdout);
}

static void run(struct exchange *x, const struct cell *cell, double seconds, int n_samples)
{
    MPI_Info info;

    x->prequests[0] = x->prequests[1] = MPIX_PREQUEST_NULL;
    if (cell->way != BULK) { /* requests without a prequest for the host's way */
        MPI_Info_create(&info);
        if (cell->marks) {
            MPI_Info_set(info, "heddle_prequest_marks", cell->marks);
            MPI_Info_set(info, "heddle_prequest_memory", cell->memory);
        }
        MPI_Psend_init(x->out, x->n_blocks, x->n_each, MPI_DOUBLE, x->partner, 0, MPI_COMM_WORLD, info, &x->parts[0]);
        MPI_Precv_init(x->in, x->n_blocks, x->n_each, MPI_DOUBLE, x->partner, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &x->parts[1]);
        MPI_Info_free(&info);
    }
    for (int i = 0; i < 2 && cell->way >= BLOCK; i++)
        MPIX_Prequest_create(x->parts[i], &x->prequests[i]);
    measure(x, cell, seconds, n_samples);
    MPI_Barrier(MPI_COMM_WORLD); /* no kernel waits when memory is freed */
    for (int i = 0; i < 2 && cell->way != BULK; i++)
        MPI_Request_free(&x->parts[i]);
}

/* ---- The command line ---- */

static std::vector<int> numbers(const char *text)
{
    std::vector<int> all;
    for (char *end; *text; text = *end == ',' ? end + 1 : end) {
        all.push_back((int)strtol(text, &end, 10));
        if (end == text || (*end && *end != ',') || all.back() <= 0)
            return {};
    }
    return all;
}

static void make(struct exchange *x, size_t n_bytes)
{
    cudaFuncAttributes unused;
    int n_devices;

    MPI_Comm_rank(MPI_COMM_WORLD, &x->rank);
    x->partner = 1 - x->rank;
    CHECK(cudaGetDeviceCount(&n_devices));
    CHECK(cudaSetDevice(x->rank % n_devices));
    for (double **buffer : {&x->field, &x->out, &x->in, &x->result})
        CHECK(cudaMalloc(buffer, n_bytes));
    CHECK(cudaMalloc(&x->failed, sizeof *x->failed));
    CHECK(cudaMemset(x->failed, 0, sizeof *x->failed));
    std::vector<double> values = first_values(x->rank, n_bytes / sizeof(double));
    CHECK(cudaMemcpy(x->field, values.data(), n_bytes, cudaMemcpyHostToDevice));
    for (cudaStream_t &stream : x->streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaFuncGetAttributes(&unused, pack)); /* loads them */
    CHECK(cudaFuncGetAttributes(&unused, unpack));
    CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    std::vector<int> all_blocks = {9, 27, 108}, all_bytes = {1 << 10, 8 << 10, 64 << 10};
    double seconds = 0.03;
    int n_samples = 15, limit = 50, size, is_good = argc % 2;
    struct exchange x;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--blocks"))
            all_blocks = numbers(argv[i + 1]);
        else if (!strcmp(argv[i], "--bytes"))
            all_bytes = numbers(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--samples"))
            n_samples = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--limit"))
            limit = atoi(argv[i + 1]);
        else
            is_good = 0;
    }
    if (!is_good || size != 2 || all_blocks.empty() || all_bytes.empty() || n_samples <= 0 || limit <= 0) {
        fprintf(stderr, "usage: see the head of kernel_sends.cu; 2 ranks\n");
        MPI_Finalize();
        return 2;
    }
    memset(&x, 0, sizeof x);
    make(&x, (size_t)*std::max_element(all_blocks.begin(), all_blocks.end()) *
                 *std::max_element(all_bytes.begin(), all_bytes.end()));
    alarm(limit);
    for (int n_blocks : all_blocks)
        for (int bytes : all_bytes)
            for (const struct cell &cell : cells) {
                x.n_blocks = n_blocks;
                x.n_each = std::max(1, bytes / (int)sizeof(double));
                run(&x, &cell, seconds, n_samples);
            }
    MPI_Finalize();
    return 0;
}
