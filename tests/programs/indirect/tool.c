/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiling tool for LD_PRELOAD that is linked with MPI.
 */
#include <mpi.h>
#include <stdio.h>

int MPI_Init(int *argc, char ***argv)
{
    int code = PMPI_Init(argc, argv), rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("tool: rank %d\n", rank);
    return code;
}
