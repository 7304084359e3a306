/* SPDX-License-Identifier: BSD-3-Clause
 *
 * query.c: size and bounds of a datatype (MPI 5.0, sections 5.1.5 to 5.1.8), and addresses.
 */
#include "ampi/datatype/datatype_calls.h"

#include "ampi/datatype/recipe.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

#include <limits.h>

static int size_of(MPI_Datatype datatype, MPI_Count *size)
{
    const struct ampi_type *type = ampi_type_arg(datatype, "datatype");

    if (!type)
        return MPI_ERR_TYPE;
    if (!size)
        return ampi_raise_self(MPI_ERR_ARG, "the address for the size is NULL");
    *size = type->size_bytes;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_size);
int PMPI_Type_size(MPI_Datatype datatype, int *size)
{
    MPI_Count wide = 0;
    int rc;

    ampi_enter("MPI_Type_size");
    rc = size_of(datatype, size ? &wide : NULL);
    if (rc == MPI_SUCCESS)
        *size = wide > INT_MAX ? MPI_UNDEFINED : (int)wide;
    return rc;
}

AMPI_EXPORT(Type_size_c);
int PMPI_Type_size_c(MPI_Datatype datatype, MPI_Count *size)
{
    ampi_enter("MPI_Type_size_c");
    return size_of(datatype, size);
}

AMPI_EXPORT(Type_size_x);
int PMPI_Type_size_x(MPI_Datatype datatype, MPI_Count *size)
{
    ampi_enter("MPI_Type_size_x");
    return size_of(datatype, size);
}

/* MPI_Aint and MPI_Count are both 64 bits wide, but different types to the compiler. */
_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "an address has 64 bits");

int ampi_type_get_bounds(MPI_Datatype datatype, void *lb, void *extent, bool is_true)
{
    const struct ampi_type *type = ampi_type_arg(datatype, "datatype");
    MPI_Count values[2];

    if (!type)
        return MPI_ERR_TYPE;
    if (!lb || !extent)
        return ampi_raise_self(MPI_ERR_ARG, "the address for the %s is NULL", lb ? "extent" : "lower bound");
    values[0] = is_true ? type->true_lb_bytes : type->lb_bytes;
    values[1] = is_true ? type->true_extent_bytes : type->extent_bytes;
    memcpy(lb, &values[0], sizeof values[0]);
    memcpy(extent, &values[1], sizeof values[1]);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Get_address);
int PMPI_Get_address(const void *location, MPI_Aint *address)
{
    ampi_enter("MPI_Get_address");
    if (!address)
        return ampi_raise_self(MPI_ERR_ARG, "the address for the result is NULL");
    *address = (MPI_Aint)location;
    return MPI_SUCCESS;
}

/* These two may be called at any time, and cannot fail. */
AMPI_EXPORT(Aint_add);
MPI_Aint PMPI_Aint_add(MPI_Aint base, MPI_Aint disp)
{
    return (MPI_Aint)((uintptr_t)base + (uintptr_t)disp);
}

AMPI_EXPORT(Aint_diff);
MPI_Aint PMPI_Aint_diff(MPI_Aint addr1, MPI_Aint addr2)
{
    return (MPI_Aint)((uintptr_t)addr1 - (uintptr_t)addr2);
}
