/* SPDX-License-Identifier: BSD-3-Clause */
/* hvector, hindexed, indexed_block, subarray, resized, dup, negative displacements, MPI_BOTTOM, zero-size
 * types. */
#include "mtest.h"

static int out[1000], in[1000];

/* Sends one of type from out to ourselves as ints, and compares with the places listed in map. */
static void check(MPI_Datatype type, int count, const int *map, int n, const char *what)
{
    static int packed[1000];
    int position = 0, size;
    MPI_Status status;
    MTEST_OK(MPI_Type_commit(&type));
    for (int i = 0; i < 1000; i++) {
        out[i] = i;
        in[i] = -1;
    }
    MTEST_OK(MPI_Sendrecv(out + 300, count, type, mtest_rank, 0, packed, 1000, MPI_INT, mtest_rank, 0,
                          MPI_COMM_WORLD, &status));
    MTEST_OK(MPI_Get_count(&status, MPI_INT, &size));
    MTEST_CHECK(size == n, "%s: %d ints, expected %d", what, size, n);
    for (int i = 0; i < n && i < size; i++)
        MTEST_CHECK(packed[i] == 300 + map[i], "%s: int %d is from %d, expected %d", what, i, packed[i] - 300,
                    map[i]);
    /* And back into the layout. */
    MTEST_OK(MPI_Sendrecv(packed, n, MPI_INT, mtest_rank, 0, in + 300, count, type, mtest_rank, 0,
                          MPI_COMM_WORLD, &status));
    for (int i = 0; i < n; i++)
        MTEST_CHECK(in[300 + map[i]] == 300 + map[i], "%s: place %d has %d", what, map[i], in[300 + map[i]]);
    int touched = 0;
    for (int i = 0; i < 1000; i++)
        touched += in[i] != -1;
    MTEST_CHECK(touched == n, "%s: %d places written, expected %d", what, touched, n);
    /* Pack and Unpack agree. */
    static char bytes[8000];
    MTEST_OK(MPI_Pack(out + 300, count, type, bytes, sizeof bytes, &position, MPI_COMM_WORLD));
    MTEST_OK(MPI_Pack_size(count, type, MPI_COMM_WORLD, &size));
    MTEST_CHECK(position <= size, "%s: packed %d, Pack_size says %d", what, position, size);
    memset(in, 0xff, sizeof in);
    int end = position;
    position = 0;
    MTEST_OK(MPI_Unpack(bytes, end, &position, in + 300, count, type, MPI_COMM_WORLD));
    MTEST_CHECK(position == end, "%s: unpacked %d of %d", what, position, end);
    for (int i = 0; i < n; i++)
        MTEST_CHECK(in[300 + map[i]] == 300 + map[i], "%s: unpacked place %d has %d", what, map[i],
                    in[300 + map[i]]);
    MTEST_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    MPI_Datatype type, inner;
    MPI_Aint lb, extent, here;
    MPI_Status status;
    int n, size;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Type_create_hvector(3, 2, 20, MPI_INT, &type));
    check(type, 2, (int[]){0, 1, 5, 6, 10, 11, 12, 13, 17, 18, 22, 23}, 12, "hvector");
    MTEST_OK(MPI_Type_vector(3, 1, -4, MPI_INT, &type));
    check(type, 1, (int[]){0, -4, -8}, 3, "vector with a negative stride");
    MTEST_OK(
        MPI_Type_create_hvector(3, 4, 49, MPI_DOUBLE, &inner)); /* not padded to the alignment of double */
    MTEST_OK(MPI_Type_create_hvector(2, 3, 4 * 130 + 1, inner, &type));
    MTEST_OK(MPI_Type_get_extent(inner, &lb, &extent));
    MTEST_CHECK(lb == 0 && extent == 130, "odd hvector: lb %ld extent %ld", (long)lb, (long)extent);
    MTEST_OK(MPI_Type_free(&inner));
    MTEST_OK(MPI_Type_get_extent(type, &lb, &extent));
    MTEST_CHECK(lb == 0 && extent == 911, "hvector of hvectors: lb %ld extent %ld", (long)lb, (long)extent);
    MTEST_OK(MPI_Type_free(&type));
    MTEST_OK(MPI_Type_create_hindexed(3, (int[]){2, 0, 1}, (MPI_Aint[]){40, 0, -80}, MPI_INT, &type));
    check(type, 1, (int[]){10, 11, -20}, 3, "hindexed");
    MTEST_OK(MPI_Type_create_indexed_block(3, 2, (int[]){5, 9, 1}, MPI_INT, &type));
    check(type, 2, (int[]){5, 6, 9, 10, 1, 2, 15, 16, 19, 20, 11, 12}, 12, "indexed_block");
    MTEST_OK(MPI_Type_create_hindexed_block(2, 2, (MPI_Aint[]){16, 0}, MPI_INT, &type));
    check(type, 1, (int[]){4, 5, 0, 1}, 4, "hindexed_block");
    MTEST_OK(MPI_Type_create_subarray(2, (int[]){4, 6}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_C, MPI_INT,
                                      &type));
    MTEST_OK(MPI_Type_get_extent(type, &lb, &extent));
    MTEST_CHECK(lb == 0 && extent == 96, "subarray: lb %ld extent %ld", (long)lb, (long)extent);
    MTEST_OK(MPI_Type_get_true_extent(type, &lb, &extent));
    MTEST_CHECK(lb == 32 && extent == 36, "subarray: true lb %ld extent %ld", (long)lb, (long)extent);
    check(type, 1, (int[]){8, 9, 10, 14, 15, 16}, 6, "subarray in C order");
    MTEST_OK(MPI_Type_create_subarray(2, (int[]){4, 6}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_FORTRAN,
                                      MPI_INT, &type));
    check(type, 1, (int[]){9, 10, 13, 14, 17, 18}, 6, "subarray in Fortran order");
    MTEST_OK(MPI_Type_vector(4, 1, 5, MPI_INT, &inner));   /* a column ... */
    MTEST_OK(MPI_Type_create_resized(inner, 0, 4, &type)); /* ... and the next one beside it */
    check(type, 3, (int[]){0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17}, 12, "resized");
    MTEST_OK(MPI_Type_dup(inner, &type));
    MTEST_OK(MPI_Type_free(&inner));
    check(type, 1, (int[]){0, 5, 10, 15}, 4, "dup of a freed type");
    MTEST_OK(MPI_Type_create_resized(MPI_INT, -8, 24, &type));
    MTEST_OK(MPI_Type_get_extent(type, &lb, &extent));
    MTEST_CHECK(lb == -8 && extent == 24, "resized: lb %ld extent %ld", (long)lb, (long)extent);
    check(type, 3, (int[]){0, 6, 12}, 3, "negative lower bound");
    MTEST_OK(MPI_Type_create_darray(
        4, 3, 2, (int[]){4, 6}, (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
        (int[]){MPI_DISTRIBUTE_DFLT_DARG, 2}, (int[]){2, 2}, MPI_ORDER_C, MPI_INT, &type));
    check(type, 1, (int[]){14, 15, 20, 21}, 4, "darray, last of 2 x 2");

    /* Absolute addresses. */
    MTEST_OK(MPI_Get_address(&out[100], &here));
    MTEST_OK(MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){here, MPI_Aint_add(here, 40)}, MPI_INT,
                                      &type));
    MTEST_OK(MPI_Type_commit(&type));
    out[100] = 7;
    out[110] = 8;
    out[111] = 9;
    MTEST_OK(MPI_Sendrecv(MPI_BOTTOM, 1, type, mtest_rank, 0, in, 3, MPI_INT, mtest_rank, 0, MPI_COMM_WORLD,
                          &status));
    MTEST_CHECK(in[0] == 7 && in[1] == 8 && in[2] == 9, "MPI_BOTTOM: %d %d %d", in[0], in[1], in[2]);
    MTEST_OK(MPI_Type_free(&type));

    /* Types and counts without data. */
    MTEST_OK(MPI_Type_contiguous(0, MPI_INT, &type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Sendrecv(out, 5, type, mtest_rank, 0, in, 5, type, mtest_rank, 0, MPI_COMM_WORLD, &status));
    MTEST_OK(MPI_Get_count(&status, MPI_INT, &n));
    MTEST_OK(MPI_Type_size(type, &size));
    MTEST_CHECK(n == 0 && size == 0, "a zero-size type: %d ints, size %d", n, size);
    MTEST_OK(MPI_Type_free(&type));

    /* Get_elements counts what came of the last, partial item. */
    MTEST_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    MTEST_OK(MPI_Type_commit(&type));
    for (int len = 0; len <= 7; len++) {
        MTEST_OK(MPI_Sendrecv(out, len, MPI_INT, mtest_rank, 0, in, 3, type, mtest_rank, 0, MPI_COMM_WORLD,
                              &status));
        MTEST_OK(MPI_Get_elements(&status, type, &n));
        MTEST_CHECK(n == len, "Get_elements says %d of %d", n, len);
        MTEST_OK(MPI_Get_count(&status, type, &n));
        MTEST_CHECK(n == (len % 3 ? MPI_UNDEFINED : len / 3), "Get_count says %d for %d ints", n, len);
    }
    MTEST_OK(MPI_Type_free(&type));
    return mtest_end();
}
