/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages run handlers on GPUs, once each and with their data, from hosts, kernels and handlers, by blocks and by the whole grid, and the wait returns
 * when there are none left; again and again, after the resident kernel has left in between.
 * Arguments: the number of rounds (20), and blocks of each rank's kernel (4).
 */
#include <mpi-ext-handlers.cuh>
#include <mpi-ext.h>

#include <cstdio>
#include <cstdlib>

#include "rank_check.cuh"

enum { FORWARD, COUNT, GRID, STORE, TAGS };
enum { HOPS = 40, N_STORED = 1 << 14, N_SENT = 3000 };

/* The rank's results, in its GPU's memory: the handlers' argument. */
struct state {
    unsigned long long n_forwards, n_counts, sum, n_grids, n_wrong;
    unsigned partial[1024];    /* by block: what the grid's handler adds */
    unsigned stored[N_STORED]; /* data that messages tell of */
};

struct hop {
    int left;
    unsigned check; /* of 100 words */
    unsigned words[32];
};

static __device__ unsigned check_of(const struct hop *hop)
{
    unsigned sum = (unsigned)hop->left * 2654435761u;

    for (int i = 0; i < 32; i++)
        sum = sum * 31 + hop->words[i];
    return sum;
}

/* Sends the message on to the next rank, with one hop less. */
static __device__ void forward(const AMPI_GPU_Message *message)
{
    struct state *state = (struct state *)message->argument;
    const struct hop *hop = (const struct hop *)message->data;
    __shared__ struct hop next;

    if (threadIdx.x == 0) {
        if (message->n_bytes != sizeof *hop || check_of(hop) != hop->check)
            atomicAdd(&state->n_wrong, 1ull);
        atomicAdd(&state->n_forwards, 1ull);
        next = *hop;
        next.left--;
        next.words[(unsigned)next.left % 32] += 7;
        next.check = check_of(&next);
    }
    __syncthreads();
    if (hop->left > 0)
        while (AMPI_GPU_Send_block(&next, sizeof next, ((int *)state->partial)[0], FORWARD, message->device) ==
               MPI_ERR_NO_SPACE)
            ;
}

static __device__ void count(const AMPI_GPU_Message *message)
{
    struct state *state = (struct state *)message->argument;

    if (threadIdx.x == 0) {
        atomicAdd(&state->n_counts, 1ull);
        atomicAdd(&state->sum, *(const unsigned long long *)message->data);
    }
}

/* Each block writes a word, and behind the grid's barrier reads all of them. */
static __device__ void grid(const AMPI_GPU_Message *message)
{
    struct state *state = (struct state *)message->argument;
    unsigned number = *(const unsigned *)message->data, sum = 0;
    volatile unsigned *partial = state->partial + 1;

    if (threadIdx.x == 0)
        partial[message->block] = number + (unsigned)message->block;
    AMPI_GPU_Grid_sync(message);
    for (int i = 0; i < message->n_blocks; i++)
        sum += partial[i] - number - (unsigned)i;
    if (threadIdx.x == 0 && sum != 0)
        atomicAdd(&state->n_wrong, 1ull);
    AMPI_GPU_Grid_sync(message);
    if (threadIdx.x == 0 && message->block == 0)
        atomicAdd(&state->n_grids, 1ull);
}

struct told {
    const unsigned *words; /* in the sender's memory */
    unsigned n, first;
};

/* Finds the data that the sender's block has written before it sent the message. */
static __device__ void store(const AMPI_GPU_Message *message)
{
    struct state *state = (struct state *)message->argument;
    const struct told *told = (const struct told *)message->data;

    for (unsigned i = threadIdx.x; i < told->n; i += blockDim.x)
        if (told->words[i] != told->first + i)
            atomicAdd(&state->n_wrong, 1ull);
    if (threadIdx.x == 0)
        atomicAdd(&state->n_counts, 1ull);
}

/* A kernel of the program: each block writes words, and tells the next rank of them. */
__global__ static void tell(struct state *state, unsigned n_each, unsigned first, int dest, AMPI_GPU_Device device)
{
    unsigned at = blockIdx.x * n_each;
    struct told told = {state->stored + at, n_each, first + at};

    if (!device)
        return;
    for (unsigned i = threadIdx.x; i < n_each; i += blockDim.x)
        state->stored[at + i] = first + at + i;
    int error;
    do /* the queue may be full */
        error = AMPI_GPU_Send_block(&told, sizeof told, dest, STORE, device);
    while (error == MPI_ERR_NO_SPACE);
    if (error != MPI_SUCCESS && threadIdx.x == 0)
        atomicAdd(&state->n_wrong, 1ull);
}

/* Many messages, by single threads, which may find the queue full. */
__global__ static void send_many(int n, int dest, AMPI_GPU_Device device)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += (int)(gridDim.x * blockDim.x)) {
        unsigned long long value = (unsigned long long)i;
        while (AMPI_GPU_Send(&value, sizeof value, dest, COUNT, device) == MPI_ERR_NO_SPACE)
            __nanosleep(1000);
    }
}

__global__ static void send_wrong(int dest, int tag, int n_bytes, int *error, AMPI_GPU_Device device)
{
    if (device)
        *error = AMPI_GPU_Send(NULL, n_bytes, dest, tag, device);
}

static struct state *state, *host;
static const char *part = "nothing"; /* of the test */

static void look_at_results(void)
{
    CUDA(cudaMemcpy(host, state, sizeof *host, cudaMemcpyDeviceToHost));
    CHECK(host->n_wrong == 0, "%llu errors after %s", host->n_wrong, part);
}

/* Hops around the ranks, started by all hosts. */
static void test_forward(AMPI_GPU_Handlers handlers, int round)
{
    struct hop hop = {HOPS - 1, 0, {}};
    unsigned long long before, sums[2] = {}, all[2];

    look_at_results();
    before = host->n_forwards;
    for (int i = 0; i < 32; i++)
        hop.words[i] = (unsigned)(rank * 1000 + round * 10 + i);
    hop.check = (unsigned)hop.left * 2654435761u;
    for (int i = 0; i < 32; i++)
        hop.check = hop.check * 31 + hop.words[i];
    MPI(MPI_Barrier(MPI_COMM_WORLD)); /* all have read their counters */
    MPI(AMPI_GPU_Send(&hop, sizeof hop, (rank + 1) % size, FORWARD, handlers));
    MPI(AMPI_GPU_Handlers_wait(handlers));
    part = "hops";
    look_at_results();
    sums[0] = host->n_forwards - before;
    MPI(MPI_Allreduce(sums, all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all[0] == (unsigned long long)HOPS * size, "%llu hops instead of %d", all[0], HOPS * size);
}

static void test_kernels(AMPI_GPU_Handlers handlers, AMPI_GPU_Device device, int round, cudaStream_t stream)
{
    unsigned long long counts, sum;

    look_at_results();
    counts = host->n_counts;
    sum = host->sum;
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    send_many<<<8, 64, 0, stream>>>(N_SENT, (rank + 1) % size, device);
    CUDA(cudaGetLastError());
    tell<<<32, 128, 0, stream>>>(state, N_STORED / 32, (unsigned)round * 1000003u, (rank + 1) % size, device);
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream));
    MPI(AMPI_GPU_Handlers_wait(handlers));
    part = "messages of kernels";
    look_at_results();
    CHECK(host->n_counts - counts == N_SENT + 32, "%llu messages instead of %d", host->n_counts - counts, N_SENT + 32);
    CHECK(host->sum - sum == (unsigned long long)N_SENT * (N_SENT - 1) / 2, "the sum is %llu", host->sum - sum);
}

/* Messages for the grid, among others. */
static void test_grid(AMPI_GPU_Handlers handlers, int round)
{
    unsigned long long grids, counts, value = 5;

    look_at_results();
    grids = host->n_grids;
    counts = host->n_counts;
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (unsigned i = 0; i < 10; i++) {
        unsigned number = (unsigned)round * 100u + i;
        MPI(AMPI_GPU_Send(&number, sizeof number, (rank + 1) % size, GRID, handlers));
        MPI(AMPI_GPU_Send(&value, sizeof value, (rank + 1) % size, COUNT, handlers));
    }
    MPI(AMPI_GPU_Handlers_wait(handlers));
    part = "messages for the grid";
    look_at_results();
    CHECK(host->n_grids - grids == 10 && host->n_counts - counts == 10, "%llu and %llu messages instead of 10",
          host->n_grids - grids, host->n_counts - counts);
}

/* Wrong sends of kernels: the kernel gets the class, and so does the wait. */
static void test_errors(AMPI_GPU_Handlers handlers, AMPI_GPU_Device device, cudaStream_t stream)
{
    static const struct {
        int dest, tag, n_bytes, error;
    } wrong[] = {{-1, 0, 0, MPI_ERR_RANK}, {1 << 20, 0, 0, MPI_ERR_RANK}, {0, TAGS, 0, MPI_ERR_TAG}, {0, -1, 0, MPI_ERR_TAG}, {0, 0, 100000, MPI_ERR_COUNT}};
    int *error;

    CUDA(cudaMallocHost(&error, sizeof *error));
    for (const auto &w : wrong) {
        send_wrong<<<1, 1, 0, stream>>>(w.dest, w.tag, w.n_bytes, error, device);
        CUDA(cudaStreamSynchronize(stream));
        CHECK(*error == w.error, "the kernel got class %d instead of %d", *error, w.error);
        CHECK(AMPI_GPU_Handlers_wait(handlers) == w.error, "the wait did not return class %d", w.error);
    }
    MPI(AMPI_GPU_Handlers_wait(handlers));
    CUDA(cudaFreeHost(error));
}

/* A first launch loads the kernel, which waits for all kernels of the GPU, and so for those that wait for room in a queue. */
static void load_kernels(void)
{
    send_many<<<1, 1>>>(0, 0, NULL);
    tell<<<1, 1>>>(state, 0, 0, 0, NULL);
    send_wrong<<<1, 1>>>(0, 0, 0, NULL, NULL);
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int n_rounds = argc > 1 ? atoi(argv[1]) : 20, n_devices = 0;
    AMPI_GPU_Handlers handlers;
    AMPI_GPU_Device device;
    cudaStream_t stream;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CUDA(cudaGetDeviceCount(&n_devices));
    CUDA(cudaSetDevice(rank % n_devices));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&state, sizeof *state));
    CUDA(cudaMemset(state, 0, sizeof *state));
    CUDA(cudaMallocHost(&host, sizeof *host));
    int next = (rank + 1) % size;
    CUDA(cudaMemcpy(state->partial, &next, sizeof next, cudaMemcpyHostToDevice));
    MPI(MPI_Info_create(&info));
    MPI(MPI_Info_set(info, "blocks", argc > 2 ? argv[2] : "4"));
    MPI(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &handlers));
    MPI(MPI_Info_free(&info));
    MPI(AMPI_GPU_Register_handler<forward>(FORWARD, AMPI_GPU_BY_BLOCK, state, handlers));
    MPI(AMPI_GPU_Register_handler<count>(COUNT, AMPI_GPU_BY_BLOCK, state, handlers));
    MPI(AMPI_GPU_Register_handler<grid>(GRID, AMPI_GPU_BY_GRID, state, handlers));
    MPI(AMPI_GPU_Register_handler<store>(STORE, AMPI_GPU_BY_BLOCK, state, handlers));
    load_kernels();
    MPI(AMPI_GPU_Handlers_start(handlers));
    MPI(AMPI_GPU_Handlers_device(handlers, &device));
    for (int round = 0; round < n_rounds; round++) {
        test_forward(handlers, round);
        test_kernels(handlers, device, round, stream);
        test_grid(handlers, round);
    }
    test_errors(handlers, device, stream);
    MPI(AMPI_GPU_Handlers_free(&handlers));
    if (rank == 0)
        printf("%d rounds of messages\n", n_rounds), fflush(stdout);
    MPI_Finalize();
    return 0;
}
