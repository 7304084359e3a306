/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_sends: the time of a step in which two ranks exchange what the blocks of a kernel have packed, one part per
 * block, and unpack it:
 *
 *      bulk       pack kernel, cudaStreamSynchronize, MPI_Isend and MPI_Irecv of all parts, MPI_Waitall, unpack kernel
 *      host       the same with partitioned requests and MPI_Pready_range
 *      block      the pack kernel sends (MPIX_Pready_block), MPI_Waitall, unpack kernel
 *      thread     the same by one thread of each block (MPIX_Pready)
 *      parrived   the pack kernel sends, the unpack kernel waits (MPIX_Parrived), and both are launched together
 *
 *      nvcc -std=c++17 -O2 -arch=native -I PREFIX/include kernel_sends.cu -o kernel_sends -L PREFIX/lib -lmpi_abi
 *      mpirun -n 2 ./kernel_sends +p 2
 *
 * Output: lines "way.blocks.bytes_of_a_part value us": the median of 15 samples of 100 steps.
 */
#include <mpi-ext-device.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t result_ = (call);                                                           \
        if (result_ != cudaSuccess) {                                                           \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(result_)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

enum way { BULK, HOST, BLOCK, THREAD, PARRIVED, N_WAYS };
static const char *const names[] = {"bulk", "host", "block", "thread", "parrived"};
enum { STEPS = 100, SAMPLES = 15, BLOCKS_MAX = 432, BYTES_MAX = 64 << 10, THREADS = 256 };

struct exchange {
    double *field, *out, *in, *result;
    MPI_Request plain[2], parts[2]; /* send, receive */
    MPIX_Prequest prequests[2];
    cudaStream_t streams[2];
    int n_blocks, n_each, partner; /* elements of a part */
};

__global__ static void pack(const double *field, double *out, int n_each, int way, MPIX_Prequest prequest)
{
    for (int i = threadIdx.x; i < n_each; i += blockDim.x)
        out[(size_t)blockIdx.x * n_each + i] = field[(size_t)i * gridDim.x + blockIdx.x] + 1;
    if (way == BLOCK || way == PARRIVED) {
        MPIX_Pready_block(blockIdx.x, prequest);
    } else if (way == THREAD) {
        __syncthreads();
        if (threadIdx.x == 0)
            MPIX_Pready(blockIdx.x, prequest);
    }
}

__global__ static void unpack(double *result, const double *in, int n_each, int way, MPIX_Prequest prequest)
{
    for (int flag = 0; way == PARRIVED && threadIdx.x == 0 && !flag;)
        MPIX_Parrived(prequest, blockIdx.x, &flag);
    __syncthreads();
    for (int i = threadIdx.x; i < n_each; i += blockDim.x)
        result[(size_t)i * gridDim.x + blockIdx.x] = in[(size_t)blockIdx.x * n_each + i];
}

static void step(struct exchange *x, int way)
{
    int n = x->n_blocks * x->n_each;
    MPI_Request *requests = way == BULK ? x->plain : x->parts;

    if (way == BULK)
        MPI_Irecv(x->in, n, MPI_DOUBLE, x->partner, 1, MPI_COMM_WORLD, &requests[1]);
    else
        MPI_Startall(2, requests);
    if (way >= BLOCK)
        MPIX_Pbuf_prepareall(2, requests);
    pack<<<x->n_blocks, THREADS, 0, x->streams[0]>>>(x->field, x->out, x->n_each, way, x->prequests[0]);
    if (way == PARRIVED)
        unpack<<<x->n_blocks, THREADS, 0, x->streams[1]>>>(x->result, x->in, x->n_each, way, x->prequests[1]);
    if (way <= HOST)
        CHECK(cudaStreamSynchronize(x->streams[0]));
    if (way == BULK)
        MPI_Isend(x->out, n, MPI_DOUBLE, x->partner, 1, MPI_COMM_WORLD, &requests[0]);
    else if (way == HOST)
        MPI_Pready_range(0, x->n_blocks - 1, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (way != PARRIVED)
        unpack<<<x->n_blocks, THREADS, 0, x->streams[1]>>>(x->result, x->in, x->n_each, way, MPIX_PREQUEST_NULL);
    CHECK(cudaStreamSynchronize(x->streams[1]));
}

static void measure(struct exchange *x, int way)
{
    double samples[SAMPLES];
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int sample = -3; sample < SAMPLES; sample++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < STEPS; i++)
            step(x, way);
        if (sample >= 0)
            samples[sample] = (MPI_Wtime() - begin) / STEPS * 1e6;
    }
    std::sort(samples, samples + SAMPLES);
    if (rank == 0)
        printf("%s.%d.%d %.2f us\n", names[way], x->n_blocks, x->n_each * (int)sizeof(double), samples[SAMPLES / 2]);
}

static void run(struct exchange *x, int n_blocks, int n_bytes)
{
    x->n_blocks = n_blocks;
    x->n_each = n_bytes / (int)sizeof(double);
    for (int way = 0; way < N_WAYS; way++) {
        x->prequests[0] = x->prequests[1] = MPIX_PREQUEST_NULL;
        if (way != BULK) { /* requests without a prequest for the host's way */
            MPI_Psend_init(x->out, n_blocks, x->n_each, MPI_DOUBLE, x->partner, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &x->parts[0]);
            MPI_Precv_init(x->in, n_blocks, x->n_each, MPI_DOUBLE, x->partner, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &x->parts[1]);
        }
        for (int i = 0; i < 2 && way >= BLOCK; i++)
            MPIX_Prequest_create(x->parts[i], &x->prequests[i]);
        measure(x, way);
        for (int i = 0; i < 2 && way != BULK; i++)
            MPI_Request_free(&x->parts[i]);
    }
}

int main(int argc, char **argv)
{
    const int all_blocks[] = {9, 27, 108, BLOCKS_MAX}, all_bytes[] = {1 << 10, 8 << 10, BYTES_MAX};
    size_t n_bytes = (size_t)BLOCKS_MAX * BYTES_MAX;
    struct exchange x;
    int rank, size, n_devices;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(&x, 0, sizeof x);
    x.partner = 1 - rank;
    CHECK(cudaGetDeviceCount(&n_devices));
    CHECK(cudaSetDevice(rank % n_devices));
    CHECK(cudaMalloc(&x.field, n_bytes));
    CHECK(cudaMalloc(&x.out, n_bytes));
    CHECK(cudaMalloc(&x.in, n_bytes));
    CHECK(cudaMalloc(&x.result, n_bytes));
    for (cudaStream_t &stream : x.streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    pack<<<1, 1>>>(x.field, x.out, 0, BULK, MPIX_PREQUEST_NULL); /* loads the kernels */
    unpack<<<1, 1>>>(x.result, x.in, 0, BULK, MPIX_PREQUEST_NULL);
    CHECK(cudaDeviceSynchronize());
    for (int n_blocks : all_blocks)
        for (int bytes : all_bytes)
            run(&x, n_blocks, bytes);
    MPI_Finalize();
    return 0;
}
