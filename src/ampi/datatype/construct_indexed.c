/* SPDX-License-Identifier: BSD-3-Clause
 *
 * construct_indexed.c: the constructors with arrays of block lengths and displacements: indexed, hindexed,
 * indexed_block, hindexed_block, struct. One body serves all ten functions: struct ampi_layout_args has the
 * arrays.
 */
#include "ampi/datatype/datatype_calls.h"

#include "ampi/datatype/construct.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

static bool has_lens(const struct ampi_layout_args *args)
{
    return args->combiner != MPI_COMBINER_INDEXED_BLOCK && args->combiner != MPI_COMBINER_HINDEXED_BLOCK;
}

static int check_arrays(const struct ampi_layout_args *args)
{
    bool is_struct = args->combiner == MPI_COMBINER_STRUCT;

    if (args->count == 0)
        return MPI_SUCCESS;
    if (has_lens(args) && !args->lens && !args->large_lens)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_blocklengths is NULL");
    if (!args->disps && !args->byte_disps && !args->large_disps)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_displacements is NULL");
    if (is_struct && !args->types)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_types is NULL");
    for (MPI_Count i = 0; i < args->count; i++) {
        MPI_Count len = args->lens ? args->lens[i] : args->large_lens ? args->large_lens[i] : 0;
        if (len < 0)
            return ampi_raise_self(MPI_ERR_ARG, "array_of_blocklengths[%lld] is %lld, which is negative",
                                   (long long)i, (long long)len);
        if (is_struct && !ampi_type_arg(args->types[i], "an element of array_of_types"))
            return MPI_ERR_TYPE;
    }
    return MPI_SUCCESS;
}

/* Stores the arguments in the order of MPI_Type_get_contents. */
static void store_small(struct ampi_type_recipe *r, const struct ampi_layout_args *args)
{
    int *out = r->ints;

    *out++ = (int)args->count;
    if (!has_lens(args))
        *out++ = (int)args->blocklength;
    for (MPI_Count i = 0; args->lens && i < args->count; i++)
        *out++ = args->lens[i];
    for (MPI_Count i = 0; args->disps && i < args->count; i++)
        *out++ = args->disps[i];
    for (MPI_Count i = 0; args->byte_disps && i < args->count; i++)
        r->aints[i] = args->byte_disps[i];
}

static void store_large(struct ampi_type_recipe *r, const struct ampi_layout_args *args)
{
    MPI_Count *out = r->counts;

    *out++ = args->count;
    if (!has_lens(args))
        *out++ = args->blocklength;
    for (MPI_Count i = 0; args->large_lens && i < args->count; i++)
        *out++ = args->large_lens[i];
    for (MPI_Count i = 0; i < args->count; i++)
        *out++ = args->large_disps[i];
}

int ampi_construct_layout(const struct ampi_layout_args *args, MPI_Datatype *newtype)
{
    bool is_struct = args->combiner == MPI_COMBINER_STRUCT;
    MPI_Count n_numbers = has_lens(args) ? 1 + args->count : 2;
    bool has_byte_disps =
        args->combiner != MPI_COMBINER_INDEXED && args->combiner != MPI_COMBINER_INDEXED_BLOCK;
    struct ampi_type *type;
    int rc =
        ampi_construct_check(args->count, args->blocklength, is_struct ? MPI_BYTE : args->oldtype, newtype);

    if (rc == MPI_SUCCESS)
        rc = check_arrays(args);
    if (rc != MPI_SUCCESS)
        return rc;
    if (args->is_large)
        type =
            ampi_type_new(args->combiner, true, 0, 0, n_numbers + args->count, is_struct ? args->count : 1);
    else
        type = ampi_type_new(args->combiner, false, n_numbers + (has_byte_disps ? 0 : args->count),
                             has_byte_disps ? args->count : 0, 0, is_struct ? args->count : 1);
    if (args->is_large)
        store_large(type->recipe, args);
    else
        store_small(type->recipe, args);
    for (MPI_Count i = 0; i < type->recipe->n_types; i++)
        ampi_construct_set_type(type, i, is_struct ? args->types[i] : args->oldtype);
    return ampi_construct_done(type, newtype);
}
