/* SPDX-License-Identifier: BSD-3-Clause
 *
 * contents.c: decoding a datatype (MPI 5.0, section 5.1.13): returns the constructor and its arguments as
 * given.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

#include <limits.h>

static const struct ampi_type_recipe named = {.combiner = MPI_COMBINER_NAMED};

/* The recipe to return, or NULL after raising an error. */
static const struct ampi_type_recipe *recipe_of(MPI_Datatype datatype, bool is_large_call)
{
    const struct ampi_type *type = ampi_type_arg(datatype, "datatype");
    const struct ampi_type_recipe *r;

    if (!type)
        return NULL;
    r = type->recipe ? type->recipe : &named;
    if (r->n_counts > 0 && !is_large_call) {
        ampi_raise_self(MPI_ERR_TYPE,
                        "the datatype was created with large counts: use the _c form of this function");
        return NULL;
    }
    return r;
}

AMPI_EXPORT(Type_get_envelope);
int PMPI_Type_get_envelope(MPI_Datatype datatype, int *num_integers, int *num_addresses, int *num_datatypes,
                           int *combiner)
{
    const struct ampi_type_recipe *r;

    ampi_enter("MPI_Type_get_envelope");
    r = recipe_of(datatype, false);
    if (!r)
        return MPI_ERR_TYPE;
    if (!num_integers || !num_addresses || !num_datatypes || !combiner)
        return ampi_raise_self(MPI_ERR_ARG, "the address for a result is NULL");
    if (r->n_ints > INT_MAX)
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE,
                               "the datatype has %lld integer arguments: use MPI_Type_get_envelope_c",
                               (long long)r->n_ints);
    *num_integers = (int)r->n_ints;
    *num_addresses = (int)r->n_aints;
    *num_datatypes = (int)r->n_types;
    *combiner = r->combiner;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_get_envelope_c);
int PMPI_Type_get_envelope_c(MPI_Datatype datatype, MPI_Count *num_integers, MPI_Count *num_addresses,
                             MPI_Count *num_large_counts, MPI_Count *num_datatypes, int *combiner)
{
    const struct ampi_type_recipe *r;

    ampi_enter("MPI_Type_get_envelope_c");
    r = recipe_of(datatype, true);
    if (!r)
        return MPI_ERR_TYPE;
    if (!num_integers || !num_addresses || !num_large_counts || !num_datatypes || !combiner)
        return ampi_raise_self(MPI_ERR_ARG, "the address for a result is NULL");
    *num_integers = r->n_ints;
    *num_addresses = r->n_aints;
    *num_large_counts = r->n_counts;
    *num_datatypes = r->n_types;
    *combiner = r->combiner;
    return MPI_SUCCESS;
}

/* One of the four arrays of arguments, and the size of the caller's array. */
struct array {
    const char *what;
    MPI_Count room, n;
    void *out;
    const void *in;
    size_t element_bytes;
};

static int check_array(const struct array *a)
{
    if (a->room < a->n)
        return ampi_raise_self(MPI_ERR_ARG, "the array has room for %lld %s, but the datatype has %lld",
                               (long long)a->room, a->what, (long long)a->n);
    if (a->n > 0 && !a->out)
        return ampi_raise_self(MPI_ERR_ARG, "the array of %s is NULL", a->what);
    return MPI_SUCCESS;
}

/* Counts handles that the program must free. */
static void hand_out_types(const struct ampi_type_recipe *r, MPI_Datatype *out)
{
    for (MPI_Count i = 0; i < r->n_types; i++) {
        struct ampi_type *type = r->types[i];
        ampi_type_ref(type);
        if (!type->is_predefined)
            atomic_fetch_add_explicit(&type->handles, 1, memory_order_relaxed);
        out[i] = ampi_type_handle(type);
    }
}

static int get_contents(const struct ampi_type_recipe *r, const struct array arrays[4])
{
    if (r->combiner == MPI_COMBINER_NAMED)
        return ampi_raise_self(MPI_ERR_TYPE, "a named predefined datatype has no contents");
    for (int i = 0; i < 4; i++) {
        int rc = check_array(&arrays[i]);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    for (int i = 0; i < 3; i++) {
        if (arrays[i].n > 0)
            memcpy(arrays[i].out, arrays[i].in, (size_t)arrays[i].n * arrays[i].element_bytes);
    }
    hand_out_types(r, arrays[3].out);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_get_contents);
int PMPI_Type_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
                           int array_of_integers[], MPI_Aint array_of_addresses[],
                           MPI_Datatype array_of_datatypes[])
{
    const struct ampi_type_recipe *r;

    ampi_enter("MPI_Type_get_contents");
    r = recipe_of(datatype, false);
    if (!r)
        return MPI_ERR_TYPE;
    return get_contents(
        r, (struct array[4]){
               {"integers", max_integers, r->n_ints, array_of_integers, r->ints, sizeof(int)},
               {"addresses", max_addresses, r->n_aints, array_of_addresses, r->aints, sizeof(MPI_Aint)},
               {"large counts", 0, 0, NULL, NULL, sizeof(MPI_Count)},
               {"datatypes", max_datatypes, r->n_types, array_of_datatypes, r->types, sizeof(MPI_Datatype)},
           });
}

AMPI_EXPORT(Type_get_contents_c);
int PMPI_Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                             MPI_Count max_large_counts, MPI_Count max_datatypes, int array_of_integers[],
                             MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
                             MPI_Datatype array_of_datatypes[])
{
    const struct ampi_type_recipe *r;

    ampi_enter("MPI_Type_get_contents_c");
    r = recipe_of(datatype, true);
    if (!r)
        return MPI_ERR_TYPE;
    return get_contents(
        r, (struct array[4]){
               {"integers", max_integers, r->n_ints, array_of_integers, r->ints, sizeof(int)},
               {"addresses", max_addresses, r->n_aints, array_of_addresses, r->aints, sizeof(MPI_Aint)},
               {"large counts", max_large_counts, r->n_counts, array_of_large_counts, r->counts,
                sizeof(MPI_Count)},
               {"datatypes", max_datatypes, r->n_types, array_of_datatypes, r->types, sizeof(MPI_Datatype)},
           });
}
