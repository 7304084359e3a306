/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large reductions and prefix sums have the right results in any buffers, in place and not, whether other processes can copy
 * the vectors from their memory or not, or only their first part: then the rest has to come in another way.
 */
#include <sys/mman.h>

#include "msecret.h"

enum { N_SIZES = 5, N_MAX = 150000 };
static const int sizes[N_SIZES] = {1000, 4096, 9001, 40000, N_MAX};

static long *out, *in;

static long value(int rank, int i)
{
    return (long)rank * 1000003 + (i % 1009) * (rank + 1);
}

/* The sum over ranks 0 to n_ranks - 1. */
static long sum(int n_ranks, int i)
{
    return (long)n_ranks * (n_ranks - 1) / 2 * 1000003 + (long)n_ranks * (n_ranks + 1) / 2 * (i % 1009);
}

static void fill(long *data, int n)
{
    for (int i = 0; i < n; i++)
        data[i] = value(mtest_rank, i);
}

static void check(const char *call, const long *got, int first, int n, int n_ranks)
{
    for (int i = 0; i < n; i++)
        if (got[i] != sum(n_ranks, first + i)) {
            MTEST_CHECK(0, "%s: element %d of %d is %ld, not %ld", call, i, n, got[i],
                        sum(n_ranks, first + i));
            return;
        }
}

static void reduce(int n)
{
    for (int root = 0; root < mtest_size; root++) {
        fill(out, n);
        memset(in, 0, (size_t)n * sizeof *in);
        MTEST_OK(MPI_Reduce(out, in, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
        if (mtest_rank == root)
            check("MPI_Reduce", in, 0, n, mtest_size);
        for (int i = 0; i < n; i++)
            MTEST_CHECK(out[i] == value(mtest_rank, i), "MPI_Reduce has changed element %d", i);
        fill(in, n);
        MTEST_OK(MPI_Reduce(mtest_rank == root ? MPI_IN_PLACE : in, mtest_rank == root ? in : NULL, n,
                            MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
        if (mtest_rank == root)
            check("MPI_Reduce in place", in, 0, n, mtest_size);
    }
}

static void allreduce(int n)
{
    int each = n / mtest_size;

    fill(out, n);
    MTEST_OK(MPI_Allreduce(out, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check("MPI_Allreduce", in, 0, n, mtest_size);
    fill(in, n);
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check("MPI_Allreduce in place", in, 0, n, mtest_size);
    MTEST_OK(MPI_Reduce_scatter_block(out, in, each, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check("MPI_Reduce_scatter_block", in, mtest_rank * each, each, mtest_size);
}

static void scan(int n)
{
    fill(out, n);
    MTEST_OK(MPI_Scan(out, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check("MPI_Scan", in, 0, n, mtest_rank + 1);
    fill(in, n);
    MTEST_OK(MPI_Scan(MPI_IN_PLACE, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check("MPI_Scan in place", in, 0, n, mtest_rank + 1);
    memset(in, 0, (size_t)n * sizeof *in);
    MTEST_OK(MPI_Exscan(out, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n && mtest_rank == 0; i++)
        MTEST_CHECK(in[i] == 0, "MPI_Exscan has changed the first rank's element %d", i);
    if (mtest_rank > 0)
        check("MPI_Exscan", in, 0, n, mtest_rank);
    fill(in, n);
    MTEST_OK(MPI_Exscan(MPI_IN_PLACE, in, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    if (mtest_rank > 0)
        check("MPI_Exscan in place", in, 0, n, mtest_rank);
    for (int i = 0; i < n; i++)
        MTEST_CHECK(out[i] == value(mtest_rank, i), "a scan has changed element %d", i);
}

static void run(long *from, long *to)
{
    out = from;
    in = to;
    for (int i = 0; i < N_SIZES; i++) {
        reduce(sizes[i]);
        allreduce(sizes[i]);
        scan(sizes[i]);
    }
}

/* Memory of which the kernel copies only what lies before an offset: the rest is mapped for writing alone. */
static long *map_until(size_t offset)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = offset / page * page, n_bytes = N_MAX * sizeof(long);
    char *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MTEST_CHECK(memory != MAP_FAILED, "mmap failed");
    memset(memory, 1, n_bytes);
    if (mprotect(memory + from, n_bytes - from, PROT_WRITE) != 0)
        MTEST_CHECK(0, "mprotect failed");
    return (long *)(void *)memory;
}

int main(int argc, char **argv)
{
    long *usual[2], *limited, *secret;
    int has_secret, all_have;

    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < 2; i++)
        usual[i] = mtest_alloc(N_MAX * sizeof(long));
    run(usual[0], usual[1]);
    for (size_t part = 0; part < 3; part++) {
        limited = map_until(part * N_MAX * sizeof(long) / 3);
        run(limited, usual[1]);
        run(usual[0], limited);
        munmap(limited, N_MAX * sizeof(long));
    }
    secret = (long *)(void *)msecret_map(N_MAX * sizeof(long));
    has_secret = secret != NULL;
    MTEST_OK(MPI_Allreduce(&has_secret, &all_have, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    if (all_have) {
        run(secret, usual[1]);
        run(usual[0], secret);
    }
    for (int i = 0; i < 2; i++)
        free(usual[i]);
    return mtest_end();
}
