/* SPDX-License-Identifier: BSD-3-Clause
 *
 * compose.h: types composed inside the library, for the layout of array types. Each function takes over the
 * caller's reference to child and returns a new reference; NULL (bounds too large) is passed on.
 */
#ifndef AMPI_DATATYPE_COMPOSE_H
#define AMPI_DATATYPE_COMPOSE_H

#include "ampi/datatype/recipe.h"

/* count elements of child, stride_bytes apart. */
struct ampi_type *ampi_compose_vector(struct ampi_type *child, MPI_Count count, MPI_Count stride_bytes);

/* first, and second disp_bytes after it. Takes over both references. */
struct ampi_type *ampi_compose_two(struct ampi_type *first, struct ampi_type *second, MPI_Count disp_bytes);

/* The child moved by disp_bytes. */
struct ampi_type *ampi_compose_moved(struct ampi_type *child, MPI_Count disp_bytes);

/* The child with lower bound 0 and this extent. */
struct ampi_type *ampi_compose_resized(struct ampi_type *child, MPI_Count extent_bytes);

/* a * b; the largest or smallest number if the product is too large. */
MPI_Count ampi_compose_product(MPI_Count a, MPI_Count b);

/* True if an array of this many bytes (negative: because of its extent) is allowed. */
static inline bool ampi_compose_fits(MPI_Count n_bytes)
{
    return n_bytes < (MPI_Count)1 << 61 && n_bytes > -((MPI_Count)1 << 61);
}

#endif
