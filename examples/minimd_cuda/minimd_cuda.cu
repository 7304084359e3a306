/* SPDX-License-Identifier: BSD-3-Clause
 *
 * minimd_cuda: molecular dynamics of a Lennard-Jones fluid on GPUs.
 *
 * A periodic box of NX x NY x NZ cubic cells with four atoms each (fcc, density 0.8442) is cut into blocks, one per rank.
 * The atoms begin at the lattice's places with random velocities and move by velocity Verlet. Units are those of the
 * potential: u(r) = 4 (r^-12 - r^-6), cut off at 2.5 and shifted to be 0 there.
 *
 * A rank has the atoms of its block, and copies of its neighbours' atoms that are near ("ghosts"). The kernels find the
 * pairs in reach by cells and keep them in lists, which hold for --every steps. Then
 *      exchange_atoms    gives atoms that have left the block to the neighbours,
 *      find_ghosts       chooses which atoms the neighbours need, and
 *      find_neighbours   makes the lists anew.
 * In the steps between, send_positions brings the ghosts' positions up to date. Both go direction by direction (x, y, z), so
 * that ghosts of ghosts fill edges and corners. All messages are buffers on the device.
 */
#include "minimd.h"

/* ---- The options ---- */
static int lattice_cells[3] = {16, 16, 16};
static int n_steps = 100, rebuild_every = 10, report_every = 50, does_check;

/* ---- The process grid ---- */
static MPI_Comm grid_comm;
static int world_rank, world_size, neighbours_of[6]; /* by direction: lower, upper */
static struct block block;

/* ---- The atoms, on the device ---- */
static struct atoms atoms, spare; /* spare: exchange_atoms sorts into it */
static double3 *force, *x_built;  /* x_built: positions when the lists were made */
static int n_local, n_ghosts, n_local_max, n_total_max;

/* ---- Cells and lists, on the device ---- */
static struct cells cells;
static struct lists lists;
static int *device_numbers; /* counters, and faults at COUNTERS */
static double *device_energy;

/* ---- Messages ---- */
static struct swap {
    int *list;              /* on the device: the atoms whose positions are sent */
    int n_send, n_recv;     /* positions */
    int first_recv;         /* where they go in atoms.x */
    double3 shift;          /* added to positions that cross the periodic boundary */
    double3 *send_buffer;   /* on the device */
    struct traveller *send_atoms, *recv_atoms;
} swaps[6]; /* by direction and side they are sent to: lower, upper */
static int n_border_max, n_travel_max;

static void fail(const char *what)
{
    fprintf(stderr, "minimd_cuda: rank %d: %s\n", world_rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static dim3 grid_of(int n)
{
    return dim3((n + THREADS - 1) / THREADS);
}

template <class T>
static void allocate(T **memory, size_t count)
{
    CUDA_CHECK(cudaMalloc(memory, count * sizeof(T)));
}

/* ---- Set-up ---- */

static void choose_device(void)
{
    MPI_Comm node_comm;
    int local_rank, n_devices;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node_comm);
    MPI_Comm_rank(node_comm, &local_rank);
    MPI_Comm_free(&node_comm);
    CUDA_CHECK(cudaGetDeviceCount(&n_devices));
    CUDA_CHECK(cudaSetDevice(local_rank % n_devices));
}

/* Returns whether the blocks are large enough. */
static int make_grid(void)
{
    int is_good = 1, dims[3] = {0, 0, 0}, periods[3] = {1, 1, 1}, coords[3];
    double lattice = cbrt(4 / DENSITY);
    MPI_Dims_create(world_size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid_comm);
    MPI_Cart_coords(grid_comm, world_rank, 3, coords);
    for (int d = 0; d < 3; d++) {
        block.length[d] = lattice_cells[d] * lattice;
        block.lo[d] = block.length[d] * coords[d] / dims[d];
        block.hi[d] = block.length[d] * (coords[d] + 1) / dims[d];
        MPI_Cart_shift(grid_comm, d, 1, &neighbours_of[2 * d], &neighbours_of[2 * d + 1]);
        set_component(&swaps[2 * d].shift, d, coords[d] == 0 ? block.length[d] : 0);
        set_component(&swaps[2 * d + 1].shift, d, coords[d] == dims[d] - 1 ? -block.length[d] : 0);
        is_good &= block.length[d] / dims[d] > REACH;
    }
    if (!is_good && world_rank == 0) {
        fprintf(stderr, "minimd_cuda: the blocks are smaller than the reach of the potential: use a larger box, or fewer ranks\n");
    }
    return is_good;
}

/* Room for half as many atoms again as there are on average. */
static void make_room(void)
{
    double volume = 1, outer = 1, face = 0;
    for (int d = 0; d < 3; d++) {
        double side = block.hi[d] - block.lo[d];
        cells.n[d] = std::max(1, (int)(side / REACH));
        cells.size[d] = side / cells.n[d];
        volume *= side;
        outer *= side + 2 * REACH;
        face = std::max(face, (block.hi[(d + 1) % 3] - block.lo[(d + 1) % 3] + 2 * REACH) *
                                  (block.hi[(d + 2) % 3] - block.lo[(d + 2) % 3] + 2 * REACH));
    }
    n_local_max = (int)(1.5 * DENSITY * volume) + 500;
    n_total_max = n_local_max + (int)(1.5 * DENSITY * (outer - volume)) + 500;
    n_border_max = n_travel_max = (int)(1.5 * DENSITY * REACH * face) + 500;
    cells.capacity = (int)(2 * DENSITY * cells.size[0] * cells.size[1] * cells.size[2]) + 32;
    lists.stride = n_local_max;
    for (struct atoms *a : {&atoms, &spare}) {
        allocate(&a->x, n_total_max);
        allocate(&a->v, n_local_max);
        allocate(&a->id, n_local_max);
    }
    allocate(&force, n_local_max);
    allocate(&x_built, n_local_max);
    allocate(&cells.count, cells.number());
    allocate(&cells.atoms, (size_t)cells.number() * cells.capacity);
    allocate(&lists.count, n_local_max);
    allocate(&lists.atoms, (size_t)NEIGHBOURS_MAX * n_local_max);
    allocate(&device_numbers, COUNTERS + 1);
    allocate(&device_energy, 2);
    for (struct swap &s : swaps) {
        allocate(&s.list, n_border_max);
        allocate(&s.send_buffer, n_border_max);
        allocate(&s.send_atoms, n_travel_max);
        allocate(&s.recv_atoms, n_travel_max);
    }
}

static void free_room(void)
{
    for (struct atoms *a : {&atoms, &spare}) {
        CUDA_CHECK(cudaFree(a->x));
        CUDA_CHECK(cudaFree(a->v));
        CUDA_CHECK(cudaFree(a->id));
    }
    for (void *memory : {(void *)force, (void *)x_built, (void *)cells.count, (void *)cells.atoms, (void *)lists.count,
                         (void *)lists.atoms, (void *)device_numbers, (void *)device_energy}) {
        CUDA_CHECK(cudaFree(memory));
    }
    for (struct swap &s : swaps) {
        CUDA_CHECK(cudaFree(s.list));
        CUDA_CHECK(cudaFree(s.send_buffer));
        CUDA_CHECK(cudaFree(s.send_atoms));
        CUDA_CHECK(cudaFree(s.recv_atoms));
    }
}

/* A number in [-0.5, 0.5) that depends on the atom alone, not on the rank that has it. */
static double random_number(uint64_t seed)
{
    seed = (seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    return (double)((seed ^ (seed >> 31)) >> 11) / 9007199254740992.0 - 0.5;
}

/* Takes the velocity of the whole away, and gives the rest the temperature. */
static void scale_velocities(std::vector<double3> &v)
{
    double sums[4] = {0, 0, 0, (double)v.size()}, energy = 0;
    for (const double3 &a : v) {
        sums[0] += a.x, sums[1] += a.y, sums[2] += a.z;
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_DOUBLE, MPI_SUM, grid_comm);
    for (double3 &a : v) {
        a = make_double3(a.x - sums[0] / sums[3], a.y - sums[1] / sums[3], a.z - sums[2] / sums[3]);
        energy += square(a);
    }
    MPI_Allreduce(MPI_IN_PLACE, &energy, 1, MPI_DOUBLE, MPI_SUM, grid_comm);
    double factor = sqrt(TEMPERATURE * 3 * sums[3] / energy);
    for (double3 &a : v) {
        a = make_double3(a.x * factor, a.y * factor, a.z * factor);
    }
}

static void make_atoms(void)
{
    static const double basis[4][3] = {{0, 0, 0}, {0.5, 0.5, 0}, {0.5, 0, 0.5}, {0, 0.5, 0.5}};
    double lattice = cbrt(4 / DENSITY);
    std::vector<double3> x, v;
    std::vector<long> id;
    int first[3], end[3];
    for (int d = 0; d < 3; d++) {
        first[d] = std::max(0, (int)(block.lo[d] / lattice) - 1);
        end[d] = std::min(lattice_cells[d], (int)(block.hi[d] / lattice) + 2);
    }
    for (int k = first[2]; k < end[2]; k++) {
        for (int j = first[1]; j < end[1]; j++) {
            for (int i = first[0]; i < end[0]; i++) {
                for (int b = 0; b < 4; b++) {
                    double3 at = make_double3((i + basis[b][0]) * lattice, (j + basis[b][1]) * lattice,
                                              (k + basis[b][2]) * lattice);
                    long number = 4 * (((long)k * lattice_cells[1] + j) * lattice_cells[0] + i) + b;
                    if (block.has(at)) {
                        x.push_back(at);
                        v.push_back(make_double3(random_number(3 * number), random_number(3 * number + 1),
                                                 random_number(3 * number + 2)));
                        id.push_back(number);
                    }
                }
            }
        }
    }
    n_local = (int)x.size();
    if (n_local > n_local_max) {
        fail("no room for the atoms");
    }
    scale_velocities(v);
    CUDA_CHECK(cudaMemcpy(atoms.x, x.data(), n_local * sizeof x[0], cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(atoms.v, v.data(), n_local * sizeof v[0], cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(atoms.id, id.data(), n_local * sizeof id[0], cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(x_built, x.data(), n_local * sizeof x[0], cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(device_numbers, 0, (COUNTERS + 1) * sizeof(int)));
}

/* ---- Messages ---- */

static void zero_counters(void)
{
    CUDA_CHECK(cudaMemset(device_numbers, 0, COUNTERS * sizeof(int)));
}

/* Waits for the kernels that count. */
static void read_counters(int *numbers)
{
    CUDA_CHECK(cudaMemcpy(numbers, device_numbers, COUNTERS * sizeof(int), cudaMemcpyDeviceToHost));
}

/* Tells the two neighbours of a direction how much they will get. */
static void exchange_counts(int d, const int *n_send, int *n_recv)
{
    for (int side = 0; side < 2; side++) {
        MPI_Sendrecv(&n_send[side], 1, MPI_INT, neighbours_of[2 * d + side], side, &n_recv[side], 1, MPI_INT,
                     neighbours_of[2 * d + 1 - side], side, grid_comm, MPI_STATUS_IGNORE);
    }
}

/* Sends doubles to both neighbours of a direction; data received on side s was sent towards s. */
static void exchange_doubles(int d, double *const *send, const int *n_send, double *const *recv, const int *n_recv)
{
    MPI_Request requests[4];
    for (int side = 0; side < 2; side++) {
        MPI_Irecv(recv[side], n_recv[side], MPI_DOUBLE, neighbours_of[2 * d + 1 - side], 2 + side, grid_comm,
                  &requests[side]);
    }
    for (int side = 0; side < 2; side++) {
        MPI_Isend(send[side], n_send[side], MPI_DOUBLE, neighbours_of[2 * d + side], 2 + side, grid_comm,
                  &requests[2 + side]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Atoms that have left the block go to the neighbours. */
static void exchange_atoms(void)
{
    for (int d = 0; d < 3; d++) {
        struct swap *s = &swaps[2 * d];
        int counts[COUNTERS], n_recv[2];
        zero_counters();
        split_atoms<<<grid_of(n_local), THREADS>>>(atoms, n_local, spare, block, d, s[0].shift, s[1].shift, s[0].send_atoms,
                                                   s[1].send_atoms, n_travel_max, device_numbers);
        read_counters(counts);
        std::swap(atoms, spare);
        exchange_counts(d, counts, n_recv);
        n_local = counts[2];
        if (std::max({counts[0], counts[1], n_recv[0], n_recv[1]}) > n_travel_max ||
            n_local + n_recv[0] + n_recv[1] > n_local_max) {
            fail("too many atoms have moved");
        }
        double *send[2] = {(double *)s[0].send_atoms, (double *)s[1].send_atoms};
        double *recv[2] = {(double *)s[0].recv_atoms, (double *)s[1].recv_atoms};
        int send_doubles[2] = {7 * counts[0], 7 * counts[1]}, recv_doubles[2] = {7 * n_recv[0], 7 * n_recv[1]};
        exchange_doubles(d, send, send_doubles, recv, recv_doubles);
        for (int side = 0; side < 2; side++) {
            if (n_recv[side] > 0) {
                append_atoms<<<grid_of(n_recv[side]), THREADS>>>(atoms, n_local, s[side].recv_atoms, n_recv[side]);
            }
            n_local += n_recv[side];
        }
    }
}

/* Brings the ghosts of a direction up to date. */
static void send_positions_of(int d)
{
    struct swap *s = &swaps[2 * d];
    double *send[2] = {(double *)s[0].send_buffer, (double *)s[1].send_buffer};
    double *recv[2] = {(double *)(atoms.x + s[0].first_recv), (double *)(atoms.x + s[1].first_recv)};
    int n_send[2] = {3 * s[0].n_send, 3 * s[1].n_send}, n_recv[2] = {3 * s[0].n_recv, 3 * s[1].n_recv};
    for (int side = 0; side < 2; side++) {
        if (s[side].n_send > 0) {
            pack_positions<<<grid_of(s[side].n_send), THREADS>>>(atoms.x, s[side].list, s[side].n_send, s[side].shift,
                                                                 s[side].send_buffer);
        }
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    exchange_doubles(d, send, n_send, recv, n_recv);
}

static void send_positions(void)
{
    for (int d = 0; d < 3; d++) {
        send_positions_of(d);
    }
}

/* Which atoms the neighbours need; ghosts of the directions before are among them. */
static void find_ghosts(void)
{
    n_ghosts = 0;
    for (int d = 0; d < 3; d++) {
        struct swap *s = &swaps[2 * d];
        int counts[COUNTERS], n_recv[2], n_known = n_local + n_ghosts;
        zero_counters();
        select_border<<<grid_of(n_known), THREADS>>>(atoms.x, n_known, d, block.lo[d] + REACH, block.hi[d] - REACH, s[0].list,
                                                     s[1].list, n_border_max, device_numbers);
        read_counters(counts);
        exchange_counts(d, counts, n_recv);
        for (int side = 0; side < 2; side++) {
            s[side].n_send = counts[side];
            s[side].n_recv = n_recv[side];
            s[side].first_recv = n_local + n_ghosts;
            n_ghosts += n_recv[side];
        }
        if (std::max(counts[0], counts[1]) > n_border_max || n_local + n_ghosts > n_total_max) {
            fail("too many ghosts");
        }
        send_positions_of(d);
    }
}

/* ---- Steps ---- */

/* Ends the job if a kernel has found something wrong. Waits for all kernels. */
static void check_faults(void)
{
    int faults;
    CUDA_CHECK(cudaMemcpy(&faults, &device_numbers[COUNTERS], sizeof faults, cudaMemcpyDeviceToHost));
    if (faults) {
        fail(faults & MOVED_TOO_FAR ? "an atom has moved further than the lists allow: use a smaller --every"
                                    : "too many atoms in a place: is the system unstable?");
    }
}

static void find_neighbours(void)
{
    CUDA_CHECK(cudaMemcpyAsync(x_built, atoms.x, n_local * sizeof *x_built, cudaMemcpyDeviceToDevice));
    CUDA_CHECK(cudaMemsetAsync(cells.count, 0, cells.number() * sizeof *cells.count));
    fill_cells<<<grid_of(n_local + n_ghosts), THREADS>>>(atoms.x, n_local + n_ghosts, block, cells, &device_numbers[COUNTERS]);
    build_lists<<<grid_of(n_local), THREADS>>>(atoms.x, n_local, block, cells, lists, &device_numbers[COUNTERS]);
    check_faults();
}

static void rebuild(void)
{
    exchange_atoms();
    find_ghosts();
    find_neighbours();
}

static void compute_force(void)
{
    sum_forces<<<grid_of(n_local), THREADS>>>(atoms.x, n_local, lists, force);
}

static void step(int number)
{
    move_atoms<<<grid_of(n_local), THREADS>>>(atoms, force, n_local, x_built, &device_numbers[COUNTERS]);
    if (number % rebuild_every == 0) {
        rebuild();
    } else {
        send_positions();
    }
    compute_force();
    finish_velocities<<<grid_of(n_local), THREADS>>>(atoms.v, force, n_local);
}

/* Kinetic and potential energy per atom. The sum over the ranks is made on the device's buffers, too. */
static void measure_energy(double *energy)
{
    double n_atoms = 4.0 * lattice_cells[0] * lattice_cells[1] * lattice_cells[2];
    CUDA_CHECK(cudaMemset(device_energy, 0, 2 * sizeof *device_energy));
    sum_energy<<<64, THREADS>>>(atoms, n_local, lists, device_energy);
    CUDA_CHECK(cudaDeviceSynchronize());
    MPI_Allreduce(MPI_IN_PLACE, device_energy, 2, MPI_DOUBLE, MPI_SUM, grid_comm);
    CUDA_CHECK(cudaMemcpy(energy, device_energy, 2 * sizeof *energy, cudaMemcpyDeviceToHost));
    energy[0] /= n_atoms;
    energy[1] /= n_atoms;
}

static void report(int number, const double *energy)
{
    if (world_rank == 0) {
        printf("step %6d  temperature %.6f  potential %.6f  total %.9f\n", number, energy[0] * 2 / 3, energy[1],
               energy[0] + energy[1]);
    }
}

/* ---- The check ---- */

/* All atoms at rank 0, by number; empty elsewhere. */
static void gather(std::vector<double3> *x_out, std::vector<double3> *v_out)
{
    long n_atoms = 4L * lattice_cells[0] * lattice_cells[1] * lattice_cells[2];
    std::vector<struct traveller> mine(n_local), all(world_rank == 0 ? n_atoms : 0);
    std::vector<int> counts(world_size), places(world_size);
    int n_doubles = 7 * n_local;
    std::vector<double3> x(n_local), v(n_local);
    std::vector<long> id(n_local);
    CUDA_CHECK(cudaMemcpy(x.data(), atoms.x, n_local * sizeof x[0], cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(v.data(), atoms.v, n_local * sizeof v[0], cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(id.data(), atoms.id, n_local * sizeof id[0], cudaMemcpyDeviceToHost));
    for (int i = 0; i < n_local; i++) {
        mine[i] = {x[i], v[i], (double)id[i]};
    }
    MPI_Gather(&n_doubles, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, grid_comm);
    for (int i = 1; i < world_size; i++) {
        places[i] = places[i - 1] + counts[i - 1];
    }
    MPI_Gatherv(mine.data(), n_doubles, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0, grid_comm);
    x_out->resize(all.size());
    v_out->resize(all.size());
    for (const struct traveller &a : all) {
        x_out->at((size_t)a.id) = a.x;
        v_out->at((size_t)a.id) = a.v;
    }
}

/* The same steps on the host, from where the atoms were; rank 0 compares, all learn the answer. */
static int check(std::vector<double3> &x, std::vector<double3> &v, const double *energy)
{
    std::vector<double3> x_now, v_now;
    double worst = 0, host_energy[2];
    int is_right = 1;
    gather(&x_now, &v_now);
    if (world_rank == 0) {
        run_on_host(x, v, block, n_steps, host_energy);
        for (size_t i = 0; i < x.size(); i++) {
            worst = std::max(worst, sqrt(square(nearest(x[i], x_now[i], block))));
        }
        double energy_error = fabs(host_energy[0] + host_energy[1] - energy[0] - energy[1]);
        is_right = worst < 1e-8 && energy_error < 1e-9; /* written so that a NaN is a failure */
        printf("%s the host's result: largest distance of an atom %.1e, energy per atom differs by %.1e\n",
               is_right ? "check: as" : "CHECK FAILED: not as", worst, energy_error);
    }
    MPI_Bcast(&is_right, 1, MPI_INT, 0, grid_comm);
    return is_right;
}

/* ---- The command line ---- */

static void usage(FILE *to)
{
    fprintf(to, "usage: minimd_cuda [NX [NY NZ]] [options]        cells of four atoms (default: 16 16 16)\n"
                "  --steps N     (default 100)\n"
                "  --every N     steps between new lists of neighbours (default 10)\n"
                "  --report N    steps between lines with the energy (default 50)\n"
                "  --check       compare with the host's result (few atoms only); exit code 1 if they differ\n");
}

static int number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    return end == text || *end || value < 1 || value > 100000000 ? -1 : (int)value;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(int argc, char **argv)
{
    static const struct option options[] = {{"steps", required_argument, NULL, 's'},
                                            {"every", required_argument, NULL, 'e'},
                                            {"report", required_argument, NULL, 'r'},
                                            {"check", no_argument, &does_check, 1},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option, is_good = 1;
    opterr = world_rank == 0;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        int *to = option == 's' ? &n_steps : option == 'e' ? &rebuild_every : option == 'r' ? &report_every : NULL;
        if (to) {
            is_good &= (*to = number(optarg)) > 0;
        } else if (option == 'h') {
            if (world_rank == 0) {
                usage(stdout);
            }
            return 0;
        } else {
            is_good &= option == 0;
        }
    }
    int n_sizes = argc - optind;
    is_good &= n_sizes == 0 || n_sizes == 1 || n_sizes == 3;
    for (int d = 0; is_good && n_sizes > 0 && d < 3; d++) {
        is_good &= (lattice_cells[d] = number(argv[optind + (n_sizes == 3 ? d : 0)])) > 0;
    }
    if (!is_good && world_rank == 0) {
        usage(stderr);
    }
    return is_good ? -1 : 2;
}

int main(int argc, char **argv)
{
    double first_energy[2], energy[2], start, elapsed, longest;
    std::vector<double3> x, v;
    int code;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    code = parse_options(argc, argv);
    if (code >= 0) {
        MPI_Finalize();
        return code;
    }
    choose_device();
    if (!make_grid()) {
        MPI_Finalize();
        return 2;
    }
    make_room();
    make_atoms();
    if (does_check) {
        if (std::min({block.length[0], block.length[1], block.length[2]}) < 2 * CUTOFF) {
            fail("--check needs a box of at least twice the cut-off (3 cells)");
        }
        gather(&x, &v);
    }
    rebuild();
    compute_force();
    measure_energy(first_energy);
    report(0, first_energy);

    MPI_Barrier(grid_comm);
    start = MPI_Wtime();
    for (int i = 1; i <= n_steps; i++) {
        step(i);
        if (i % report_every == 0 || i == n_steps) {
            measure_energy(energy);
            report(i, energy);
        }
    }
    check_faults();
    elapsed = MPI_Wtime() - start; /* each rank's own; nothing of the ranks' ends belongs to it */
    MPI_Barrier(grid_comm);

    CUDA_CHECK(cudaGetLastError());
    MPI_Reduce(&elapsed, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, grid_comm);
    if (world_rank == 0) {
        double drift = fabs((energy[0] + energy[1]) / (first_energy[0] + first_energy[1]) - 1);
        code = drift < DRIFT_MAX ? 0 : 1;
        printf("energy drift %.1e%s\n", drift, code ? ": ENERGY IS NOT CONSERVED" : "");
        printf("ranks %d atoms %ld steps %d us_per_step %.2f\n", world_size,
               4L * lattice_cells[0] * lattice_cells[1] * lattice_cells[2], n_steps, longest / n_steps * 1e6);
    }
    MPI_Bcast(&code, 1, MPI_INT, 0, grid_comm);
    code = (does_check && !check(x, v, energy)) || code > 0 ? 1 : 0;
    free_room();
    MPI_Comm_free(&grid_comm);
    MPI_Finalize();
    return code;
}
