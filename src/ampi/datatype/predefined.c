/* SPDX-License-Identifier: BSD-3-Clause
 *
 * predefined.c: the predefined datatypes (MPI 5.0, sections 3.2.2 and 5.1, and the table of the ABI).
 *
 * The table is filled once by ampi_type_init, before any rank runs, and is read-only afterwards. C types
 * are those of the compiler, Fortran types those of gfortran without options.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/datatype/typemap.h"

#include <complex.h>
#include <wchar.h>

struct ampi_type *ampi_type_predefined[AMPI_TYPE_COUNT];

struct predefined {
    MPI_Datatype handle;
    uint32_t size_bytes; /* of the data */
    uint32_t align_bytes;
    enum ampi_basic basic;
    const char *name;
};

#define TYPE(handle, type, basic)                                         \
    {                                                                     \
        handle, sizeof(type), _Alignof(type), AMPI_BASIC_##basic, #handle \
    }
#define SIZED(handle, size, align, basic)                \
    {                                                    \
        handle, size, align, AMPI_BASIC_##basic, #handle \
    }
#define PAIR(handle, first, second, basic)                        \
    {                                                             \
        handle, sizeof(first) + sizeof(second), _Alignof(struct { \
            first a;                                              \
            second b;                                             \
        }),                                                       \
            AMPI_BASIC_##basic, #handle                           \
    }

static const struct predefined table[] = {
    TYPE(MPI_AINT, MPI_Aint, INT64),
    TYPE(MPI_COUNT, MPI_Count, INT64),
    TYPE(MPI_OFFSET, MPI_Offset, INT64),
    SIZED(MPI_PACKED, 1, 1, BYTE),
    TYPE(MPI_SHORT, short, INT16),
    TYPE(MPI_INT, int, INT32),
    TYPE(MPI_LONG, long, INT64),
    SIZED(MPI_LONG_LONG, sizeof(long long), _Alignof(long long), INT64),
    TYPE(MPI_UNSIGNED_SHORT, unsigned short, UINT16),
    TYPE(MPI_UNSIGNED, unsigned, UINT32),
    TYPE(MPI_UNSIGNED_LONG, unsigned long, UINT64),
    TYPE(MPI_UNSIGNED_LONG_LONG, unsigned long long, UINT64),
    TYPE(MPI_FLOAT, float, FLOAT),
    TYPE(MPI_C_FLOAT_COMPLEX, float complex, COMPLEX_FLOAT),
    TYPE(MPI_CXX_FLOAT_COMPLEX, float complex, COMPLEX_FLOAT),
    TYPE(MPI_DOUBLE, double, DOUBLE),
    TYPE(MPI_C_DOUBLE_COMPLEX, double complex, COMPLEX_DOUBLE),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, double complex, COMPLEX_DOUBLE),
    SIZED(MPI_LOGICAL, 4, 4, LOGICAL32),
    SIZED(MPI_INTEGER, 4, 4, INT32),
    TYPE(MPI_REAL, float, FLOAT),
    TYPE(MPI_COMPLEX, float complex, COMPLEX_FLOAT),
    TYPE(MPI_DOUBLE_PRECISION, double, DOUBLE),
    TYPE(MPI_DOUBLE_COMPLEX, double complex, COMPLEX_DOUBLE),
    TYPE(MPI_CHARACTER, char, CHAR),
    TYPE(MPI_LONG_DOUBLE, long double, LONG_DOUBLE),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, COMPLEX_LONG_DOUBLE),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex, COMPLEX_LONG_DOUBLE),
    PAIR(MPI_FLOAT_INT, float, int, FLOAT_INT),
    PAIR(MPI_DOUBLE_INT, double, int, DOUBLE_INT),
    PAIR(MPI_LONG_INT, long, int, LONG_INT),
    PAIR(MPI_2INT, int, int, 2INT),
    PAIR(MPI_SHORT_INT, short, int, SHORT_INT),
    PAIR(MPI_LONG_DOUBLE_INT, long double, int, LONG_DOUBLE_INT),
    PAIR(MPI_2REAL, float, float, 2FLOAT),
    PAIR(MPI_2DOUBLE_PRECISION, double, double, 2DOUBLE),
    PAIR(MPI_2INTEGER, int, int, 2INT),
    TYPE(MPI_C_BOOL, _Bool, BOOL),
    TYPE(MPI_CXX_BOOL, _Bool, BOOL),
    TYPE(MPI_WCHAR, wchar_t, WCHAR),
    TYPE(MPI_INT8_T, int8_t, INT8),
    TYPE(MPI_UINT8_T, uint8_t, UINT8),
    TYPE(MPI_CHAR, char, INT8), /* reduced like signed char, which the standard forbids but other MPIs
                                 * allow */
    TYPE(MPI_SIGNED_CHAR, signed char, INT8),
    TYPE(MPI_UNSIGNED_CHAR, unsigned char, UINT8),
    SIZED(MPI_BYTE, 1, 1, BYTE),
    TYPE(MPI_INT16_T, int16_t, INT16),
    TYPE(MPI_UINT16_T, uint16_t, UINT16),
    TYPE(MPI_INT32_T, int32_t, INT32),
    TYPE(MPI_UINT32_T, uint32_t, UINT32),
    TYPE(MPI_INT64_T, int64_t, INT64),
    TYPE(MPI_UINT64_T, uint64_t, UINT64),
    SIZED(MPI_LOGICAL1, 1, 1, LOGICAL8),
    SIZED(MPI_INTEGER1, 1, 1, INT8),
    SIZED(MPI_LOGICAL2, 2, 2, LOGICAL16),
    SIZED(MPI_INTEGER2, 2, 2, INT16),
    SIZED(MPI_REAL2, 2, 2, FLOAT16),
    SIZED(MPI_LOGICAL4, 4, 4, LOGICAL32),
    SIZED(MPI_INTEGER4, 4, 4, INT32),
    SIZED(MPI_REAL4, 4, 4, FLOAT),
    SIZED(MPI_COMPLEX4, 4, 2, COMPLEX_FLOAT16),
    SIZED(MPI_LOGICAL8, 8, 8, LOGICAL64),
    SIZED(MPI_INTEGER8, 8, 8, INT64),
    SIZED(MPI_REAL8, 8, 8, DOUBLE),
    SIZED(MPI_COMPLEX8, 8, 4, COMPLEX_FLOAT),
    SIZED(MPI_LOGICAL16, 16, 16, LOGICAL128),
    SIZED(MPI_INTEGER16, 16, 16, INT128),
    SIZED(MPI_REAL16, 16, 16, FLOAT128),
    SIZED(MPI_COMPLEX16, 16, 8, COMPLEX_DOUBLE),
    SIZED(MPI_COMPLEX32, 32, 16, COMPLEX_FLOAT128),
};

static struct ampi_type objects[BASE_COUNT(table)];

/* The markers of MPI-1. */
static struct ampi_type lower_bound, upper_bound;

/* The types of the two elements of a pair, by its basic kind. The second follows at its own alignment. */
static const struct pair {
    MPI_Datatype first, second;
} pairs[AMPI_BASIC_COUNT] = {
    [AMPI_BASIC_FLOAT_INT] = {MPI_FLOAT, MPI_INT}, [AMPI_BASIC_DOUBLE_INT] = {MPI_DOUBLE, MPI_INT},
    [AMPI_BASIC_LONG_INT] = {MPI_LONG, MPI_INT},   [AMPI_BASIC_2INT] = {MPI_INT, MPI_INT},
    [AMPI_BASIC_SHORT_INT] = {MPI_SHORT, MPI_INT}, [AMPI_BASIC_LONG_DOUBLE_INT] = {MPI_LONG_DOUBLE, MPI_INT},
    [AMPI_BASIC_2FLOAT] = {MPI_FLOAT, MPI_FLOAT},  [AMPI_BASIC_2DOUBLE] = {MPI_DOUBLE, MPI_DOUBLE},
};

bool ampi_type_pair_parts(const struct ampi_type *type, struct ampi_recipe_piece parts[2])
{
    const struct pair *pair = &pairs[type->basic];
    struct ampi_type *second;

    if (!type->is_predefined || type->recipe || !pair->first)
        return false;
    second = ampi_type_of(pair->second);
    parts[0] = (struct ampi_recipe_piece){0, 1, ampi_type_of(pair->first)};
    parts[1] = (struct ampi_recipe_piece){
        (MPI_Count)base_round_up((size_t)parts[0].child->extent_bytes, second->align_bytes), 1, second};
    return true;
}

static void set_basic(struct ampi_type *type, const struct predefined *row)
{
    *type = (struct ampi_type){
        .magic = AMPI_MAGIC_TYPE,
        .refs = 1,
        .handles = 1,
        .size_bytes = row->size_bytes,
        .extent_bytes = row->size_bytes,
        .true_extent_bytes = row->size_bytes,
        .n_basics = 1,
        .basic = row->basic,
        .is_dense = true,
        .is_committed = true,
        .is_predefined = true,
        .align_bytes = row->align_bytes,
        .predefined = row->handle,
        .name = (char *)(uintptr_t)row->name,
    };
}

static void set_marker(struct ampi_type *type, MPI_Datatype handle, const char *name)
{
    set_basic(type, &(struct predefined){handle, 0, 1, AMPI_BASIC_NONE, name});
    type->n_basics = 0;
    type->has_lb = handle == MPI_LB;
    type->has_ub = handle == MPI_UB;
    ampi_type_predefined[(uintptr_t)handle - AMPI_TYPE_FIRST] = type;
}

static void set_pair(struct ampi_type *type)
{
    struct ampi_recipe_piece parts[2];

    if (!ampi_type_pair_parts(type, parts))
        return;
    type->n_basics = 2;
    type->true_extent_bytes = parts[1].disp_bytes + parts[1].child->size_bytes;
    type->extent_bytes = (MPI_Count)base_round_up((size_t)type->true_extent_bytes, type->align_bytes);
    ampi_typemap_build(type);
}

void ampi_type_init(void)
{
    for (size_t i = 0; i < BASE_COUNT(table); i++) {
        set_basic(&objects[i], &table[i]);
        ampi_type_predefined[(uintptr_t)table[i].handle - AMPI_TYPE_FIRST] = &objects[i];
    }
    for (size_t i = 0; i < BASE_COUNT(table); i++)
        set_pair(&objects[i]);
    set_marker(&lower_bound, MPI_LB, "MPI_LB");
    set_marker(&upper_bound, MPI_UB, "MPI_UB");
}
