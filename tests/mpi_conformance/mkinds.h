/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mkinds.h: kinds of elements for the programs that test every operation around the switch points: types with
 * and without holes, sums, pairs and a user's non-commutative operation.
 */
#ifndef MKINDS_H
#define MKINDS_H

#include "mcoll.h"

struct matrix {
    long m[4];
};

static void combine_int(const void *in, void *inout)
{
    *(unsigned *)inout += *(const unsigned *)in;
}
static void combine_double(const void *in, void *inout)
{
    *(double *)inout = *(const double *)in + *(double *)inout;
}
static void combine_byte(const void *in, void *inout)
{
    *(unsigned char *)inout ^= *(const unsigned char *)in;
}
struct pair {
    double value;
    int index;
};
static void combine_pair(const void *in, void *inout)
{
    const struct pair *a = in;
    struct pair *b = inout;
    if (a->value > b->value || (a->value == b->value && a->index < b->index)) {
        b->value = a->value;
        b->index = a->index;
    }
}
static void combine_matrix(const void *in, void *inout)
{
    const struct matrix *a = in, *b = inout;
    struct matrix r;
    for (int i = 0; i < 4; i++)
        r.m[i] = (a->m[i / 2 * 2] * b->m[i % 2] + a->m[i / 2 * 2 + 1] * b->m[2 + i % 2]) % 1000003;
    *(struct matrix *)inout = r;
}
/* Adds the ints of elements that have holes behind them; predefined operations do not take such types. */
static void user_sum_holes(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((unsigned *)inout)[3 * i] += ((const unsigned *)in)[3 * i];
}

static void user_matrix(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        combine_matrix((struct matrix *)in + i, (struct matrix *)inout + i);
}

static struct kind {
    const char *name;
    size_t extent;                                /* of an element, all of which is compared */
    size_t size;                                  /* bytes of data in it */
    void (*combine)(const void *in, void *inout); /* the left operand, the right one and the result */
    int from_right;                               /* combined from the last rank on */
    MPI_Datatype type;
    MPI_Op op;
} kinds[6];
enum { N_KINDS = 6 };

static inline void make_kinds(void)
{
    MPI_Datatype matrix, holes;
    MPI_Op multiply, sum_holes;
    MTEST_OK(MPI_Type_contiguous(4, MPI_LONG, &matrix));
    MTEST_OK(MPI_Type_commit(&matrix));
    MTEST_OK(MPI_Type_create_resized(MPI_INT, 0, 12, &holes));
    MTEST_OK(MPI_Type_commit(&holes));
    MTEST_OK(MPI_Op_create(user_matrix, 0, &multiply));
    MTEST_OK(MPI_Op_create(user_sum_holes, 1, &sum_holes));
    kinds[0] = (struct kind){"int", 4, 4, combine_int, 0, MPI_INT, MPI_SUM};
    kinds[1] = (struct kind){"double", 8, 8, combine_double, 0, MPI_DOUBLE, MPI_SUM};
    kinds[2] = (struct kind){"byte", 1, 1, combine_byte, 0, MPI_BYTE, MPI_BXOR};
    kinds[3] = (struct kind){"double_int", 16, 12, combine_pair, 0, MPI_DOUBLE_INT, MPI_MAXLOC};
    kinds[4] = (struct kind){"int with holes", 12, 4, combine_int, 0, holes, sum_holes};
    kinds[5] = (struct kind){"matrix", sizeof(struct matrix), 32, combine_matrix, 1, matrix, multiply};
}

/* Elements of a rank; holes and padding are zero everywhere. */
static inline void fill(const struct kind *k, char *buf, long count, int rank, int salt)
{
    memset(buf, 0, (size_t)count * k->extent);
    for (long i = 0; i < count; i++) {
        unsigned v = (unsigned)rank * 2654435761u + (unsigned)i * 40503u + (unsigned)salt * 977u;
        char *at = buf + (size_t)i * k->extent;
        if (k->combine == combine_double)
            *(double *)(void *)at = (double)v / 7.0 * ((v & 1) ? 1e-9 : 1e3);
        else if (k->combine == combine_pair)
            *(struct pair *)(void *)at = (struct pair){v % 5, (int)(v >> 7 & 1023)};
        else if (k->combine == combine_matrix)
            *(struct matrix *)(void *)at = (struct matrix){{v % 11, 1, v % 3, v % 7}};
        else
            memcpy(at, &v, k->size);
        if (k->combine == combine_pair)
            memset(at + 12, 0, 4);
    }
}

/* inout = in op inout, element by element. */
static inline void combine(const struct kind *k, const char *in, char *inout, long count)
{
    for (long i = 0; i < count; i++)
        k->combine(in + (size_t)i * k->extent, inout + (size_t)i * k->extent);
}

/* True for sums of floating-point numbers over several processes that are as near as one may expect. Within
 * one process they keep the documented order, and have to be equal. */
static inline int are_near(const struct kind *k, const char *got, const char *want, size_t n_bytes)
{
    if (k->combine != combine_double || !getenv("PMIX_RANK"))
        return 0;
    for (size_t i = 0; i < n_bytes; i += sizeof(double)) {
        double a, b;
        memcpy(&a, got + i, sizeof a);
        memcpy(&b, want + i, sizeof b);
        double room = 1e-6 + 1e-9 * (b < 0 ? -b : b);
        if (!(a - b <= room && b - a <= room))
            return 0;
    }
    return 1;
}

/* Bytes of one rank, and of all ranks, at which the way changes (+help collectives; 32: what travels with the
 * word to go on): number i of them in elements of a kind. */
enum { N_POINTS = 11 };
static inline long switch_point(const struct kind *k, int i, int n)
{
    static const long of_one[] = {8, 32, 64, 4096, 16384, 65536},
                      of_all[] = {8192, 16384, 32768, 65536, 524288};
    return (i < 6 ? of_one[i] : of_all[i - 6] / n) / (long)k->size;
}

#endif
