/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jacobi3d: the steady temperature of a cube, by Jacobi iterations in parallel.
 *
 * Solves -laplace(u) = f on the unit cube with N x N x N interior points. The bottom face (z = 0) is held at
 * temperature 1, the other faces at 0, and a small heater (f = 40) sits off the middle. One iteration
 * replaces every point by the mean of its six neighbours plus the heat: u' = (sum of neighbours + h^2 f) / 6.
 *
 * The cube is cut into blocks, one per rank, each with a layer of ghost points around it. Before an iteration
 * neighbours exchange their faces with nonblocking messages: as derived datatypes (the default) or packed
 * into buffers (-p). The residual is the 2-norm of u' - u, summed over the ranks by MPI_Allreduce.
 *
 * It is written as such programs are: the state of the solver is in globals and statics, one set per MPI
 * process. Point values do not depend on how the cube is cut, since every point sees the same operations in
 * the same order; only sums over the cube differ, by rounding.
 */
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERIFY_TOLERANCE 1e-12 /* relative */
#define HOT_FACE 1.0           /* temperature at z = 0 */
#define HEATER 40.0            /* heat per volume inside the heater */

enum { X, Y, Z };

/* A box of points with a ghost layer: (i, j, k) from 0 to n + 1 per direction, i runs fastest. */
struct field {
    int n[3];          /* interior points per direction */
    int first[3];      /* global number of the interior point (1, 1, 1), counted from 0 */
    double *old, *new; /* the iterates; ghost points included */
};

/* ---- The options ---- */
static int grid_points = 48;     /* -n: interior points along an edge of the cube */
static int max_iterations = 200; /* -i */
static double tolerance = 0;     /* -t: stop when the residual is below this part of the first one */
static int check_interval = 10;  /* -c: iterations from residual to residual */
static int use_packing = 0;      /* -p */
static int use_cart = 0;         /* -C */
static int do_verify = 0;        /* -v */

/* ---- The state of this MPI process ---- */
static int world_rank, world_size;
static MPI_Comm grid_comm;         /* the ranks of the process grid */
static int grid_dims[3];           /* blocks per direction */
static int grid_coords[3];         /* my block */
static int neighbours[3][2];       /* ranks below and above me in each direction, or MPI_PROC_NULL */
static MPI_Datatype face_types[3]; /* a face perpendicular to the direction */
static double *packed[3][2][2];    /* [direction][side][0: to send, 1: received] */
static struct field block;         /* my part of the cube */
static struct field *current = &block;

static int iterations_done;
static double residual, first_residual;
static double *iteration_seconds; /* one per iteration */

/* How the faces travel; chosen by -p. */
static void exchange_types(void);
static void exchange_packed(void);
static void (*exchange)(void) = exchange_types;

static void fail(const char *what)
{
    fprintf(stderr, "jacobi3d: rank %d: %s\n", world_rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void *allocate(size_t count, size_t size_bytes)
{
    void *memory = calloc(count ? count : 1, size_bytes);
    if (!memory) {
        fail("out of memory");
    }
    return memory;
}

/* ---- Fields ---- */

static size_t stride(const struct field *f, int direction)
{
    size_t row = (size_t)f->n[X] + 2;
    return direction == X ? 1 : direction == Y ? row : row * ((size_t)f->n[Y] + 2);
}

static size_t at(const struct field *f, int i, int j, int k)
{
    return (size_t)i + (size_t)j * stride(f, Y) + (size_t)k * stride(f, Z);
}

/* The heat put in at a point given by its global numbers: a small cube off the middle. */
static double heat(int i, int j, int k)
{
    double h = 1.0 / (grid_points + 1);
    double x = (i + 1) * h, y = (j + 1) * h, z = (k + 1) * h;
    int is_inside = fabs(x - 0.6) < 0.15 && fabs(y - 0.4) < 0.15 && fabs(z - 0.5) < 0.15;
    return is_inside ? HEATER : 0.0;
}

/* Allocates both iterates: 0 everywhere but on the hot face. */
static void field_init(struct field *f)
{
    size_t total = stride(f, Z) * ((size_t)f->n[Z] + 2);
    f->old = allocate(total, sizeof *f->old);
    f->new = allocate(total, sizeof *f->new);
    if (f->first[Z] == 0) {
        for (size_t p = 0; p < stride(f, Z); p++) {
            f->old[p] = f->new[p] = HOT_FACE;
        }
    }
}

static void field_fini(struct field *f)
{
    free(f->old);
    free(f->new);
}

/* One iteration on a box. Returns the sum of (u' - u)^2 and makes the new iterate the old one. */
static double relax(struct field *f)
{
    static double h2; /* the grid spacing squared, computed at first use */
    double sum = 0;

    if (h2 == 0) {
        h2 = 1.0 / ((double)(grid_points + 1) * (grid_points + 1));
    }
    for (int k = 1; k <= f->n[Z]; k++) {
        for (int j = 1; j <= f->n[Y]; j++) {
            double row_sum = 0; /* partial sums lose less to rounding */
            for (int i = 1; i <= f->n[X]; i++) {
                const double *u = f->old + at(f, i, j, k);
                size_t dy = stride(f, Y), dz = stride(f, Z);
                double heating = h2 * heat(f->first[X] + i - 1, f->first[Y] + j - 1, f->first[Z] + k - 1);
                double next = (u[-1] + u[1] + *(u - dy) + u[dy] + *(u - dz) + u[dz] + heating) / 6.0;
                double change = next - u[0];
                f->new[at(f, i, j, k)] = next;
                row_sum += change * change;
            }
            sum += row_sum;
        }
    }
    double *swap = f->old;
    f->old = f->new;
    f->new = swap;
    return sum;
}

/* The sum of the temperatures of a box. */
static double field_sum(const struct field *f)
{
    double sum = 0;
    for (int k = 1; k <= f->n[Z]; k++) {
        for (int j = 1; j <= f->n[Y]; j++) {
            double row_sum = 0;
            for (int i = 1; i <= f->n[X]; i++) {
                row_sum += f->old[at(f, i, j, k)];
            }
            sum += row_sum;
        }
    }
    return sum;
}

/* ---- The process grid ---- */

/* Points that the largest block must exchange per iteration; smaller is better. */
static double surface(const int dims[3])
{
    double n[3], points = 0;
    for (int d = 0; d < 3; d++) {
        n[d] = (double)((grid_points + dims[d] - 1) / dims[d]);
    }
    for (int d = 0; d < 3; d++) {
        points += dims[d] > 1 ? n[(d + 1) % 3] * n[(d + 2) % 3] : 0;
    }
    return points;
}

/* Finds the factors px * py * pz = world_size with the smallest faces. No direction gets more blocks than
 * points. Returns 0 when there are no such factors. */
static int choose_grid(int dims_out[3])
{
    double best = -1;
    for (int px = 1; px <= world_size && px <= grid_points; px++) {
        for (int py = 1; world_size % px == 0 && py <= world_size / px && py <= grid_points; py++) {
            int dims[3] = {px, py, world_size / px / py};
            if (world_size / px % py != 0 || dims[Z] > grid_points) {
                continue;
            }
            /* Of equal ones the last: then x, along which the memory runs, is cut least. */
            if (best < 0 || surface(dims) < best || (surface(dims) <= best && px <= py && py <= dims[Z])) {
                best = surface(dims);
                memcpy(dims_out, dims, sizeof dims);
            }
        }
    }
    return best >= 0;
}

static int grid_rank(int x, int y, int z)
{
    int c[3] = {x, y, z};
    for (int d = 0; d < 3; d++) {
        if (c[d] < 0 || c[d] >= grid_dims[d]) {
            return MPI_PROC_NULL;
        }
    }
    return (x * grid_dims[Y] + y) * grid_dims[Z] + z;
}

/* The process grid by plain arithmetic. */
static void make_grid(void)
{
    if (!choose_grid(grid_dims)) {
        fail("this number of ranks cannot be cut into blocks of at least one point; try a larger -n");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &grid_comm);
    grid_coords[X] = world_rank / (grid_dims[Y] * grid_dims[Z]);
    grid_coords[Y] = world_rank / grid_dims[Z] % grid_dims[Y];
    grid_coords[Z] = world_rank % grid_dims[Z];
    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            int c[3] = {grid_coords[X], grid_coords[Y], grid_coords[Z]};
            c[d] += side ? 1 : -1;
            neighbours[d][side] = grid_rank(c[X], c[Y], c[Z]);
        }
    }
}

/* The same by MPI's topology functions (-C). */
static void make_cart_grid(void)
{
    int periods[3] = {0, 0, 0}, rank;
    MPI_Dims_create(world_size, 3, grid_dims);
    for (int d = 0; d < 3; d++) {
        if (grid_dims[d] > grid_points) {
            fail("MPI_Dims_create cuts the cube into blocks without points; try a larger -n");
        }
    }
    MPI_Cart_create(MPI_COMM_WORLD, 3, grid_dims, periods, 1, &grid_comm);
    MPI_Comm_rank(grid_comm, &rank);
    MPI_Cart_coords(grid_comm, rank, 3, grid_coords);
    for (int d = 0; d < 3; d++) {
        MPI_Cart_shift(grid_comm, d, 1, &neighbours[d][0], &neighbours[d][1]);
    }
}

/* My block of the cube; blocks differ by at most one point per direction. */
static void make_block(void)
{
    for (int d = 0; d < 3; d++) {
        long begin = (long)grid_points * grid_coords[d] / grid_dims[d];
        long end = (long)grid_points * (grid_coords[d] + 1) / grid_dims[d];
        block.first[d] = (int)begin;
        block.n[d] = (int)(end - begin);
    }
    field_init(&block);
}

/* ---- The exchange of faces ---- */

static int face_points(int direction)
{
    return block.n[(direction + 1) % 3] * block.n[(direction + 2) % 3];
}

/* The first point of a face: the interior points next to the given side, or the ghost points beyond it. */
static size_t face_start(int direction, int side, int is_ghost)
{
    int c[3] = {1, 1, 1};
    c[direction] = side ? block.n[direction] + is_ghost : 1 - is_ghost;
    return at(&block, c[X], c[Y], c[Z]);
}

/* A face perpendicular to z is rows of a plane, one to y is rows of different planes, one to x is single
 * points. */
static void make_face_types(void)
{
    int row = (int)stride(&block, Y), plane = (int)stride(&block, Z);
    int count = face_points(X);
    int *lengths = allocate((size_t)count, sizeof *lengths);
    int *places = allocate((size_t)count, sizeof *places);

    for (int p = 0; p < count; p++) {
        lengths[p] = 1;
        places[p] = p / block.n[Y] * plane + p % block.n[Y] * row;
    }
    MPI_Type_indexed(count, lengths, places, MPI_DOUBLE, &face_types[X]);
    MPI_Type_vector(block.n[Z], block.n[X], plane, MPI_DOUBLE, &face_types[Y]);
    MPI_Type_vector(block.n[Y], block.n[X], row, MPI_DOUBLE, &face_types[Z]);
    for (int d = 0; d < 3; d++) {
        MPI_Type_commit(&face_types[d]);
    }
    free(lengths);
    free(places);
}

static void exchange_types(void)
{
    MPI_Request requests[12];
    int n = 0;

    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            MPI_Irecv(current->old + face_start(d, side, 1), 1, face_types[d], neighbours[d][side],
                      2 * d + 1 - side, grid_comm, &requests[n++]);
        }
    }
    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            MPI_Isend(current->old + face_start(d, side, 0), 1, face_types[d], neighbours[d][side],
                      2 * d + side, grid_comm, &requests[n++]);
        }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* Copies a face between the block and a buffer. */
static void copy_face(int direction, size_t start, double *buffer, int is_to_buffer)
{
    int fast = direction == X ? Y : X, slow = direction == Z ? Y : Z;
    for (int b = 0; b < block.n[slow]; b++) {
        for (int a = 0; a < block.n[fast]; a++) {
            double *point =
                current->old + start + (size_t)a * stride(&block, fast) + (size_t)b * stride(&block, slow);
            if (is_to_buffer) {
                *buffer++ = *point;
            } else {
                *point = *buffer++;
            }
        }
    }
}

static void exchange_packed(void)
{
    MPI_Request requests[12];
    int n = 0;

    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            if (!packed[d][side][0]) {
                packed[d][side][0] = allocate((size_t)face_points(d), sizeof(double));
                packed[d][side][1] = allocate((size_t)face_points(d), sizeof(double));
            }
            MPI_Irecv(packed[d][side][1], face_points(d), MPI_DOUBLE, neighbours[d][side], 2 * d + 1 - side,
                      grid_comm, &requests[n++]);
        }
    }
    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            copy_face(d, face_start(d, side, 0), packed[d][side][0], 1);
            MPI_Isend(packed[d][side][0], face_points(d), MPI_DOUBLE, neighbours[d][side], 2 * d + side,
                      grid_comm, &requests[n++]);
        }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            if (neighbours[d][side] != MPI_PROC_NULL) {
                copy_face(d, face_start(d, side, 1), packed[d][side][1], 0);
            }
        }
    }
}

/* ---- The solver ---- */

static int is_check_due(int iteration)
{
    return iteration == 1 || iteration % check_interval == 0 || iteration == max_iterations;
}

static void solve(void)
{
    for (int it = 1; it <= max_iterations; it++) {
        double start = MPI_Wtime(), sum, local_sum;
        exchange();
        local_sum = relax(current);
        if (is_check_due(it)) {
            MPI_Allreduce(&local_sum, &sum, 1, MPI_DOUBLE, MPI_SUM, grid_comm);
            residual = sqrt(sum);
            first_residual = it == 1 ? residual : first_residual;
        }
        iteration_seconds[iterations_done++] = MPI_Wtime() - start;
        if (is_check_due(it)) {
            if (world_rank == 0) {
                printf("iteration %6d   residual %.6e\n", it, residual);
            }
            if (residual <= tolerance * first_residual) {
                break;
            }
        }
    }
}

/* The same iterations on the whole cube, by one rank alone. */
static void solve_serially(int iterations, double *residual_out, double *sum_out)
{
    struct field whole = {{grid_points, grid_points, grid_points}, {0, 0, 0}, NULL, NULL};
    double sum = 0;

    field_init(&whole);
    for (int it = 0; it < iterations; it++) {
        sum = relax(&whole);
    }
    *residual_out = sqrt(sum);
    *sum_out = field_sum(&whole);
    field_fini(&whole);
}

static double relative_difference(double a, double b)
{
    double scale = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    return scale > 0 ? fabs(a - b) / scale : 0;
}

/* Returns whether the parallel result is the serial one; only rank 0 computes, all learn the answer. */
static int verify(double checksum)
{
    int is_right = 0;
    if (world_rank == 0) {
        double serial_residual, serial_sum;
        solve_serially(iterations_done, &serial_residual, &serial_sum);
        double residual_error = relative_difference(residual, serial_residual);
        double sum_error = relative_difference(checksum, serial_sum);
        /* Written so that a NaN is a failure. */
        is_right = residual_error <= VERIFY_TOLERANCE && sum_error <= VERIFY_TOLERANCE;
        printf("%s the serial run: residual %.17e (relative difference %.1e), checksum %.17e (%.1e)\n",
               is_right ? "residual matches" : "RESIDUAL DIFFERS FROM", serial_residual, residual_error,
               serial_sum, sum_error);
    }
    MPI_Bcast(&is_right, 1, MPI_INT, 0, grid_comm);
    return is_right;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and mean per iteration at rank 0, whose iterations wait for its neighbours' as everybody's do. */
static void report_times(double elapsed)
{
    int n = iterations_done;
    qsort(iteration_seconds, (size_t)n, sizeof *iteration_seconds, compare_doubles);
    double median = (iteration_seconds[(n - 1) / 2] + iteration_seconds[n / 2]) / 2;
    printf("time per iteration: median %.3f ms, mean %.3f ms, %d iterations in %.3f s\n", median * 1e3,
           elapsed / n * 1e3, n, elapsed);
}

/* ---- The command line ---- */

static void usage(FILE *to)
{
    fprintf(to,
            "usage: jacobi3d [-n points] [-i iterations] [-t tolerance] [-c interval] [-pCvh]\n"
            "  -n  interior points along an edge of the cube (default %d)\n"
            "  -i  most iterations (default %d)\n"
            "  -t  stop when the residual is below this part of the first one (default 0: never)\n"
            "  -c  iterations from one residual to the next (default %d)\n"
            "  -p  pack faces into buffers instead of using derived datatypes\n"
            "  -C  make the process grid with MPI_Dims_create and MPI_Cart_create\n"
            "  -v  compare with a serial run on rank 0; exit code 1 if they differ\n",
            grid_points, max_iterations, check_interval);
}

/* A whole number from 1 to 100,000,000, or 0 for anything else. */
static int positive_number(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno || end == text || *end || value < 1 || value > 100000000 ? 0 : (int)value;
}

/* Returns -1 to go on, or the exit code. Every rank parses the same words, rank 0 does the talking. */
static int parse_options(int argc, char **argv)
{
    int option, is_good = 1, wants_help = 0;
    char *end = NULL;

    opterr = world_rank == 0;
    while ((option = getopt(argc, argv, "n:i:t:c:pCvh")) != -1) {
        switch (option) {
        case 'n':
            is_good &= (grid_points = positive_number(optarg)) > 0 && grid_points <= 1000;
            break;
        case 'i':
            is_good &= (max_iterations = positive_number(optarg)) > 0;
            break;
        case 't':
            tolerance = strtod(optarg, &end);
            is_good &= end != optarg && *end == '\0' && tolerance >= 0;
            break;
        case 'c':
            is_good &= (check_interval = positive_number(optarg)) > 0;
            break;
        case 'p':
            use_packing = 1;
            exchange = exchange_packed;
            break;
        case 'C':
            use_cart = 1;
            break;
        case 'v':
            do_verify = 1;
            break;
        case 'h':
            wants_help = 1;
            break;
        default:
            is_good = 0;
        }
    }
    is_good &= optind == argc;
    if (world_rank == 0 && (wants_help || !is_good)) {
        if (!is_good && !wants_help) {
            fprintf(stderr, "jacobi3d: an option is wrong\n");
        }
        usage(wants_help ? stdout : stderr);
    }
    return wants_help ? 0 : is_good ? -1 : 2;
}

int main(int argc, char **argv)
{
    double start, elapsed, longest, local_sum, checksum;
    int code;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    code = parse_options(argc, argv);
    if (code >= 0) {
        MPI_Finalize();
        return code;
    }
    if (use_cart) {
        make_cart_grid();
    } else {
        make_grid();
    }
    make_block();
    make_face_types();
    iteration_seconds = allocate((size_t)max_iterations, sizeof *iteration_seconds);
    if (world_rank == 0) {
        printf("jacobi3d: %d rank%s (%d x %d x %d), grid %d x %d x %d, faces %s\n", world_size,
               world_size == 1 ? "" : "s", grid_dims[X], grid_dims[Y], grid_dims[Z], grid_points, grid_points,
               grid_points, use_packing ? "packed" : "by derived datatypes");
    }

    MPI_Barrier(grid_comm);
    start = MPI_Wtime();
    solve();
    elapsed = MPI_Wtime() - start;

    local_sum = field_sum(current);
    MPI_Reduce(&elapsed, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, grid_comm);
    MPI_Allreduce(&local_sum, &checksum, 1, MPI_DOUBLE, MPI_SUM, grid_comm);
    if (world_rank == 0) {
        report_times(longest);
    }
    code = do_verify && !verify(checksum) ? 1 : 0;
    if (world_rank == 0) {
        printf("ranks %d iterations %d checksum %.17e residual %.17e\n", world_size, iterations_done,
               checksum, residual);
    }

    for (int d = 0; d < 3; d++) {
        MPI_Type_free(&face_types[d]);
        for (int side = 0; side < 2; side++) {
            free(packed[d][side][0]);
            free(packed[d][side][1]);
        }
    }
    field_fini(&block);
    free(iteration_seconds);
    MPI_Comm_free(&grid_comm);
    MPI_Finalize();
    return code;
}
