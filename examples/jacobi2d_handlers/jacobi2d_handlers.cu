/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jacobi2d_handlers: the steady temperature of a plate, by Jacobi iterations whose messages run on the GPU.
 *
 * The plate of NX x NY points is cut into strips of rows, one per MPI rank. In the mode `handlers` no host takes part between the first iteration and the
 * last one: a rank first does its first and last row, and sends its neighbors their addresses; then it does the rows between them. A rank that has done
 * an iteration and has its neighbors' messages sends itself the message STEP, whose handler runs on all blocks of its resident kernel. No block waits for
 * another one: the last to be ready goes on. In the mode `host` each rank launches a kernel, waits for it, and exchanges rows by MPI_Sendrecv. In the mode
 * `graph` an iteration is a CUDA graph with its messages (MPIX_Isend_enqueue, ...), and the host launches one per iteration.
 *
 * Options: see README.md.
 */
#include <mpi-ext-handlers.cuh>
#include <mpi-ext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA(call)                                                                              \
    do {                                                                                        \
        cudaError_t result_ = (call);                                                           \
        if (result_ != cudaSuccess) {                                                           \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(result_)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

enum { BEGIN, HALO, STEP };      /* tags */
enum { UP, DOWN };               /* sides */
enum { THREADS = 512, WIDTH = 4 * THREADS /* columns that a block works on at a time */, AHEAD = 2 /* rows */ };
static const float HOT = 1, COLD = 0; /* the row above the plate, and the columns and the row around the rest */

/* A rank's strip, in its GPU's memory: the handlers' argument. */
struct strip {
    float *field[2]; /* n_rows rows of nx points: iteration i reads [i % 2] and writes the other one */
    const float *rows[2][2]; /* by iteration % 2 and side: the neighbor's row next to the strip */
    unsigned n_arrived[2];   /* by iteration % 2: the neighbors that are ready for it, and the rank itself */
    int neighbors[2];        /* by side; MPI_PROC_NULL: none, and `rows` is constant */
    unsigned n_needed;       /* of n_arrived */
    unsigned n_borders, n_done; /* blocks that have done their part of the border, and all of their part */
    int nx, n_rows;
    int n_iterations, iteration;
    unsigned long long begin_ns, end_ns;
};

/* ---- One iteration ---- */

/* What an iteration reads and writes: the same for all blocks. */
struct plate {
    float *to;
    const float *from;
    const float *above, *below; /* rows -1 and n_rows */
    int nx, n_rows;
};

/* A thread's columns: four, beside those of the other threads of its warp. */
struct columns {
    int first;
    int edge; /* distance of the point that it loads for the warp from its first column: -1, 4; 0: none */
    bool is_last; /* of the plate */
    unsigned lanes; /* threads of the warp that have columns */
};

/* Four columns of a row, and the point beside the warp's. */
struct piece {
    float4 at;
    float edge;
};

static __device__ struct columns columns_of(int nx, int wide)
{
    int lane = (int)threadIdx.x % 32;
    struct columns columns = {wide * WIDTH + 4 * (int)threadIdx.x};

    columns.is_last = columns.first + 4 >= nx;
    columns.edge = lane == 0 && columns.first > 0 ? -1 : lane == 31 && !columns.is_last ? 4 : 0;
    columns.lanes = __ballot_sync(~0u, columns.first < nx);
    return columns;
}

static __device__ float4 load(const float *at)
{
    return *(const float4 *)at;
}

static __device__ struct piece load_piece(const float *at, const struct columns &columns)
{
    struct piece piece = {load(at), COLD};

    if (columns.edge)
        piece.edge = at[columns.edge];
    return piece;
}

static __device__ void relax(float *to, const struct columns &columns, const float4 &up, const struct piece &here,
                             const float4 &down)
{
    float left = __shfl_up_sync(columns.lanes, here.at.w, 1), right = __shfl_down_sync(columns.lanes, here.at.x, 1);
    float4 result;

    if (threadIdx.x % 32 == 0)
        left = here.edge;
    if (columns.is_last)
        right = COLD;
    else if (threadIdx.x % 32 == 31)
        right = here.edge;
    result.x = (left + here.at.y + up.x + down.x) * 0.25f;
    result.y = (here.at.x + here.at.z + up.y + down.y) * 0.25f;
    result.z = (here.at.y + here.at.w + up.z + down.z) * 0.25f;
    result.w = (here.at.z + right + up.w + down.w) * 0.25f;
    *(float4 *)to = result;
}

/* n rows inside the strip, of the WIDTH columns with this number, by a block. The next AHEAD rows are on their way meanwhile. */
static __device__ void relax_rows(const struct plate *plate, int wide, int first, int n)
{
    int nx = plate->nx;
    struct columns columns = columns_of(nx, wide);
    size_t offset = (size_t)first * nx + columns.first;
    const float *at = plate->from + offset;
    float *to = plate->to + offset;
    struct piece here, down[AHEAD];
    float4 up;

    if (columns.first >= nx)
        return;
    up = load(at - nx);
    here = load_piece(at, columns);
    for (int k = 0; k < AHEAD; k++)
        if (k < n)
            down[k] = load_piece(at += nx, columns);
    while (n > 0) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            struct piece next = down[k];
            if (n <= 0)
                break;
            if (n > AHEAD)
                down[k] = load_piece(at += nx, columns);
            relax(to, columns, up, here, next.at);
            to += nx;
            up = here.at;
            here = next;
            n--;
        }
    }
}

/* A block's part of the first row and the last one. */
static __device__ void relax_border(const struct plate *plate, int block, int n_blocks)
{
    int n_wide = (plate->nx + WIDTH - 1) / WIDTH, n_rows = plate->n_rows > 1 ? 2 : 1, last = plate->n_rows - 1;

    for (int i = block; i < n_rows * n_wide; i += n_blocks) {
        struct columns columns = columns_of(plate->nx, i % n_wide);
        int row = i < n_wide ? 0 : last;
        const float *at = plate->from + (size_t)row * plate->nx;
        const float *up = row > 0 ? at - plate->nx : plate->above, *down = row < last ? at + plate->nx : plate->below;
        if (columns.first < plate->nx)
            relax(plate->to + (size_t)row * plate->nx + columns.first, columns, load(up + columns.first),
                  load_piece(at + columns.first, columns), load(down + columns.first));
    }
}

/* A block's part of the other rows: consecutive ones, and where they end, the next columns. */
static __device__ void relax_inside(const struct plate *plate, int block, int n_blocks)
{
    int n_wide = (plate->nx + WIDTH - 1) / WIDTH, n_inside = plate->n_rows - 2;
    long long all = n_inside > 0 ? (long long)n_inside * n_wide : 0;
    long long next = all * block / n_blocks, end = all * (block + 1) / n_blocks;

    while (next < end) {
        int row = (int)(next % n_inside), n = end - next < n_inside - row ? (int)(end - next) : n_inside - row;
        relax_rows(plate, (int)(next / n_inside), 1 + row, n);
        next += n;
    }
}

/* ---- Handlers ---- */

static __device__ unsigned long long now_ns()
{
    unsigned long long now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

struct halo {
    const float *row;
    int iteration; /* that reads it */
    int side;      /* of the receiver */
};

/* One more of those that iteration `iteration` of this rank waits for. By one thread. */
static __device__ void arrive(struct strip *strip, int iteration, const AMPI_GPU_Message *message)
{
    __threadfence(); /* the row's address before the count ... */
    if (atomicAdd(&strip->n_arrived[iteration % 2], 1) + 1 < strip->n_needed)
        return;
    __threadfence(); /* ... and the count before STEP */
    strip->n_arrived[iteration % 2] = 0;
    AMPI_GPU_Send(NULL, 0, message->rank, STEP, message->device);
}

/* The border rows that an iteration reads are there, and this rank does not read its neighbors' rows of the iteration before any more: tells the neighbors.
 * By one thread. */
static __device__ void announce(struct strip *strip, int iteration, const AMPI_GPU_Message *message)
{
    const float *field = strip->field[iteration % 2];

    for (int side = UP; side <= DOWN; side++) {
        struct halo halo = {side == UP ? field : field + (size_t)(strip->n_rows - 1) * strip->nx, iteration, 1 - side};
        if (strip->neighbors[side] != MPI_PROC_NULL)
            AMPI_GPU_Send(&halo, sizeof halo, strip->neighbors[side], HALO, message->device);
    }
}

static __device__ void begin(const AMPI_GPU_Message *message)
{
    struct strip *strip = (struct strip *)message->argument;

    if (threadIdx.x != 0)
        return;
    strip->begin_ns = now_ns();
    announce(strip, strip->iteration, message);
    arrive(strip, strip->iteration, message);
}

static __device__ void take_halo(const AMPI_GPU_Message *message)
{
    struct strip *strip = (struct strip *)message->argument;
    const struct halo *halo = (const struct halo *)message->data;

    if (threadIdx.x != 0)
        return;
    strip->rows[halo->iteration % 2][halo->side] = halo->row;
    arrive(strip, halo->iteration, message);
}

/* True for thread 0 of the block that is the last of n_blocks to come here with this counter: it sees what all of them have written. */
static __device__ bool is_last(unsigned *counter, int n_blocks)
{
    bool is = false;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); /* the block's rows before the count ... */
        is = atomicAdd(counter, 1) + 1 == (unsigned)n_blocks;
        if (is) {
            *counter = 0;
            __threadfence(); /* ... and the count before the message about them */
        }
    }
    return is;
}

static __device__ void step(const AMPI_GPU_Message *message)
{
    struct strip *strip = (struct strip *)message->argument;
    int i = strip->iteration, now = i % 2;
    struct plate plate = {strip->field[1 - now], strip->field[now], strip->rows[now][UP], strip->rows[now][DOWN],
                          strip->nx, strip->n_rows};

    relax_border(&plate, message->block, message->n_blocks);
    if (is_last(&strip->n_borders, message->n_blocks) && i + 1 < strip->n_iterations)
        announce(strip, i + 1, message);
    relax_inside(&plate, message->block, message->n_blocks);
    if (!is_last(&strip->n_done, message->n_blocks))
        return;
    strip->iteration = i + 1;
    if (i + 1 < strip->n_iterations)
        arrive(strip, i + 1, message);
    else
        strip->end_ns = now_ns();
}

/* ---- The host ---- */

__global__ static void __launch_bounds__(THREADS, 2)
relax_strip(float *to, const float *from, const float *above, const float *below, int nx,
                                   int n_rows)
{
    struct plate plate = {to, from, above, below, nx, n_rows};

    relax_border(&plate, (int)blockIdx.x, (int)gridDim.x);
    relax_inside(&plate, (int)blockIdx.x, (int)gridDim.x);
}

static int rank, size;
static struct options {
    int nx = 8192, ny = 8192, n_iterations = 1000, n_warmup = 50, blocks = 0;
    bool is_host = false, has_graphs = false, checks = false;
} options;

static void read_options(int argc, char **argv)
{
    int n_sizes = 0;

    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (!strcmp(argv[i], "--host"))
            options.is_host = true;
        else if (!strcmp(argv[i], "--graph"))
            options.has_graphs = true;
        else if (!strcmp(argv[i], "--check"))
            options.checks = true;
        else if (!strcmp(argv[i], "--iterations") && has_value)
            options.n_iterations = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--warmup") && has_value)
            options.n_warmup = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--blocks") && has_value)
            options.blocks = atoi(argv[++i]);
        else if (atoi(argv[i]) > 0 && n_sizes++ < 2)
            (n_sizes == 1 ? options.nx : options.ny) = atoi(argv[i]);
        else if (rank == 0)
            fprintf(stderr, "jacobi2d_handlers: unknown option %s\n", argv[i]), MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (n_sizes == 1)
        options.ny = options.nx;
    if (options.nx % 4 != 0 || options.ny < size || options.n_iterations < 2 || options.n_warmup < 0) {
        fprintf(stderr, "jacobi2d_handlers: NX must be a multiple of 4, NY at least the number of ranks, and there are at least 2 iterations\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static int first_row(int of_rank)
{
    return (int)((long long)options.ny * of_rank / size);
}

static float *alloc_floats(size_t n, float value)
{
    std::vector<float> image(n, value);
    float *memory;

    CUDA(cudaMalloc(&memory, n * sizeof *memory));
    CUDA(cudaMemcpy(memory, image.data(), n * sizeof *memory, cudaMemcpyHostToDevice));
    return memory;
}

static struct strip make_strip(void)
{
    struct strip strip = {};

    strip.nx = options.nx;
    strip.n_rows = first_row(rank + 1) - first_row(rank);
    for (float *&field : strip.field)
        field = alloc_floats((size_t)strip.n_rows * strip.nx, COLD);
    strip.neighbors[UP] = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    strip.neighbors[DOWN] = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    strip.n_needed = 1 + (rank > 0) + (rank < size - 1);
    for (int now = 0; now < 2; now++) {
        strip.rows[now][UP] = alloc_floats((size_t)strip.nx, rank == 0 ? HOT : COLD);
        strip.rows[now][DOWN] = alloc_floats((size_t)strip.nx, COLD);
    }
    return strip;
}

/* Two per multiprocessor: all that the ranks of a GPU may have. */
static int most_blocks(void)
{
    int n_multiprocessors = 0, n_devices = 0, device = 0, n_near;

    CUDA(cudaGetDeviceCount(&n_devices));
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device));
    n_near = (size + n_devices - 1) / n_devices;
    return 2 * n_multiprocessors > n_near ? 2 * n_multiprocessors / n_near : 1;
}

/* Messages between handlers. Returns the time of an iteration on the GPU in us, and the time of all, by the host. */
static double run_handlers(struct strip *strip, double *total_out)
{
    AMPI_GPU_Handlers handlers;
    struct strip *shared;
    double us = 0, begin_s;
    char text[16];
    MPI_Info info;

    CUDA(cudaMalloc(&shared, sizeof *shared));
    MPI_Info_create(&info);
    snprintf(text, sizeof text, "%d", THREADS);
    MPI_Info_set(info, "threads", text);
    snprintf(text, sizeof text, "%d", options.blocks > 0 ? options.blocks : most_blocks());
    MPI_Info_set(info, "blocks", text);
    AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &handlers);
    MPI_Info_free(&info);
    AMPI_GPU_Register_handler<begin>(BEGIN, AMPI_GPU_BY_BLOCK, shared, handlers);
    AMPI_GPU_Register_handler<take_halo>(HALO, AMPI_GPU_BY_BLOCK, shared, handlers);
    AMPI_GPU_Register_handler<step>(STEP, AMPI_GPU_BY_GRID, shared, handlers);
    AMPI_GPU_Handlers_start(handlers);
    for (int part = options.n_warmup ? 0 : 1; part < 2; part++) {
        int n = part == 0 ? options.n_warmup : options.n_iterations;
        strip->n_iterations = strip->iteration + n;
        CUDA(cudaMemcpy(shared, strip, sizeof *strip, cudaMemcpyHostToDevice));
        MPI_Barrier(MPI_COMM_WORLD);
        begin_s = MPI_Wtime();
        AMPI_GPU_Send(NULL, 0, rank, BEGIN, handlers);
        AMPI_GPU_Handlers_wait(handlers);
        *total_out = (MPI_Wtime() - begin_s) * 1e6 / n;
        CUDA(cudaMemcpy(strip, shared, sizeof *strip, cudaMemcpyDeviceToHost));
        us = (double)(strip->end_ns - strip->begin_ns) / 1000 / n;
    }
    AMPI_GPU_Handlers_free(&handlers);
    CUDA(cudaFree(shared));
    return us;
}

static void exchange(const struct strip *strip, int now)
{
    const float *field = strip->field[now];
    const float *last = field + (size_t)(strip->n_rows - 1) * strip->nx;

    MPI_Sendrecv(field, strip->nx, MPI_FLOAT, strip->neighbors[UP], 0, (float *)strip->rows[now][DOWN], strip->nx,
                 MPI_FLOAT, strip->neighbors[DOWN], 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, strip->nx, MPI_FLOAT, strip->neighbors[DOWN], 1, (float *)strip->rows[now][UP], strip->nx,
                 MPI_FLOAT, strip->neighbors[UP], 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Blocks of the host's kernel. */
static int host_blocks(void)
{
    int n_multiprocessors = 0, device = 0;

    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device));
    return options.blocks > 0 ? options.blocks : 2 * n_multiprocessors;
}

static void launch(const struct strip *strip, int now, int n_blocks, cudaStream_t stream)
{
    relax_strip<<<n_blocks, THREADS, 0, stream>>>(strip->field[1 - now], strip->field[now], strip->rows[now][UP],
                                                  strip->rows[now][DOWN], strip->nx, strip->n_rows);
    CUDA(cudaGetLastError());
}

static double run_host(struct strip *strip, double *total_out)
{
    int n_blocks = host_blocks();
    cudaStream_t stream;
    double begin_s = 0;

    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = -options.n_warmup; i < options.n_iterations; i++) {
        int now = strip->iteration++ % 2;
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            begin_s = MPI_Wtime();
        }
        exchange(strip, now);
        launch(strip, now, n_blocks, stream);
        CUDA(cudaStreamSynchronize(stream));
    }
    CUDA(cudaStreamDestroy(stream));
    return *total_out = (MPI_Wtime() - begin_s) * 1e6 / options.n_iterations;
}

/* ---- An iteration as a CUDA graph ---- */

enum { LAUNCHES_AHEAD = 32 }; /* a full stream would block the PE */

static void exchange_in_stream(const struct strip *strip, int now, MPI_Comm comm)
{
    const float *border[2] = {strip->field[now], strip->field[now] + (size_t)(strip->n_rows - 1) * strip->nx};
    MPI_Request requests[4];
    int n = 0;

    for (int side = UP; side <= DOWN; side++) {
        if (strip->neighbors[side] == MPI_PROC_NULL)
            continue;
        MPIX_Irecv_enqueue((float *)strip->rows[now][side], strip->nx, MPI_FLOAT, strip->neighbors[side], 1 - side, comm,
                           &requests[n++]);
        MPIX_Isend_enqueue(border[side], strip->nx, MPI_FLOAT, strip->neighbors[side], side, comm, &requests[n++]);
    }
    if (n > 0)
        MPIX_Waitall_enqueue(n, requests, MPI_STATUSES_IGNORE);
}

static void make_graphs(const struct strip *strip, cudaGraphExec_t graphs[2], cudaStream_t stream, MPI_Comm comm)
{
    cudaFuncAttributes unused; /* loads the kernel, which must not happen while a graph waits for this rank */

    CUDA(cudaFuncGetAttributes(&unused, relax_strip));
    for (int now = 0; now < 2; now++) {
        cudaGraph_t graph;
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        exchange_in_stream(strip, now, comm);
        launch(strip, now, host_blocks(), stream);
        CUDA(cudaStreamEndCapture(stream, &graph));
        CUDA(cudaGraphInstantiateWithFlags(&graphs[now], graph, 0));
        CUDA(cudaGraphDestroy(graph));
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all graphs are there before the first launch */
}

/* Returns the time of all launches and of the wait for the last one, in us. */
static double launch_graphs(struct strip *strip, const cudaGraphExec_t graphs[2], cudaStream_t stream, int n)
{
    double begin_s = MPI_Wtime();

    for (int i = 0; i < n; i++) {
        CUDA(cudaGraphLaunch(graphs[strip->iteration++ % 2], stream));
        if (i % LAUNCHES_AHEAD == LAUNCHES_AHEAD - 1)
            CUDA(cudaStreamSynchronize(stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    return (MPI_Wtime() - begin_s) * 1e6;
}

static double run_graphs(struct strip *strip, double *total_out)
{
    cudaGraphExec_t graphs[2];
    MPIX_Stream mpi_stream;
    cudaStream_t stream;
    MPI_Comm comm;
    MPI_Info info;

    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &mpi_stream);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm);
    make_graphs(strip, graphs, stream, comm);
    launch_graphs(strip, graphs, stream, options.n_warmup);
    MPI_Barrier(MPI_COMM_WORLD);
    *total_out = launch_graphs(strip, graphs, stream, options.n_iterations) / options.n_iterations;
    MPI_Barrier(MPI_COMM_WORLD); /* no rank's graph waits for messages any more */
    for (cudaGraphExec_t graph : graphs)
        CUDA(cudaGraphExecDestroy(graph));
    MPI_Comm_free(&comm);
    MPIX_Stream_free(&mpi_stream);
    CUDA(cudaStreamDestroy(stream));
    return *total_out;
}

/* Rank 0 does all on the CPU. Each point must be the same, bit by bit. */
static void check(const struct strip *strip)
{
    size_t nx = (size_t)options.nx, ny = (size_t)options.ny;
    std::vector<float> mine((size_t)strip->n_rows * nx), field[2], all;
    std::vector<int> counts((size_t)size), displs((size_t)size);
    int n_iterations = options.n_warmup + options.n_iterations;

    CUDA(cudaMemcpy(mine.data(), strip->field[strip->iteration % 2], mine.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < size; i++) {
        counts[(size_t)i] = (first_row(i + 1) - first_row(i)) * options.nx;
        displs[(size_t)i] = first_row(i) * options.nx;
    }
    all.resize(rank == 0 ? nx * ny : 0);
    MPI_Gatherv(mine.data(), (int)mine.size(), MPI_FLOAT, all.data(), counts.data(), displs.data(), MPI_FLOAT, 0,
                MPI_COMM_WORLD);
    if (rank != 0)
        return;
    for (auto &one : field)
        one.assign((nx + 2) * (ny + 2), COLD);
    for (auto &one : field)
        for (size_t x = 1; x <= nx; x++)
            one[x] = HOT;
    for (int i = 0; i < n_iterations; i++)
        for (size_t y = 1; y <= ny; y++)
            for (size_t x = 1; x <= nx; x++) {
                const float *at = &field[i % 2][y * (nx + 2) + x];
                field[1 - i % 2][y * (nx + 2) + x] = (at[-1] + at[1] + at[-(long)(nx + 2)] + at[nx + 2]) * 0.25f;
            }
    for (size_t y = 0; y < ny; y++)
        if (memcmp(&field[n_iterations % 2][(y + 1) * (nx + 2) + 1], &all[y * nx], nx * sizeof(float)) != 0) {
            fprintf(stderr, "FAIL: row %zu is not the CPU's\n", y);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    printf("check: all points are those of the CPU\n");
}

int main(int argc, char **argv)
{
    double us, total, worst[2], mine[2];
    struct strip strip;
    int n_devices = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    read_options(argc, argv);
    CUDA(cudaGetDeviceCount(&n_devices));
    CUDA(cudaSetDevice((int)((long long)rank * n_devices / size)));
    strip = make_strip();
    MPI_Barrier(MPI_COMM_WORLD);
    us = options.is_host      ? run_host(&strip, &total)
         : options.has_graphs ? run_graphs(&strip, &total)
                              : run_handlers(&strip, &total);
    mine[0] = us;
    mine[1] = total;
    MPI_Reduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ranks %d size %d x %d mode %s us_per_iteration %.2f with_start_and_end %.2f\n", size, options.nx,
               options.ny, options.is_host ? "host" : options.has_graphs ? "graph" : "handlers", worst[0], worst[1]);
    if (options.checks)
        check(&strip);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
