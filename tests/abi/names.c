/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that the names of older standards, which Debian's Open MPI and MPICH have, compile in C and C++ as
 * LAMMPS, PETSc's configure and PhyML use them. Run by names_test.sh. */
#include <mpi.h>
#ifdef MPI_H
#error "MPI_H is the include guard of a header of PhyML's"
#endif
#define MPI_H
#include <stdio.h>
#include <string.h>

/* LAMMPS, src/library.cpp and fortran/lammps.f90: the communicator comes as Fortran's integer. */
static int lammps_open_fortran(int f_comm)
{
    MPI_Comm c_comm = MPI_Comm_f2c((MPI_Fint)f_comm);
    int rank = -1;
    MPI_Comm_rank(c_comm, &rank);
    return rank;
}

/* PETSc's configure (config/BuildSystem/config/packages/MPI.py): is the name a function, a type or a
 * constant? */
static MPI_Comm_errhandler_fn *comm_handler;
static MPI_Win_errhandler_fn *win_handler;
static MPI_File_errhandler_fn *file_handler;
static MPI_Session_errhandler_fn *session_handler;
static MPI_Handler_function *old_handler;

static const char *combiner_name(int combiner)
{
    switch (combiner) { /* all cases differ */
    case MPI_COMBINER_HVECTOR:
        return "hvector";
    case MPI_COMBINER_HVECTOR_INTEGER:
        return "hvector_integer";
    case MPI_COMBINER_HINDEXED:
        return "hindexed";
    case MPI_COMBINER_HINDEXED_INTEGER:
        return "hindexed_integer";
    case MPI_COMBINER_STRUCT:
        return "struct";
    case MPI_COMBINER_STRUCT_INTEGER:
        return "struct_integer";
    default:
        return "other";
    }
}

int main(int argc, char **argv)
{
    MPI_Fint f_status[MPI_F_STATUS_SIZE], *ignored = MPI_F_STATUS_IGNORE,
                                          *all_ignored = MPI_F_STATUSES_IGNORE;
    MPI_Status status;
    int rank = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(&status, 0, sizeof status);
    if (lammps_open_fortran((int)MPI_Comm_c2f(MPI_COMM_WORLD)) != rank)
        printf("another rank\n");
    if (MPI_Status_c2f(&status, f_status) != MPI_SUCCESS || ignored != all_ignored || comm_handler ||
        win_handler || file_handler || session_handler || old_handler || MPI_LB == MPI_UB)
        printf("wrong\n");
    printf("%s\n", combiner_name(MPI_COMBINER_STRUCT_INTEGER));
    MPI_Finalize();
    return 0;
}
