/* SPDX-License-Identifier: BSD-3-Clause */
/* Cholesky factorization of a matrix in tiles, block-cyclic over a grid of ranks: each step of a tile is a work request. See README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work_cholesky.h"

static int rank, n_ranks, n_tiles = 8, size = 64,
                          is_checked; /* n_tiles x n_tiles tiles of size x size numbers */
static int grid[2], my_row, my_col;   /* the ranks' grid, and this rank's place in it */
static MPI_Comm row_comm, col_comm;   /* ordered by column, by row */
static double **tiles;                /* those of this rank: tiles[i * n_tiles + j], i >= j */
static double **panels[2];            /* copies of the step's column, for even and odd steps */
static MPI_Request *updates[2];       /* the requests that use them */
static int n_updates[2];
static AMPI_GPU_Work works[N_KINDS];

/* ---- The work on the CPU ---- */

static void factor(const void *args, const struct AMPI_GPU_Work_block *at)
{
    long n = ((const struct tile *)args)->size;
    double *a = at->buffers[0];

    for (long k = 0; k < n; k++) {
        a[k + k * n] = sqrt(a[k + k * n]);
        for (long i = k + 1; i < n; i++)
            a[i + k * n] /= a[k + k * n];
        for (long j = k + 1; j < n; j++)
            for (long i = j; i < n; i++)
                a[i + j * n] -= a[i + k * n] * a[j + k * n];
    }
}

static void solve(const void *args, const struct AMPI_GPU_Work_block *at)
{
    long n = ((const struct tile *)args)->size;
    const double *l = at->buffers[0];
    double *x = at->buffers[1];

    for (long j = 0; j < n; j++) {
        for (long k = 0; k < j; k++)
            for (long i = 0; i < n; i++)
                x[i + j * n] -= x[i + k * n] * l[j + k * n];
        for (long i = 0; i < n; i++)
            x[i + j * n] /= l[j + j * n];
    }
}

static void update(const void *args, const struct AMPI_GPU_Work_block *at)
{
    long n = ((const struct tile *)args)->size;
    const double *a = at->buffers[0], *b = at->buffers[1];
    double *c = at->buffers[2];

    for (long j = 0; j < n; j++)
        for (long k = 0; k < n; k++)
            for (long i = 0; i < n; i++)
                c[i + j * n] -= a[i + k * n] * b[j + k * n];
}

#ifdef WITHOUT_GPU
void register_kinds(AMPI_GPU_Work_cpu_fn *const cpu[N_KINDS], AMPI_GPU_Work made[N_KINDS])
{
    static const char *const names[] = {"factor", "solve", "update"};

    for (int i = 0; i < N_KINDS; i++)
        AMPI_GPU_Work_register(names[i], NULL, 256, sizeof(struct tile), cpu[i], &made[i]);
}

int blocks_of(enum kind kind, int n)
{
    return kind == FACTOR ? 1 : n;
}
#endif

/* The last buffer is written. */
static void submit(enum kind kind, double *const buffers[], MPI_Request *request)
{
    struct AMPI_GPU_Work_buffer described[3];
    struct tile args = {size};

    for (int i = 0; i <= (int)kind; i++)
        described[i] =
            (struct AMPI_GPU_Work_buffer){buffers[i], (MPI_Count)size * size, MPI_DOUBLE,
                                          i == (int)kind ? AMPI_GPU_WORK_READWRITE : AMPI_GPU_WORK_READ};
    AMPI_GPU_Work_submit(works[kind], blocks_of(kind, size), &args, (int)kind + 1, described, request);
}

/* ---- The matrix ---- */

/* Positive definite: the diagonal is larger than the sum of its row. */
static double value_of(long i, long j)
{
    long low = i < j ? i : j, high = i < j ? j : i;

    return i == j ? (double)n_tiles * size : (double)((low * 7919 + high * 104729) % 1000) / 1000 - 0.5;
}

static double *make_tile(void)
{
    double *made = malloc((size_t)size * (size_t)size * sizeof *made);

    if (!made)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return made;
}

static int is_mine(int i, int j)
{
    return i % grid[0] == my_row && j % grid[1] == my_col;
}

static void fill(double *tile, int row, int col)
{
    for (long j = 0; j < size; j++)
        for (long i = 0; i < size; i++)
            tile[i + j * size] = value_of((long)row * size + i, (long)col * size + j);
}

/* ---- Step k ---- */

/* Where this rank has or gets tile i of the step's column. */
static double *place_of(int i, int k)
{
    double **panel = panels[k % 2];

    if (is_mine(i, k))
        return tiles[i * n_tiles + k];
    if (!panel[i])
        panel[i] = make_tile();
    return panel[i];
}

/* Factors the diagonal tile, and finishes the column below it at the ranks that have it. */
static void do_column(int k)
{
    MPI_Request *requests = malloc((size_t)n_tiles * sizeof *requests);
    double *diagonal = my_col == k % grid[1] ? place_of(k, k) : NULL;
    int n = 0;

    if (is_mine(k, k)) {
        submit(FACTOR, &diagonal, requests);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    if (diagonal)
        MPI_Bcast(diagonal, size * size, MPI_DOUBLE, k % grid[0], col_comm);
    for (int i = k + 1; i < n_tiles; i++)
        if (is_mine(i, k))
            submit(SOLVE, (double *[]){diagonal, tiles[i * n_tiles + k]}, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

/* Tile (i, k) goes to the ranks of row i, and from the one of them in column i to that column. */
static void spread_column(int k)
{
    MPI_Request *requests = malloc((size_t)n_tiles * sizeof *requests);
    int n = 0;

    for (int i = k + 1; i < n_tiles; i++)
        if (i % grid[0] == my_row)
            MPI_Ibcast(place_of(i, k), size * size, MPI_DOUBLE, k % grid[1], row_comm, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    n = 0;
    for (int i = k + 1; i < n_tiles; i++)
        if (i % grid[1] == my_col)
            MPI_Ibcast(place_of(i, k), size * size, MPI_DOUBLE, i % grid[0], col_comm, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

/* The next column comes first: its step begins while the others are still updated. */
static void update_rest(int k)
{
    for (int j = k + 1; j < n_tiles; j++)
        for (int i = j; i < n_tiles; i++)
            if (is_mine(i, j))
                submit(UPDATE, (double *[]){place_of(i, k), place_of(j, k), tiles[i * n_tiles + j]},
                       &updates[k % 2][n_updates[k % 2]++]);
}

static double factorize(void)
{
    double began, seconds;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int k = 0; k < n_tiles; k++) {
        MPI_Waitall(n_updates[k % 2], updates[k % 2], MPI_STATUSES_IGNORE);
        n_updates[k % 2] = 0;
        do_column(k);
        spread_column(k);
        update_rest(k);
    }
    AMPI_GPU_Work_wait_all();
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime() - began;
    for (int i = 0; i < 2; i++)
        MPI_Waitall(n_updates[i], updates[i], MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD); /* the check of another rank comes after that */
    return seconds;
}

/* ---- The check: L (L' x) is A x ---- */

static double error_of(void)
{
    int n = n_tiles * size;
    double *middle = calloc((size_t)n, sizeof *middle), *result = calloc((size_t)n, sizeof *result), most = 0;

    for (int at = 0; at < n_tiles * n_tiles; at++)
        for (long j = 0; tiles[at] && j < size; j++)
            for (long i = at / n_tiles == at % n_tiles ? j : 0; i < size; i++) /* x = 1, 2, 3, 1, ... */
                middle[at % n_tiles * size + j] +=
                    tiles[at][i + j * size] * (double)((at / n_tiles * size + i) % 3 + 1);
    MPI_Allreduce(MPI_IN_PLACE, middle, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < n_tiles * n_tiles; at++)
        for (long j = 0; tiles[at] && j < size; j++)
            for (long i = at / n_tiles == at % n_tiles ? j : 0; i < size; i++)
                result[at / n_tiles * size + i] += tiles[at][i + j * size] * middle[at % n_tiles * size + j];
    MPI_Allreduce(MPI_IN_PLACE, result, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (long i = rank; i < n; i += n_ranks) {
        double expected = 0;
        for (long j = 0; j < n; j++)
            expected += value_of(i, j) * (double)(j % 3 + 1);
        most = fmax(most, fabs(result[i] - expected) / fabs(expected));
    }
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    free(middle);
    free(result);
    return most;
}

/* ---- */

static void begin(int argc, char **argv)
{
    int *values[] = {&n_tiles, &size}, n_values = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--check") == 0)
            is_checked = 1;
        else if (n_values < 2)
            *values[n_values++] = atoi(argv[i]);
    MPI_Dims_create(n_ranks, 2, grid);
    my_row = rank / grid[1];
    my_col = rank % grid[1];
    MPI_Comm_split(MPI_COMM_WORLD, my_row, my_col, &row_comm);
    MPI_Comm_split(MPI_COMM_WORLD, my_col, my_row, &col_comm);
    tiles = calloc((size_t)n_tiles * (size_t)n_tiles, sizeof(double *));
    for (int i = 0; i < 2; i++) {
        panels[i] = calloc((size_t)n_tiles, sizeof(double *));
        updates[i] = malloc((size_t)n_tiles * (size_t)n_tiles * sizeof(MPI_Request));
    }
    for (int at = 0; at < n_tiles * n_tiles; at++)
        if (at / n_tiles >= at % n_tiles && is_mine(at / n_tiles, at % n_tiles))
            fill(tiles[at] = make_tile(), at / n_tiles, at % n_tiles);
}

static void free_tiles(double **list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i])
            AMPI_GPU_Work_invalidate(list[i], (MPI_Count)size * size * (MPI_Count)sizeof(double));
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

int main(int argc, char **argv)
{
    double seconds, error = 0, n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    begin(argc, argv);
    n = (double)n_tiles * size;
    register_kinds((AMPI_GPU_Work_cpu_fn *[]){factor, solve, update}, works);
    seconds = factorize();
    for (int at = 0; at < n_tiles * n_tiles; at++)
        if (tiles[at])
            AMPI_GPU_Work_sync(tiles[at], (MPI_Count)size * size * (MPI_Count)sizeof(double));
    if (is_checked)
        error = error_of();
    if (rank == 0)
        printf("ranks %d tiles %d x %d of %d x %d ms %.2f gflops %.2f%s\n", n_ranks, n_tiles, n_tiles, size,
               size, seconds * 1e3, n * n * n / 3 / seconds * 1e-9,
               !is_checked     ? ""
               : error > 1e-10 ? " WRONG"
                               : " checked");
    free_tiles(tiles, n_tiles * n_tiles);
    for (int i = 0; i < 2; i++) {
        free_tiles(panels[i], n_tiles);
        free(updates[i]);
    }
    for (int i = 0; i < N_KINDS; i++)
        AMPI_GPU_Work_free(&works[i]);
    MPI_Finalize();
    return error > 1e-10;
}
