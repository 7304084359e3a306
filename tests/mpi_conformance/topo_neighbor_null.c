/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighborhood collectives read and write no block of a neighbor that is MPI_PROC_NULL: these blocks are in
 * inaccessible memory. In blocking, nonblocking and persistent form. */
#include "mtest.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page;

/* Three pages, of which only the middle one may be touched. */
static char *guarded_page(void)
{
    char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MTEST_CHECK(memory != MAP_FAILED, "mmap failed");
    MTEST_CHECK(mprotect(memory + page, page, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    return memory + page;
}

/* The address of two blocks, left and right, of which those without a neighbor lie outside of the page. */
static int *blocks_at(char *memory, int n, bool has_left, bool has_right)
{
    if (!has_left)
        return (int *)memory - n;
    return has_right ? (int *)memory : (int *)(memory + page) - n;
}

static int value_of(int rank, int direction)
{
    return rank * 10 + direction;
}

static void check(const int *out, int n, bool has_left, bool has_right, bool is_alltoall, const char *what)
{
    for (int k = 0; k < n; k++) {
        int left = value_of(mtest_rank - 1, is_alltoall), right = value_of(mtest_rank + 1, 0);
        if (has_left)
            MTEST_CHECK(out[k] == left, "%s: %d from the left instead of %d", what, out[k], left);
        if (has_right)
            MTEST_CHECK(out[n + k] == right, "%s: %d from the right instead of %d", what, out[n + k], right);
    }
}

static void fill(int *in, int n, bool has_left, bool has_right)
{
    for (int k = 0; k < n; k++) {
        if (has_left)
            in[k] = value_of(mtest_rank, 0);
        if (has_right)
            in[n + k] = value_of(mtest_rank, 1);
    }
}

static void test(MPI_Comm line, int n)
{
    bool has_left = mtest_rank > 0, has_right = mtest_rank < mtest_size - 1;
    char *in_page = guarded_page(), *out_page = guarded_page();
    int *in = blocks_at(in_page, n, has_left, has_right), *out = blocks_at(out_page, n, has_left, has_right);
    int counts[2] = {n, n}, displs[2] = {0, n};
    MPI_Aint bytes[2] = {0, (MPI_Aint)(n * (int)sizeof(int))};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Request request;

    fill(in, n, has_left, has_right);
    MTEST_OK(MPI_Neighbor_alltoall(in, n, MPI_INT, out, n, MPI_INT, line));
    check(out, n, has_left, has_right, true, "alltoall");
    MTEST_OK(
        MPI_Ineighbor_alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, line, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check(out, n, has_left, has_right, true, "alltoallv");
    MTEST_OK(MPI_Neighbor_alltoallw(in, counts, bytes, types, out, counts, bytes, types, line));
    check(out, n, has_left, has_right, true, "alltoallw");
#if MPI_VERSION >= 4
    MTEST_OK(MPI_Neighbor_alltoallw_init(in, counts, bytes, types, out, counts, bytes, types, line,
                                         MPI_INFO_NULL, &request));
    for (int i = 0; i < 3; i++) {
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check(out, n, has_left, has_right, true, "alltoallw_init");
    }
    MTEST_OK(MPI_Request_free(&request));
#endif
    in = (int *)in_page;
    for (int k = 0; k < n; k++)
        in[k] = value_of(mtest_rank, 0);
    MTEST_OK(MPI_Neighbor_allgather(in, n, MPI_INT, out, n, MPI_INT, line));
    check(out, n, has_left, has_right, false, "allgather");
    MTEST_OK(MPI_Neighbor_allgatherv(in, n, MPI_INT, out, counts, displs, MPI_INT, line));
    check(out, n, has_left, has_right, false, "allgatherv");
    munmap(in_page - page, 3 * page);
    munmap(out_page - page, 3 * page);
}

int main(int argc, char **argv)
{
    int periodic = 0;
    MPI_Comm line;

    mtest_init(&argc, &argv, 1);
    page = (size_t)sysconf(_SC_PAGESIZE);
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &mtest_size, &periodic, 0, &line));
    test(line, 1);
    test(line, 100);
    MTEST_OK(MPI_Comm_free(&line));
    return mtest_end();
}
