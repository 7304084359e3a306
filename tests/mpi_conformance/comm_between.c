/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators whose members are anywhere in several processes: many colours, keys that scatter ranks,
 * overlapping groups, several creations at once, intercommunicators between interleaved groups and
 * communicators made from them, topologies, sessions. Each has its own messages and collectives. */
#include <stdbool.h>

#include "mtest.h"

/* Every member's world rank arrives at every member, in the order that is expected; messages go to the next
 * rank. */
static void check_members(MPI_Comm comm, const int *expected, int n, const char *what)
{
    int size, rank, *got, from = -1, to_next = mtest_rank;

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MTEST_CHECK(size == n, "%s: %d members, expected %d", what, size, n);
    got = mtest_alloc((size_t)size * sizeof *got);
    MTEST_OK(MPI_Allgather(&mtest_rank, 1, MPI_INT, got, 1, MPI_INT, comm));
    for (int i = 0; i < size && i < n; i++)
        MTEST_CHECK(got[i] == expected[i], "%s: member %d is %d, expected %d", what, i, got[i], expected[i]);
    MTEST_OK(MPI_Sendrecv(&to_next, 1, MPI_INT, (rank + 1) % size, 3, &from, 1, MPI_INT,
                          (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(from == got[(rank + size - 1) % size], "%s: a message of %d", what, from);
    free(got);
}

static void free_comm(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        MTEST_OK(MPI_Comm_free(comm));
}

/* As many colours as ranks, then half, ...; in each the highest rank comes first. */
static void many_colours(void)
{
    int *expected = mtest_alloc((size_t)mtest_size * sizeof *expected);

    for (int n_colours = mtest_size; n_colours > 0; n_colours /= 2)
        for (int round = 0; round < 3; round++) {
            MPI_Comm comm;
            int n = 0;
            for (int r = mtest_size - 1; r >= 0; r--)
                if (r % n_colours == mtest_rank % n_colours)
                    expected[n++] = r;
            MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank % n_colours, -mtest_rank, &comm));
            check_members(comm, expected, n, "Comm_split");
            free_comm(&comm);
        }
    free(expected);
}

/* Three duplicates are made at once, used in another order than they were begun in, while the old one is
 * used. */
static void several_at_once(MPI_Comm comm)
{
    MPI_Comm made[3];
    MPI_Request requests[3];
    int n, me, sum = 0;

    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Comm_idup(comm, &made[i], &requests[i]));
    MTEST_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == n * (n - 1) / 2, "the sum is %d", sum);
    MTEST_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int i = 2; i >= 0; i--) {
        int value = me == i % n ? i : -1;
        MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, i % n, made[i]));
        MTEST_CHECK(value == i, "%d came instead of %d", value, i);
    }
    for (int i = 0; i < 3; i++)
        free_comm(&made[i]);
}

/* Neighboring triples of ranks, each in up to three groups: only the members call. */
static void overlapping_groups(void)
{
    MPI_Group world, group;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int first = 0; first < mtest_size; first++) {
        int members[3] = {(first + 2) % mtest_size, first, (first + 1) % mtest_size};
        int n = mtest_size < 3 ? 1 : 3;
        bool is_member = false;
        MPI_Comm comm = MPI_COMM_NULL;
        if (n == 1)
            members[0] = first;
        for (int i = 0; i < n; i++)
            is_member |= members[i] == mtest_rank;
        if (!is_member)
            continue;
        MTEST_OK(MPI_Group_incl(world, n, members, &group));
        MTEST_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, first, &comm));
        check_members(comm, members, n, "Comm_create_group");
        free_comm(&comm);
        MTEST_OK(
            MPI_Comm_create_from_group(group, "overlapping", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
        check_members(comm, members, n, "Comm_create_from_group");
        free_comm(&comm);
        MPI_Group_free(&group);
    }
    MPI_Group_free(&world);
}

/* Even ranks and odd ranks; then the same with the leaders at the other end. */
static void intercommunicators(void)
{
    int side = mtest_rank % 2, n_even = (mtest_size + 1) / 2, n_odd = mtest_size / 2;
    int n_remote = side ? n_even : n_odd, *all = mtest_alloc((size_t)mtest_size * sizeof *all);
    MPI_Comm local, inter, other, merged;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    for (int round = 0; round < 2 && n_odd > 0; round++) {
        int leader = round == 0 ? 0 : (side ? n_odd : n_even) - 1;
        int remote = round == 0 ? !side : 2 * (n_remote - 1) + !side;
        int size, sum = 0, value = mtest_rank + 1, expected = 0;
        MTEST_OK(MPI_Intercomm_create(local, leader, MPI_COMM_WORLD, remote, 5, &inter));
        MPI_Comm_remote_size(inter, &size);
        MTEST_CHECK(size == n_remote, "the remote group has %d ranks, expected %d", size, n_remote);
        MTEST_OK(MPI_Comm_dup(inter, &other));
        for (int r = !side; r < mtest_size; r += 2)
            expected += r + 1;
        MTEST_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, other));
        MTEST_CHECK(sum == expected, "the other side's sum is %d, expected %d", sum, expected);
        MTEST_OK(MPI_Allgather(&mtest_rank, 1, MPI_INT, all, 1, MPI_INT, inter));
        for (int i = 0; i < n_remote; i++)
            MTEST_CHECK(all[i] == 2 * i + !side, "remote rank %d is %d", i, all[i]);
        value = mtest_rank == 0 ? 77 : -1;
        MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, side ? 0 : mtest_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
        MTEST_CHECK(value == (side || mtest_rank == 0 ? 77 : -1), "the broadcast value is %d", value);
        MTEST_OK(MPI_Barrier(other));
        MTEST_OK(MPI_Intercomm_merge(inter, side == 0, &merged));
        for (int i = 0; i < mtest_size; i++)
            all[i] = i < n_odd ? 2 * i + 1 : 2 * (i - n_odd);
        check_members(merged, all, mtest_size, "Intercomm_merge");
        several_at_once(merged);
        free_comm(&merged);
        free_comm(&other);
        free_comm(&inter);
    }
    free_comm(&local);
    free(all);
}

/* A ring over ranks that were shuffled: neighbors give each other their ranks. */
static void topologies(void)
{
    int periods[] = {1}, dims[] = {mtest_size}, key = mtest_rank % 3 * 1000 - mtest_rank;
    int me, n, left, right, got[2] = {-1, -1}, blocks[2];
    MPI_Comm shuffled, ring, graph;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, key, &shuffled));
    MTEST_OK(MPI_Cart_create(shuffled, 1, dims, periods, 0, &ring));
    MPI_Comm_rank(ring, &me);
    MPI_Comm_size(ring, &n);
    MTEST_OK(MPI_Cart_shift(ring, 0, 1, &left, &right));
    MTEST_OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, got, 1, MPI_INT, ring));
    MTEST_CHECK(got[0] == left && got[1] == right, "neighbors of %d: %d and %d", me, got[0], got[1]);
    blocks[0] = 10 * me;
    blocks[1] = 10 * me + 1;
    MTEST_OK(MPI_Neighbor_alltoall(blocks, 1, MPI_INT, got, 1, MPI_INT, ring));
    MTEST_CHECK(got[0] == 10 * left + 1 && got[1] == 10 * right, "from the neighbors of %d: %d and %d", me,
                got[0], got[1]);
    /* Every rank sends to the one two further; none sends back. */
    left = (me + n - 2 % n) % n;
    right = (me + 2) % n;
    MTEST_OK(MPI_Dist_graph_create_adjacent(shuffled, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &graph));
    MTEST_OK(MPI_Neighbor_alltoall(&me, 1, MPI_INT, got, 1, MPI_INT, graph));
    MTEST_CHECK(got[0] == left, "from two before %d: %d, expected %d", me, got[0], left);
    several_at_once(graph);
    free_comm(&graph);
    free_comm(&ring);
    free_comm(&shuffled);
}

static void sessions(void)
{
    MPI_Session session;
    MPI_Group world, group;
    MPI_Comm comm;
    int *expected = mtest_alloc((size_t)mtest_size * sizeof *expected), n = 0;

    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MTEST_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    for (int r = mtest_size - 1; r >= 0; r--)
        if (r % 2 == mtest_rank % 2)
            expected[n++] = r;
    MTEST_OK(MPI_Group_incl(world, n, expected, &group));
    MTEST_OK(MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    check_members(comm, expected, n, "a session's communicator");
    several_at_once(comm);
    free_comm(&comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MTEST_OK(MPI_Session_finalize(&session));
    free(expected);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    many_colours();
    several_at_once(MPI_COMM_WORLD);
    overlapping_groups();
    intercommunicators();
    topologies();
    sessions();
    return mtest_end();
}
