/* SPDX-License-Identifier: BSD-3-Clause */
/* Jacobi iterations on a plate in tiles of rows, many per rank: each is a work request. See README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work_jacobi.h"

static int rank, n_ranks, n_tiles = 16, n_rows = 64, n_cols = 1024, n_iterations = 100, is_checked;
static int n_own; /* rows of a rank */
static AMPI_GPU_Work work;

static void do_tile(const void *args, const struct AMPI_GPU_Work_block *at)
{
    do_points(args, at->buffers, 0, 1);
}

#ifdef WITHOUT_GPU
int register_tiles(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *made)
{
    return AMPI_GPU_Work_register("work_jacobi", NULL, 256, sizeof(struct tile), cpu, made);
}
#endif

/* A row of the rank's plate; -1 and n_own are copies of the neighbors'. */
static float *row_of(float *plate, int row)
{
    return plate + (size_t)(row + 1) * (size_t)n_cols;
}

/* The first values: any, but the same for every number of ranks. */
static void fill(float *plate, int first, int n)
{
    for (int row = -1; row <= n; row++)
        for (int col = 0; col < n_cols; col++)
            row_of(plate, row)[col] = (float)(((long)(row + first + 1) * 31 + col * 17) % 1000);
}

/* The neighbors' rows. Heddle brings the rows that are sent from the GPU, and the received ones are taken there at their next use. */
static void exchange(float *plate)
{
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < n_ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];

    MPI_Irecv(row_of(plate, -1), n_cols, MPI_FLOAT, up, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(row_of(plate, n_own), n_cols, MPI_FLOAT, down, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(row_of(plate, 0), n_cols, MPI_FLOAT, up, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(row_of(plate, n_own - 1), n_cols, MPI_FLOAT, down, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void iterate(float *old, float *new, MPI_Request *requests)
{
    struct tile tile = {n_rows, n_cols};
    int n_blocks = (int)((long)n_rows * n_cols / 1024) + 1;

    for (int i = 0; i < n_tiles; i++) {
        MPI_Count n = (MPI_Count)n_rows * n_cols;
        struct AMPI_GPU_Work_buffer buffers[] = {
            {row_of(old, i * n_rows - 1), n_cols, MPI_FLOAT, AMPI_GPU_WORK_READ},
            {row_of(old, i * n_rows), n, MPI_FLOAT, AMPI_GPU_WORK_READ},
            {row_of(old, (i + 1) * n_rows), n_cols, MPI_FLOAT, AMPI_GPU_WORK_READ},
            {row_of(new, i * n_rows), n, MPI_FLOAT, AMPI_GPU_WORK_WRITE},
        };
        AMPI_GPU_Work_submit(work, n_blocks, &tile, 4, buffers, &requests[i]);
    }
    MPI_Waitall(n_tiles, requests, MPI_STATUSES_IGNORE);
}

/* The whole plate on the CPU: the number of this rank's points that differ. */
static long check(float *result)
{
    int n_all = n_own * n_ranks;
    struct tile all = {n_all, n_cols};
    size_t n_bytes = (size_t)(n_all + 2) * (size_t)n_cols * sizeof(float);
    float *plates[2] = {malloc(n_bytes), malloc(n_bytes)};
    long n_wrong = 0;

    fill(plates[0], 0, n_all);
    fill(plates[1], 0, n_all);
    for (int i = 0; i < n_iterations; i++) {
        float *old = plates[i % 2], *new = plates[(i + 1) % 2];
        void *buffers[] = {row_of(old, -1), row_of(old, 0), row_of(old, n_all), row_of(new, 0)};
        do_points(&all, buffers, 0, 1);
    }
    for (long i = 0; i < (long)n_own * n_cols; i++)
        n_wrong += row_of(result, 0)[i] != row_of(plates[n_iterations % 2], rank * n_own)[i];
    free(plates[0]);
    free(plates[1]);
    return n_wrong;
}

static void read_arguments(int argc, char **argv)
{
    int *values[] = {&n_tiles, &n_rows, &n_cols, &n_iterations}, n_values = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--check") == 0)
            is_checked = 1;
        else if (n_values < 4)
            *values[n_values++] = atoi(argv[i]);
    n_own = n_tiles * n_rows;
}

/* The time of an iteration, in us. */
static double run(float **plates)
{
    MPI_Request *requests = malloc((size_t)n_tiles * sizeof *requests);
    double began, us;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < n_iterations; i++) {
        iterate(plates[i % 2], plates[(i + 1) % 2], requests);
        exchange(plates[(i + 1) % 2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    us = (MPI_Wtime() - began) / n_iterations * 1e6;
    MPI_Barrier(MPI_COMM_WORLD); /* the check of another rank comes after that */
    free(requests);
    return us;
}

int main(int argc, char **argv)
{
    long n_wrong = 0, n_all_wrong = 0;
    MPI_Count n_bytes;
    float *plates[2];
    double us;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    read_arguments(argc, argv);
    n_bytes = (MPI_Count)(n_own + 2) * n_cols * (MPI_Count)sizeof(float);
    for (int i = 0; i < 2; i++)
        fill(plates[i] = malloc((size_t)n_bytes), rank * n_own, n_own);
    register_tiles(do_tile, &work);
    us = run(plates);
    AMPI_GPU_Work_sync(plates[n_iterations % 2], n_bytes);
    if (is_checked)
        n_wrong = check(plates[n_iterations % 2]);
    MPI_Reduce(&n_wrong, &n_all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ranks %d tiles %d of %d x %d us_per_iteration %.1f%s\n", n_ranks, n_tiles * n_ranks, n_rows,
               n_cols, us,
               !is_checked   ? ""
               : n_all_wrong ? " WRONG"
                             : " checked");
    for (int i = 0; i < 2; i++) {
        AMPI_GPU_Work_invalidate(plates[i], n_bytes);
        free(plates[i]);
    }
    AMPI_GPU_Work_free(&work);
    MPI_Finalize();
    return n_all_wrong != 0;
}
