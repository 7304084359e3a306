/* SPDX-License-Identifier: BSD-3-Clause */
/* The initial error handler that mpirun -initial-errhandler names is that of MPI_COMM_WORLD and MPI_COMM_SELF, and of errors of
 * calls without a communicator. Copies of MPI_COMM_WORLD inherit it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
    MPI_Errhandler handler;
    int n_wrong = 0, error_class;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_get_errhandler(comms[i], &handler);
        n_wrong += handler != MPI_ERRORS_RETURN;
    }
    MPI_Error_class(MPI_Send(NULL, 0, MPI_INT, 1000000, 0, MPI_COMM_WORLD), &error_class);
    n_wrong += error_class != MPI_ERR_RANK;
    MPI_Error_class(MPI_Type_commit(NULL), &error_class);
    n_wrong += error_class == MPI_SUCCESS;
    MPI_Comm_free(&comms[2]);
    MPI_Finalize();
    if (n_wrong)
        printf("%d wrong results\n", n_wrong);
    return n_wrong != 0;
}
