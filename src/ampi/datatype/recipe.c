/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recipe.c: derives the layout of a derived type from its constructor's arguments.
 */
#include "ampi/datatype/recipe.h"

/* Argument `index` among counts and displacements that are int in the small form. */
static MPI_Count count_arg(const struct ampi_type_recipe *r, MPI_Count index)
{
    return r->is_large ? r->counts[index] : r->ints[index];
}

/* Displacement `index` of the constructors with displacements in bytes; first_large: its index in counts. */
static MPI_Count disp_arg(const struct ampi_type_recipe *r, MPI_Count index, MPI_Count first_large)
{
    return r->is_large ? r->counts[first_large + index] : r->aints[index];
}

/* a * b, or a number that ampi_type_finish rejects if the product overflows. */
static MPI_Count product(MPI_Count a, MPI_Count b)
{
    MPI_Count result;

    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

bool ampi_recipe_is_strided(const struct ampi_type *type)
{
    return type->recipe->combiner == MPI_COMBINER_VECTOR || type->recipe->combiner == MPI_COMBINER_HVECTOR;
}

MPI_Count ampi_recipe_pieces(const struct ampi_type *type)
{
    switch (type->recipe->combiner) {
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT:
        return count_arg(type->recipe, 0);
    default:
        return 1;
    }
}

struct ampi_recipe_piece ampi_recipe_piece_of(const struct ampi_type *type, MPI_Count i)
{
    const struct ampi_type_recipe *r = type->recipe;
    struct ampi_type *child = r->impl ? r->impl : r->types[0];
    MPI_Count extent = child->extent_bytes;
    MPI_Count n;

    switch (r->combiner) {
    case MPI_COMBINER_CONTIGUOUS:
        return (struct ampi_recipe_piece){0, count_arg(r, 0), child};
    case MPI_COMBINER_VECTOR:
        return (struct ampi_recipe_piece){product(product(i, count_arg(r, 2)), extent), count_arg(r, 1),
                                          child};
    case MPI_COMBINER_HVECTOR:
        return (struct ampi_recipe_piece){product(i, disp_arg(r, 0, 2)), count_arg(r, 1), child};
    case MPI_COMBINER_INDEXED:
        n = count_arg(r, 0);
        return (struct ampi_recipe_piece){product(count_arg(r, 1 + n + i), extent), count_arg(r, 1 + i),
                                          child};
    case MPI_COMBINER_HINDEXED:
        n = count_arg(r, 0);
        return (struct ampi_recipe_piece){disp_arg(r, i, 1 + n), count_arg(r, 1 + i), child};
    case MPI_COMBINER_INDEXED_BLOCK:
        return (struct ampi_recipe_piece){product(count_arg(r, 2 + i), extent), count_arg(r, 1), child};
    case MPI_COMBINER_HINDEXED_BLOCK:
        return (struct ampi_recipe_piece){disp_arg(r, i, 2), count_arg(r, 1), child};
    case MPI_COMBINER_STRUCT:
        n = count_arg(r, 0);
        return (struct ampi_recipe_piece){disp_arg(r, i, 1 + n), count_arg(r, 1 + i), r->types[i]};
    default: /* resized, dup, and all types with an impl */
        return (struct ampi_recipe_piece){0, 1, child};
    }
}
