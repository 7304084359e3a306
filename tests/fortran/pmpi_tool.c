/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool in C: counts calls of MPI_Send, also those that Fortran makes.
 */
#include <mpi.h>

static int n_send;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    n_send++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int c_sends_(void);
int c_sends_(void)
{
    return n_send;
}
