/* SPDX-License-Identifier: BSD-3-Clause */
/* Envelope and contents return a type's construction; attributes, names, match_size, external32 packing. */
#include "mtest.h"

static int copied, deleted;

static int copy_fn(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)type;
    (void)keyval;
    (void)extra;
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_fn(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type;
    (void)keyval;
    (void)value;
    (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Datatype type, dup, inner, got_types[3];
    int ints[10], ni, na, nd, combiner, key, flag, len, value = 5;
    MPI_Aint addresses[4];
    void *got;
    char name[MPI_MAX_OBJECT_NAME];
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Type_get_envelope(MPI_INT, &ni, &na, &nd, &combiner));
    MTEST_CHECK(combiner == MPI_COMBINER_NAMED && ni == 0 && na == 0 && nd == 0, "MPI_INT: combiner %d",
                combiner);
    MTEST_OK(MPI_Type_vector(3, 2, 7, MPI_DOUBLE, &type));
    MTEST_OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner));
    MTEST_CHECK(combiner == MPI_COMBINER_VECTOR && ni == 3 && na == 0 && nd == 1, "vector: %d %d %d", ni, na,
                nd);
    MTEST_OK(MPI_Type_get_contents(type, 3, 0, 1, ints, addresses, got_types));
    MTEST_CHECK(ints[0] == 3 && ints[1] == 2 && ints[2] == 7 && got_types[0] == MPI_DOUBLE,
                "vector: %d %d %d", ints[0], ints[1], ints[2]);
    MTEST_OK(MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){0, 80}, (MPI_Datatype[]){MPI_INT, type},
                                    &inner));
    MTEST_OK(MPI_Type_get_envelope(inner, &ni, &na, &nd, &combiner));
    MTEST_CHECK(combiner == MPI_COMBINER_STRUCT && ni == 3 && na == 2 && nd == 2, "struct: %d %d %d", ni, na,
                nd);
    MTEST_OK(MPI_Type_get_contents(inner, 3, 2, 2, ints, addresses, got_types));
    MTEST_CHECK(ints[0] == 2 && ints[1] == 1 && ints[2] == 2 && addresses[1] == 80 && got_types[0] == MPI_INT,
                "struct");
    MTEST_OK(MPI_Type_get_envelope(got_types[1], &ni, &na, &nd, &combiner));
    MTEST_CHECK(combiner == MPI_COMBINER_VECTOR, "inner combiner %d", combiner);
    MTEST_OK(MPI_Type_free(&got_types[1]));
    MTEST_OK(MPI_Type_free(&inner));

    MTEST_OK(MPI_Type_create_keyval(copy_fn, delete_fn, &key, NULL));
    MTEST_OK(MPI_Type_set_attr(type, key, &value));
    MTEST_OK(MPI_Type_set_name(type, "warp"));
    MTEST_OK(MPI_Type_dup(type, &dup));
    MTEST_OK(MPI_Type_get_attr(dup, key, &got, &flag));
    MTEST_CHECK(copied == 1 && flag && got == &value, "dup copied %d attributes", copied);
    MTEST_OK(MPI_Type_get_name(type, name, &len));
    MTEST_CHECK(strcmp(name, "warp") == 0 && len == 4, "name '%s'", name);
    MTEST_OK(MPI_Type_get_envelope(dup, &ni, &na, &nd, &combiner));
    MTEST_CHECK(combiner == MPI_COMBINER_DUP && nd == 1, "dup: combiner %d", combiner);
    MTEST_OK(MPI_Type_free(&dup));
    MTEST_CHECK(deleted == 1, "free deleted %d attributes", deleted);
    MTEST_OK(MPI_Type_free(&type));
    MTEST_CHECK(deleted == 2, "free deleted %d attributes", deleted);
    MTEST_OK(MPI_Type_free_keyval(&key));

    /* external32 is big-endian with fixed sizes. */
    unsigned char bytes[64];
    MPI_Aint position = 0, size;
    int number = 0x01020304;
    short small = 0x0506;
    MTEST_OK(MPI_Pack_external("external32", &number, 1, MPI_INT, bytes, sizeof bytes, &position));
    MTEST_OK(MPI_Pack_external("external32", &small, 1, MPI_SHORT, bytes, sizeof bytes, &position));
    MTEST_CHECK(position == 6, "packed %ld bytes", (long)position);
    for (int i = 0; i < 6; i++)
        MTEST_CHECK(bytes[i] == i + 1, "byte %d is %d", i, bytes[i]);
    position = 0;
    number = 0;
    MTEST_OK(MPI_Unpack_external("external32", bytes, 6, &position, &number, 1, MPI_INT));
    MTEST_CHECK(number == 0x01020304 && position == 4, "unpacked %x", number);
    MTEST_OK(MPI_Pack_external_size("external32", 10, MPI_DOUBLE, &size));
    MTEST_CHECK(size == 80, "10 doubles take %ld", (long)size);
    return mtest_end();
}
