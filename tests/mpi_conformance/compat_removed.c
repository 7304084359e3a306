/* SPDX-License-Identifier: BSD-3-Clause */
/* Features that MPI 3.0 removed work for old programs: the ten functions, MPI_LB and MPI_UB. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "mtest.h"

static int n_called;

static void note(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    (void)error;
    n_called++;
}

static void expect_bounds(MPI_Datatype type, MPI_Aint lb, MPI_Aint ub, const char *what)
{
    MPI_Aint got_lb, got_ub, extent;
    MTEST_OK(MPI_Type_lb(type, &got_lb));
    MTEST_OK(MPI_Type_ub(type, &got_ub));
    MTEST_OK(MPI_Type_extent(type, &extent));
    MTEST_CHECK(got_lb == lb && got_ub == ub && extent == ub - lb, "%s: from %ld to %ld, extent %ld", what,
                (long)got_lb, (long)got_ub, (long)extent);
}

/* A struct of an int, with markers at the given places; NONE: without. */
enum { NONE = 1000 };
static MPI_Datatype make(MPI_Aint lb, MPI_Aint at, MPI_Aint ub)
{
    int lens[3] = {1, 1, 1}, n = 0;
    MPI_Aint disps[3];
    MPI_Datatype types[3], made;
    if (lb != NONE)
        disps[n] = lb, types[n++] = MPI_LB;
    disps[n] = at, types[n++] = MPI_INT;
    if (ub != NONE)
        disps[n] = ub, types[n++] = MPI_UB;
    MTEST_OK(MPI_Type_struct(n, lens, disps, types, &made));
    return made;
}

static void try_bounds(void)
{
    MPI_Datatype type, outer;
    int lens[2] = {1, 2}, size;
    MPI_Aint disps[2] = {0, 100};

    type = make(-3, 4, 50);
    expect_bounds(type, -3, 50, "both markers");
    /* Markers of parts count: the lowest and the highest. */
    MTEST_OK(MPI_Type_hindexed(2, lens, disps, type, &outer));
    expect_bounds(outer, -3, 100 + 53 + 50, "of a type with markers");
    MTEST_OK(MPI_Type_size(outer, &size));
    MTEST_CHECK(size == 12, "the size is %d", size);
    MTEST_OK(MPI_Type_free(&outer));
    MTEST_OK(MPI_Type_free(&type));
    type = make(NONE, 8, 40);
    expect_bounds(type, 8, 40, "an upper marker");
    MTEST_OK(MPI_Type_hvector(3, 1, 40, type, &outer));
    expect_bounds(outer, 8, 120, "a vector of it");
    MTEST_OK(MPI_Type_free(&outer));
    MTEST_OK(MPI_Type_free(&type));
    type = make(4, 8, NONE);
    expect_bounds(type, 4, 12, "a lower marker");
    MTEST_OK(MPI_Type_free(&type));
    type = make(NONE, 8, 10);
    expect_bounds(type, 8, 10, "an upper marker inside the data");
    MTEST_OK(MPI_Type_free(&type));
}

/* An array of structs with padding behind them, as programs of MPI 1 send it. */
static void try_message(void)
{
    struct particle {
        double position;
        int charge;
        char name[7];
    } out[5], in[5];
    int lens[3] = {1, 1, 1};
    MPI_Aint disps[3], base;
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_UB}, type;
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;

    MTEST_OK(MPI_Address(&out[0], &base));
    MTEST_OK(MPI_Address(&out[0].position, &disps[0]));
    MTEST_OK(MPI_Address(&out[0].charge, &disps[1]));
    MTEST_OK(MPI_Address(&out[1], &disps[2]));
    for (int i = 0; i < 3; i++)
        disps[i] -= base;
    MTEST_OK(MPI_Type_struct(3, lens, disps, types, &type));
    MTEST_OK(MPI_Type_commit(&type));
    memset(in, 0, sizeof in);
    for (int i = 0; i < 5; i++)
        out[i].position = i + 0.5, out[i].charge = 10 * mtest_rank + i;
    MTEST_OK(MPI_Sendrecv(out, 5, type, next, 0, in, 5, type, prev, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5; i++)
        MTEST_CHECK(in[i].position == i + 0.5 && in[i].charge == 10 * prev + i, "particle %d: %g %d", i,
                    in[i].position, in[i].charge);
    MTEST_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler, got;
    mtest_init(&argc, &argv, 1);
    try_bounds();
    try_message();
    MTEST_OK(MPI_Errhandler_create((MPI_Handler_function *)note, &handler));
    MTEST_OK(MPI_Errhandler_set(MPI_COMM_WORLD, handler));
    MTEST_OK(MPI_Errhandler_get(MPI_COMM_WORLD, &got));
    MTEST_CHECK(got == handler, "MPI_Errhandler_get gives another handler");
    MTEST_CHECK(MPI_Send(NULL, 0, MPI_INT, mtest_size, 0, MPI_COMM_WORLD) != MPI_SUCCESS && n_called == 1,
                "the handler was called %d times", n_called);
    MTEST_CHECK(MPI_COMBINER_HVECTOR_INTEGER != MPI_COMBINER_HVECTOR &&
                    MPI_COMBINER_HINDEXED_INTEGER != MPI_COMBINER_HINDEXED &&
                    MPI_COMBINER_STRUCT_INTEGER != MPI_COMBINER_STRUCT,
                "two combiners are one");
    return mtest_end();
}
