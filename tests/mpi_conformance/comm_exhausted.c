/* SPDX-License-Identifier: BSD-3-Clause */
/* When no context id is left, creating a communicator is an error at all its members that changes nothing;
 * existing communicators still work, and freed ids can be used again. (A member that has none left may still
 * be given a communicator if others choose the id, as in several processes: then all get one.) Needs some GiB
 * of memory. */
#include "mtest.h"

enum { MOST = 1 << 21 }; /* an MPI that makes as many is not tested */

static long available_mib(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    long kib = 0;

    while (file && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %ld", &kib);
    if (file)
        fclose(file);
    return kib / 1024;
}

/* Duplicates MPI_COMM_SELF until that is refused; returns how many there are. */
static int fill(MPI_Comm *comms)
{
    int n = 0, error = MPI_SUCCESS;

    while (n < MOST) {
        comms[n] = MPI_COMM_NULL;
        error = MPI_Comm_dup(MPI_COMM_SELF, &comms[n]);
        if (error != MPI_SUCCESS)
            break;
        n++;
    }
    MTEST_CHECK(n == MOST || comms[n] == MPI_COMM_NULL, "a refused call wrote a handle");
    return n;
}

static void check_works(MPI_Comm comm)
{
    int one = 1, sum = 0, size = 0;

    MTEST_OK(MPI_Comm_size(comm, &size));
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == size, "the sum is %d of %d", sum, size);
}

/* All members of older get a communicator that works, or all get the error and keep their handle. */
static void check_refused(MPI_Comm older, int error, MPI_Comm *comm)
{
    int n_refused = 0, is_refused = error != MPI_SUCCESS, size;

    MTEST_OK(MPI_Comm_size(older, &size));
    MTEST_OK(MPI_Allreduce(&is_refused, &n_refused, 1, MPI_INT, MPI_SUM, older));
    MTEST_CHECK(n_refused == 0 || n_refused == size, "%d of %d members were refused", n_refused, size);
    MTEST_CHECK(!is_refused || *comm == MPI_COMM_SELF, "a refused call wrote a handle");
    if (!is_refused) {
        check_works(*comm);
        MTEST_OK(MPI_Comm_free(comm));
        *comm = MPI_COMM_SELF;
    }
}

int main(int argc, char **argv)
{
    MPI_Comm *comms, comm = MPI_COMM_SELF, older;
    MPI_Request request = MPI_REQUEST_NULL;
    int n = 0, again, is_full;
    long mib;

    mtest_init(&argc, &argv, 1);
    mib = available_mib();
    MPI_Bcast(&mib, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (mib < 8 * 1024)
        mtest_skip("needs 8 GiB of memory");
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &older));
    comms = mtest_rank == 0 ? mtest_alloc((MOST + 1) * sizeof *comms) : NULL;
    if (mtest_rank == 0)
        n = fill(comms);
    is_full = n < MOST;
    MTEST_OK(MPI_Bcast(&is_full, 1, MPI_INT, 0, older));
    if (!is_full)
        mtest_skip("there is no end of communicators");
    MTEST_CHECK(mtest_rank != 0 || MPI_Comm_dup(MPI_COMM_SELF, &comm) != MPI_SUCCESS,
                "a communicator without a context id");
    check_refused(older, MPI_Comm_dup(older, &comm), &comm);
    check_refused(older, MPI_Comm_split(older, 0, 0, &comm), &comm);
    MTEST_CHECK(MPI_Psend_init(&n, 1, 1, MPI_INT, MPI_PROC_NULL, 0, older, MPI_INFO_NULL, &request) !=
                        MPI_SUCCESS ||
                    MPI_Request_free(&request) == MPI_SUCCESS,
                "partitioned communication");
    MTEST_CHECK(comm == MPI_COMM_SELF, "a refused call wrote a handle");
    check_works(older);
    if (mtest_rank == 0) {
        check_works(comms[0]);
        check_works(comms[n - 1]);
        for (int i = 0; i < n; i += 2)
            MTEST_OK(MPI_Comm_free(&comms[i]));
    }
    MTEST_OK(MPI_Barrier(older));
    MTEST_OK(MPI_Comm_dup(older, &comm));
    check_works(comm);
    MTEST_OK(MPI_Comm_free(&comm));
    for (int i = 1; i < n; i += 2)
        MTEST_OK(MPI_Comm_free(&comms[i]));
    MTEST_OK(MPI_Barrier(older)); /* freeing need not wait for the others: now all have freed comm */
    if (mtest_rank == 0) {
        again = fill(comms);
        MTEST_CHECK(again == n, "%d communicators, then %d: ids were lost", n, again);
        for (int i = 0; i < again; i++)
            MTEST_OK(MPI_Comm_free(&comms[i]));
    }
    free(comms);
    MTEST_OK(MPI_Comm_free(&older));
    return mtest_end();
}
