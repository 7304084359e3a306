/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recipe.h: how a derived type was made: the constructor and its arguments, as the program gave them.
 *
 * The layout is never stored a second time: whoever needs it (the bounds, the flattening, external32) reads
 * it off the arguments through ampi_recipe_parts and ampi_recipe_part.
 */
#ifndef AMPI_DATATYPE_RECIPE_H
#define AMPI_DATATYPE_RECIPE_H

#include "ampi/datatype/type.h"

struct ampi_type_recipe {
    int combiner;     /* MPI_COMBINER_... */
    bool is_large;    /* made by a _c function: counts and displacements are in counts */
    MPI_Count n_ints; /* lengths of the four arrays, in the order of MPI_Type_get_contents */
    MPI_Count n_aints;
    MPI_Count n_counts;
    MPI_Count n_types;
    int *ints;
    MPI_Aint *aints;
    MPI_Count *counts;
    struct ampi_type **types; /* each with a reference */
    struct ampi_type *impl;   /* a type of the same layout, with a reference: array types; else NULL */
};

/* len consecutive elements of child, disp_bytes from the type's origin. */
struct ampi_part {
    MPI_Count disp_bytes;
    MPI_Count len;
    struct ampi_type *child;
};

/* A new type with one reference and one handle, whose recipe has room for the arguments. */
struct ampi_type *ampi_type_new(int combiner, bool is_large, MPI_Count n_ints, MPI_Count n_aints,
                                MPI_Count n_counts, MPI_Count n_types);

/* Fills what follows from the recipe: size, bounds, basic kind. False, and the type is destroyed, if a number
 * does not fit into 63 bits. */
bool ampi_type_finish(struct ampi_type *type) BASE_MUST_CHECK;

/* Number of parts, and the part with this number, of a type that has a recipe; parts come in the order of the
 * data. */
MPI_Count ampi_recipe_parts(const struct ampi_type *type);
struct ampi_part ampi_recipe_part(const struct ampi_type *type, MPI_Count index);

/* True if the parts lie at equal distances and have the same length and child: the vectors. */
bool ampi_recipe_is_strided(const struct ampi_type *type);

/* The two elements of a predefined pair type (MPI_FLOAT_INT ...); false for other types. */
bool ampi_type_pair_parts(const struct ampi_type *type, struct ampi_part parts[2]);

/* The object of a handle given by the program; raises MPI_ERR_TYPE and returns NULL if it is none. what:
 * "datatype". */
struct ampi_type *ampi_type_arg(MPI_Datatype handle, const char *what) BASE_MUST_CHECK;

/* The same, and the type must be committed. */
struct ampi_type *ampi_type_arg_committed(MPI_Datatype handle, const char *what) BASE_MUST_CHECK;

#endif
