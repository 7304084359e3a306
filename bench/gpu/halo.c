/* SPDX-License-Identifier: BSD-3-Clause
 *
 * halo: the six faces of a box of doubles per rank, described by subarrays, exchanged with the neighbors of a
 * periodic grid of ranks: us per exchange, the slowest rank's.
 *
 * usage: halo [-B host|GPUS] [-e EDGE] [-t SECONDS]
 * default: host, boxes of 96^3 points, 0.2 s per way
 * prints: halo.nonblocking, halo.persistent, halo.neighbor value us; halo.bytes: of all faces of a rank
 */
#include <mpi.h>

#include "../bench_buffer.h"

#define FACES 6

struct halo {
    MPI_Comm grid;
    unsigned char *box;
    int neighbors[FACES];
    MPI_Datatype sends[FACES], receives[FACES]; /* face f: direction f / 2; at its upper end if f is odd */
    MPI_Request requests[2 * FACES];            /* persistent */
};

/* The outermost points of a face of the box, or the halo next to it. */
static MPI_Datatype make_face(int edge, int face, int is_halo)
{
    int sizes[3] = {edge + 2, edge + 2, edge + 2}, subsizes[3] = {edge, edge, edge}, starts[3] = {1, 1, 1};
    MPI_Datatype type;

    subsizes[face / 2] = 1;
    starts[face / 2] = face % 2 ? edge + is_halo : 1 - is_halo;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static double exchange_nonblocking(void *ctx, long iterations)
{
    struct halo *halo = ctx;
    double begin = bench_now();

    for (long i = 0; i < iterations; i++) {
        MPI_Request requests[2 * FACES];
        for (int f = 0; f < FACES; f++)
            MPI_Irecv(halo->box, 1, halo->receives[f], halo->neighbors[f], f ^ 1, halo->grid, &requests[f]);
        for (int f = 0; f < FACES; f++)
            MPI_Isend(halo->box, 1, halo->sends[f], halo->neighbors[f], f, halo->grid, &requests[FACES + f]);
        MPI_Waitall(2 * FACES, requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - begin;
}

static double exchange_persistent(void *ctx, long iterations)
{
    struct halo *halo = ctx;
    double begin = bench_now();

    for (long i = 0; i < iterations; i++) {
        MPI_Startall(2 * FACES, halo->requests);
        MPI_Waitall(2 * FACES, halo->requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - begin;
}

static double exchange_collective(void *ctx, long iterations)
{
    static const int counts[FACES] = {1, 1, 1, 1, 1, 1};
    static const MPI_Aint displs[FACES];
    struct halo *halo = ctx;
    double begin = bench_now();

    for (long i = 0; i < iterations; i++)
        MPI_Neighbor_alltoallw(halo->box, counts, displs, halo->sends, halo->box, counts, displs,
                               halo->receives, halo->grid);
    return bench_now() - begin;
}

static void make_halo(struct halo *halo, int edge)
{
    int dims[3] = {0}, periods[3] = {1, 1, 1};

    MPI_Dims_create(bench_comm_size(), 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &halo->grid);
    for (int d = 0; d < 3; d++)
        MPI_Cart_shift(halo->grid, d, 1, &halo->neighbors[2 * d], &halo->neighbors[2 * d + 1]);
    for (int f = 0; f < FACES; f++) {
        halo->sends[f] = make_face(edge, f, 0);
        halo->receives[f] = make_face(edge, f, 1);
        MPI_Recv_init(halo->box, 1, halo->receives[f], halo->neighbors[f], f ^ 1, halo->grid,
                      &halo->requests[f]);
        MPI_Send_init(halo->box, 1, halo->sends[f], halo->neighbors[f], f, halo->grid,
                      &halo->requests[FACES + f]);
    }
}

static void free_halo(struct halo *halo)
{
    for (int f = 0; f < 2 * FACES; f++)
        MPI_Request_free(&halo->requests[f]);
    for (int f = 0; f < FACES; f++) {
        MPI_Type_free(&halo->sends[f]);
        MPI_Type_free(&halo->receives[f]);
    }
    MPI_Comm_free(&halo->grid);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *key;
        bench_body_fn body;
    } ways[] = {{"halo.nonblocking", exchange_nonblocking},
                {"halo.persistent", exchange_persistent},
                {"halo.neighbor", exchange_collective}};
    struct bench_buffers buffers;
    struct halo halo;
    size_t n_bytes;
    double seconds;
    int edge;

    MPI_Init(&argc, &argv);
    buffers = bench_buffers_init(argc, argv);
    edge = (int)bench_option_long(argc, argv, "-e", 96);
    seconds = bench_option_double(argc, argv, "-t", 0.2);
    n_bytes = (size_t)(edge + 2) * (size_t)(edge + 2) * (size_t)(edge + 2) * sizeof(double);
    halo.box = bench_buffer_alloc(&buffers, n_bytes, 1);
    make_halo(&halo, edge);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct bench_stats stats = bench_sample(ways[i].body, &halo, seconds, BENCH_MAX);
        if (bench_comm_rank() == 0)
            bench_print_time(ways[i].key, stats, 1e6, "us");
    }
    if (bench_comm_rank() == 0)
        printf("halo.bytes %zu B\n", FACES * (size_t)edge * (size_t)edge * sizeof(double));
    free_halo(&halo);
    bench_buffer_free(&buffers, halo.box);
    MPI_Finalize();
    return 0;
}
