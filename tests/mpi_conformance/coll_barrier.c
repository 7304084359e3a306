/* SPDX-License-Identifier: BSD-3-Clause */
/* No rank leaves a barrier before all have entered it, many times and on several communicators. */
#include "mcoll.h"

enum { ENTERING = 5, LEFT = 6 };

static void barrier(MPI_Comm comm)
{
    MPI_Request request;
    if (mcoll_form == MCOLL_BLOCKING) {
        MTEST_OK(MPI_Barrier(comm));
        return;
    }
    if (mcoll_form == MCOLL_NONBLOCKING) {
        MTEST_OK(MPI_Ibarrier(comm, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return;
    }
#if MPI_VERSION >= 4
    MTEST_OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &request));
    MTEST_OK(MPI_Start(&request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&request));
#else
    mtest_skip("persistent collectives need MPI 4");
#endif
}

/* One rank enters last: it waits until all others have said that they enter, and looks for one that left too
 * early. */
static void body(MPI_Comm comm, int me, int n)
{
    for (int round = 0; round < 2 * n && round < 12; round++) {
        int late = round % n, got = -1, flag = 0;
        if (me != late) {
            MTEST_OK(MPI_Send(&round, 1, MPI_INT, late, ENTERING, comm));
            barrier(comm);
            MTEST_OK(MPI_Send(&round, 1, MPI_INT, late, LEFT, comm));
            continue;
        }
        for (int i = 1; i < n; i++)
            MTEST_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, ENTERING, comm, MPI_STATUS_IGNORE));
        for (int i = 0; i < 100 && !flag; i++)
            MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, LEFT, comm, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag, "round %d: a rank left the barrier before all had entered", round);
        barrier(comm);
        for (int i = 1; i < n; i++) {
            MTEST_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, LEFT, comm, MPI_STATUS_IGNORE));
            MTEST_CHECK(got == round, "a message of round %d in round %d", got, round);
        }
    }
    for (int i = 0; i < 30; i++)
        barrier(comm);
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    mcoll_on_comms(body);
    return mtest_end();
}
