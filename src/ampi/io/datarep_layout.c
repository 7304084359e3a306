/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datarep_layout.c: layouts of datatypes in the data representation of a file (MPI 5.0, section 14.5).
 *
 * The layout of a derived type has the same recipe, with each basic type replaced by its bytes in the file.
 * Displacements in elements scale by that; displacements in bytes stay, as the standard wants. Array types are composed inside
 * the library with displacements in bytes, which are multiples of the element's extent and are scaled here.
 */
#include "ampi/io/datarep.h"

#include "ampi/datatype/compose.h"
#include "ampi/datatype/type_pack.h"
#include "ampi/datatype/typemap.h"

/* Deeper types are refused: the walk recurses. */
#define DEPTH_MAX 100

/* The layout of a type that the library has composed around an element type. */
struct element {
    struct ampi_type *old, *scaled;
};

/* True if neither direction converts; the extents are then the native ones, too. */
static bool is_memory(const struct ampi_datarep *rep)
{
    return !ampi_datarep_converts(rep, true) && !ampi_datarep_converts(rep, false);
}

/* Bytes in the file of a type without a recipe. */
static int basic_bytes(const struct ampi_datarep *rep, const struct ampi_type *type, MPI_Count *size_out)
{
    MPI_Aint extent = 0;
    int error;

    if (rep->is_external) {
        *size_out = ampi_external32_size(type);
        return MPI_SUCCESS;
    }
    error = rep->extent_fn(type->predefined, &extent, rep->extra_state);
    *size_out = extent;
    return error || extent < 0 ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

static int scale(const struct ampi_datarep *rep, struct ampi_type *type, struct ampi_type **out);

static void commit(struct ampi_type *type)
{
    if (!type->map && !type->is_dense)
        ampi_typemap_build(type);
}

/* A copy of a type with a recipe, without its children. */
static struct ampi_type *clone(const struct ampi_type *type)
{
    const struct ampi_type_recipe *r = type->recipe;
    struct ampi_type *made =
        ampi_type_new(r->combiner, r->is_large, r->n_ints, r->n_aints, r->n_counts, r->n_types);

    if (r->n_ints)
        memcpy(made->recipe->ints, r->ints, (size_t)r->n_ints * sizeof *r->ints);
    if (r->n_aints)
        memcpy(made->recipe->aints, r->aints, (size_t)r->n_aints * sizeof *r->aints);
    if (r->n_counts)
        memcpy(made->recipe->counts, r->counts, (size_t)r->n_counts * sizeof *r->counts);
    return made;
}

/* A displacement in elements of the old extent. */
static void scale_bytes(const struct element *element, MPI_Count *bytes)
{
    if (element->old->extent_bytes)
        *bytes = *bytes / element->old->extent_bytes * element->scaled->extent_bytes;
}

/* A type that the library composed: compose.h has all forms. */
static struct ampi_type *scale_composed(struct ampi_type *type, const struct element *element)
{
    struct ampi_type *made;
    MPI_Count *counts;

    if (type == element->old) {
        ampi_type_ref(element->scaled);
        return element->scaled;
    }
    made = clone(type);
    counts = made->recipe->counts;
    switch (made->recipe->combiner) {
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK:
        scale_bytes(element, &counts[2]);
        break;
    case MPI_COMBINER_STRUCT:
        scale_bytes(element, &counts[3]);
        scale_bytes(element, &counts[4]);
        break;
    default: /* resized */
        scale_bytes(element, &counts[0]);
        scale_bytes(element, &counts[1]);
        break;
    }
    for (MPI_Count i = 0; i < type->recipe->n_types; i++) {
        made->recipe->types[i] = scale_composed(type->recipe->types[i], element);
        if (!made->recipe->types[i]) { /* a number does not fit into 63 bits */
            ampi_type_destroy(made);
            return NULL;
        }
    }
    return ampi_type_finish(made) ? made : NULL;
}

/* The children of a derived type. *is_same_out: they are the type's own. */
static int scale_children(const struct ampi_datarep *rep, const struct ampi_type *type,
                          struct ampi_type *made, bool *is_same_out)
{
    const struct ampi_type_recipe *r = type->recipe;

    *is_same_out = true;
    for (MPI_Count i = 0; i < r->n_types; i++) {
        int error = MPI_SUCCESS;
        if (i > 0 && r->types[i] == r->types[i - 1]) {
            made->recipe->types[i] = made->recipe->types[i - 1];
            ampi_type_ref(made->recipe->types[i]);
        } else {
            error = scale(rep, r->types[i], &made->recipe->types[i]);
        }
        if (error) {
            made->recipe->n_types = i;
            return error;
        }
        *is_same_out &= made->recipe->types[i] == r->types[i];
    }
    return MPI_SUCCESS;
}

static int scale_derived(const struct ampi_datarep *rep, struct ampi_type *type, struct ampi_type **out)
{
    struct ampi_type *made = clone(type);
    bool is_same;
    int error = scale_children(rep, type, made, &is_same);

    if (error || is_same) {
        ampi_type_destroy(made);
        if (is_same && !error) {
            ampi_type_ref(type);
            *out = type;
        }
        return error;
    }
    if (type->recipe->impl && type->recipe->n_types == 1) {
        struct element element = {type->recipe->types[0], made->recipe->types[0]};
        made->recipe->impl = scale_composed(type->recipe->impl, &element);
        if (!made->recipe->impl) {
            ampi_type_destroy(made);
            return MPI_ERR_TYPE;
        }
    }
    if (!ampi_type_finish(made))
        return MPI_ERR_TYPE;
    *out = made;
    return MPI_SUCCESS;
}

/* The type in the file's layout, with a reference, not committed. */
static int scale(const struct ampi_datarep *rep, struct ampi_type *type, struct ampi_type **out)
{
    MPI_Count n_bytes;
    int error;

    if (type->recipe && type->recipe->n_types > 0)
        return scale_derived(rep, type, out);
    if (type->recipe && type->recipe->impl)
        return scale(rep, type->recipe->impl, out);
    error = basic_bytes(rep, type, &n_bytes);
    if (error)
        return error;
    if (n_bytes == type->size_bytes && n_bytes == type->extent_bytes) {
        *out = type;
        return MPI_SUCCESS;
    }
    *out = ampi_compose_vector(ampi_type_of(MPI_BYTE), n_bytes, 1);
    return *out ? MPI_SUCCESS : MPI_ERR_TYPE;
}

int ampi_datarep_layout(const struct ampi_datarep *rep, struct ampi_type *type, struct ampi_type **layout_out)
{
    int error;

    if (is_memory(rep)) {
        ampi_type_ref(type);
        *layout_out = type;
        return MPI_SUCCESS;
    }
    if (type->depth > DEPTH_MAX)
        return MPI_ERR_TYPE;
    error = scale(rep, type, layout_out);
    if (!error)
        commit(*layout_out);
    return error;
}

int ampi_datarep_size(const struct ampi_datarep *rep, const struct ampi_type *type, MPI_Count *size_out)
{
    struct ampi_type *layout;
    int error;

    if (is_memory(rep)) {
        *size_out = type->size_bytes;
        return MPI_SUCCESS;
    }
    error = ampi_datarep_layout(rep, (struct ampi_type *)(uintptr_t)type, &layout);
    if (error)
        return error;
    *size_out = layout->size_bytes;
    ampi_type_unref(layout);
    return MPI_SUCCESS;
}
