/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Types nested 20,000 levels deep can be created, committed, sent, counted, decoded and freed, on small
 * stacks, too; external32 returns an error if the stack is too small.
 */
#include "mtest.h"

#define LEVELS 20000

/* Wraps the type in one of several ways that leave its data as it is; frees the handle of the old one. */
static MPI_Datatype wrap(MPI_Datatype old, int level)
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Aint lb, extent, disp = 0;
    int one = 1;

    MPI_Type_get_extent(old, &lb, &extent);
    switch (level % 6) {
    case 0:
        MPI_Type_contiguous(1, old, &made);
        break;
    case 1:
        MPI_Type_create_resized(old, lb, extent, &made);
        break;
    case 2:
        MPI_Type_create_hindexed(1, &one, &disp, old, &made);
        break;
    case 3:
        MPI_Type_create_struct(1, &one, &disp, &old, &made);
        break;
    case 4:
        MPI_Type_dup(old, &made);
        break;
    case 5:
        MPI_Type_create_hvector(1, 1, extent, old, &made);
        break;
    }
    MPI_Type_free(&old);
    return made;
}

static MPI_Datatype nest(void)
{
    MPI_Datatype type;

    MPI_Type_vector(2, 1, 2, MPI_INT, &type); /* two ints with a hole between them */
    for (int level = 0; level < LEVELS; level++)
        type = wrap(type, level);
    return type;
}

static void check_data(MPI_Datatype type)
{
    int out[6] = {1, 2, 3, 4, 5, 6}, in[6] = {0, 0, 0, 0, 0, 0}, rank, count;
    MPI_Status status;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Sendrecv(out, 2, type, rank, 0, in, 2, type, rank, 0, MPI_COMM_WORLD, &status);
    MTEST_CHECK(in[0] == 1 && in[1] == 0 && in[2] == 3 && in[3] == 4 && in[4] == 0 && in[5] == 6,
                "received %d %d %d %d %d %d", in[0], in[1], in[2], in[3], in[4], in[5]);
    MPI_Sendrecv(out, 3, MPI_INT, rank, 0, in, 2, type, rank, 0, MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, type, &count);
    MTEST_CHECK(count == 3, "%d elements", count);
    MPI_Get_count(&status, type, &count);
    MTEST_CHECK(count == MPI_UNDEFINED, "count %d", count);
    MPI_Status_set_elements(&status, type, 3);
    MPI_Get_elements(&status, MPI_INT, &count);
    MTEST_CHECK(count == 3, "%d elements", count);
}

static void check_external(MPI_Datatype type)
{
    char packed[64];
    int out[3] = {1, 2, 3}, rc;
    MPI_Aint size = 0, position = 0;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    rc = MPI_Pack_external_size("external32", 1, type, &size);
    MTEST_CHECK(rc == MPI_SUCCESS ? size == 8 : mtest_class(rc) == MPI_ERR_TYPE, "code %d", rc);
    rc = MPI_Pack_external("external32", out, 1, type, packed, sizeof packed, &position);
    MTEST_CHECK(rc == MPI_SUCCESS ? position == 8 : mtest_class(rc) == MPI_ERR_TYPE, "code %d", rc);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Takes the type apart again; returns the number of its levels. */
static int unwrap(MPI_Datatype type)
{
    int n_levels = 0, n_ints, n_aints, n_types, combiner, ints[4];
    MPI_Aint aints[4];

    for (;; n_levels++) {
        MPI_Datatype inner = MPI_DATATYPE_NULL;

        MPI_Type_get_envelope(type, &n_ints, &n_aints, &n_types, &combiner);
        if (combiner == MPI_COMBINER_VECTOR)
            break;
        MPI_Type_get_contents(type, 4, 4, 1, ints, aints, &inner);
        MPI_Type_free(&type);
        type = inner;
    }
    MPI_Type_free(&type);
    return n_levels;
}

int main(int argc, char **argv)
{
    MPI_Datatype type, copy;

    mtest_init(&argc, &argv, 1);
    type = nest();
    MPI_Type_commit(&type);
    check_data(type);
    check_external(type);
    MPI_Type_dup(type, &copy);
    MTEST_CHECK(unwrap(copy) == LEVELS + 1, "other levels than were made");
    check_data(type);
    MPI_Type_free(&type);
    return mtest_end();
}
