/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.h: ordered sets of processes (MPI 5.0, section 7.3).
 *
 * Immutable and reference-counted: all ranks of a process share one object. A group whose members are an
 * arithmetic sequence of world ranks is stored as first and stride, however large it is; any other group is
 * stored once per process, however many ranks create it (group.c).
 */
#ifndef AMPI_GROUP_H
#define AMPI_GROUP_H

#include "ampi/object/handle.h"

struct ampi_session;

struct ampi_group {
    _Atomic uint32_t refs; /* handles, communicators, ...; the empty group: not counted */
    int n_ranks;
    int first;     /* if list is NULL: member i is world rank first + i * stride */
    int stride;    /* not 0 */
    int *list;     /* otherwise: the members' world ranks */
    int *sorted;   /* positions in the list by ascending world rank, for the inverse look-up; NULL: the list
                    * is ascending */
    uint32_t hash; /* of the list */
    struct ampi_group *next;  /* next in the table of groups with lists */
    _Atomic uint64_t number;  /* never reused; 0: not needed yet */
    _Atomic uint64_t part_of; /* if there is a list: the number of a group that has all of its members */
};

extern struct ampi_group ampi_group_empty;

/* The target of an MPI_Group: each handle has its own, so that a freed one is detected while others share
 * the group. */
struct ampi_group_ref {
    uint32_t magic;               /* AMPI_MAGIC_GROUP */
    struct ampi_group *group;     /* holds a reference */
    struct ampi_session *session; /* its origin, inherited by communicators; NULL: none */
};

/* The group of a handle; NULL if it is not valid (including MPI_GROUP_NULL). */
static inline struct ampi_group *ampi_group_of(MPI_Group handle)
{
    if (handle == MPI_GROUP_EMPTY)
        return &ampi_group_empty;
    return ampi_handle_has_magic(handle, AMPI_MAGIC_GROUP) ? ((struct ampi_group_ref *)handle)->group : NULL;
}

/* The session of a group handle; NULL: none, or it has ended. */
struct ampi_session *ampi_group_session(MPI_Group handle);

/* A new handle, which takes over the reference. session: its origin; NULL: no session. */
MPI_Group ampi_group_handle_create(struct ampi_group *group, struct ampi_session *session);

/* Frees a handle of a group, and drops its reference. */
void ampi_group_handle_destroy(MPI_Group handle);

/* New groups, with one reference; a list is copied, and detected if it is an arithmetic sequence. The empty
 * group for n_ranks == 0. */
struct ampi_group *ampi_group_create_range(int first, int stride, int n_ranks);
struct ampi_group *ampi_group_create_list(const int *world_ranks, int n_ranks);

void ampi_group_destroy(struct ampi_group *group);

static inline void ampi_group_ref(struct ampi_group *group)
{
    if (group != &ampi_group_empty)
        atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
}

static inline void ampi_group_unref(struct ampi_group *group)
{
    if (group != &ampi_group_empty && atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) == 1)
        ampi_group_destroy(group);
}

/* The world rank of a member, 0 <= group_rank < n_ranks. */
static inline int ampi_group_world_rank(const struct ampi_group *group, int group_rank)
{
    return group->list ? group->list[group_rank] : group->first + group_rank * group->stride;
}

/* The position of a world rank in the group; MPI_UNDEFINED if it is not a member. */
int ampi_group_find(const struct ampi_group *group, int world_rank);

/* The first member that is not in the other group; n_ranks: all are. Where many ranks ask the same, the first one
 * compares the groups, and the others find the result. */
int ampi_group_find_stranger(struct ampi_group *group, struct ampi_group *of);

/* MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int ampi_group_compare(const struct ampi_group *a, const struct ampi_group *b);

/* ---- New groups from others (group_set.c), with one reference. Arguments have been checked. ---- */

struct ampi_group *ampi_group_incl(const struct ampi_group *group, int n, const int *group_ranks);
struct ampi_group *ampi_group_excl(const struct ampi_group *group, int n, const int *group_ranks);
struct ampi_group *ampi_group_union(struct ampi_group *a, struct ampi_group *b);
struct ampi_group *ampi_group_intersection(struct ampi_group *a, struct ampi_group *b);
struct ampi_group *ampi_group_difference(struct ampi_group *a, struct ampi_group *b);

#endif
