/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of spawned ranks: their exit code, error, MPI_Abort and deadlock are the job's, after their parents have
 * disconnected; ranks that are still connected at their end do not hinder others; spawned ranks spawn ranks. */
#include "mtest.h"

static int be_child(MPI_Comm parent, const char *mode, const char *program)
{
    char *args[] = {(char *)"last", NULL};
    MPI_Comm inter;
    int value;

    if (strcmp(mode, "last") == 0) { /* ends without MPI_Comm_disconnect */
        MPI_Finalize();
        return 0;
    }
    MTEST_OK(MPI_Barrier(parent));
    if (strcmp(mode, "deadlock") == 0)
        MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Comm_disconnect(&parent));
    if (strcmp(mode, "abort") == 0 && mtest_rank == 1)
        MPI_Abort(MPI_COMM_SELF, 5);
    if (strcmp(mode, "error") == 0 && mtest_rank == 1)
        MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (strcmp(mode, "spawn") == 0)
        MTEST_OK(
            MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MPI_Finalize();
    return strcmp(mode, "code") == 0 && mtest_rank == 1 ? 9 : 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "spawn";
    char *args[] = {(char *)mode, NULL};
    MPI_Comm parent, inter;

    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return be_child(parent, mode, argv[0]);
    MTEST_OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MTEST_OK(MPI_Barrier(inter));
    MTEST_OK(MPI_Comm_disconnect(&inter));
    return mtest_end();
}
