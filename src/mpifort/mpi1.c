/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi1.c: functions of MPI-1 that MPI 3.0 removed but programs still call, through mpif.h. Addresses and
 * extents are default INTEGERs in them: an address that does not fit is an error.
 */
#include "fort.h"

/* An address or extent as an INTEGER. */
static int narrow(MPI_Aint value, MPI_Fint *out, const char *text)
{
    *out = (MPI_Fint)value;
    return *out == value ? MPI_SUCCESS : fort_raise(MPI_COMM_SELF, MPI_ERR_VALUE_TOO_LARGE, text);
}

static void fort_Address(void *location, MPI_Fint *address, MPI_Fint *ierror)
{
    MPI_Aint value = 0;
    int error = MPI_Get_address(fort_buffer(location), &value);

    if (error == MPI_SUCCESS)
        error = narrow(value, address,
                       "MPI_Address: the address does not fit into an INTEGER; call MPI_Get_address");
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Address, address, ADDRESS);

static void fort_Type_extent(const MPI_Fint *datatype, MPI_Fint *extent, MPI_Fint *ierror)
{
    MPI_Aint lb = 0, value = 0;
    int error = MPI_Type_get_extent(fort_datatype(*datatype), &lb, &value);

    if (error == MPI_SUCCESS)
        error = narrow(value, extent,
                       "MPI_Type_extent: the extent does not fit into an INTEGER; call MPI_Type_get_extent");
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_extent, type_extent, TYPE_EXTENT);

static void fort_Type_lb(const MPI_Fint *datatype, MPI_Fint *displacement, MPI_Fint *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int error = MPI_Type_get_extent(fort_datatype(*datatype), &lb, &extent);

    if (error == MPI_SUCCESS)
        error = narrow(lb, displacement,
                       "MPI_Type_lb: the bound does not fit into an INTEGER; call MPI_Type_get_extent");
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_lb, type_lb, TYPE_LB);

static void fort_Type_ub(const MPI_Fint *datatype, MPI_Fint *displacement, MPI_Fint *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int error = MPI_Type_get_extent(fort_datatype(*datatype), &lb, &extent);

    if (error == MPI_SUCCESS)
        error = narrow(lb + extent, displacement,
                       "MPI_Type_ub: the bound does not fit into an INTEGER; call MPI_Type_get_extent");
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_ub, type_ub, TYPE_UB);

static void fort_Type_hvector(const MPI_Fint *count, const MPI_Fint *blocklength, const MPI_Fint *stride,
                              const MPI_Fint *oldtype, MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int error = MPI_Type_create_hvector(*count, *blocklength, *stride, fort_datatype(*oldtype), &type);

    if (error == MPI_SUCCESS)
        *newtype = fort_datatype_int(type);
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_hvector, type_hvector, TYPE_HVECTOR);

/* INTEGER displacements as addresses. */
static MPI_Aint *widen(const MPI_Fint *displacements, int n)
{
    MPI_Aint *wide = fort_alloc(n < 0 ? 0 : (size_t)n * sizeof *wide);

    for (int i = 0; i < n; i++)
        wide[i] = displacements[i];
    return wide;
}

static void fort_Type_hindexed(const MPI_Fint *count, const MPI_Fint *array_of_blocklengths,
                               const MPI_Fint *array_of_displacements, const MPI_Fint *oldtype,
                               MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Aint *displacements = widen(array_of_displacements, *count);
    int error = MPI_Type_create_hindexed(*count, array_of_blocklengths, displacements,
                                         fort_datatype(*oldtype), &type);

    if (error == MPI_SUCCESS)
        *newtype = fort_datatype_int(type);
    free(displacements);
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_hindexed, type_hindexed, TYPE_HINDEXED);

static void fort_Type_struct(const MPI_Fint *count, const MPI_Fint *array_of_blocklengths,
                             const MPI_Fint *array_of_displacements, const MPI_Fint *array_of_types,
                             MPI_Fint *newtype, MPI_Fint *ierror)
{
    MPI_Datatype type = MPI_DATATYPE_NULL, few[FORT_FEW];
    MPI_Datatype *types = fort_datatypes_in(array_of_types, *count, few);
    MPI_Aint *displacements = widen(array_of_displacements, *count);
    int error = MPI_Type_create_struct(*count, array_of_blocklengths, displacements, types, &type);

    if (error == MPI_SUCCESS)
        *newtype = fort_datatype_int(type);
    free(displacements);
    fort_datatypes_drop(types, few);
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Type_struct, type_struct, TYPE_STRUCT);

/* ---- Error handlers: aliases of the functions for communicators (MPI_Errhandler_create: callbacks.c) ---- */

static void fort_Errhandler_get(const MPI_Fint *comm, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    MPI_Errhandler c_errhandler = MPI_ERRHANDLER_NULL;
    int error = MPI_Comm_get_errhandler(fort_comm(*comm), &c_errhandler);

    if (error == MPI_SUCCESS)
        *errhandler = fort_errhandler_int(c_errhandler);
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Errhandler_get, errhandler_get, ERRHANDLER_GET);

static void fort_Errhandler_set(const MPI_Fint *comm, const MPI_Fint *errhandler, MPI_Fint *ierror)
{
    fort_return(ierror, MPI_Comm_set_errhandler(fort_comm(*comm), fort_errhandler(*errhandler)));
}
FORT_EXPORT_F90(Errhandler_set, errhandler_set, ERRHANDLER_SET);
