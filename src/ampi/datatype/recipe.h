/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recipe.h: the construction of a derived type: the constructor and its arguments, as the program gave
 * them.
 *
 * The layout is not stored separately: users of it (bounds, flattening, external32) derive it from the
 * arguments through ampi_recipe_pieces and ampi_recipe_piece_of.
 */
#ifndef AMPI_DATATYPE_RECIPE_H
#define AMPI_DATATYPE_RECIPE_H

#include "ampi/datatype/type.h"

struct ampi_type_recipe {
    int combiner;     /* MPI_COMBINER_... */
    bool is_large;    /* created by a _c function: counts and displacements are in counts */
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
struct ampi_recipe_piece {
    MPI_Count disp_bytes;
    MPI_Count len;
    struct ampi_type *child;
};

/* A new type with one reference and one handle, whose recipe has room for the arguments. */
struct ampi_type *ampi_type_new(int combiner, bool is_large, MPI_Count n_ints, MPI_Count n_aints,
                                MPI_Count n_counts, MPI_Count n_types);

/* Derives size, bounds and basic kind from the recipe. Returns false, and destroys the type, if a number
 * does not fit into 63 bits. */
bool ampi_type_finish(struct ampi_type *type) BASE_MUST_CHECK;

/* The number of pieces, and piece `index`, of a type with a recipe; pieces are in the order of the data. */
MPI_Count ampi_recipe_pieces(const struct ampi_type *type);
struct ampi_recipe_piece ampi_recipe_piece_of(const struct ampi_type *type, MPI_Count index);

/* True if the pieces are at equal distances and have the same length and child: the vectors. */
bool ampi_recipe_is_strided(const struct ampi_type *type);

/* The two elements of a predefined pair type (MPI_FLOAT_INT ...); false for other types. */
bool ampi_type_pair_parts(const struct ampi_type *type, struct ampi_recipe_piece parts[2]);

/* The object of the program's handle; raises MPI_ERR_TYPE and returns NULL if it is not valid. what:
 * "datatype". */
struct ampi_type *ampi_type_arg(MPI_Datatype handle, const char *what) BASE_MUST_CHECK;

/* The same for a type that must be committed. */
struct ampi_type *ampi_type_arg_committed(MPI_Datatype handle, const char *what) BASE_MUST_CHECK;

/* Commits a type, which may have been committed before. */
void ampi_type_commit(struct ampi_type *type);

#endif
