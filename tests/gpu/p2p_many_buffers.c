/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages between the many device buffers of several ranks, of which some share a page, ask the driver once each
 * or less when all buffers have been used. Data is right, also after they were freed and others allocated,
 * probably at the same addresses and of other lengths. A message of freed memory fails with an error of the
 * class MPI_ERR_BUFFER.
 */
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lookups.h"

#define BUFFERS 60 /* to be sent by each rank, and as many to be received */
#define ROUNDS 3
#define WINDOWS_MAX 40

static int peer;
static int is_near; /* all pairs of ranks are in one process each: the queries are counted */
static CUdeviceptr out[BUFFERS], in[BUFFERS];
static unsigned data[2048];

static int length(int i)
{
    return i % 2 ? 300 : 2048;
}

static void find_near(void)
{
    int own = (int)syscall(SYS_getpid), other = 0;

    MTEST_OK(MPI_Sendrecv(&own, 1, MPI_INT, peer, 1, &other, 1, MPI_INT, peer, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    is_near = own == other;
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_near, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
}

static unsigned value(int rank, int buffer, int round)
{
    return (unsigned)(rank * 100000 + buffer * 100 + round + 1);
}

/* Buffer i: of the length of number `as`. */
static void allocate(int i, int as)
{
    GTEST_CU(cuMemAlloc(&out[i], (size_t)length(as) * sizeof *data));
    GTEST_CU(cuMemAlloc(&in[i], (size_t)length(as) * sizeof *data));
}

static void release(int i)
{
    GTEST_CU(cuMemFree(out[i]));
    GTEST_CU(cuMemFree(in[i]));
}

static void set(int round, int shift)
{
    for (int i = 0; i < BUFFERS; i++) {
        for (int k = 0; k < length(i + shift); k++)
            data[k] = value(mtest_rank, i, round) + (unsigned)k;
        GTEST_CU(cuMemcpyHtoD(out[i], data, (size_t)length(i + shift) * sizeof *data));
    }
}

static void exchange(int shift)
{
    MPI_Request requests[2 * BUFFERS];

    for (int i = 0; i < BUFFERS; i++)
        MTEST_OK(
            MPI_Irecv((void *)in[i], length(i + shift), MPI_UNSIGNED, peer, i, MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < BUFFERS; i++)
        MTEST_OK(MPI_Isend((void *)out[i], length(i + shift), MPI_UNSIGNED, peer, i, MPI_COMM_WORLD,
                           &requests[BUFFERS + i]));
    MTEST_OK(MPI_Waitall(2 * BUFFERS, requests, MPI_STATUSES_IGNORE));
}

static void check(int round, int shift)
{
    for (int i = 0; i < BUFFERS; i++) {
        int n = length(i + shift);
        GTEST_CU(cuMemcpyDtoH(data, in[i], (size_t)n * sizeof *data));
        for (int k = 0; k < n; k++)
            MTEST_CHECK(data[k] == value(peer, i, round) + (unsigned)k, "round %d, buffer %d, element %d: %u",
                        round, i, k, data[k]);
    }
}

/* Queries of all ranks in some rounds, during which no rank does anything else. */
static int count_queries(void)
{
    int queries;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    queries = lookups_queries();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS; round++)
        exchange(0);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    queries = lookups_queries() - queries;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return queries;
}

/* When the library first uses a way it makes streams and memory for it, which changes mappings, so this waits
 * for calm rounds. Some addresses may push each other out of the cache. */
static void test_queries(void)
{
    int queries, n_messages = ROUNDS * BUFFERS * mtest_size, least = INT_MAX;

    for (int i = 0; i < (is_near ? WINDOWS_MAX : 2) && least > n_messages; i++) {
        queries = count_queries();
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &queries, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        least = queries < least ? queries : least;
    }
    MTEST_CHECK(!is_near || least <= n_messages, "at least %d queries for %d messages", least, n_messages);
}

/* The address of an allocation may be another rank's that is just being freed, so the driver is asked again. */
static void test_allocation(void)
{
    CUdeviceptr memory;
    int queries;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    queries = lookups_queries();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemAlloc(&memory, 1000));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    exchange(0);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (is_near && fakecuda_is_here())
        MTEST_CHECK(lookups_queries() - queries >= BUFFERS, "%d queries after an allocation",
                    lookups_queries() - queries);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(memory));
}

/* Buffers are freed and allocated with the length of their neighbours. */
static void test_other_memory(void)
{
    int shift = 0;

    for (int round = 1; round < 5; round++) {
        set(round, shift);
        exchange(shift);
        check(round, shift);
        shift++;
        for (int i = 0; i < BUFFERS; i++)
            release(i);
        for (int i = 0; i < BUFFERS; i++)
            allocate(i, i + shift);
    }
    set(5, shift);
    exchange(shift);
    check(5, shift);
}

static void test_freed(void)
{
    CUdeviceptr memory;
    int error;

    if (mtest_rank > 1)
        return;
    GTEST_CU(cuMemAlloc(&memory, 1 << 20));
    for (int i = 0; i < 2; i++) {
        if (i == 1 && mtest_rank == 0)
            GTEST_CU(cuMemFree(memory));
        error = mtest_rank == 0
                    ? MPI_Send((void *)memory, 5000, MPI_UNSIGNED, 1, 7, MPI_COMM_WORLD)
                    : MPI_Recv((void *)memory, 5000, MPI_UNSIGNED, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MTEST_CHECK(mtest_class(error) == (i ? MPI_ERR_BUFFER : MPI_SUCCESS), "message %d: error %d", i,
                    error);
    }
    if (mtest_rank == 1)
        GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    peer = mtest_rank ^ 1;
    gtest_init();
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    find_near();
    for (int i = 0; i < BUFFERS; i++)
        allocate(i, i);
    set(0, 0);
    test_queries();
    test_allocation();
    check(0, 0);
    test_other_memory();
    for (int i = 0; i < BUFFERS; i++)
        release(i);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (fakecuda_is_here()) /* on a GPU, the memory of a freed buffer may stay mapped */
        test_freed();
    return mtest_end();
}
