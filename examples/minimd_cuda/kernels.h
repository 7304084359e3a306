/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernels.h: the kernels of minimd_cuda; a thread has an atom.
 */
#ifndef MINIMD_KERNELS_H
#define MINIMD_KERNELS_H

__device__ inline int this_thread()
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

/* ---- Steps ---- */

/* Half a step of the velocities, and a step of the positions. */
__global__ void move_atoms(struct atoms atoms, const double3 *force, int n, const double3 *x_built,
                           int *faults)
{
    int i = this_thread();
    if (i < n) {
        double3 v = moved(atoms.v[i], TIME_STEP / 2, force[i]), x = moved(atoms.x[i], TIME_STEP, v);
        atoms.v[i] = v;
        atoms.x[i] = x;
        if (square(difference(x, x_built[i])) > SKIN * SKIN / 4) {
            atomicOr(faults, MOVED_TOO_FAR);
        }
    }
}

__global__ void finish_velocities(double3 *v, const double3 *force, int n)
{
    int i = this_thread();
    if (i < n) {
        v[i] = moved(v[i], TIME_STEP / 2, force[i]);
    }
}

__global__ void sum_forces(const double3 *__restrict__ x, int n, struct lists lists,
                           double3 *__restrict__ force)
{
    int i = this_thread();
    if (i < n) {
        double3 here = x[i], total = make_double3(0, 0, 0);
        for (int k = 0; k < lists.count[i]; k++) {
            double3 d = difference(here, x[lists.atoms[(size_t)k * lists.stride + i]]);
            double r2 = square(d);
            if (r2 < CUTOFF * CUTOFF) {
                total = moved(total, pair_force(r2), d);
            }
        }
        force[i] = total;
    }
}

/* Adds to energy[0] the kinetic, to energy[1] the potential energy. Any number of threads. */
__global__ void sum_energy(struct atoms atoms, int n, struct lists lists, double *energy)
{
    double kinetic = 0, potential = 0;
    for (int i = this_thread(); i < n; i += (int)(gridDim.x * blockDim.x)) {
        kinetic += square(atoms.v[i]) / 2;
        for (int k = 0; k < lists.count[i]; k++) {
            double r2 = square(difference(atoms.x[i], atoms.x[lists.atoms[(size_t)k * lists.stride + i]]));
            potential +=
                r2 < CUTOFF * CUTOFF ? pair_energy(r2) / 2 : 0; /* the other half is the other atom's */
        }
    }
    atomicAdd(&energy[0], kinetic);
    atomicAdd(&energy[1], potential);
}

/* ---- Cells and lists ---- */

/* The cell of a position along one direction; 0 and n + 1 are those of ghosts. */
__device__ inline int cell_of(double x, double lo, double size, int n)
{
    int cell = (int)floor((x - lo) / size) + 1;
    return cell < 0 ? 0 : cell > n + 1 ? n + 1 : cell;
}

__global__ void fill_cells(const double3 *x, int n, struct block block, struct cells cells, int *faults)
{
    int i = this_thread();
    if (i < n) {
        int cell = cells.index(cell_of(x[i].x, block.lo[0], cells.size[0], cells.n[0]),
                               cell_of(x[i].y, block.lo[1], cells.size[1], cells.n[1]),
                               cell_of(x[i].z, block.lo[2], cells.size[2], cells.n[2]));
        int at = atomicAdd(&cells.count[cell], 1);
        if (at < cells.capacity) {
            cells.atoms[(size_t)cell * cells.capacity + at] = i;
        } else {
            atomicOr(faults, CELL_FULL);
        }
    }
}

/* The neighbours of atom i that are in a cell; returns how many it has now. */
__device__ inline int add_neighbours(const double3 *x, int i, const struct cells &cells, int cell,
                                     const struct lists &lists, int count)
{
    for (int k = 0; k < cells.count[cell] && k < cells.capacity; k++) {
        int j = cells.atoms[(size_t)cell * cells.capacity + k];
        if (j != i && square(difference(x[i], x[j])) < REACH * REACH) {
            if (count < NEIGHBOURS_MAX) {
                lists.atoms[(size_t)count * lists.stride + i] = j;
            }
            count++;
        }
    }
    return count;
}

__global__ void build_lists(const double3 *x, int n, struct block block, struct cells cells,
                            struct lists lists, int *faults)
{
    int i = this_thread(), count = 0;
    if (i >= n) {
        return;
    }
    int cx = cell_of(x[i].x, block.lo[0], cells.size[0], cells.n[0]),
        cy = cell_of(x[i].y, block.lo[1], cells.size[1], cells.n[1]),
        cz = cell_of(x[i].z, block.lo[2], cells.size[2], cells.n[2]);
    for (int z = max(cz - 1, 0); z <= min(cz + 1, cells.n[2] + 1); z++) {
        for (int y = max(cy - 1, 0); y <= min(cy + 1, cells.n[1] + 1); y++) {
            for (int at = max(cx - 1, 0); at <= min(cx + 1, cells.n[0] + 1); at++) {
                count = add_neighbours(x, i, cells, cells.index(at, y, z), lists, count);
            }
        }
    }
    lists.count[i] = min(count, NEIGHBOURS_MAX);
    if (count > NEIGHBOURS_MAX) {
        atomicOr(faults, LIST_FULL);
    }
}

/* ---- Messages. Counts go on where there is no room, so that the host sees it ---- */

__device__ inline void send_atom(const struct atoms &from, int i, const double3 &shift, struct traveller *to,
                                 int max, int *count)
{
    int at = atomicAdd(count, 1);
    if (at < max) {
        to[at] = {sum(from.x[i], shift), from.v[i], (double)from.id[i]};
    }
}

/* Deals the atoms out: counts[0] leave the block downwards, counts[1] upwards, and counts[2] stay. */
__global__ void split_atoms(struct atoms from, int n, struct atoms to, struct block block, int d,
                            double3 shift_lower, double3 shift_upper, struct traveller *lower,
                            struct traveller *upper, int max, int *counts)
{
    int i = this_thread();
    if (i >= n) {
        return;
    }
    double x = component(from.x[i], d);
    if (x < block.lo[d]) {
        send_atom(from, i, shift_lower, lower, max, &counts[0]);
    } else if (x >= block.hi[d]) {
        send_atom(from, i, shift_upper, upper, max, &counts[1]);
    } else {
        int at = atomicAdd(&counts[2], 1);
        to.x[at] = from.x[i];
        to.v[at] = from.v[i];
        to.id[at] = from.id[i];
    }
}

__global__ void append_atoms(struct atoms to, int first, const struct traveller *from, int n)
{
    int i = this_thread();
    if (i < n) {
        to.x[first + i] = from[i].x;
        to.v[first + i] = from[i].v;
        to.id[first + i] = (long)from[i].id;
    }
}

/* Which atoms are below and above these limits, and so in reach of a neighbour. */
__global__ void select_border(const double3 *x, int n, int d, double below, double above, int *lower,
                              int *upper, int max, int *counts)
{
    int i = this_thread();
    if (i < n) {
        if (component(x[i], d) < below) {
            int at = atomicAdd(&counts[0], 1);
            if (at < max) {
                lower[at] = i;
            }
        }
        if (component(x[i], d) > above) {
            int at = atomicAdd(&counts[1], 1);
            if (at < max) {
                upper[at] = i;
            }
        }
    }
}

__global__ void pack_positions(const double3 *x, const int *list, int n, double3 shift, double3 *buffer)
{
    int i = this_thread();
    if (i < n) {
        buffer[i] = sum(x[list[i]], shift);
    }
}

#endif
