/* SPDX-License-Identifier: BSD-3-Clause */
/* A profiling library of the simplest kind: it stands in front of MPI, counts a rank's calls in globals, and
 * prints them at MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>

static long n_sends, n_recvs, n_barriers;
static int rank = -1;

int MPI_Init(int *argc, char ***argv)
{
    int error = PMPI_Init(argc, argv);

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return error;
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    n_sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    n_recvs++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Barrier(MPI_Comm comm)
{
    n_barriers++;
    return PMPI_Barrier(comm);
}

int MPI_Finalize(void)
{
    printf("rank %d: %ld sends, %ld receives, %ld barriers\n", rank, n_sends, n_recvs, n_barriers);
    return PMPI_Finalize();
}
