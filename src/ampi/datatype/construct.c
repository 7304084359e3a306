/* SPDX-License-Identifier: BSD-3-Clause
 *
 * construct.c: the constructors whose arguments are single numbers: contiguous, vector, hvector, resized.
 * Constructors with array arguments are in construct_indexed.c and construct_array.c.
 */
#include "ampi/datatype/datatype_calls.h"

#include "ampi/datatype/construct.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

int ampi_construct_done(struct ampi_type *type, MPI_Datatype *newtype)
{
    if (!ampi_type_finish(type))
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE,
                               "the datatype's size or bounds would exceed 2^62 bytes");
    *newtype = ampi_type_handle(type);
    return MPI_SUCCESS;
}

int ampi_construct_check(MPI_Count count, MPI_Count blocklength, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "count is %lld, which is negative", (long long)count);
    if (blocklength < 0)
        return ampi_raise_self(MPI_ERR_ARG, "blocklength is %lld, which is negative", (long long)blocklength);
    if (!newtype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the new datatype is NULL");
    return ampi_type_arg(oldtype, "oldtype") ? MPI_SUCCESS : MPI_ERR_TYPE;
}

void ampi_construct_set_type(struct ampi_type *type, MPI_Count index, MPI_Datatype oldtype)
{
    type->recipe->types[index] = ampi_type_of(oldtype);
    ampi_type_ref(type->recipe->types[index]);
}

int ampi_construct_contiguous(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype, bool is_large)
{
    struct ampi_type *type;
    int rc = ampi_construct_check(count, 0, oldtype, newtype);

    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_new(MPI_COMBINER_CONTIGUOUS, is_large, !is_large, 0, is_large, 1);
    if (is_large)
        type->recipe->counts[0] = count;
    else
        type->recipe->ints[0] = (int)count;
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

int ampi_construct_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                          MPI_Datatype *newtype, bool is_large)
{
    struct ampi_type *type;
    int rc = ampi_construct_check(count, blocklength, oldtype, newtype);

    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_new(MPI_COMBINER_VECTOR, is_large, is_large ? 0 : 3, 0, is_large ? 3 : 0, 1);
    for (int i = 0; i < 3; i++) {
        MPI_Count arg = i == 0 ? count : i == 1 ? blocklength : stride;
        if (is_large)
            type->recipe->counts[i] = arg;
        else
            type->recipe->ints[i] = (int)arg;
    }
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

AMPI_EXPORT(Type_create_hvector);
int PMPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                             MPI_Datatype *newtype)
{
    struct ampi_type *type;
    int rc;

    ampi_enter("MPI_Type_create_hvector");
    rc = ampi_construct_check(count, blocklength, oldtype, newtype);
    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_new(MPI_COMBINER_HVECTOR, false, 2, 1, 0, 1);
    type->recipe->ints[0] = count;
    type->recipe->ints[1] = blocklength;
    type->recipe->aints[0] = stride;
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

AMPI_EXPORT(Type_create_hvector_c);
int PMPI_Type_create_hvector_c(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                               MPI_Datatype *newtype)
{
    struct ampi_type *type;
    int rc;

    ampi_enter("MPI_Type_create_hvector_c");
    rc = ampi_construct_check(count, blocklength, oldtype, newtype);
    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_new(MPI_COMBINER_HVECTOR, true, 0, 0, 3, 1);
    type->recipe->counts[0] = count;
    type->recipe->counts[1] = blocklength;
    type->recipe->counts[2] = stride;
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

int ampi_construct_resized(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype *newtype,
                           bool is_large)
{
    struct ampi_type *type;
    int rc = ampi_construct_check(0, 0, oldtype, newtype);

    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_new(MPI_COMBINER_RESIZED, is_large, 0, is_large ? 0 : 2, is_large ? 2 : 0, 1);
    if (is_large) {
        type->recipe->counts[0] = lb;
        type->recipe->counts[1] = extent;
    } else {
        type->recipe->aints[0] = lb;
        type->recipe->aints[1] = extent;
    }
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}
