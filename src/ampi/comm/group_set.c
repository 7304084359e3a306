/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_set.c: new groups from others (MPI 5.0, section 7.3.2).
 *
 * Each operation lists the members' world ranks in the order that the standard requires, and
 * ampi_group_create_list finds a shorter representation if there is one. Cost: n log n. Takes no locks but
 * the table's, may be called on any thread; never switches.
 */
#include "ampi/comm/group.h"
#include "base/log.h"

/* Members of a group under construction. */
struct members {
    int *world_ranks;
    int n;
};

static struct members members_begin(int n_max)
{
    return (struct members){.world_ranks =
                                base_malloc(((size_t)n_max + 1) * sizeof(int), "a group's members")};
}

static struct ampi_group *members_end(struct members *members)
{
    struct ampi_group *group = ampi_group_create_list(members->world_ranks, members->n);

    free(members->world_ranks);
    return group;
}

/* Adds the members of a that are (or are not) in b too. */
static void members_add(struct members *members, const struct ampi_group *a, const struct ampi_group *b,
                        bool want_in_b)
{
    for (int i = 0; i < a->n_ranks; i++) {
        int world_rank = ampi_group_world_rank(a, i);
        bool is_in_b = ampi_group_find(b, world_rank) != MPI_UNDEFINED;
        if (is_in_b == want_in_b)
            members->world_ranks[members->n++] = world_rank;
    }
}

static struct ampi_group *same(struct ampi_group *group)
{
    ampi_group_ref(group);
    return group;
}

struct ampi_group *ampi_group_incl(const struct ampi_group *group, int n, const int *group_ranks)
{
    struct members members = members_begin(n);

    for (int i = 0; i < n; i++)
        members.world_ranks[members.n++] = ampi_group_world_rank(group, group_ranks[i]);
    return members_end(&members);
}

struct ampi_group *ampi_group_excl(const struct ampi_group *group, int n, const int *group_ranks)
{
    struct members members = members_begin(group->n_ranks);
    bool *is_out = base_calloc((size_t)group->n_ranks + 1, sizeof *is_out, "a group's members");

    for (int i = 0; i < n; i++)
        is_out[group_ranks[i]] = true;
    for (int i = 0; i < group->n_ranks; i++) {
        if (!is_out[i])
            members.world_ranks[members.n++] = ampi_group_world_rank(group, i);
    }
    free(is_out);
    return members_end(&members);
}

struct ampi_group *ampi_group_union(struct ampi_group *a, struct ampi_group *b)
{
    struct members members;

    if (b == a || b->n_ranks == 0)
        return same(a);
    members = members_begin(a->n_ranks + b->n_ranks);
    for (int i = 0; i < a->n_ranks; i++)
        members.world_ranks[members.n++] = ampi_group_world_rank(a, i);
    members_add(&members, b, a, false);
    return members_end(&members);
}

struct ampi_group *ampi_group_intersection(struct ampi_group *a, struct ampi_group *b)
{
    struct members members;

    if (b == a)
        return same(a);
    members = members_begin(a->n_ranks);
    members_add(&members, a, b, true);
    return members_end(&members);
}

struct ampi_group *ampi_group_difference(struct ampi_group *a, struct ampi_group *b)
{
    struct members members;

    if (b == a)
        return &ampi_group_empty;
    members = members_begin(a->n_ranks);
    members_add(&members, a, b, false);
    return members_end(&members);
}
