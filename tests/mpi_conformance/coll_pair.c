/* SPDX-License-Identifier: BSD-3-Clause */
/* Small collectives of two ranks: any mix of types with and without gaps, of data that fits into one cache line or not, of
 * blocking and pending operations, of roots that run ahead of the other rank, and of communicators that are freed at once. */
#include "mtest.h"

#define ROUNDS 60
#define PENDING 20
#define MAX 40

static MPI_Datatype gaps; /* an int and a gap */

/* One rank's ints may have gaps. */
static MPI_Datatype type_of(int round)
{
    return round % 3 == mtest_rank ? gaps : MPI_INT;
}

static int step_of(int round)
{
    return round % 3 == mtest_rank ? 2 : 1;
}

static void check(const char *what, int round, const int *values, int n, int step, int first)
{
    for (int i = 0; i < n; i++)
        MTEST_CHECK(values[i * step] == first + i, "%s, round %d, %d ints: element %d is %d instead of %d",
                    what, round, n, i, values[i * step], first + i);
}

/* Block r begins with base + r. */
static void fill(int *values, int n, int step, int first)
{
    for (int i = 0; i < n; i++)
        values[i * step] = first + i;
}

static void run_round(int round, int n)
{
    int send[4 * MAX], recv[4 * MAX], step = step_of(round), other = !mtest_rank, root = round / 2 % 2;
    MPI_Datatype type = type_of(round);

    fill(send, 2 * n, step, round + 1000 * mtest_rank);
    MPI_Allgather(send, n, type, recv, n, MPI_INT, MPI_COMM_WORLD);
    check("allgather", round, recv + other * n, n, 1, round + 1000 * other);
    check("allgather, own", round, recv + mtest_rank * n, n, 1, round + 1000 * mtest_rank);
    MPI_Alltoall(send, n, type, recv, n, MPI_INT, MPI_COMM_WORLD);
    check("alltoall", round, recv + other * n, n, 1, round + 1000 * other + mtest_rank * n);
    check("alltoall, own", round, recv + mtest_rank * n, n, 1, round + 1000 * mtest_rank + mtest_rank * n);
    fill(recv, 2 * n, 1, round + 1000 * mtest_rank);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, recv, n, MPI_INT, MPI_COMM_WORLD);
    check("alltoall in place", round, recv + other * n, n, 1, round + 1000 * other + mtest_rank * n);
    fill(recv + mtest_rank * n, n, 1, round);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, recv, n, MPI_INT, MPI_COMM_WORLD);
    check("allgather in place", round, recv + other * n, n, 1, round);
    fill(recv, n, 1, mtest_rank ? 5 : round);
    MPI_Allreduce(MPI_IN_PLACE, recv, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    check("allreduce", round, recv, n, 1, round > 5 ? round : 5);
    for (int i = 0; i < round; i++) { /* the root runs ahead */
        fill(recv, n, step, mtest_rank == root ? i : -1);
        MPI_Bcast(recv, n, type, root, MPI_COMM_WORLD);
        check("bcast", round, recv, n, step, i);
    }
    if (round % 7 == 0)
        MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations with a root, which has gaps in one of three rounds, or the other member has. */
static void run_rooted(int round, int n, int root, MPI_Comm comm)
{
    int send[4 * MAX], recv[4 * MAX], step = step_of(round), other = !mtest_rank,
                                      is_root = mtest_rank == root;
    MPI_Datatype type = type_of(round);

    fill(send, n, step, round + 1000 * mtest_rank);
    MPI_Gather(send, n, type, recv, n, MPI_INT, root, comm);
    if (is_root) {
        check("gather", round, recv + other * n, n, 1, round + 1000 * other);
        check("gather, own", round, recv + mtest_rank * n, n, 1, round + 1000 * mtest_rank);
    }
    fill(recv + mtest_rank * n, n, 1, round);
    MPI_Gather(is_root ? MPI_IN_PLACE : send, n, type, recv, n, MPI_INT, root, comm);
    if (is_root)
        check("gather in place", round, recv + other * n, n, 1, round + 1000 * other);
    fill(send, 2 * n, step, round);
    MPI_Scatter(send, n, type, recv, n, MPI_INT, root, comm);
    check("scatter", round, recv, n, 1, round + mtest_rank * n);
    fill(recv, n, step, -1);
    MPI_Scatter(send, n, type, is_root ? MPI_IN_PLACE : recv, n, type, root, comm);
    if (!is_root)
        check("scatter in place", round, recv, n, step, round + mtest_rank * n);
    fill(send, n, 1, mtest_rank ? 5 : round);
    MPI_Reduce(send, recv, n, MPI_INT, MPI_MAX, root, comm);
    if (is_root)
        check("reduce", round, recv, n, 1, round > 5 ? round : 5);
    MPI_Reduce(is_root ? MPI_IN_PLACE : send, send, n, MPI_INT, MPI_MIN, root, comm);
    if (is_root)
        check("reduce in place", round, send, n, 1, round < 5 ? round : 5);
}

/* In the v forms one block may be small, and the other one not. */
static void run_v(int round, int root)
{
    int counts[2] = {1 + round % 3, 1 + round * 7 % MAX}, displs[2] = {0, counts[0]};
    int send[2 * MAX], recv[2 * MAX], n = counts[mtest_rank];

    fill(send, 2 * MAX, 1, 100 * mtest_rank);
    MPI_Gatherv(send, n, MPI_INT, recv, counts, displs, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < 2 && mtest_rank == root; i++)
        check("gatherv", round, recv + displs[i], counts[i], 1, 100 * i);
    MPI_Scatterv(send, counts, displs, MPI_INT, recv, n, MPI_INT, root, MPI_COMM_WORLD);
    check("scatterv", round, recv, n, 1, 100 * root + displs[mtest_rank]);
}

static void run_pending(int n)
{
    static int values[PENDING][2 * MAX], sums[PENDING][MAX];
    MPI_Request requests[2 * PENDING];

    for (int i = 0; i < PENDING; i++) {
        fill(values[i], n, 1, mtest_rank == i % 3 % 2 ? i : -1);
        fill(sums[i], n, 1, i * (mtest_rank + 1));
        MPI_Ibcast(values[i], n, MPI_INT, i % 3 % 2, MPI_COMM_WORLD, &requests[2 * i]);
        if (i % 4 == 3)
            MPI_Ibarrier(MPI_COMM_WORLD, &requests[2 * i + 1]);
        else
            MPI_Iallreduce(MPI_IN_PLACE, sums[i], n, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * PENDING, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < PENDING; i++) {
        check("pending bcast", i, values[i], n, 1, i);
        if (i % 4 != 3)
            check("pending allreduce", i, sums[i], n, 1, i);
    }
}

/* The leaf of gathers and reductions runs ahead by many operations, and has started the next collectives when the other
 * rank comes. */
static void run_ahead(MPI_Comm comm, int leaf)
{
    enum { GATHERS = 30 };
    int blocks[2], total = -1, sum = mtest_rank + 1, value = mtest_rank == leaf ? 77 : 0;
    MPI_Request requests[2];

    for (int i = 0; i < GATHERS; i++) {
        MPI_Gather(&i, 1, MPI_INT, blocks, 1, MPI_INT, !leaf, comm);
        MTEST_CHECK(mtest_rank == leaf || (blocks[0] == i && blocks[1] == i), "gather %d: %d and %d", i,
                    blocks[0], blocks[1]);
        MPI_Reduce(&i, &total, 1, MPI_INT, MPI_SUM, !leaf, comm);
        MTEST_CHECK(total == (mtest_rank == leaf ? -1 : 2 * i), "reduce %d: %d", i, total);
    }
    MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Ibcast(&value, 1, MPI_INT, leaf, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MTEST_CHECK(sum == 3 && value == 77, "sum %d, value %d", sum, value);
}

/* The last operation on the communicator is a broadcast, whose root may leave and free it before the other rank comes. */
static void run_freed(int round)
{
    MPI_Comm comm;
    int n = 1 + round % 3 * 4, step = step_of(round), root = round % 2, values[20 * 2];

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    run_rooted(round, n, root, comm);
    if (round % 5 == 0)
        run_ahead(comm, round / 5 % 2);
    for (int i = 0; i < round % 4; i++) {
        fill(values, n, step, mtest_rank == root ? i : -1);
        MPI_Bcast(values, n, type_of(round), root, comm);
        check("bcast before free", round, values, n, step, i);
    }
    MPI_Comm_free(&comm);
}

/* Each rank sends in turn, before it receives, on a communicator that is freed meanwhile. */
static void run_freed_pending(int round)
{
    enum { CROSSING = 6 };
    int values[CROSSING], terms[CROSSING], sums[CROSSING];
    MPI_Request requests[2 * CROSSING];
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < CROSSING; i++) {
        int root = (round + i) % 2;
        values[i] = mtest_rank == root ? round + i : -1;
        terms[i] = i;
        sums[i] = -1;
        MPI_Ibcast(&values[i], 1, MPI_INT, root, comm, &requests[2 * i]);
        MPI_Ireduce(&terms[i], &sums[i], 1, MPI_INT, MPI_SUM, round % 2, comm, &requests[2 * i + 1]);
    }
    MPI_Comm_free(&comm);
    MPI_Waitall(2 * CROSSING, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < CROSSING; i++) {
        check("pending bcast, freed", round, &values[i], 1, 1, round + i);
        check("pending reduce, freed", round, &sums[i], 1, 1, mtest_rank == round % 2 ? 2 * i : -1);
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 2, 5, 6, 7, 16, 17, MAX};

    mtest_init(&argc, &argv, 2);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
    MPI_Type_commit(&gaps);
    for (int round = 0; round < ROUNDS; round++)
        run_round(round, sizes[round % (sizeof sizes / sizeof *sizes)]);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        run_rooted(round, sizes[round % (sizeof sizes / sizeof *sizes)], round / 4 % 2, MPI_COMM_WORLD);
        run_v(round, round / 2 % 2);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        run_pending(sizes[i]);
    for (int round = 0; round < ROUNDS; round++)
        run_freed(round);
    for (int round = 0; round < ROUNDS; round++)
        run_freed_pending(round);
    MPI_Type_free(&gaps);
    return mtest_end();
}
