/* SPDX-License-Identifier: BSD-3-Clause */
/* C code that Fortran calls with a status: is it MPI_STATUS_IGNORE (1), MPI_STATUSES_IGNORE (2), or one to fill? As wrappers of MPI
 * functions do. */
#include <mpi.h>

int status_kind(const MPI_Fint *status);
int status_kind(const MPI_Fint *status)
{
    return status == MPI_F_STATUS_IGNORE ? 1 : status == MPI_F_STATUSES_IGNORE ? 2 : 0;
}

int status_kind_f08(const MPI_F08_status *status);
int status_kind_f08(const MPI_F08_status *status)
{
    return status == MPI_F08_STATUS_IGNORE ? 1 : status == MPI_F08_STATUSES_IGNORE ? 2 : 0;
}

int is_valid(MPI_Fint comm);
int is_valid(MPI_Fint comm)
{
    int size = 0;

    return MPI_Comm_size(MPI_Comm_f2c(comm), &size) == MPI_SUCCESS &&
           MPI_Comm_c2f(MPI_Comm_f2c(comm)) == comm;
}
