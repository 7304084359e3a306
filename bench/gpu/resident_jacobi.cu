/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resident_jacobi: Jacobi iterations (five points, floats) on a square whose rows are shared by the ranks, in three ways:
 *
 *      host       the host launches a kernel per iteration, waits for it, and exchanges the border rows by MPI_Isend and MPI_Irecv
 *      sends      the host launches a kernel per iteration, which sends its border rows and waits for those of its neighbours
 *      resident   one cooperative kernel does all iterations of a round. Iteration t of it sends partitions of round t's slot by
 *                 MPIX_Pready_block as soon as a block has computed them, and waits for others' by MPIX_Parrived: no host, and
 *                 nothing waits for a row but the blocks that read it
 *
 * The first rank and the last one are neighbours, so that a single rank exchanges with itself. All ranks on a GPU share its blocks.
 *
 *      nvcc -std=c++17 -O3 -arch=native -I PREFIX/include resident_jacobi.cu -o resident_jacobi -L PREFIX/lib -lmpi_abi
 *      mpirun -n RANKS ./resident_jacobi [--sizes 1024,8192] [--grids 1,2,4] [--iterations 200] [--round 50] [--plain] +p RANKS
 *
 * --grids: blocks per multiprocessor of the resident kernels; --round: iterations of a resident kernel; --plain: launches it as an ordinary
 * kernel. Output: lines "way.SIZE[.GRID] value us": per iteration, the median of five samples of as many iterations. A small square is compared with
 * the CPU's result, the large ones with that of `host`; exit code 1 if they differ. A kernel that waits for 5 s ends the job.
 */
#include <mpi-ext-device.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mpi_check.cuh"

enum { UP, DOWN, SIDES }; /* towards the rank before, and the next one */
enum { THREADS = 256, TILE_WIDTH = 4 * THREADS, AHEAD = 4, SAMPLES = 5 }; /* AHEAD: rows whose loads a thread has in flight */
#define PATIENCE_NS 5000000000ull

static int rank, size, n_multiprocessors, ranks_on_gpu;
static bool is_plain;
static cudaStream_t stream;

/* A rank's part of the square: rows of `width` points. Tiles in its first and last row of tiles have a neighbour's row beside them. */
struct part {
    int width, rows, tile_rows;

    __host__ __device__ int tiles_x() const { return (width + TILE_WIDTH - 1) / TILE_WIDTH; }
    __host__ __device__ int tiles_y() const { return (rows + tile_rows - 1) / tile_rows; }
    __host__ __device__ int tiles() const { return tiles_x() * tiles_y(); }
    size_t points() const { return (size_t)width * rows; }
};

struct borders {
    float *of[SIDES];
};

/* The same operations in the same order on the host and on the device, so that results compare exactly. */
__host__ __device__ static inline float mean(float west, float east, float north, float south)
{
    return ((west + east) + (north + south)) * 0.25f;
}

/* ---- Kernels ---- */

/* Tiles at the borders come first: what they send is on its way while the others are computed. */
__device__ static int tile_row_of(const part &p, int tile)
{
    int i = tile / p.tiles_x();
    return i == 0 ? 0 : i == 1 ? p.tiles_y() - 1 : i - 1;
}

__device__ static float4 load4(const float *from)
{
    return *(const float4 *)from;
}

__device__ static void store4(float *to, float4 values)
{
    *(float4 *)to = values;
}

/* By all threads of a block, four columns each. ghosts: the neighbours' rows; sent: where border rows are written as well, or NULL. Outside
 * of the square's left and right ends is 0. */
__device__ static void relax_tile(const part &p, const float *from, float *to, const borders &ghosts, const borders &sent, int tile)
{
    int width = p.width, first = tile_row_of(p, tile) * p.tile_rows;
    int end = first + p.tile_rows < p.rows ? first + p.tile_rows : p.rows;
    int first_x = tile % p.tiles_x() * TILE_WIDTH, end_x = first_x + TILE_WIDTH < width ? first_x + TILE_WIDTH : width;

    for (int x = first_x + 4 * (int)threadIdx.x; x < end_x; x += 4 * (int)blockDim.x) {
        float4 north = load4(first == 0 ? ghosts.of[UP] + x : from + (size_t)(first - 1) * width + x);
        float4 middle = load4(from + (size_t)first * width + x);
        for (int group = first; group < end; group += AHEAD) {
            float4 souths[AHEAD];
            float wests[AHEAD], easts[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                int y = group + i;
                const float *at = from + (size_t)y * width + x;
                if (y < end) {
                    souths[i] = load4(y == p.rows - 1 ? ghosts.of[DOWN] + x : at + width);
                    wests[i] = x > 0 ? at[-1] : 0;
                    easts[i] = x + 4 < width ? at[4] : 0;
                }
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                int y = group + i;
                if (y >= end)
                    break;
                float4 south = souths[i], value;
                value.x = mean(wests[i], middle.y, north.x, south.x);
                value.y = mean(middle.x, middle.z, north.y, south.y);
                value.z = mean(middle.y, middle.w, north.z, south.z);
                value.w = mean(middle.z, easts[i], north.w, south.w);
                store4(to + (size_t)y * width + x, value);
                if (y == 0 && sent.of[UP])
                    store4(sent.of[UP] + x, value);
                if (y == p.rows - 1 && sent.of[DOWN])
                    store4(sent.of[DOWN] + x, value);
                north = middle;
                middle = south;
            }
        }
    }
}

__global__ static void relax(part p, const float *from, float *to, borders ghosts)
{
    relax_tile(p, from, to, ghosts, borders{}, blockIdx.x);
}

__device__ static unsigned long long now_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Gives up at the deadline, or when another block has. */
__device__ static bool is_over(unsigned long long deadline_ns, volatile int *failed)
{
    if (now_ns() > deadline_ns)
        *failed = 1;
    return *failed;
}

/* Thread 0 of a block waits until the partition has arrived. */
__device__ static void await_partition(MPIX_Prequest prequest, int partition, unsigned long long deadline_ns, volatile int *failed)
{
    int flag = 0;
    for (unsigned n = 1; !flag; n++) {
        if (MPIX_Parrived(prequest, partition, &flag) != MPI_SUCCESS)
            *failed = 1;
        if (n % 256 == 0 && is_over(deadline_ns, failed))
            return;
    }
}

/* All blocks have done iteration t. arrivals: 0 before the first. */
__device__ static void grid_barrier(unsigned *arrivals, int t, unsigned long long deadline_ns, volatile int *failed)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrivals, 1);
        for (unsigned n = 1; *(volatile unsigned *)arrivals < (unsigned)(t + 1) * gridDim.x; n++)
            if (n % 4096 == 0 && is_over(deadline_ns, failed))
                break;
        __threadfence();
    }
    __syncthreads();
}

struct task {
    part p;
    float *fields[2];             /* iteration t goes from fields[t % 2] to the other */
    borders ghosts, out, in;      /* the neighbours' rows before the first iteration; a slot of `width` for each iteration */
    MPIX_Prequest sends[SIDES], recvs[SIDES];
    int n_iterations;
    unsigned *arrivals;
    int *failed;                  /* like the arrivals in the GPU's memory: blocks would read pinned memory one after the other */
};

/* A partition is the row of a tile in one iteration. */
__global__ static void __launch_bounds__(THREADS, 4) iterate(task r)
{
    unsigned long long deadline_ns = now_ns() + PATIENCE_NS;
    const part &p = r.p;

    for (int t = 0; t < r.n_iterations; t++) {
        borders ghosts = r.ghosts, sent;
        for (int side = 0; side < SIDES; side++) {
            if (t > 0)
                ghosts.of[side] = r.in.of[side] + (size_t)(t - 1) * p.width;
            sent.of[side] = r.out.of[side] + (size_t)t * p.width;
        }
        for (int tile = blockIdx.x; tile < p.tiles(); tile += gridDim.x) {
            int row = tile_row_of(p, tile), column = tile % p.tiles_x();
            bool is_border[SIDES] = {row == 0, row == p.tiles_y() - 1};
            for (int side = 0; side < SIDES; side++)
                if (t > 0 && is_border[side] && threadIdx.x == 0)
                    await_partition(r.recvs[side], (t - 1) * p.tiles_x() + column, deadline_ns, r.failed);
            __syncthreads();
            relax_tile(p, r.fields[t % 2], r.fields[1 - t % 2], ghosts, sent, tile);
            for (int side = 0; side < SIDES; side++)
                if (is_border[side] && MPIX_Pready_block(t * p.tiles_x() + column, r.sends[side]) != MPI_SUCCESS)
                    *(volatile int *)r.failed = 1;
        }
        grid_barrier(r.arrivals, t, deadline_ns, r.failed);
        if (*(volatile int *)r.failed)
            return;
    }
}

/* ---- A square ---- */

struct square {
    part p;
    float *fields[2];
    borders ghosts, out, in;
    unsigned *arrivals;
    int *failed, *host_failed;
    int n_round; /* iterations of a round, so slots */
    MPI_Request requests[2 * SIDES]; /* sends, receives */
    MPIX_Prequest prequests[2 * SIDES];
};

static int neighbour(int side)
{
    return (rank + (side == UP ? size - 1 : 1)) % size;
}

static float first_value(int x, int y)
{
    unsigned bits = ((unsigned)y * 73856093u ^ (unsigned)x * 19349663u) * 2654435761u;
    return (float)(bits >> 8) / 16777216.0f;
}

/* The first values of `rows` rows from row `first` on, whose numbers go round. */
static std::vector<float> first_rows(const part &p, int first, int rows)
{
    int height = p.rows * size;
    std::vector<float> values((size_t)p.width * rows);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < p.width; x++)
            values[(size_t)y * p.width + x] = first_value(x, (first + y + height) % height);
    return values;
}

static void set(float *to, const std::vector<float> &values)
{
    CHECK(cudaMemcpy(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}

static void reset(square *s)
{
    set(s->fields[0], first_rows(s->p, rank * s->p.rows, s->p.rows));
    set(s->ghosts.of[UP], first_rows(s->p, rank * s->p.rows - 1, 1));
    set(s->ghosts.of[DOWN], first_rows(s->p, (rank + 1) * s->p.rows, 1));
    CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
}

static void make(square *s, int width, int n_round)
{
    memset(s, 0, sizeof *s);
    s->p = part{width, width / size, 16};
    s->n_round = n_round;
    for (float *&field : s->fields)
        CHECK(cudaMalloc(&field, s->p.points() * sizeof(float)));
    for (int side = 0; side < SIDES; side++) {
        CHECK(cudaMalloc(&s->ghosts.of[side], width * sizeof(float)));
        CHECK(cudaMalloc(&s->out.of[side], (size_t)n_round * width * sizeof(float)));
        CHECK(cudaMalloc(&s->in.of[side], (size_t)n_round * width * sizeof(float)));
    }
    CHECK(cudaMalloc(&s->arrivals, sizeof *s->arrivals));
    CHECK(cudaMalloc(&s->failed, sizeof *s->failed));
    CHECK(cudaMemset(s->failed, 0, sizeof *s->failed));
    CHECK(cudaMallocHost(&s->host_failed, sizeof *s->host_failed));
    for (int side = 0; side < SIDES; side++) {
        int n_parts = s->p.tiles_x() * n_round, n_each = width / s->p.tiles_x();
        MPI_Psend_init(s->out.of[side], n_parts, n_each, MPI_FLOAT, neighbour(side), side, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &s->requests[side]);
        MPI_Precv_init(s->in.of[side], n_parts, n_each, MPI_FLOAT, neighbour(side), 1 - side, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &s->requests[SIDES + side]);
    }
    for (int i = 0; i < 2 * SIDES; i++)
        MPIX_Prequest_create(s->requests[i], &s->prequests[i]);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody allocates memory when the first kernel waits */
}

static void free_square(square *s)
{
    MPI_Barrier(MPI_COMM_WORLD); /* no kernel waits any more */
    for (int i = 0; i < 2 * SIDES; i++) {
        MPIX_Prequest_free(&s->prequests[i]);
        MPI_Request_free(&s->requests[i]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cudaFree(s->fields[i]));
        CHECK(cudaFree(s->ghosts.of[i]));
        CHECK(cudaFree(s->out.of[i]));
        CHECK(cudaFree(s->in.of[i]));
    }
    CHECK(cudaFree(s->arrivals));
    CHECK(cudaFree(s->failed));
    CHECK(cudaFreeHost(s->host_failed));
}

/* ---- The ways ---- */

/* An iteration; the result is fields[0] again. */
static void iterate_by_host(square *s)
{
    size_t last = (size_t)(s->p.rows - 1) * s->p.width;
    MPI_Request requests[2 * SIDES];

    relax<<<s->p.tiles(), THREADS, 0, stream>>>(s->p, s->fields[0], s->fields[1], s->ghosts);
    CHECK(cudaStreamSynchronize(stream));
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(s->ghosts.of[side], s->p.width, MPI_FLOAT, neighbour(side), 1 - side, MPI_COMM_WORLD, &requests[side]);
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(s->fields[1] + (side == UP ? 0 : last), s->p.width, MPI_FLOAT, neighbour(side), side, MPI_COMM_WORLD,
                  &requests[SIDES + side]);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    std::swap(s->fields[0], s->fields[1]);
}

/* A round of a resident kernel with so many blocks. */
static void iterate_by_kernel(square *s, int n_blocks)
{
    size_t last = (size_t)(s->n_round - 1) * s->p.width;
    task r = {s->p, {s->fields[0], s->fields[1]}, s->ghosts, s->out, s->in, {s->prequests[0], s->prequests[1]},
               {s->prequests[2], s->prequests[3]}, s->n_round, s->arrivals, s->failed};
    void *arguments[] = {&r};

    MPI_Startall(2 * SIDES, s->requests);
    MPIX_Pbuf_prepareall(2 * SIDES, s->requests);
    for (int side = 0; side < SIDES; side++)
        if (!HEDDLE_PREQUEST_IS_DIRECT(s->prequests[side]->state)) {
            fprintf(stderr, "rank %d: partitions do not go from kernel to kernel here (one process, GPUs with peer access)\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    CHECK(cudaMemsetAsync(s->arrivals, 0, sizeof *s->arrivals, stream));
    if (is_plain)
        iterate<<<n_blocks, THREADS, 0, stream>>>(r);
    else
        CHECK(cudaLaunchCooperativeKernel((const void *)iterate, dim3(n_blocks), dim3(THREADS), arguments, 0, stream));
    CHECK(cudaGetLastError());
    MPI_Waitall(2 * SIDES, s->requests, MPI_STATUSES_IGNORE);
    for (int side = 0; side < SIDES; side++)
        CHECK(cudaMemcpyAsync(s->ghosts.of[side], s->in.of[side] + last, s->p.width * sizeof(float), cudaMemcpyDeviceToDevice,
                              stream));
    CHECK(cudaMemcpyAsync(s->host_failed, s->failed, sizeof *s->failed, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (*s->host_failed) {
        fprintf(stderr, "rank %d: a kernel has waited for 5 s, or MPI's functions failed in it\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (s->n_round % 2)
        std::swap(s->fields[0], s->fields[1]);
}

/* n_blocks 0: by the host. */
static void iterate_all(square *s, int n_iterations, int n_blocks)
{
    for (int i = 0; i < n_iterations; i += n_blocks ? s->n_round : 1) {
        if (n_blocks)
            iterate_by_kernel(s, n_blocks);
        else
            iterate_by_host(s);
    }
}

static std::vector<float> result_of(const square *s)
{
    std::vector<float> values(s->p.points());
    CHECK(cudaMemcpy(values.data(), s->fields[0], values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
}

/* Tiles of at most 32 rows; each block has as many as the others, or one less. */
static void choose_tiles(square *s, int n_blocks)
{
    int rows = s->p.rows * s->p.tiles_x(), per_block = (rows - 1) / (n_blocks * 32) + 1;
    s->p.tile_rows = (rows - 1) / (n_blocks * per_block) + 1;
}

/* n_blocks of the resident kernel with so many per multiprocessor; 0: the host's way. All ranks' kernels must fit on the GPU together. */
static int choose_blocks(square *s, int per_multiprocessor)
{
    int n_blocks = std::max(1, n_multiprocessors * (per_multiprocessor ? per_multiprocessor : 8) / ranks_on_gpu);
    choose_tiles(s, n_blocks);
    return per_multiprocessor ? std::min(n_blocks, s->p.tiles()) : 0;
}

/* ---- Results ---- */

static std::vector<float> compute_on_host(const part &p, int n_iterations)
{
    int width = p.width, height = p.rows * size;
    std::vector<float> from = first_rows(p, 0, height), to(from.size());
    for (int t = 0; t < n_iterations; t++) {
        for (int y = 0; y < height; y++) {
            const float *row = &from[(size_t)y * width], *north = &from[(size_t)((y + height - 1) % height) * width],
                        *south = &from[(size_t)((y + 1) % height) * width];
            for (int x = 0; x < width; x++)
                to[(size_t)y * width + x] = mean(x > 0 ? row[x - 1] : 0, x < width - 1 ? row[x + 1] : 0, north[x], south[x]);
        }
        std::swap(from, to);
    }
    return std::vector<float>(from.begin() + (size_t)rank * p.points(), from.begin() + (size_t)(rank + 1) * p.points());
}

/* Ends the job if the result is another one. */
static void must_be(const square *s, const std::vector<float> &expected, const char *way)
{
    if (result_of(s) != expected) {
        fprintf(stderr, "FAIL rank %d: the result of %s, %d columns, is wrong\n", rank, way, s->p.width);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void check(int width, int n_round, const std::vector<int> &grids)
{
    int n_iterations = 3 * n_round;
    square s;

    make(&s, width, n_round);
    std::vector<float> expected = compute_on_host(s.p, n_iterations);
    reset(&s);
    iterate_all(&s, n_iterations, choose_blocks(&s, 0));
    must_be(&s, expected, "host");
    for (int grid : grids) {
        reset(&s);
        iterate_all(&s, n_iterations, choose_blocks(&s, grid));
        must_be(&s, expected, n_round > 1 ? "resident" : "sends");
    }
    free_square(&s);
}

static std::vector<float> measure(square *s, const char *way, int grid, int n_before, int n_iterations)
{
    int n_blocks = choose_blocks(s, grid);
    double samples[SAMPLES];

    reset(s);
    iterate_all(s, n_before, n_blocks);
    for (double &sample : samples) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        iterate_all(s, n_iterations, n_blocks);
        MPI_Barrier(MPI_COMM_WORLD);
        sample = (MPI_Wtime() - begin) / n_iterations * 1e6;
    }
    std::sort(samples, samples + SAMPLES);
    if (rank == 0) {
        if (grid)
            printf("%s.%d.%d %.2f us\n", way, s->p.width, grid, samples[SAMPLES / 2]);
        else
            printf("%s.%d %.2f us\n", way, s->p.width, samples[SAMPLES / 2]);
        fflush(stdout);
    }
    return result_of(s);
}

static void run(int width, int n_round, int n_iterations, const std::vector<int> &grids)
{
    std::vector<float> expected;

    for (int n : {n_round, 1}) {
        square s;
        make(&s, width, n);
        if (expected.empty())
            expected = measure(&s, "host", 0, n_round, n_iterations);
        for (int grid : grids) {
            const char *way = n > 1 ? "resident" : "sends";
            if (measure(&s, way, grid, n_round, n_iterations) != expected) {
                fprintf(stderr, "FAIL rank %d: the result of %s, %d columns, is not the host's\n", rank, way, width);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        free_square(&s);
    }
}

/* ---- The command line ---- */

static std::vector<int> numbers(const char *text)
{
    std::vector<int> all;
    for (char *end; *text; text = *end == ',' ? end + 1 : end) {
        all.push_back((int)strtol(text, &end, 10));
        if (end == text || (*end && *end != ','))
            return {};
    }
    return all;
}

/* Returns whether the options make sense. */
static bool parse_options(int argc, char **argv, std::vector<int> *sizes, std::vector<int> *grids, int *n_iterations, int *n_round)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--plain")) {
            is_plain = true;
            continue;
        }
        if (!strcmp(argv[i], "--sizes"))
            *sizes = numbers(value);
        else if (!strcmp(argv[i], "--grids"))
            *grids = numbers(value);
        else if (!strcmp(argv[i], "--iterations"))
            *n_iterations = atoi(value);
        else if (!strcmp(argv[i], "--round"))
            *n_round = atoi(value);
        else
            return false;
        i++;
    }
    for (int width : *sizes)
        if (width < 4 || width % 4 || width % size || (width > TILE_WIDTH && width % TILE_WIDTH))
            return false;
    for (int grid : *grids)
        if (grid < 1)
            return false;
    return !sizes->empty() && !grids->empty() && *n_round > 1 && *n_iterations > 0 && *n_iterations % *n_round == 0;
}

/* Loading a kernel waits for the GPU, and so for kernels that wait for this rank. */
static void load_kernels(void)
{
    cudaFuncAttributes unused;

    CHECK(cudaFuncGetAttributes(&unused, relax));
    CHECK(cudaFuncGetAttributes(&unused, iterate));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    std::vector<int> sizes = {1024, 2048, 4096, 8192}, grids = {1, 2, 4};
    int n_iterations = 200, n_round = 50, n_devices, device;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!parse_options(argc, argv, &sizes, &grids, &n_iterations, &n_round)) {
        if (rank == 0)
            fprintf(stderr, "see the head of resident_jacobi.cu: sizes are multiples of 1,024 and of the number of ranks, or below;"
                            " iterations multiples of those of a round, which are 2 at least\n");
        MPI_Finalize();
        return 2;
    }
    CHECK(cudaGetDeviceCount(&n_devices));
    device = rank % n_devices;
    ranks_on_gpu = (size - 1) / n_devices + 1;
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    load_kernels();
    for (int n : {n_round, 1, 3})
        check(16 * size, n, grids);
    check(2048, 4, grids);
    for (int width : sizes)
        run(width, n_round, n_iterations, grids);
    CHECK(cudaStreamDestroy(stream));
    MPI_Finalize();
    return 0;
}
