/* SPDX-License-Identifier: BSD-3-Clause
 *
 * minimd.h: the model and the data of minimd_cuda.
 */
#ifndef MINIMD_H
#define MINIMD_H

#include <cuda_runtime.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <utility>
#include <vector>

/* ---- The model ---- */
#define DENSITY 0.8442
#define TEMPERATURE 1.44
#define CUTOFF 2.5
#define SKIN 0.6 /* pairs further apart by this are in the lists, too, for the steps to come */
#define REACH (CUTOFF + SKIN)
#define TIME_STEP 0.005
#define DRIFT_MAX 1e-3     /* of the total energy, relative */
#define NEIGHBOURS_MAX 256 /* of an atom; 105 on average */

#define THREADS 128 /* of a kernel's block */
#define COUNTERS 3
enum fault { MOVED_TOO_FAR = 1, CELL_FULL = 2, LIST_FULL = 4 };

#define CUDA_CHECK(call)                                                                               \
    do {                                                                                               \
        cudaError_t error_ = (call);                                                                   \
        if (error_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
        }                                                                                              \
    } while (0)

/* ---- Vectors ---- */

__host__ __device__ inline double component(const double3 &a, int d)
{
    return d == 0 ? a.x : d == 1 ? a.y : a.z;
}

inline void set_component(double3 *a, int d, double value)
{
    *(d == 0 ? &a->x : d == 1 ? &a->y : &a->z) = value;
}

__host__ __device__ inline double3 difference(const double3 &a, const double3 &b)
{
    return make_double3(a.x - b.x, a.y - b.y, a.z - b.z);
}

__host__ __device__ inline double3 sum(const double3 &a, const double3 &b)
{
    return make_double3(a.x + b.x, a.y + b.y, a.z + b.z);
}

/* a + factor * b */
__host__ __device__ inline double3 moved(const double3 &a, double factor, const double3 &b)
{
    return make_double3(a.x + factor * b.x, a.y + factor * b.y, a.z + factor * b.z);
}

__host__ __device__ inline double square(const double3 &a)
{
    return a.x * a.x + a.y * a.y + a.z * a.z;
}

/* The force on an atom from one at distance d is this times d. */
__host__ __device__ inline double pair_force(double r2)
{
    double i2 = 1 / r2, i6 = i2 * i2 * i2;
    return 48 * i6 * (i6 - 0.5) * i2;
}

__host__ __device__ inline double pair_energy(double r2)
{
    double i6 = 1 / (r2 * r2 * r2), cut6 = 1 / (CUTOFF * CUTOFF * CUTOFF * CUTOFF * CUTOFF * CUTOFF);
    return 4 * (i6 * (i6 - 1) - cut6 * (cut6 - 1));
}

/* ---- Data ---- */

/* A rank's part of the box. */
struct block {
    double lo[3], hi[3];
    double length[3]; /* of the whole box */

    bool has(const double3 &x) const
    {
        return x.x >= lo[0] && x.x < hi[0] && x.y >= lo[1] && x.y < hi[1] && x.z >= lo[2] && x.z < hi[2];
    }
};

/* Own atoms, and behind them the positions of ghosts. */
struct atoms {
    double3 *x, *v;
    long *id;
};

/* An atom on its way: seven doubles. */
struct traveller {
    double3 x, v;
    double id;
};

/* The block cut into cells of at least the reach, with a layer of cells for ghosts around it. */
struct cells {
    int n[3]; /* without that layer */
    double size[3];
    int capacity; /* atoms of a cell */
    int *count;   /* of each cell */
    int *atoms;   /* [cell][capacity] */

    __host__ __device__ int number() const
    {
        return (n[0] + 2) * (n[1] + 2) * (n[2] + 2);
    }
    __host__ __device__ int index(int i, int j, int k) const
    {
        return (k * (n[1] + 2) + j) * (n[0] + 2) + i;
    }
};

/* Each own atom's neighbours in reach: every pair is in the lists of both. */
struct lists {
    int stride; /* neighbour k of atom i is atoms[k * stride + i] */
    int *count;
    int *atoms;
};

#include "kernels.h"
#include "host.h"

#endif
