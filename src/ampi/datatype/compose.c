/* SPDX-License-Identifier: BSD-3-Clause
 *
 * compose.c: types composed inside the library. Their recipes are like those of the program, in the large
 * form.
 */
#include "ampi/datatype/compose.h"

#include <stdarg.h>

/* A type with one child and the given counts. */
static struct ampi_type *compose(int combiner, struct ampi_type *child, int n_counts, ...)
{
    struct ampi_type *type;
    va_list counts;

    if (!child)
        return NULL;
    type = ampi_type_new(combiner, true, 0, 0, n_counts, 1);
    va_start(counts, n_counts);
    for (int i = 0; i < n_counts; i++)
        type->recipe->counts[i] = va_arg(counts, MPI_Count);
    va_end(counts);
    type->recipe->types[0] = child;
    return ampi_type_finish(type) ? type : NULL;
}

struct ampi_type *ampi_compose_vector(struct ampi_type *child, MPI_Count count, MPI_Count stride_bytes)
{
    return compose(MPI_COMBINER_HVECTOR, child, 3, count, (MPI_Count)1, stride_bytes);
}

struct ampi_type *ampi_compose_two(struct ampi_type *first, struct ampi_type *second, MPI_Count disp_bytes)
{
    struct ampi_type *type;

    if (!first || !second) {
        if (first || second)
            ampi_type_unref(first ? first : second);
        return NULL;
    }
    type = ampi_type_new(MPI_COMBINER_STRUCT, true, 0, 0, 5, 2);
    memcpy(type->recipe->counts, (MPI_Count[5]){2, 1, 1, 0, disp_bytes}, 5 * sizeof(MPI_Count));
    type->recipe->types[0] = first;
    type->recipe->types[1] = second;
    return ampi_type_finish(type) ? type : NULL;
}

struct ampi_type *ampi_compose_moved(struct ampi_type *child, MPI_Count disp_bytes)
{
    return compose(MPI_COMBINER_HINDEXED_BLOCK, child, 3, (MPI_Count)1, (MPI_Count)1, disp_bytes);
}

struct ampi_type *ampi_compose_resized(struct ampi_type *child, MPI_Count extent_bytes)
{
    return compose(MPI_COMBINER_RESIZED, child, 2, (MPI_Count)0, extent_bytes);
}

MPI_Count ampi_compose_product(MPI_Count a, MPI_Count b)
{
    MPI_Count result;

    if (!__builtin_mul_overflow(a, b, &result))
        return result;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
