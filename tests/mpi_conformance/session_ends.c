/* SPDX-License-Identifier: BSD-3-Clause */
/* A call after the end of the last session, and a session that is left open, end the job with a line that says so. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group group;

    if (argc < 2 || MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
        return 1;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Group_free(&group);
    if (strcmp(argv[1], "open") == 0)
        return 0;
    MPI_Session_finalize(&session);
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    return 0;
}
