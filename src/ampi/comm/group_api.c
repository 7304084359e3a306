/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_api.c: the MPI_Group_* functions (MPI 5.0, section 7.3): checks of the arguments, then group.c and
 * group_set.c.
 */
#include "ampi/object/error.h"
#include "ampi/comm/group.h"
#include "ampi/object/rank.h"
#include "base/log.h"

static int raise_no_group(MPI_Group handle)
{
    return ampi_raise_self(MPI_ERR_GROUP, "%p is not a valid group%s", (void *)handle,
                           handle == MPI_GROUP_NULL ? " (MPI_GROUP_NULL)" : "");
}

static int raise_null(const char *argument)
{
    return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", argument);
}

AMPI_EXPORT(Group_size);
int PMPI_Group_size(MPI_Group group, int *size)
{
    const struct ampi_group *object;

    ampi_enter("MPI_Group_size");
    object = ampi_group_of(group);
    if (!object)
        return raise_no_group(group);
    if (!size)
        return raise_null("size");
    *size = object->n_ranks;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_rank);
int PMPI_Group_rank(MPI_Group group, int *rank)
{
    struct ampi_rank *self = ampi_enter("MPI_Group_rank");
    const struct ampi_group *object = ampi_group_of(group);

    if (!object)
        return raise_no_group(group);
    if (!rank)
        return raise_null("rank");
    *rank = ampi_group_find(object, self->world_rank);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_translate_ranks);
int PMPI_Group_translate_ranks(MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[])
{
    const struct ampi_group *from, *to;

    ampi_enter("MPI_Group_translate_ranks");
    from = ampi_group_of(group1);
    to = ampi_group_of(group2);
    if (!from || !to)
        return raise_no_group(from ? group2 : group1);
    if (n < 0)
        return ampi_raise_self(MPI_ERR_ARG, "n is %d", n);
    if (n > 0 && (!ranks1 || !ranks2))
        return raise_null(ranks1 ? "ranks2" : "ranks1");
    for (int i = 0; i < n; i++) {
        if (ranks1[i] != MPI_PROC_NULL && (ranks1[i] < 0 || ranks1[i] >= from->n_ranks))
            return ampi_raise_self(MPI_ERR_RANK, "ranks1[%d] is %d, but the group's size is %d", i, ranks1[i],
                                   from->n_ranks);
    }
    for (int i = 0; i < n; i++)
        ranks2[i] = ranks1[i] == MPI_PROC_NULL ? MPI_PROC_NULL
                                               : ampi_group_find(to, ampi_group_world_rank(from, ranks1[i]));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_compare);
int PMPI_Group_compare(MPI_Group group1, MPI_Group group2, int *result)
{
    const struct ampi_group *a, *b;

    ampi_enter("MPI_Group_compare");
    a = ampi_group_of(group1);
    b = ampi_group_of(group2);
    if (!a || !b)
        return raise_no_group(a ? group2 : group1);
    if (!result)
        return raise_null("result");
    *result = ampi_group_compare(a, b);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_free);
int PMPI_Group_free(MPI_Group *group)
{
    ampi_enter("MPI_Group_free");
    if (!group)
        return raise_null("group");
    if (!ampi_group_of(*group))
        return raise_no_group(*group);
    ampi_group_handle_destroy(*group);
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

/* ---- Union, intersection, difference ---- */

static int combine(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup,
                   struct ampi_group *(*operation)(struct ampi_group *, struct ampi_group *))
{
    struct ampi_group *a = ampi_group_of(group1);
    struct ampi_group *b = ampi_group_of(group2);
    struct ampi_session *session;

    if (!a || !b)
        return raise_no_group(a ? group2 : group1);
    if (!newgroup)
        return raise_null("newgroup");
    session = ampi_group_session(group1);
    *newgroup = ampi_group_handle_create(operation(a, b), session ? session : ampi_group_session(group2));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_union);
int PMPI_Group_union(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_union");
    return combine(group1, group2, newgroup, ampi_group_union);
}

AMPI_EXPORT(Group_intersection);
int PMPI_Group_intersection(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_intersection");
    return combine(group1, group2, newgroup, ampi_group_intersection);
}

AMPI_EXPORT(Group_difference);
int PMPI_Group_difference(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_difference");
    return combine(group1, group2, newgroup, ampi_group_difference);
}

/* ---- Inclusion and exclusion by rank ---- */

/* Raises MPI_ERR_RANK unless the ranks are distinct members. */
static int check_distinct(const struct ampi_group *group, int n, const int *ranks)
{
    bool *is_seen = base_calloc((size_t)group->n_ranks + 1, sizeof *is_seen, "a check of ranks");
    int error = MPI_SUCCESS;

    for (int i = 0; i < n && !error; i++) {
        if (ranks[i] < 0 || ranks[i] >= group->n_ranks)
            error = ampi_raise_self(MPI_ERR_RANK, "ranks[%d] is %d, but the group's size is %d", i, ranks[i],
                                    group->n_ranks);
        else if (is_seen[ranks[i]])
            error = ampi_raise_self(MPI_ERR_RANK, "ranks[%d] is %d, which was given before", i, ranks[i]);
        else
            is_seen[ranks[i]] = true;
    }
    free(is_seen);
    return error;
}

typedef struct ampi_group *select_fn(const struct ampi_group *group, int n, const int *group_ranks);

static int select_ranks(MPI_Group group, int n, const int *ranks, MPI_Group *newgroup, select_fn *operation)
{
    struct ampi_group *object = ampi_group_of(group);
    int error;

    if (!object)
        return raise_no_group(group);
    if (n < 0)
        return ampi_raise_self(MPI_ERR_ARG, "n is %d", n);
    if ((n > 0 && !ranks) || !newgroup)
        return raise_null(newgroup ? "ranks" : "newgroup");
    error = check_distinct(object, n, ranks);
    if (error)
        return error;
    *newgroup = ampi_group_handle_create(operation(object, n, ranks), ampi_group_session(group));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_incl);
int PMPI_Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_incl");
    return select_ranks(group, n, ranks, newgroup, ampi_group_incl);
}

AMPI_EXPORT(Group_excl);
int PMPI_Group_excl(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_excl");
    return select_ranks(group, n, ranks, newgroup, ampi_group_excl);
}

/* Raises an error unless the triplet (first, last, stride) denotes members; else counts them. */
static int check_triplet(const struct ampi_group *group, int index, const int triplet[3], int *count_out)
{
    int first = triplet[0], last = triplet[1], stride = triplet[2];
    int64_t n_steps, end;

    if (stride == 0 || (stride > 0 && last < first) || (stride < 0 && last > first))
        return ampi_raise_self(MPI_ERR_ARG, "range %d from %d to %d cannot be reached with stride %d", index,
                               first, last, stride);
    n_steps = ((int64_t)last - first) / stride;
    end = first + n_steps * stride;
    if (first < 0 || first >= group->n_ranks || end < 0 || end >= group->n_ranks)
        return ampi_raise_self(MPI_ERR_RANK, "range %d is from %d to %d, but the group's size is %d", index,
                               first, (int)end, group->n_ranks);
    *count_out = (int)n_steps + 1;
    return MPI_SUCCESS;
}

/* Expands all triplets to a list of ranks; free *ranks_out. */
static int expand_triplets(const struct ampi_group *group, int n, int ranges[][3], int **ranks_out,
                           int *n_out)
{
    int *ranks = NULL;
    int n_ranks = 0;

    for (int i = 0; i < n; i++) {
        int count = 0;
        int error = check_triplet(group, i, ranges[i], &count);
        if (!error && count > group->n_ranks - n_ranks)
            error = ampi_raise_self(MPI_ERR_RANK, "range %d overlaps another one", i);
        if (error) {
            free(ranks);
            return error;
        }
        ranks = base_realloc(ranks, (size_t)(n_ranks + count) * sizeof *ranks, "a list of ranks");
        for (int k = 0; k < count; k++)
            ranks[n_ranks++] = ranges[i][0] + k * ranges[i][2];
    }
    *ranks_out = ranks;
    *n_out = n_ranks;
    return MPI_SUCCESS;
}

static int select_ranges(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup, select_fn *operation)
{
    struct ampi_group *object = ampi_group_of(group);
    int *ranks;
    int n_ranks;
    int error;

    if (!object)
        return raise_no_group(group);
    if (n < 0)
        return ampi_raise_self(MPI_ERR_ARG, "n is %d", n);
    if (n > 0 && !ranges)
        return raise_null("ranges");
    error = expand_triplets(object, n, ranges, &ranks, &n_ranks);
    if (error)
        return error;
    error = select_ranks(group, n_ranks, ranks, newgroup, operation);
    free(ranks);
    return error;
}

AMPI_EXPORT(Group_range_incl);
int PMPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_range_incl");
    return select_ranges(group, n, ranges, newgroup, ampi_group_incl);
}

AMPI_EXPORT(Group_range_excl);
int PMPI_Group_range_excl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup)
{
    ampi_enter("MPI_Group_range_excl");
    return select_ranges(group, n, ranges, newgroup, ampi_group_excl);
}
