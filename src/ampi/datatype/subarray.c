/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subarray.c: MPI_Type_create_subarray (MPI 5.0, section 5.1.3). Its layout is one vector per dimension,
 * from the fastest to the slowest, displaced to the start of the subarray, with the bounds of the full
 * array.
 */
#include "ampi/datatype/compose.h"
#include "ampi/datatype/construct.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

/* The three arrays in one form; only one of each pair is set. */
struct subarray_args {
    int ndims;
    const int *small[3]; /* sizes, subsizes, starts */
    const MPI_Count *large[3];
    bool is_large;
    int order;
};

static MPI_Count arg(const struct subarray_args *args, int which, int dim)
{
    return args->is_large ? args->large[which][dim] : args->small[which][dim];
}

static int check_args(const struct subarray_args *args)
{
    static const char *const names[3] = {"array_of_sizes", "array_of_subsizes", "array_of_starts"};

    if (args->ndims < 1)
        return ampi_raise_self(MPI_ERR_ARG, "ndims is %d, but must be positive", args->ndims);
    if (args->order != MPI_ORDER_C && args->order != MPI_ORDER_FORTRAN)
        return ampi_raise_self(MPI_ERR_ARG, "order is %d, but must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
                               args->order);
    for (int i = 0; i < 3; i++) {
        if (!args->small[i] && !args->large[i])
            return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", names[i]);
    }
    for (int d = 0; d < args->ndims; d++) {
        MPI_Count size = arg(args, 0, d), subsize = arg(args, 1, d), start = arg(args, 2, d);
        if (size < 1)
            return ampi_raise_self(MPI_ERR_ARG, "array_of_sizes[%d] is %lld, but must be positive", d,
                                   (long long)size);
        if (subsize < 1 || subsize > size)
            return ampi_raise_self(MPI_ERR_ARG, "array_of_subsizes[%d] is %lld, but must be 1 to %lld", d,
                                   (long long)subsize, (long long)size);
        if (start < 0 || start > size - subsize)
            return ampi_raise_self(MPI_ERR_ARG, "array_of_starts[%d] is %lld, but must be 0 to %lld", d,
                                   (long long)start, (long long)(size - subsize));
    }
    return MPI_SUCCESS;
}

static struct ampi_type *layout(const struct subarray_args *args, struct ampi_type *old)
{
    struct ampi_type *type = old;
    MPI_Count stride = old->extent_bytes, disp = 0, total = stride;

    for (int d = 0; d < args->ndims; d++)
        total = ampi_compose_product(total, arg(args, 0, d));
    if (!ampi_compose_fits(total))
        return NULL;
    ampi_type_ref(old);
    for (int i = 0; i < args->ndims; i++) {
        int d = args->order == MPI_ORDER_FORTRAN ? i : args->ndims - 1 - i;
        type = ampi_compose_vector(type, arg(args, 1, d), stride);
        if (!type)
            return NULL;
        disp += arg(args, 2, d) * stride;
        stride *= arg(args, 0, d);
    }
    return ampi_compose_resized(ampi_compose_moved(type, disp), stride);
}

static int subarray(const struct subarray_args *args, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    int n = args->ndims;
    struct ampi_type *type, *impl;
    int rc = ampi_construct_check(0, 0, oldtype, newtype);

    if (rc == MPI_SUCCESS)
        rc = check_args(args);
    if (rc != MPI_SUCCESS)
        return rc;
    impl = layout(args, ampi_type_of(oldtype));
    if (!impl)
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE, "the array would exceed 2^62 bytes");
    type = ampi_type_new(MPI_COMBINER_SUBARRAY, args->is_large, args->is_large ? 2 : 3 * n + 2, 0,
                         args->is_large ? 3 * n : 0, 1);
    type->recipe->impl = impl;
    type->recipe->ints[0] = n;
    for (int i = 0; i < 3; i++) {
        if (args->is_large)
            memcpy(type->recipe->counts + i * n, args->large[i], (size_t)n * sizeof(MPI_Count));
        else
            memcpy(type->recipe->ints + 1 + i * n, args->small[i], (size_t)n * sizeof(int));
    }
    type->recipe->ints[type->recipe->n_ints - 1] = args->order;
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

AMPI_EXPORT(Type_create_subarray);
int PMPI_Type_create_subarray(int ndims, const int array_of_sizes[], const int array_of_subsizes[],
                              const int array_of_starts[], int order, MPI_Datatype oldtype,
                              MPI_Datatype *newtype)
{
    struct subarray_args args = {
        .ndims = ndims, .small = {array_of_sizes, array_of_subsizes, array_of_starts}, .order = order};

    ampi_enter("MPI_Type_create_subarray");
    return subarray(&args, oldtype, newtype);
}

AMPI_EXPORT(Type_create_subarray_c);
int PMPI_Type_create_subarray_c(int ndims, const MPI_Count array_of_sizes[],
                                const MPI_Count array_of_subsizes[], const MPI_Count array_of_starts[],
                                int order, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct subarray_args args = {.ndims = ndims,
                                 .large = {array_of_sizes, array_of_subsizes, array_of_starts},
                                 .is_large = true,
                                 .order = order};

    ampi_enter("MPI_Type_create_subarray_c");
    return subarray(&args, oldtype, newtype);
}
