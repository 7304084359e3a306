/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handlers: times of messages between handlers of two ranks (docs/gpu-extensions.md, "Handlers on the GPU").
 *
 *      pingpong.block    half a round trip of 8 bytes between handlers that blocks run
 *      pingpong.grid.N   the same where all N blocks of each rank's kernel run the handler
 *      host              from the call of AMPI_GPU_Send to the return of AMPI_GPU_Handlers_wait: a message of the host, the launch of the resident
 *                        kernel, its handler, the kernel's leave, and the agreement of the ranks that no message is left
 *
 *      nvcc -std=c++17 -O2 -arch=native -I PREFIX/include handlers.cu -o handlers -L PREFIX/lib -lmpi_abi
 *      mpirun -n 2 ./handlers +p 2
 *
 * Output: lines "name value us": the median of 15 samples.
 */
#include <mpi-ext-handlers.cuh>
#include <mpi-ext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "mpi_check.cuh"

enum { TRIPS = 1000, SAMPLES = 15, BY_BLOCK = 0, BY_GRID = 1, NOTHING = 2 };

/* A rank's part; pinned. */
struct game {
    unsigned long long begin_ns, end_ns;
};

static __device__ unsigned long long now_ns()
{
    unsigned long long now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* The message is the number of trips that are left. */
static __device__ void play(const AMPI_GPU_Message *message)
{
    struct game *game = (struct game *)message->argument;
    long long left = *(const long long *)message->data - 1;

    if (threadIdx.x != 0 || message->block != 0)
        return;
    if (left == 2 * TRIPS - 1)
        game->begin_ns = now_ns();
    if (left == 1)
        game->end_ns = now_ns();
    if (left > 0)
        AMPI_GPU_Send(&left, sizeof left, 1 - message->rank, message->tag, message->device);
}

static __device__ void nothing(const AMPI_GPU_Message *message) {}

static int rank;

static double median(double *samples)
{
    std::sort(samples, samples + SAMPLES);
    return samples[SAMPLES / 2];
}

static void measure(const char *blocks)
{
    double samples[SAMPLES];
    AMPI_GPU_Handlers handlers;
    struct game *game;
    MPI_Info info;
    int n_blocks = atoi(blocks);

    CHECK(cudaMallocHost(&game, sizeof *game));
    MPI_Info_create(&info);
    MPI_Info_set(info, "blocks", blocks);
    AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &handlers);
    MPI_Info_free(&info);
    AMPI_GPU_Register_handler<play>(BY_BLOCK, AMPI_GPU_BY_BLOCK, game, handlers);
    AMPI_GPU_Register_handler<play>(BY_GRID, AMPI_GPU_BY_GRID, game, handlers);
    AMPI_GPU_Register_handler<nothing>(NOTHING, AMPI_GPU_BY_BLOCK, game, handlers);
    AMPI_GPU_Handlers_start(handlers);
    for (int by = BY_BLOCK; by <= BY_GRID; by++) {
        for (int i = -2; i < SAMPLES; i++) {
            long long left = 2 * TRIPS;
            game->begin_ns = game->end_ns = 0;
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0)
                AMPI_GPU_Send(&left, sizeof left, 0, by, handlers);
            AMPI_GPU_Handlers_wait(handlers);
            if (rank == 0 && game->end_ns <= game->begin_ns) {
                fprintf(stderr, "the handlers did not run\n");
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            if (i >= 0)
                samples[i] = (double)(game->end_ns - game->begin_ns) / 1000 / (2 * TRIPS - 2);
        }
        if (rank == 0)
            printf("pingpong.%s.%d %.2f us\n", by == BY_BLOCK ? "block" : "grid", n_blocks, median(samples)), fflush(stdout);
    }
    for (int i = -2; i < SAMPLES; i++) {
        double begin;
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        if (rank == 0)
            AMPI_GPU_Send(NULL, 0, 1, NOTHING, handlers);
        AMPI_GPU_Handlers_wait(handlers);
        if (i >= 0)
            samples[i] = (MPI_Wtime() - begin) * 1e6;
    }
    if (rank == 0)
        printf("host.%d %.2f us\n", n_blocks, median(samples)), fflush(stdout);
    AMPI_GPU_Handlers_free(&handlers);
    CHECK(cudaFreeHost(game));
}

int main(int argc, char **argv)
{
    int n_devices = 0, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "handlers: 2 ranks are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK(cudaGetDeviceCount(&n_devices));
    CHECK(cudaSetDevice(rank % n_devices));
    for (const char *blocks : {"1", "4", "16", "64"})
        measure(blocks);
    MPI_Finalize();
    return 0;
}
