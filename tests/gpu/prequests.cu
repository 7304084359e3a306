/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels mark partitions ready (mpi-ext-device.cuh), and kernels of the next rank that run at the same time find each partition
 * with the data of its round: by single threads, warps and blocks, in partitions of all sizes, with and without a direct way, in many rounds without
 * a pause between them. A store that overtakes its flag, or a load that overtakes the flag's, is a wrong element.
 * Arguments: the number of rounds (200); serial: the receiving kernels are launched when the data has arrived, for tools that run one
 * kernel at a time.
 */
#include <mpi-ext-device.cuh>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rank_check.cuh"

static cudaStream_t streams[2]; /* of the kernel that sends, and of the one that receives */

enum by { THREAD, WARP, BLOCK };

static const struct test {
    const char *name;
    enum by by;
    int n_parts, n_recv_parts, n_blocks, n_threads;
    unsigned n_each; /* elements of a partition */
    int is_managed;  /* the receive's buffer */
} tests[] = {
    {"one word", THREAD, 1, 1, 1, 1, 1, 0},
    {"threads", THREAD, 100, 100, 10, 32, 33, 0},
    {"warps", WARP, 64, 64, 16, 100, 300, 0},
    {"blocks", BLOCK, 27, 27, 27, 256, 4096, 0},
    {"odd blocks", BLOCK, 27, 27, 9, 97, 1023, 0},
    {"blocks, too large", BLOCK, 4, 4, 4, 512, 100000, 0},
    {"threads, too large", THREAD, 16, 16, 4, 32, 5000, 0},
    {"many", BLOCK, 1000, 1000, 32, 128, 100, 0},
    {"other partitions", BLOCK, 12, 4, 4, 128, 1000, 0},
    {"managed", BLOCK, 9, 9, 9, 128, 1000, 1},
};

__device__ static unsigned value_of(int rank, int round, int part, unsigned i)
{
    return (unsigned)rank * 1000003u + (unsigned)round * 10007u + (unsigned)part * 101u + i;
}

/* Each block has some partitions. Its first thread, or all threads of its first warp, write those that are marked by one thread or warp. */
__global__ static void send_parts(MPIX_Prequest prequest, unsigned *data, struct test test, int rank, int round,
                                  int *errors)
{
    for (int part = (int)blockIdx.x; part < test.n_parts; part += (int)gridDim.x) {
        unsigned *to = data + (size_t)part * test.n_each;
        unsigned n = test.by == THREAD ? 1 : test.by == WARP && blockDim.x > 32 ? 32 : blockDim.x;
        int error = MPI_SUCCESS;
        if (threadIdx.x < n) {
            for (unsigned i = threadIdx.x; i < test.n_each; i += n)
                to[i] = value_of(rank, round, part, i);
            error = test.by == THREAD ? MPIX_Pready(part, prequest)
                    : test.by == WARP ? MPIX_Pready_warp(part, prequest)
                                      : MPIX_Pready_block(part, prequest);
        }
        if (error != MPI_SUCCESS)
            atomicAdd(errors, 1);
    }
}

__global__ static void receive_parts(MPIX_Prequest prequest, const unsigned *data, struct test test, int rank,
                                     int round, int *errors)
{
    unsigned n_each = test.n_each * (unsigned)(test.n_parts / test.n_recv_parts);

    for (int part = (int)blockIdx.x; part < test.n_recv_parts; part += (int)gridDim.x) {
        const unsigned *from = data + (size_t)part * n_each;
        for (int flag = 0; threadIdx.x == 0 && !flag;)
            if (MPIX_Parrived(prequest, part, &flag) != MPI_SUCCESS)
                atomicAdd(errors, 1);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < n_each; i += blockDim.x) {
            unsigned at = (unsigned)part * n_each + i;
            if (from[i] != value_of(rank, round, (int)(at / test.n_each), at % test.n_each))
                atomicAdd(errors, 1);
        }
        __syncthreads();
    }
}

static void launch_receive(const struct test *test, MPIX_Prequest prequest, const unsigned *in, int from, int round,
                           int *errors)
{
    receive_parts<<<test->n_blocks, test->n_threads, 0, streams[1]>>>(prequest, in, *test, from, round, errors);
    CUDA(cudaGetLastError());
}

static void run(const struct test *test, int n_rounds, bool is_serial)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, direct = 0;
    size_t n = (size_t)test->n_parts * test->n_each;
    MPI_Request requests[2];
    MPIX_Prequest prequests[2];
    unsigned *out, *in;
    int *errors;

    CUDA(cudaMalloc(&out, n * sizeof *out));
    CUDA(test->is_managed ? cudaMallocManaged(&in, n * sizeof *in) : cudaMalloc(&in, n * sizeof *in));
    CUDA(cudaMallocHost(&errors, sizeof *errors));
    *errors = 0;
    MPI(MPI_Psend_init(out, test->n_parts, test->n_each, MPI_UNSIGNED, next, 0, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &requests[0]));
    MPI(MPI_Precv_init(in, test->n_recv_parts, (MPI_Count)n / test->n_recv_parts, MPI_UNSIGNED, prev, 0,
                            MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int i = 0; i < 2; i++)
        MPI(MPIX_Prequest_create(requests[i], &prequests[i]));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 1; round <= n_rounds; round++) {
        MPI(MPI_Startall(2, requests));
        MPI(MPIX_Pbuf_prepareall(2, requests));
        direct += HEDDLE_PREQUEST_IS_DIRECT(prequests[0]->state);
        if (!is_serial && size <= 2 && round % 3)
            launch_receive(test, prequests[1], in, prev, round, errors);
        send_parts<<<test->n_blocks, test->n_threads, 0, streams[0]>>>(prequests[0], out, *test, rank, round, errors);
        CUDA(cudaGetLastError());
        if (!is_serial && size > 2) /* a kernel that sends may have to share a connection to the GPU with one that waits */
            MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (!is_serial && (size > 2 || round % 3 == 0))
            launch_receive(test, prequests[1], in, prev, round, errors);
        if (round % 2 && !is_serial)
            CUDA(cudaStreamSynchronize(streams[1]));
        MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        if (is_serial)
            launch_receive(test, prequests[1], in, prev, round, errors);
        CUDA(cudaStreamSynchronize(streams[1]));
        CUDA(cudaStreamSynchronize(streams[0]));
        CHECK(*errors == 0, "%s, round %d: %d errors", test->name, round, *errors);
        *errors = 0;
    }
    if (rank == 0)
        printf("%s: %d of %d rounds were direct\n", test->name, direct, n_rounds), fflush(stdout);
    for (int i = 0; i < 2; i++) {
        MPI(MPIX_Prequest_free(&prequests[i]));
        MPI(MPI_Request_free(&requests[i]));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD)); /* no kernel waits now: calls that wait for the GPU may follow */
    CUDA(cudaFree(out));
    CUDA(cudaFree(in));
    CUDA(cudaFreeHost(errors));
}

/* A first launch of a kernel waits for the GPU, and so for kernels that wait for this rank. */
static void load_kernels(void)
{
    struct test nothing = {};

    send_parts<<<1, 1>>>(NULL, NULL, nothing, 0, 0, NULL);
    receive_parts<<<1, 1>>>(NULL, NULL, nothing, 0, 0, NULL);
    CUDA(cudaDeviceSynchronize());
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int n_devices = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CUDA(cudaGetDeviceCount(&n_devices));
    CUDA(cudaSetDevice(rank % n_devices));
    load_kernels();
    for (cudaStream_t &stream : streams)
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (const struct test &test : tests)
        run(&test, argc > 1 ? atoi(argv[1]) : 200, argc > 2 && strcmp(argv[2], "serial") == 0);
    MPI_Finalize();
    return 0;
}
