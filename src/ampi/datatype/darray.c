/* SPDX-License-Identifier: BSD-3-Clause
 *
 * darray.c: MPI_Type_create_darray (MPI 5.0, section 5.1.4): the part of a distributed array that one
 * process of a grid owns. Like a subarray, it is composed dimension by dimension, from the fastest to the
 * slowest; a cyclic dimension is a vector of blocks, possibly with a shorter block at the end.
 */
#include "ampi/datatype/compose.h"
#include "ampi/datatype/construct.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

struct darray_args {
    int size, rank, ndims;
    const int *gsizes;
    const MPI_Count *large_gsizes; /* replaces gsizes in the large form */
    const int *distribs, *dargs, *psizes;
    int order;
};

static MPI_Count gsize(const struct darray_args *args, int dim)
{
    return args->large_gsizes ? args->large_gsizes[dim] : args->gsizes[dim];
}

static int check_dim(const struct darray_args *args, int d)
{
    MPI_Count g = gsize(args, d);
    int distrib = args->distribs[d], darg = args->dargs[d], psize = args->psizes[d];

    if (g < 1)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_gsizes[%d] is %lld, but must be positive", d,
                               (long long)g);
    if (psize < 1)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_psizes[%d] is %d, but must be positive", d, psize);
    if (distrib != MPI_DISTRIBUTE_NONE && distrib != MPI_DISTRIBUTE_BLOCK && distrib != MPI_DISTRIBUTE_CYCLIC)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_distribs[%d] is %d, which is not a distribution", d,
                               distrib);
    if (distrib == MPI_DISTRIBUTE_NONE && psize != 1)
        return ampi_raise_self(MPI_ERR_ARG,
                               "array_of_psizes[%d] is %d, but must be 1 for MPI_DISTRIBUTE_NONE", d, psize);
    if (distrib != MPI_DISTRIBUTE_NONE && darg != MPI_DISTRIBUTE_DFLT_DARG && darg < 1)
        return ampi_raise_self(MPI_ERR_ARG, "array_of_dargs[%d] is %d, but must be positive", d, darg);
    if (distrib == MPI_DISTRIBUTE_BLOCK && darg != MPI_DISTRIBUTE_DFLT_DARG &&
        ampi_compose_product(darg, psize) < g)
        return ampi_raise_self(MPI_ERR_ARG,
                               "array_of_dargs[%d] is %d: %d such blocks do not hold %lld elements", d, darg,
                               psize, (long long)g);
    return MPI_SUCCESS;
}

static int check_args(const struct darray_args *args)
{
    int64_t n_processes = 1;

    if (args->size < 1 || args->rank < 0 || args->rank >= args->size)
        return ampi_raise_self(MPI_ERR_ARG, "rank is %d and size is %d, but a rank must be 0 to size - 1",
                               args->rank, args->size);
    if (args->ndims < 1)
        return ampi_raise_self(MPI_ERR_ARG, "ndims is %d, but must be positive", args->ndims);
    if ((!args->gsizes && !args->large_gsizes) || !args->distribs || !args->dargs || !args->psizes)
        return ampi_raise_self(MPI_ERR_ARG, "an array of arguments is NULL");
    if (args->order != MPI_ORDER_C && args->order != MPI_ORDER_FORTRAN)
        return ampi_raise_self(MPI_ERR_ARG, "order is %d, but must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
                               args->order);
    for (int d = 0; d < args->ndims; d++) {
        int rc = check_dim(args, d);
        if (rc != MPI_SUCCESS)
            return rc;
        n_processes = ampi_compose_product(n_processes, args->psizes[d]);
    }
    if (n_processes != args->size)
        return ampi_raise_self(MPI_ERR_ARG, "the product of array_of_psizes is %lld, but size is %d",
                               (long long)n_processes, args->size);
    return MPI_SUCCESS;
}

/* The process's part of dimension d at this coordinate, relative to its first element, which is
 * *start_out. */
static struct ampi_type *one_dim(const struct darray_args *args, int d, MPI_Count coord,
                                 struct ampi_type *type, MPI_Count stride, MPI_Count *start_out)
{
    MPI_Count g = gsize(args, d), p = args->psizes[d], block, n_blocks, rest;
    bool is_cyclic = args->distribs[d] == MPI_DISTRIBUTE_CYCLIC;
    struct ampi_type *part;

    if (args->distribs[d] == MPI_DISTRIBUTE_NONE)
        block = g;
    else if (args->dargs[d] != MPI_DISTRIBUTE_DFLT_DARG)
        block = args->dargs[d];
    else
        block = is_cyclic ? 1 : g / p + (g % p > 0);
    if (block > g)
        block = g;
    *start_out = ampi_compose_product(coord, block);
    if (*start_out >= g) {
        *start_out = 0;
        return ampi_compose_vector(type, 0, stride);
    }
    /* Whole blocks that it owns, and the elements of a short last block if that is its own, too. */
    n_blocks = is_cyclic ? (g / block - coord + p - 1) / p : g - *start_out >= block;
    rest = is_cyclic ? (g / block % p == coord ? g % block : 0) : (n_blocks ? 0 : g - *start_out);
    if (n_blocks == 0)
        return ampi_compose_vector(type, rest, stride);
    ampi_type_ref(type);
    part = ampi_compose_vector(type, rest, stride);
    type = ampi_compose_vector(ampi_compose_vector(type, block, stride), n_blocks,
                               ampi_compose_product(block * stride, p));
    return ampi_compose_two(type, part, rest ? (g / block * block - *start_out) * stride : 0);
}

static struct ampi_type *layout(const struct darray_args *args, struct ampi_type *old)
{
    struct ampi_type *type = old;
    MPI_Count stride = old->extent_bytes, disp = 0, total = stride;

    for (int d = 0; d < args->ndims; d++)
        total = ampi_compose_product(total, gsize(args, d));
    if (!ampi_compose_fits(total))
        return NULL;
    ampi_type_ref(old);
    for (int i = 0; i < args->ndims && type; i++) {
        int d = args->order == MPI_ORDER_FORTRAN ? i : args->ndims - 1 - i;
        MPI_Count below = 1, start; /* processes per step of this coordinate: the grid is row-major */
        for (int k = d + 1; k < args->ndims; k++)
            below *= args->psizes[k];
        type = one_dim(args, d, args->rank / below % args->psizes[d], type, stride, &start);
        disp += start * stride;
        stride *= gsize(args, d);
    }
    return ampi_compose_resized(ampi_compose_moved(type, disp), stride);
}

static void store(struct ampi_type_recipe *r, const struct darray_args *args)
{
    size_t n = (size_t)args->ndims;
    int *out = r->ints;

    *out++ = args->size;
    *out++ = args->rank;
    *out++ = args->ndims;
    if (args->large_gsizes) {
        memcpy(r->counts, args->large_gsizes, n * sizeof(MPI_Count));
    } else {
        memcpy(out, args->gsizes, n * sizeof(int));
        out += n;
    }
    memcpy(out, args->distribs, n * sizeof(int));
    memcpy(out + n, args->dargs, n * sizeof(int));
    memcpy(out + 2 * n, args->psizes, n * sizeof(int));
    out[3 * n] = args->order;
}

static int darray(const struct darray_args *args, bool is_large, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct ampi_type *type, *impl;
    int rc = ampi_construct_check(0, 0, oldtype, newtype);

    if (rc == MPI_SUCCESS)
        rc = check_args(args);
    if (rc != MPI_SUCCESS)
        return rc;
    impl = layout(args, ampi_type_of(oldtype));
    if (!impl)
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE, "the array would exceed 2^62 bytes");
    type = ampi_type_new(MPI_COMBINER_DARRAY, is_large, (is_large ? 3 : 4) * args->ndims + 4, 0,
                         is_large ? args->ndims : 0, 1);
    type->recipe->impl = impl;
    store(type->recipe, args);
    ampi_construct_set_type(type, 0, oldtype);
    return ampi_construct_done(type, newtype);
}

AMPI_EXPORT(Type_create_darray);
int PMPI_Type_create_darray(int size, int rank, int ndims, const int array_of_gsizes[],
                            const int array_of_distribs[], const int array_of_dargs[],
                            const int array_of_psizes[], int order, MPI_Datatype oldtype,
                            MPI_Datatype *newtype)
{
    struct darray_args args = {.size = size,
                               .rank = rank,
                               .ndims = ndims,
                               .gsizes = array_of_gsizes,
                               .distribs = array_of_distribs,
                               .dargs = array_of_dargs,
                               .psizes = array_of_psizes,
                               .order = order};

    ampi_enter("MPI_Type_create_darray");
    return darray(&args, false, oldtype, newtype);
}

AMPI_EXPORT(Type_create_darray_c);
int PMPI_Type_create_darray_c(int size, int rank, int ndims, const MPI_Count array_of_gsizes[],
                              const int array_of_distribs[], const int array_of_dargs[],
                              const int array_of_psizes[], int order, MPI_Datatype oldtype,
                              MPI_Datatype *newtype)
{
    struct darray_args args = {.size = size,
                               .rank = rank,
                               .ndims = ndims,
                               .large_gsizes = array_of_gsizes,
                               .distribs = array_of_distribs,
                               .dargs = array_of_dargs,
                               .psizes = array_of_psizes,
                               .order = order};

    ampi_enter("MPI_Type_create_darray_c");
    return darray(&args, true, oldtype, newtype);
}
