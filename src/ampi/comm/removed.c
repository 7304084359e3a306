/* SPDX-License-Identifier: BSD-3-Clause
 *
 * removed.c: functions of MPI-1 that MPI-3.0 removed, for old programs (heddle_mpi_compat.h). Each calls
 * its replacement.
 */
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

AMPI_EXPORT_COMPAT(Address);
int PMPI_Address(void *location, MPI_Aint *address)
{
    return PMPI_Get_address(location, address);
}

AMPI_EXPORT_COMPAT(Errhandler_create);
int PMPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
{
    return PMPI_Comm_create_errhandler(function, errhandler);
}

AMPI_EXPORT_COMPAT(Errhandler_get);
int PMPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return PMPI_Comm_get_errhandler(comm, errhandler);
}

AMPI_EXPORT_COMPAT(Errhandler_set);
int PMPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return PMPI_Comm_set_errhandler(comm, errhandler);
}

AMPI_EXPORT_COMPAT(Type_extent);
int PMPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;

    return PMPI_Type_get_extent(datatype, &lb, extent);
}

AMPI_EXPORT_COMPAT(Type_hindexed);
int PMPI_Type_hindexed(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                       MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return PMPI_Type_create_hindexed(count, array_of_blocklengths, array_of_displacements, oldtype, newtype);
}

AMPI_EXPORT_COMPAT(Type_hvector);
int PMPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                      MPI_Datatype *newtype)
{
    return PMPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

AMPI_EXPORT_COMPAT(Type_lb);
int PMPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;

    return PMPI_Type_get_extent(datatype, displacement, &extent);
}

AMPI_EXPORT_COMPAT(Type_struct);
int PMPI_Type_struct(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                     MPI_Datatype array_of_types[], MPI_Datatype *newtype)
{
    return PMPI_Type_create_struct(count, array_of_blocklengths, array_of_displacements, array_of_types,
                                   newtype);
}

AMPI_EXPORT_COMPAT(Type_ub);
int PMPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint lb = 0, extent = 0;
    int error = PMPI_Type_get_extent(datatype, &lb, &extent);

    if (error)
        return error;
    if (!displacement)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the upper bound is NULL");
    *displacement = lb + extent;
    return MPI_SUCCESS;
}
