/* SPDX-License-Identifier: BSD-3-Clause */
/* Molecular dynamics in a plane of patches, rows of them per rank: a patch's step is a work request. See README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work_md.h"

#define EDGE 6       /* atoms along the edge of a patch at the start */
#define SPACING 1.15 /* between them */
#define MOVE_STEPS \
    20 /* after so many steps atoms go to the patches they are in: they may have left theirs by less than
                          a patch's size less CUTOFF */
#define LEAVING_MAX 4096 /* atoms that go to a neighbor at once */

static int rank, n_ranks, n_rows = 4, n_cols = 8, n_steps = 100, is_checked; /* rows of a rank */
static const double size = EDGE * SPACING;                                   /* of a patch */
static struct plane plane;
static struct places *plates[2]; /* rows -1 to n_rows: the first and last are copies of the neighbors' */
static struct speeds *speeds;    /* rows 0 to n_rows - 1 */
static AMPI_GPU_Work work;

struct atom {
    double place[2];
    double speed[2];
    int id;
};

static void do_patch(const void *args, const struct AMPI_GPU_Work_block *at)
{
    do_atoms(args, at->buffers, 0, 1);
}

#ifdef WITHOUT_GPU
int register_patches(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *made)
{
    return AMPI_GPU_Work_register("work_md", NULL, ATOMS_MAX, sizeof(struct plane), cpu, made);
}
#endif

static void fail(const char *why)
{
    fprintf(stderr, "work_md: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct places *patch_of(struct places *plate, int row, int col)
{
    return plate + (size_t)(row + 1) * (size_t)n_cols + (col + n_cols) % n_cols;
}

/* ---- Steps ---- */

/* The neighbors' rows. Heddle brings the rows that are sent from the GPU, and the received ones are taken there at their next use. */
static void exchange(struct places *plate)
{
    int up = (rank + n_ranks - 1) % n_ranks, down = (rank + 1) % n_ranks;
    int n_bytes = n_cols * (int)sizeof *plate;
    MPI_Request requests[4];

    MPI_Irecv(patch_of(plate, -1, 0), n_bytes, MPI_BYTE, up, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(patch_of(plate, n_rows, 0), n_bytes, MPI_BYTE, down, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(patch_of(plate, 0, 0), n_bytes, MPI_BYTE, up, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(patch_of(plate, n_rows - 1, 0), n_bytes, MPI_BYTE, down, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void step(struct places *old, struct places *new, MPI_Request *requests)
{
    for (int at = 0; at < n_rows * n_cols; at++) {
        struct AMPI_GPU_Work_buffer buffers[AROUND + 2];
        int row = at / n_cols, col = at % n_cols;
        for (int i = 0; i < AROUND; i++)
            buffers[i] = (struct AMPI_GPU_Work_buffer){patch_of(old, row + i / 3 - 1, col + i % 3 - 1),
                                                       sizeof *old, MPI_BYTE, AMPI_GPU_WORK_READ};
        buffers[AROUND] =
            (struct AMPI_GPU_Work_buffer){&speeds[at], sizeof *speeds, MPI_BYTE, AMPI_GPU_WORK_READWRITE};
        buffers[AROUND + 1] = (struct AMPI_GPU_Work_buffer){patch_of(new, row, col), sizeof *new, MPI_BYTE,
                                                            AMPI_GPU_WORK_WRITE};
        AMPI_GPU_Work_submit(work, 1, &plane, AROUND + 2, buffers, &requests[at]);
    }
    MPI_Waitall(n_rows * n_cols, requests, MPI_STATUSES_IGNORE);
}

/* ---- Atoms that leave their patch ---- */

static double wrapped(double place, double end)
{
    double left = fmod(place, end);

    return left < 0 ? left + end : left;
}

/* The row of an atom, counted from this rank's first: below n_rows, or in the other half if it belongs to the rank before. */
static int row_of(const struct atom *atom)
{
    return ((int)(atom->place[1] / size) - rank * n_rows + n_rows * n_ranks) % (n_rows * n_ranks);
}

static void add_atom(struct places *plate, const struct atom *atom)
{
    int row = row_of(atom), col = (int)(atom->place[0] / size) % n_cols;
    struct places *patch;
    struct speeds *speed;

    if (row >= n_rows)
        fail("an atom went too far");
    patch = patch_of(plate, row, col);
    speed = &speeds[row * n_cols + col];
    if (patch->n == ATOMS_MAX)
        fail("too many atoms in a patch");
    patch->ids[patch->n] = atom->id;
    patch->x[patch->n] = atom->place[0];
    patch->y[patch->n] = atom->place[1];
    speed->x[patch->n] = atom->speed[0];
    speed->y[patch->n++] = atom->speed[1];
}

/* Takes all atoms of this rank out. */
static int take_atoms(struct places *plate, struct atom *atoms)
{
    int n = 0;

    for (int at = 0; at < n_rows * n_cols; at++) {
        struct places *patch = patch_of(plate, 0, 0) + at;
        for (int i = 0; i < patch->n; i++)
            atoms[n++] =
                (struct atom){{wrapped(patch->x[i], plane.width), wrapped(patch->y[i], plane.height)},
                              {speeds[at].x[i], speeds[at].y[i]},
                              patch->ids[i]};
        patch->n = 0;
    }
    return n;
}

static void move_atoms(struct places *plate)
{
    static struct atom leaving[2][LEAVING_MAX],
        coming[LEAVING_MAX]; /* to the rank before, and to the next one */
    struct atom *atoms = malloc((size_t)n_rows * (size_t)n_cols * ATOMS_MAX * sizeof *atoms);
    MPI_Count plate_bytes = (MPI_Count)(n_rows + 2) * n_cols * (MPI_Count)sizeof *plate;
    MPI_Count speed_bytes = (MPI_Count)n_rows * n_cols * (MPI_Count)sizeof *speeds;
    int n, n_leaving[2] = {0, 0};

    AMPI_GPU_Work_sync(plate, plate_bytes);
    AMPI_GPU_Work_sync(speeds, speed_bytes);
    AMPI_GPU_Work_invalidate(plate, plate_bytes);
    AMPI_GPU_Work_invalidate(speeds, speed_bytes);
    n = take_atoms(plate, atoms);
    for (int i = 0; i < n; i++) {
        int row = row_of(&atoms[i]), to = row < n_rows + n_rows * (n_ranks - 1) / 2;
        if (row < n_rows)
            add_atom(plate, &atoms[i]);
        else if (n_leaving[to] == LEAVING_MAX)
            fail("too many atoms leave");
        else
            leaving[to][n_leaving[to]++] = atoms[i];
    }
    for (int to = 0; to < 2; to++) {
        int next = (rank + (to ? 1 : n_ranks - 1)) % n_ranks,
            before = (rank + (to ? n_ranks - 1 : 1)) % n_ranks, n_bytes;
        MPI_Status status;
        MPI_Sendrecv(leaving[to], n_leaving[to] * (int)sizeof **leaving, MPI_BYTE, next, 2, coming,
                     sizeof coming, MPI_BYTE, before, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &n_bytes);
        for (int i = 0; i < n_bytes / (int)sizeof *coming; i++)
            add_atom(plate, &coming[i]);
    }
    free(atoms);
}

/* The time of a step, in us. */
static double run(void)
{
    MPI_Request *requests = malloc((size_t)n_rows * (size_t)n_cols * sizeof *requests);
    double began, us;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < n_steps; i++) {
        if (i % MOVE_STEPS == 0)
            move_atoms(plates[i % 2]);
        exchange(plates[i % 2]);
        step(plates[i % 2], plates[(i + 1) % 2], requests);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    us = (MPI_Wtime() - began) / n_steps * 1e6;
    MPI_Barrier(MPI_COMM_WORLD); /* the check of another rank comes after that */
    free(requests);
    return us;
}

/* ---- The start, and the check ---- */

/* A square grid of atoms with different speeds. Those at the edges of patches soon leave them. */
static struct atom atom_at(int id)
{
    int per_row = n_cols * EDGE;

    return (struct atom){{(id % per_row + 0.02) * SPACING, ((double)(id / per_row) + 0.02) * SPACING},
                         {(id * 7919L % 1000) / 500.0 - 1, (id * 104729L % 1000) / 500.0 - 1},
                         id};
}

/* All atoms on the CPU, each with each. */
static void do_all(struct atom *atoms, int n)
{
    double *forces = malloc((size_t)n * 2 * sizeof *forces);

    for (int k = 0; k < n_steps; k++) {
        memset(forces, 0, (size_t)n * 2 * sizeof *forces);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                add_force(shortest(atoms[i].place[0] - atoms[j].place[0], plane.width),
                          shortest(atoms[i].place[1] - atoms[j].place[1], plane.height), &forces[2 * i],
                          &forces[2 * i + 1]);
        for (int i = 0; i < n; i++)
            for (int d = 0; d < 2; d++) {
                atoms[i].speed[d] += forces[2 * i + d] * TIME_STEP;
                atoms[i].place[d] += atoms[i].speed[d] * TIME_STEP;
                atoms[i].place[d] = wrapped(atoms[i].place[d], d == 0 ? plane.width : plane.height);
            }
    }
    free(forces);
}

/* The number of this rank's atoms that are elsewhere in an independent computation; more if some are missing. */
static long check(struct places *plate)
{
    int n_all = n_rows * n_ranks * n_cols * EDGE * EDGE, n;
    struct atom *all = malloc((size_t)n_all * sizeof *all);
    struct atom *own = malloc((size_t)n_rows * (size_t)n_cols * ATOMS_MAX * sizeof *own);
    long n_wrong = 0, n_found;

    for (int id = 0; id < n_all; id++)
        all[id] = atom_at(id);
    if (rank == 0)
        do_all(all, n_all);
    MPI_Bcast(all, n_all * (int)sizeof *all, MPI_BYTE, 0, MPI_COMM_WORLD);
    n_found = n = take_atoms(plate, own);
    for (int i = 0; i < n; i++) {
        const struct atom *expected = &all[own[i].id];
        n_wrong += !(fabs(shortest(own[i].place[0] - expected->place[0], plane.width)) < 1e-6 &&
                     fabs(shortest(own[i].place[1] - expected->place[1], plane.height)) < 1e-6);
    }
    MPI_Allreduce(MPI_IN_PLACE, &n_found, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    free(all);
    free(own);
    return n_wrong + labs(n_all - n_found);
}

static void begin(int argc, char **argv)
{
    int *values[] = {&n_rows, &n_cols, &n_steps}, n_values = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--check") == 0)
            is_checked = 1;
        else if (n_values < 3)
            *values[n_values++] = atoi(argv[i]);
    if (n_rows < 1 || n_rows * n_ranks < 3 || n_cols < 3)
        fail("at least 3 x 3 patches are needed");
    plane = (struct plane){n_cols * size, n_rows * n_ranks * size};
    for (int i = 0; i < 2; i++)
        plates[i] = calloc((size_t)(n_rows + 2) * (size_t)n_cols, sizeof *plates[i]);
    speeds = calloc((size_t)n_rows * (size_t)n_cols, sizeof *speeds);
    for (int id = 0; id < n_rows * n_cols * EDGE * EDGE; id++) {
        struct atom atom = atom_at(rank * n_rows * n_cols * EDGE * EDGE + id);
        add_atom(plates[0], &atom);
    }
}

int main(int argc, char **argv)
{
    long n_wrong = 0, n_all_wrong = 0;
    MPI_Count plate_bytes;
    double us;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    begin(argc, argv);
    plate_bytes = (MPI_Count)(n_rows + 2) * n_cols * (MPI_Count)sizeof *plates[0];
    register_patches(do_patch, &work);
    us = run();
    AMPI_GPU_Work_sync(plates[n_steps % 2], plate_bytes);
    AMPI_GPU_Work_sync(speeds, (MPI_Count)n_rows * n_cols * (MPI_Count)sizeof *speeds);
    if (is_checked)
        n_wrong = check(plates[n_steps % 2]);
    MPI_Reduce(&n_wrong, &n_all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ranks %d patches %d x %d atoms %d us_per_step %.1f%s\n", n_ranks, n_rows * n_ranks, n_cols,
               n_rows * n_ranks * n_cols * EDGE * EDGE, us,
               !is_checked   ? ""
               : n_all_wrong ? " WRONG"
                             : " checked");
    for (int i = 0; i < 2; i++) {
        AMPI_GPU_Work_invalidate(plates[i], plate_bytes);
        free(plates[i]);
    }
    AMPI_GPU_Work_invalidate(speeds, (MPI_Count)n_rows * n_cols * (MPI_Count)sizeof *speeds);
    free(speeds);
    AMPI_GPU_Work_free(&work);
    MPI_Finalize();
    return n_all_wrong != 0;
}
