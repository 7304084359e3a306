/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packing, unpacking (also in external32) and MPI_Reduce_local have the same results with buffers in any
 * memory as in host memory; a user-defined operation gets memory that the CPU can read.
 */
#include "device.h"

#define N_BYTES 5600

static void check(struct gtest_buffer *buffer, const void *image, const char *what, int layout)
{
    long differs = gtest_differs(buffer, image);

    MTEST_CHECK(differs == -1, "%s, %s in %s: byte %ld is wrong", what, gtest_layout_names[layout],
                gtest_place_names[buffer->place], differs);
}

/* Values that also are numbers of every type: small, and never negative zero. */
static void fill(char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (char)(i * 7 % 101);
}

static void pack(enum gtest_layout layout, enum gtest_place from, enum gtest_place to)
{
    struct gtest_data data = gtest_data(layout, N_BYTES);
    struct gtest_buffer source, packed, back;
    char *image = mtest_alloc(data.span_bytes), *want = mtest_alloc(N_BYTES + 8), *unpacked;
    int position = 3;

    fill(image, data.span_bytes);
    memset(want, GTEST_FILL_BYTE, N_BYTES + 8);
    MTEST_OK(MPI_Pack(image, data.count, data.type, want, N_BYTES + 8, &position, MPI_COMM_WORLD));
    unpacked = gtest_expected(image, &data, &data);
    source = gtest_alloc(from, data.span_bytes, image);
    packed = gtest_alloc(to, N_BYTES + 8, NULL);
    back = gtest_alloc(from, data.span_bytes, NULL);
    position = 3;
    MTEST_OK(
        MPI_Pack(source.data, data.count, data.type, packed.data, N_BYTES + 8, &position, MPI_COMM_WORLD));
    MTEST_CHECK(position == N_BYTES + 3, "position %d", position);
    check(&packed, want, "MPI_Pack", layout);
    position = 3;
    MTEST_OK(
        MPI_Unpack(packed.data, N_BYTES + 8, &position, back.data, data.count, data.type, MPI_COMM_WORLD));
    check(&back, unpacked, "MPI_Unpack", layout);
    gtest_free(&source);
    gtest_free(&packed);
    gtest_free(&back);
    free(image);
    free(want);
    free(unpacked);
    gtest_data_free(&data);
}

static void pack_external(enum gtest_layout layout, enum gtest_place from, enum gtest_place to)
{
    struct gtest_data data = gtest_data(layout, N_BYTES);
    struct gtest_buffer source, packed, back;
    char *image = mtest_alloc(data.span_bytes), *want = mtest_alloc(N_BYTES), *unpacked;
    MPI_Aint position = 0;

    fill(image, data.span_bytes);
    MTEST_OK(MPI_Pack_external("external32", image, data.count, data.type, want, N_BYTES, &position));
    unpacked = gtest_expected(image, &data, &data);
    source = gtest_alloc(from, data.span_bytes, image);
    packed = gtest_alloc(to, N_BYTES, NULL);
    back = gtest_alloc(from, data.span_bytes, NULL);
    position = 0;
    MTEST_OK(
        MPI_Pack_external("external32", source.data, data.count, data.type, packed.data, N_BYTES, &position));
    check(&packed, want, "MPI_Pack_external", layout);
    position = 0;
    MTEST_OK(
        MPI_Unpack_external("external32", packed.data, N_BYTES, &position, back.data, data.count, data.type));
    check(&back, unpacked, "MPI_Unpack_external", layout);
    gtest_free(&source);
    gtest_free(&packed);
    gtest_free(&back);
    free(image);
    free(want);
    free(unpacked);
    gtest_data_free(&data);
}

/* ---- MPI_Reduce_local ---- */

static void user_op(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((double *)inout)[i] = 3 * ((double *)in)[i] + ((double *)inout)[i];
}

static void reduce_local(MPI_Op op, MPI_Datatype type, int count, size_t n_bytes, enum gtest_place a,
                         enum gtest_place b)
{
    char *in = mtest_alloc(n_bytes), *want = mtest_alloc(n_bytes);
    struct gtest_buffer in_buffer, inout_buffer;

    for (size_t i = 0; i < n_bytes / sizeof(int); i++) {
        ((int *)in)[i] = (int)(i % 17);
        ((int *)want)[i] = (int)(i % 5);
    }
    in_buffer = gtest_alloc(a, n_bytes, in);
    inout_buffer = gtest_alloc(b, n_bytes, want);
    MTEST_OK(MPI_Reduce_local(in, want, count, type, op));
    MTEST_OK(MPI_Reduce_local(in_buffer.data, inout_buffer.data, count, type, op));
    check(&in_buffer, in, "MPI_Reduce_local's input", GTEST_CONTIGUOUS);
    check(&inout_buffer, want, "MPI_Reduce_local", GTEST_CONTIGUOUS);
    gtest_free(&in_buffer);
    gtest_free(&inout_buffer);
    free(in);
    free(want);
}

static void reduce(enum gtest_place a, enum gtest_place b)
{
    MPI_Op user;

    MTEST_OK(MPI_Op_create(user_op, 1, &user));
    reduce_local(MPI_SUM, MPI_INT, 1000, 4000, a, b);
    reduce_local(MPI_BXOR, MPI_UINT8_T, 4001, 4004, a, b);
    reduce_local(MPI_MAX, MPI_DOUBLE, 500, 4000, a, b);
    reduce_local(MPI_MINLOC, MPI_2INT, 500, 4000, a, b);
    reduce_local(MPI_MAXLOC, MPI_SHORT_INT, 500, 4000, a, b);
    reduce_local(MPI_PROD, MPI_C_DOUBLE_COMPLEX, 250, 4000, a, b);
    reduce_local(MPI_SUM, MPI_LONG_DOUBLE, 250, 4000, a, b); /* no GPU has it */
    reduce_local(user, MPI_DOUBLE, 500, 4000, a, b);
    MTEST_OK(MPI_Op_free(&user));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    for (int from = 0; from < GTEST_PLACES; from++) {
        for (int to = 0; to < GTEST_PLACES; to++) {
            for (int layout = 0; layout < GTEST_LAYOUTS; layout++) {
                pack((enum gtest_layout)layout, (enum gtest_place)from, (enum gtest_place)to);
                if (layout != GTEST_CONTIGUOUS)
                    pack_external((enum gtest_layout)layout, (enum gtest_place)from, (enum gtest_place)to);
            }
            reduce((enum gtest_place)from, (enum gtest_place)to);
        }
    }
    return mtest_end();
}
