/* SPDX-License-Identifier: BSD-3-Clause
 *
 * io_random_types.h: random datatypes with a list of the places of their basic elements, for io_random.c.
 *
 * All ranks make the same decisions; only the rank that needs the MPI type creates it. The places are computed here, without MPI.
 */
#ifndef IO_RANDOM_TYPES_H
#define IO_RANDOM_TYPES_H

#include "mio.h"

enum { ELEMENTS_MAX = 96, CHILDREN_MAX = 6 };

static uint64_t seed; /* the same at all ranks */

static int roll(int n)
{
    return (int)(mtest_random(&seed) % (unsigned)n);
}

/* A type: the places of its basic elements ascend, and do not overlap. */
struct shape {
    MPI_Datatype type; /* MPI_DATATYPE_NULL: not created */
    int n;             /* basic elements */
    long at[ELEMENTS_MAX];
    long extent;
};

/* Places of copies of a child. */
struct copies {
    int n;
    long at[CHILDREN_MAX * 4];
    long extent; /* of the whole, for some types */
};

static void shape_basic(struct shape *s, MPI_Datatype type, long bytes, bool is_made)
{
    *s = (struct shape){.type = is_made ? type : MPI_DATATYPE_NULL, .n = 1, .extent = bytes};
}

/* The type becomes copies of itself, with an extent of at least the end of the last one; `type` is NULL if it is not made. */
static void shape_repeat(struct shape *s, const struct copies *copies, long extent, MPI_Datatype type)
{
    struct shape old = *s;

    s->n = 0;
    for (int i = 0; i < copies->n; i++)
        for (int k = 0; k < old.n; k++)
            s->at[s->n++] = copies->at[i] + old.at[k];
    s->extent = extent;
    s->type = type;
}

static void shape_free(struct shape *s)
{
    int n_ints, n_aints, n_types, combiner;

    if (s->type == MPI_DATATYPE_NULL)
        return;
    MPI_Type_get_envelope(s->type, &n_ints, &n_aints, &n_types, &combiner);
    if (combiner != MPI_COMBINER_NAMED)
        MPI_Type_free(&s->type);
}

/* n blocks of b copies, at multiples of the stride. */
static struct copies copies_in_blocks(int n, int b, long stride, long extent)
{
    struct copies copies = {0};

    for (int i = 0; i < n; i++)
        for (int k = 0; k < b; k++)
            copies.at[copies.n++] = i * stride + k * extent;
    return copies;
}

/* Blocks at random places: displacements in units. */
static struct copies copies_at_random(int n, int *lengths, int *at, MPI_Aint *bytes, long unit, long extent)
{
    struct copies copies = {0};
    long place = 0;

    for (int i = 0; i < n; i++) {
        place += roll(3) * (unit == 1 ? 5 : 1);
        at[i] = (int)place;
        bytes[i] = place * unit;
        for (int k = 0; k < lengths[i]; k++)
            copies.at[copies.n++] = place * unit + k * extent;
        place += lengths[i] * extent / unit;
    }
    return copies;
}

/* A block of an array with two dimensions. */
static struct copies wrap_subarray(struct shape *s, MPI_Datatype *made)
{
    int sizes[2], counts[2], starts[2], order = roll(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int fast = order == MPI_ORDER_C;
    struct copies copies = {0};

    for (int d = 0; d < 2; d++) {
        counts[d] = 1 + roll(3);
        starts[d] = roll(3);
        sizes[d] = starts[d] + counts[d] + roll(2);
    }
    for (int i = 0; i < counts[!fast]; i++)
        for (int k = 0; k < counts[fast]; k++)
            copies.at[copies.n++] = ((starts[!fast] + i) * sizes[fast] + starts[fast] + k) * s->extent;
    copies.extent = sizes[0] * sizes[1] * s->extent;
    if (s->type != MPI_DATATYPE_NULL)
        MPI_Type_create_subarray(2, sizes, counts, starts, order, s->type, made);
    return copies;
}

/* A process's elements of an array that is distributed in blocks or cyclically. */
static struct copies wrap_darray(struct shape *s, MPI_Datatype *made)
{
    int size = 1 + roll(12), n = 1 + roll(3), is_cyclic = roll(2), each = 1 + roll(3), rank = roll(n);
    int distribution = is_cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
    int block = is_cyclic ? each : (size + n - 1) / n;
    struct copies copies = {.extent = size * s->extent};

    for (int i = 0; i < size; i++)
        if (i / block % n == rank)
            copies.at[copies.n++] = i * s->extent;
    each = is_cyclic ? each : MPI_DISTRIBUTE_DFLT_DARG;
    if (s->type != MPI_DATATYPE_NULL && copies.n > 0)
        MPI_Type_create_darray(n, rank, 1, &size, &distribution, &each, &n, MPI_ORDER_C, s->type, made);
    return copies;
}

/* The same with a lower bound below zero, which no displacement is. */
static struct copies wrap_below(struct shape *s, MPI_Datatype *made)
{
    struct copies copies = {.n = 1, .extent = s->extent + roll(3)};
    int below = 1 + roll(9);

    if (s->type != MPI_DATATYPE_NULL)
        MPI_Type_create_resized(s->type, -below, copies.extent, made);
    return copies;
}

/* Wraps the type in a constructor that has its own function. */
static void shape_wrap_array(struct shape *s, bool is_scaled)
{
    int kind = roll(is_scaled ? 2 : 3);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    struct copies copies;

    if (s->n * 12 > ELEMENTS_MAX)
        return;
    copies = kind == 0 ? wrap_subarray(s, &made) : kind == 1 ? wrap_darray(s, &made) : wrap_below(s, &made);
    if (copies.n == 0)
        return;
    shape_free(s);
    shape_repeat(s, &copies, copies.extent, made);
}

/* Wraps the type in one more constructor. is_scaled: only those whose displacements count elements. */
static void shape_wrap(struct shape *s, bool is_scaled)
{
    static const int scaled[] = {0, 1, 3, 5, 8, 9};
    int kind = is_scaled ? scaled[roll(6)] : roll(10), n = 1 + roll(3), b = 1 + roll(2), gap = roll(3);
    int lengths[3] = {b, 1 + roll(2), b}, at[3], ones[3] = {1, 1, 1};
    long extent = s->extent, end;
    bool is_made = s->type != MPI_DATATYPE_NULL;
    MPI_Aint bytes[3];
    MPI_Datatype made = MPI_DATATYPE_NULL, types[3] = {s->type, s->type, s->type};
    struct copies copies;

    if (roll(4) == 0) {
        shape_wrap_array(s, is_scaled);
        return;
    }
    if (s->n * n * 2 > ELEMENTS_MAX)
        return;
    if (kind == 5 || kind == 6)
        lengths[0] = lengths[1] = lengths[2] = kind == 5 ? b : 1;
    if (kind <= 2)
        copies = copies_in_blocks(n, kind ? b : 1,
                                  kind == 0   ? extent
                                  : kind == 1 ? (b + gap) * extent
                                              : b * extent + gap * 3,
                                  extent);
    else if (kind <= 6)
        copies = copies_at_random(n, lengths, at, bytes, kind == 4 || kind == 6 ? 1 : extent, extent);
    else
        copies = copies_in_blocks(1, kind == 8 ? b : 1, 0, extent);
    for (int i = 0; kind == 8 && i < copies.n; i++)
        copies.at[i] += gap * extent;
    end = copies.at[copies.n - 1] + extent;
    if (kind == 7)
        end += gap * 2 + roll(2);
    if (kind == 8)
        end = (gap + b + n - 1) * extent;
    switch (is_made ? kind : -1) {
    case 0:
        MPI_Type_contiguous(n, s->type, &made);
        break;
    case 1:
        MPI_Type_vector(n, b, b + gap, s->type, &made);
        break;
    case 2:
        MPI_Type_create_hvector(n, b, b * extent + gap * 3, s->type, &made);
        break;
    case 3:
        MPI_Type_indexed(n, lengths, at, s->type, &made);
        break;
    case 4:
        MPI_Type_create_hindexed(n, lengths, bytes, s->type, &made);
        break;
    case 5:
        MPI_Type_create_indexed_block(n, b, at, s->type, &made);
        break;
    case 6:
        MPI_Type_create_struct(n, ones, bytes, types, &made);
        break;
    case 7:
        MPI_Type_create_resized(s->type, 0, end, &made);
        break;
    case 8:
        at[0] = gap + b + n - 1;
        MPI_Type_create_subarray(1, at, &b, &gap, MPI_ORDER_C, s->type, &made);
        break;
    case 9:
        MPI_Type_dup(s->type, &made);
        break;
    default:
        break;
    }
    if (is_made)
        shape_free(s);
    if (is_made && (kind == 2 || kind == 4 || kind == 6)) { /* an extent that is not rounded up */
        MPI_Datatype rounded = made;
        MPI_Type_create_resized(rounded, 0, end, &made);
        MPI_Type_free(&rounded);
    }
    if (kind == 3 || kind == 5) /* the lower bound is that of the first copy */
        end -= copies.at[0];
    shape_repeat(s, &copies, end, made);
}

#endif
