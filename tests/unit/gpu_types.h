/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_types.h: random datatypes for the unit tests of kernels that pack.
 */
#ifndef GPU_TYPES_H
#define GPU_TYPES_H

#include "ampi/datatype/gpu_data.h"
#include "gpu_device.h"
#include "mpi_job.h"

/* Types that others are made of. */
#define TYPES_POOL 24

static inline void types_fill(MPI_Datatype *pool)
{
    static const MPI_Datatype basics[] = {MPI_CHAR,     MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX,
                                          MPI_SHORT_INT};

    for (int i = 0; i < TYPES_POOL; i++)
        MPI_Type_dup(basics[(size_t)i % BASE_COUNT(basics)], &pool[i]);
}

static inline void types_free(MPI_Datatype *pool)
{
    for (int i = 0; i < TYPES_POOL; i++)
        MPI_Type_free(&pool[i]);
}

static inline MPI_Datatype random_struct(const MPI_Datatype *pool)
{
    int n = (int)random_in(1, 6), lens[6];
    MPI_Aint disps[6];
    MPI_Datatype types[6], made;

    for (int i = 0; i < n; i++) {
        lens[i] = (int)random_in(0, 3);
        disps[i] = random_in(-40, 200) * (random_bits() & 1 ? 1 : 4);
        types[i] = pool[random_in(0, TYPES_POOL - 1)];
    }
    MPI_Type_create_struct(n, lens, disps, types, &made);
    return made;
}

static inline MPI_Datatype random_table(MPI_Datatype child)
{
    int n = (int)(random_bits() % 8 ? random_in(1, 20) : random_in(200, 700)), lens[700], disps[700], at = 0;
    MPI_Datatype made;

    for (int i = 0; i < n; i++) {
        lens[i] = (int)random_in(1, 3);
        disps[i] = at;
        at += lens[i] + (int)random_in(0, 3);
    }
    if (random_bits() & 1)
        MPI_Type_indexed(n, lens, disps, child, &made);
    else
        MPI_Type_create_indexed_block(n, 1, disps, child, &made);
    return made;
}

static inline MPI_Datatype random_subarray(MPI_Datatype child)
{
    int n = (int)random_in(1, 4), sizes[4], subsizes[4], starts[4];
    MPI_Datatype made;

    for (int d = 0; d < n; d++) {
        sizes[d] = (int)random_in(1, 7);
        subsizes[d] = (int)random_in(1, sizes[d]);
        starts[d] = (int)random_in(0, sizes[d] - subsizes[d]);
    }
    MPI_Type_create_subarray(n, sizes, subsizes, starts, MPI_ORDER_C, child, &made);
    return made;
}

static inline MPI_Datatype random_type(const MPI_Datatype *pool)
{
    MPI_Datatype child = pool[random_in(0, TYPES_POOL - 1)], made;
    MPI_Aint lb, extent;

    switch (random_bits() % 6) {
    case 0:
        MPI_Type_vector((int)random_in(1, 9), (int)random_in(1, 4), (int)random_in(-6, 8), child, &made);
        break;
    case 1:
        MPI_Type_create_hvector((int)random_in(1, 40), 1, random_in(-100, 100), child, &made);
        break;
    case 2:
        made = random_table(child);
        break;
    case 3:
        made = random_subarray(child);
        break;
    case 4:
        made = random_struct(pool);
        break;
    default:
        MPI_Type_get_extent(child, &lb, &extent);
        MPI_Type_create_resized(child, random_in(-8, 8), extent + random_in(-4, 24), &made);
    }
    return made;
}

/* True if count elements stay within bounds. */
static inline bool fits(const struct ampi_type *type, int64_t count, int64_t span)
{
    int64_t last = (count - 1) * type->extent_bytes;
    int64_t low = type->true_lb_bytes + (last < 0 ? last : 0);
    int64_t high = type->true_lb_bytes + type->true_extent_bytes + (last > 0 ? last : 0);

    return low >= -span / 2 && high <= span / 2 && count * type->size_bytes <= span;
}

#endif
