/* SPDX-License-Identifier: BSD-3-Clause */
/* Group operations: incl, excl, ranges, union, intersection, difference, translate, compare, and their
 * errors. */
#include "mtest.h"

static void members(MPI_Group group, MPI_Group world, int n, const int *want, const char *what)
{
    int size, ranks[16], translated[16];
    MTEST_OK(MPI_Group_size(group, &size));
    MTEST_CHECK(size == n, "%s: size %d, expected %d", what, size, n);
    for (int i = 0; i < n && size == n; i++)
        ranks[i] = i;
    MTEST_OK(MPI_Group_translate_ranks(group, n, ranks, world, translated));
    for (int i = 0; i < n; i++)
        MTEST_CHECK(translated[i] == want[i], "%s: member %d is %d, expected %d", what, i, translated[i],
                    want[i]);
}

int main(int argc, char **argv)
{
    MPI_Group world, a, b, c;
    int rank, size, result;
    mtest_init(&argc, &argv, 6);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MTEST_OK(MPI_Group_size(world, &size));
    MTEST_OK(MPI_Group_rank(world, &rank));
    MTEST_CHECK(size == mtest_size && rank == mtest_rank, "the group of world: %d of %d", rank, size);
    int some[4] = {5, 0, 3, 1}, others[3] = {3, 4, 5};
    MTEST_OK(MPI_Group_incl(world, 4, some, &a));
    members(a, world, 4, some, "incl");
    MTEST_OK(MPI_Group_rank(a, &rank));
    MTEST_CHECK(rank == (mtest_rank == 5   ? 0
                         : mtest_rank == 0 ? 1
                         : mtest_rank == 3 ? 2
                         : mtest_rank == 1 ? 3
                                           : MPI_UNDEFINED),
                "rank in the group: %d", rank);
    MTEST_OK(MPI_Group_incl(world, 3, others, &b));
    MTEST_OK(MPI_Group_union(a, b, &c));
    members(c, world, 5, (int[]){5, 0, 3, 1, 4}, "union");
    MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_intersection(a, b, &c));
    members(c, world, 2, (int[]){5, 3}, "intersection");
    MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_difference(a, b, &c));
    members(c, world, 2, (int[]){0, 1}, "difference");
    MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_difference(a, a, &c));
    MTEST_OK(MPI_Group_compare(c, MPI_GROUP_EMPTY, &result));
    MTEST_CHECK(result == MPI_IDENT, "the difference with itself is not empty");
    if (c != MPI_GROUP_EMPTY)
        MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_excl(a, 2, (int[]){0, 2}, &c));
    members(c, world, 2, (int[]){0, 1}, "excl");
    MTEST_OK(MPI_Group_free(&c));
    int ranges[2][3] = {{0, 4, 2}, {5, 1, -2}};
    MTEST_OK(MPI_Group_range_incl(world, 2, ranges, &c));
    members(c, world, 6, (int[]){0, 2, 4, 5, 3, 1}, "range_incl");
    MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_incl(world, 6, (int[]){0, 1, 2, 3, 4, 5}, &c));
    MPI_Group d;
    MTEST_OK(MPI_Group_range_excl(c, 1, ranges, &d));
    members(d, world, 3, (int[]){1, 3, 5}, "range_excl");
    MTEST_OK(MPI_Group_compare(c, d, &result));
    MTEST_CHECK(result == MPI_UNEQUAL, "compare: %d", result);
    MTEST_OK(MPI_Group_free(&d));
    MTEST_OK(MPI_Group_incl(world, 6, (int[]){5, 4, 3, 2, 1, 0}, &d));
    MTEST_OK(MPI_Group_compare(c, d, &result));
    MTEST_CHECK(result == MPI_SIMILAR, "the same in another order: %d", result);
    MTEST_OK(MPI_Group_free(&d));
    /* Translation of ranks that are not there, and of MPI_PROC_NULL. */
    int from[3] = {2, MPI_PROC_NULL, 0}, to[3];
    MTEST_OK(MPI_Group_translate_ranks(world, 3, from, a, to));
    MTEST_CHECK(to[0] == MPI_UNDEFINED && to[1] == MPI_PROC_NULL && to[2] == 1, "translated to %d %d %d",
                to[0], to[1], to[2]);
    MTEST_CLASS(MPI_Group_incl(world, 1, (int[]){mtest_size}, &d), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    MTEST_OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
    MTEST_CHECK(size == 0, "MPI_GROUP_EMPTY has %d", size);
    MTEST_OK(MPI_Group_free(&a));
    MTEST_OK(MPI_Group_free(&b));
    MTEST_OK(MPI_Group_free(&c));
    MTEST_OK(MPI_Group_free(&world));
    MTEST_CHECK(world == MPI_GROUP_NULL, "Group_free leaves the handle");
    return mtest_end();
}
