/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of a patch in a step, for the CPU and the GPU: Lennard-Jones forces within CUTOFF, then a step of time. */
#ifndef WORK_MD_H
#define WORK_MD_H

#include <mpi-ext.h>

#define CUTOFF 2.5
#define TIME_STEP 0.002
#define ATOMS_MAX 128 /* in a patch */
#define AROUND 9      /* a patch and those next to it; the patch itself is number 4 */

/* The atoms of a patch that others read, and what only it needs. */
struct places {
    int n;
    int ids[ATOMS_MAX];
    double x[ATOMS_MAX];
    double y[ATOMS_MAX];
};

struct speeds {
    double x[ATOMS_MAX];
    double y[ATOMS_MAX];
};

/* The size of the periodic plane. */
struct plane {
    double width;
    double height;
};

#ifdef __CUDACC__
#define EVERYWHERE __host__ __device__
#else
#define EVERYWHERE
#endif

/* The shortest of a distance and those through the plane's ends. */
static inline EVERYWHERE double shortest(double distance, double size)
{
    return distance > size / 2 ? distance - size : distance < -size / 2 ? distance + size : distance;
}

/* Adds the force of an atom at this distance. */
static inline EVERYWHERE void add_force(double dx, double dy, double *force_x, double *force_y)
{
    double square = dx * dx + dy * dy;

    if (square > 0 && square < CUTOFF * CUTOFF) {
        double inverse = 1 / square, sixth = inverse * inverse * inverse;
        double force = 24 * inverse * sixth * (2 * sixth - 1);
        *force_x += force * dx;
        *force_y += force * dy;
    }
}

/* The step of the atoms first, first + step, ... Buffers: the places of AROUND patches, its speeds, its new places. */
static inline EVERYWHERE void do_atoms(const struct plane *plane, void *const *buffers, int first, int step)
{
    const struct places *own = (const struct places *)buffers[AROUND / 2];
    struct speeds *speeds = (struct speeds *)buffers[AROUND];
    struct places *out = (struct places *)buffers[AROUND + 1];

    if (first == 0)
        out->n = own->n;
    for (int i = first; i < own->n; i += step) {
        double force_x = 0, force_y = 0;
        for (int near = 0; near < AROUND; near++) {
            const struct places *other = (const struct places *)buffers[near];
            for (int j = 0; j < other->n; j++)
                add_force(shortest(own->x[i] - other->x[j], plane->width),
                          shortest(own->y[i] - other->y[j], plane->height), &force_x, &force_y);
        }
        speeds->x[i] += force_x * TIME_STEP;
        speeds->y[i] += force_y * TIME_STEP;
        out->ids[i] = own->ids[i];
        out->x[i] = own->x[i] + speeds->x[i] * TIME_STEP;
        out->y[i] = own->y[i] + speeds->y[i] * TIME_STEP;
    }
}

#ifdef __cplusplus
extern "C"
#endif
    /* Registers the kind, with its kernel if there is a GPU. */
    int
    register_patches(AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work);

#endif
