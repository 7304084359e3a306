/* SPDX-License-Identifier: BSD-3-Clause
 *
 * f90.c: datatypes by precision or size (MPI 5.0, section 19.1.5; MPI_Type_get_value_index, section 6.9.4).
 *
 * Types by precision are predefined: the same arguments give the same handle in every rank of the process.
 * They are kept in a list that only grows; ranks of several PEs add to it with a compare-and-swap.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

#include <float.h>

struct f90_type {
    struct ampi_type type;
    struct ampi_type_recipe recipe;
    int args[2];           /* p and r, or r */
    struct f90_type *next; /* on f90_types */
};

static _Atomic(struct f90_type *) f90_types;

static struct f90_type *find(struct f90_type *first, int combiner, const int *args, int n_args)
{
    for (struct f90_type *f = first; f; f = f->next) {
        if (f->recipe.combiner == combiner && !memcmp(f->args, args, (size_t)n_args * sizeof *args))
            return f;
    }
    return NULL;
}

static struct f90_type *new_type(int combiner, const int *args, int n_args, MPI_Datatype like)
{
    struct f90_type *f = base_malloc(sizeof *f, "a datatype");

    memcpy(f->args, args, (size_t)n_args * sizeof *args);
    f->type = *ampi_type_of(like);
    f->recipe = (struct ampi_type_recipe){
        .combiner = combiner, .n_ints = n_args, .ints = f->args, .impl = ampi_type_of(like)};
    f->type.recipe = &f->recipe;
    f->type.predefined = (MPI_Datatype)&f->type;
    f->type.name = NULL;
    f->type.attrs = NULL;
    return f;
}

/* The handle of the type with these arguments, which has the layout of like. */
static MPI_Datatype get_type(int combiner, const int *args, int n_args, MPI_Datatype like)
{
    struct f90_type *first = atomic_load_explicit(&f90_types, memory_order_acquire);
    struct f90_type *found = find(first, combiner, args, n_args), *made;

    if (found)
        return found->type.predefined;
    made = new_type(combiner, args, n_args, like);
    do {
        found = find(first, combiner, args, n_args); /* another rank may have been faster */
        if (found) {
            free(made);
            return found->type.predefined;
        }
        made->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&f90_types, &first, made, memory_order_acq_rel,
                                                    memory_order_acquire));
    return made->type.predefined;
}

/* gfortran's real and complex kinds on this machine, by decimal precision and exponent range. */
static const struct real_kind {
    int precision, range;
    MPI_Datatype real, complex;
} real_kinds[] = {
    {6, 37, MPI_REAL4, MPI_COMPLEX8},
    {15, 307, MPI_REAL8, MPI_COMPLEX16},
#if LDBL_MANT_DIG == 64
    {18, 4931, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX},
#endif
    {33, 4931, MPI_REAL16, MPI_COMPLEX32},
};

static int create_real(int combiner, int p, int r, MPI_Datatype *newtype)
{
    if (!newtype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the new datatype is NULL");
    if (p == MPI_UNDEFINED && r == MPI_UNDEFINED)
        return ampi_raise_self(MPI_ERR_ARG, "p and r are both MPI_UNDEFINED");
    if ((p < 0 && p != MPI_UNDEFINED) || (r < 0 && r != MPI_UNDEFINED))
        return ampi_raise_self(MPI_ERR_ARG, "p is %d and r is %d, but neither may be negative", p, r);
    for (size_t i = 0; i < BASE_COUNT(real_kinds); i++) {
        const struct real_kind *kind = &real_kinds[i];
        if ((p != MPI_UNDEFINED && p > kind->precision) || (r != MPI_UNDEFINED && r > kind->range))
            continue;
        *newtype = get_type(combiner, (int[2]){p, r}, 2,
                            combiner == MPI_COMBINER_F90_REAL ? kind->real : kind->complex);
        return MPI_SUCCESS;
    }
    return ampi_raise_self(MPI_ERR_ARG, "no real kind has precision %d and exponent range %d", p, r);
}

AMPI_EXPORT(Type_create_f90_real);
int PMPI_Type_create_f90_real(int p, int r, MPI_Datatype *newtype)
{
    ampi_enter("MPI_Type_create_f90_real");
    return create_real(MPI_COMBINER_F90_REAL, p, r, newtype);
}

AMPI_EXPORT(Type_create_f90_complex);
int PMPI_Type_create_f90_complex(int p, int r, MPI_Datatype *newtype)
{
    ampi_enter("MPI_Type_create_f90_complex");
    return create_real(MPI_COMBINER_F90_COMPLEX, p, r, newtype);
}

AMPI_EXPORT(Type_create_f90_integer);
int PMPI_Type_create_f90_integer(int r, MPI_Datatype *newtype)
{
    static const struct {
        int range;
        MPI_Datatype type;
    } kinds[] = {
        {2, MPI_INTEGER1}, {4, MPI_INTEGER2}, {9, MPI_INTEGER4}, {18, MPI_INTEGER8}, {38, MPI_INTEGER16},
    };

    ampi_enter("MPI_Type_create_f90_integer");
    if (!newtype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the new datatype is NULL");
    for (size_t i = 0; r >= 0 && i < BASE_COUNT(kinds); i++) {
        if (r <= kinds[i].range) {
            *newtype = get_type(MPI_COMBINER_F90_INTEGER, &r, 1, kinds[i].type);
            return MPI_SUCCESS;
        }
    }
    return ampi_raise_self(MPI_ERR_ARG, "no integer kind has the decimal range %d", r);
}

AMPI_EXPORT(Type_match_size);
int PMPI_Type_match_size(int typeclass, int size, MPI_Datatype *datatype)
{
    static const struct {
        int typeclass, size;
        MPI_Datatype type;
    } rows[] = {
        {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
        {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
        {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
        {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
        {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
        {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},   {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
        {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32}, {MPIX_TYPECLASS_LOGICAL, 1, MPI_LOGICAL1},
        {MPIX_TYPECLASS_LOGICAL, 2, MPI_LOGICAL2},  {MPIX_TYPECLASS_LOGICAL, 4, MPI_LOGICAL4},
        {MPIX_TYPECLASS_LOGICAL, 8, MPI_LOGICAL8},  {MPIX_TYPECLASS_LOGICAL, 16, MPI_LOGICAL16},
    };

    ampi_enter("MPI_Type_match_size");
    if (!datatype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the datatype is NULL");
    for (size_t i = 0; i < BASE_COUNT(rows); i++) {
        if (rows[i].typeclass == typeclass && rows[i].size == size) {
            *datatype = rows[i].type;
            return MPI_SUCCESS;
        }
    }
    return ampi_raise_self(MPI_ERR_ARG, "no datatype of class %d has %d bytes", typeclass, size);
}

/* Pairs without a predefined type yield MPI_DATATYPE_NULL, as the standard says. */
AMPI_EXPORT(Type_get_value_index);
int PMPI_Type_get_value_index(MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype *pair_type)
{
    static const struct {
        MPI_Datatype value, index, pair;
    } rows[] = {
        {MPI_FLOAT, MPI_INT, MPI_FLOAT_INT},
        {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT},
        {MPI_LONG, MPI_INT, MPI_LONG_INT},
        {MPI_INT, MPI_INT, MPI_2INT},
        {MPI_SHORT, MPI_INT, MPI_SHORT_INT},
        {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
        {MPI_REAL, MPI_REAL, MPI_2REAL},
        {MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION},
        {MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER},
    };

    ampi_enter("MPI_Type_get_value_index");
    if (!ampi_type_arg(value_type, "value_type") || !ampi_type_arg(index_type, "index_type"))
        return MPI_ERR_TYPE;
    if (!pair_type)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the pair type is NULL");
    *pair_type = MPI_DATATYPE_NULL;
    for (size_t i = 0; i < BASE_COUNT(rows); i++) {
        if (rows[i].value == value_type && rows[i].index == index_type)
            *pair_type = rows[i].pair;
    }
    return MPI_SUCCESS;
}
