/* SPDX-License-Identifier: BSD-3-Clause
 *
 * name.c: names of datatypes (MPI 5.0, section 7.8).
 *
 * All ranks of a process share the predefined types, but each rank has its own names for them: they are
 * kept in a list that only grows, by rank and type. Only its own rank reads or changes an entry's name.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

struct own_name {
    const struct ampi_rank *rank;
    const struct ampi_type *type;
    struct own_name *next; /* on own_names */
    char text[MPI_MAX_OBJECT_NAME];
};

static _Atomic(struct own_name *) own_names;

static struct own_name *find_own(const struct ampi_rank *rank, const struct ampi_type *type)
{
    struct own_name *own = atomic_load_explicit(&own_names, memory_order_acquire);

    while (own && (own->rank != rank || own->type != type))
        own = own->next;
    return own;
}

static struct own_name *add_own(const struct ampi_rank *rank, const struct ampi_type *type)
{
    struct own_name *own = base_calloc(1, sizeof *own, "a datatype's name");

    own->rank = rank;
    own->type = type;
    own->next = atomic_load_explicit(&own_names, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&own_names, &own->next, own, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return own;
}

/* Copies at most MPI_MAX_OBJECT_NAME - 1 characters and a zero. Returns the number of characters. */
static size_t copy_name(char *out, const char *name)
{
    size_t len = strnlen(name, MPI_MAX_OBJECT_NAME - 1);

    memmove(out, name, len);
    out[len] = '\0';
    return len;
}

AMPI_EXPORT(Type_set_name);
int PMPI_Type_set_name(MPI_Datatype datatype, const char *type_name)
{
    const struct ampi_rank *self = ampi_enter("MPI_Type_set_name");
    struct ampi_type *type = ampi_type_arg(datatype, "datatype");

    if (!type)
        return MPI_ERR_TYPE;
    if (!type_name)
        return ampi_raise_self(MPI_ERR_ARG, "type_name is NULL");
    if (type->is_predefined) {
        struct own_name *own = find_own(self, type);
        copy_name((own ? own : add_own(self, type))->text, type_name);
        return MPI_SUCCESS;
    }
    if (!type->name)
        type->name = base_malloc(MPI_MAX_OBJECT_NAME, "a datatype's name");
    copy_name(type->name, type_name);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_get_name);
int PMPI_Type_get_name(MPI_Datatype datatype, char *type_name, int *resultlen)
{
    const struct ampi_rank *self = ampi_enter("MPI_Type_get_name");
    const struct own_name *own = NULL;
    const struct ampi_type *type = ampi_type_of(datatype);
    const char *name;

    if (datatype != MPI_DATATYPE_NULL && !(type = ampi_type_arg(datatype, "datatype")))
        return MPI_ERR_TYPE;
    if (!type_name || !resultlen)
        return ampi_raise_self(MPI_ERR_ARG, "the address for the %s is NULL", type_name ? "length" : "name");
    if (type && type->is_predefined)
        own = find_own(self, type);
    name = own ? own->text : !type ? "MPI_DATATYPE_NULL" : type->name ? type->name : "";
    *resultlen = (int)copy_name(type_name, name);
    return MPI_SUCCESS;
}
