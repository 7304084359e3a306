/* SPDX-License-Identifier: BSD-3-Clause */
/* Types by precision and range, and by size: the same arguments give the same type, which has the requested
 * precision and range, is predefined and committed, and returns its arguments; a request that no type
 * satisfies is MPI_ERR_ARG. */
#include "mtest.h"

static void check_type(MPI_Datatype type, int combiner, int n_ints, const int *ints, int min_size)
{
    int n[3] = {-1, -1, -1}, found = -1, size = 0, got[2] = {-1, -1};
    MPI_Aint aints[1];
    MPI_Datatype types[1], copy = type;
    char in[64] = "0123456789abcdef0123456789abcdef", out[64] = "";

    MTEST_OK(MPI_Type_size(type, &size));
    MTEST_CHECK(size >= min_size, "the size is %d, less than %d", size, min_size);
    MTEST_OK(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &found));
    MTEST_CHECK(found == combiner && n[0] == n_ints && n[1] == 0 && n[2] == 0,
                "combiner %d with %d %d %d arguments", found, n[0], n[1], n[2]);
    MTEST_OK(MPI_Type_get_contents(type, n_ints, 0, 0, got, aints, types));
    MTEST_CHECK(memcmp(got, ints, (size_t)n_ints * sizeof(int)) == 0, "the arguments are %d %d", got[0],
                got[1]);
    MTEST_CHECK(MPI_Type_free(&copy) != MPI_SUCCESS, "a predefined type was freed");
    MTEST_OK(MPI_Sendrecv(in, 1, type, 0, 0, out, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    MTEST_CHECK(memcmp(in, out, (size_t)size) == 0, "not sent whole");
}

static void check_f90(void)
{
    static const struct {
        int p, r, min_size;
    } reals[] = {{6, 37, 4}, {7, 37, 8}, {6, MPI_UNDEFINED, 4}, {MPI_UNDEFINED, 300, 8}, {15, 307, 8}};
    static const struct {
        int r, min_size;
    } ints[] = {{2, 1}, {4, 2}, {9, 4}, {18, 8}};
    MPI_Datatype type, again;

    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        MTEST_OK(MPI_Type_create_f90_real(reals[i].p, reals[i].r, &type));
        MTEST_OK(MPI_Type_create_f90_real(reals[i].p, reals[i].r, &again));
        MTEST_CHECK(type == again, "the same arguments give two types");
        check_type(type, MPI_COMBINER_F90_REAL, 2, (int[]){reals[i].p, reals[i].r}, reals[i].min_size);
        MTEST_OK(MPI_Type_create_f90_complex(reals[i].p, reals[i].r, &type));
        check_type(type, MPI_COMBINER_F90_COMPLEX, 2, (int[]){reals[i].p, reals[i].r}, 2 * reals[i].min_size);
    }
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        MTEST_OK(MPI_Type_create_f90_integer(ints[i].r, &type));
        check_type(type, MPI_COMBINER_F90_INTEGER, 1, &ints[i].r, ints[i].min_size);
    }
    type = MPI_INT;
    MTEST_CLASS(MPI_Type_create_f90_real(5000, 5, &type), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_complex(5, 1000000, &type), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_integer(500, &type), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type), MPI_ERR_ARG);
    MTEST_CHECK(type == MPI_INT, "a refused call wrote a type");
}

/* A rank has its own attributes of a type that all ranks share. */
static void check_attributes(void)
{
    MPI_Datatype types[20];
    int key, values[20], flag, *found;

    MTEST_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL));
    for (int i = 0; i < 20; i++) {
        values[i] = 100 * mtest_rank + i;
        if (i < 15)
            MTEST_OK(MPI_Type_create_f90_real(i + 1, MPI_UNDEFINED, &types[i]));
        else
            MTEST_OK(MPI_Type_create_f90_integer(i - 14, &types[i]));
        MTEST_OK(MPI_Type_get_attr(types[i], key, &found, &flag));
        MTEST_CHECK(!flag, "type %d has an attribute", i);
        MTEST_OK(MPI_Type_set_attr(types[i], key, &values[i]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) {
        MTEST_OK(MPI_Type_get_attr(types[i], key, &found, &flag));
        MTEST_CHECK(flag && *found == values[i], "the attribute of type %d", i);
    }
    for (int i = 0; i < 20; i += 2) /* others end with the rank */
        MTEST_OK(MPI_Type_delete_attr(types[i], key));
    MTEST_OK(MPI_Type_free_keyval(&key));
}

static void check_match_size(void)
{
    static const struct {
        int typeclass, sizes[4];
    } rows[] = {{MPI_TYPECLASS_REAL, {4, 8}},
                {MPI_TYPECLASS_INTEGER, {1, 2, 4, 8}},
                {MPI_TYPECLASS_COMPLEX, {8, 16}}};
    MPI_Datatype type = MPI_INT;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int j = 0; j < 4 && rows[i].sizes[j]; j++) {
            int size = 0;
            MTEST_OK(MPI_Type_match_size(rows[i].typeclass, rows[i].sizes[j], &type));
            MTEST_OK(MPI_Type_size(type, &size));
            MTEST_CHECK(size == rows[i].sizes[j], "a type of %d bytes for %d", size, rows[i].sizes[j]);
        }
    MTEST_CLASS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_match_size(-1, 4, &type), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_f90();
    check_attributes();
    check_match_size();
    return mtest_end();
}
