/* SPDX-License-Identifier: BSD-3-Clause
 *
 * abi_query.c: inquiry functions of the standard ABI (MPI 5.0, chapter 20).
 *
 * The sizes of Fortran's types are fixed here: those of gfortran, flang and ifx by default; setting other
 * ones is refused. The values of .TRUE. and .FALSE. can be set once per rank and size: reductions on
 * logicals do not need them, because they preserve the operands' own representation of true (op_kernels.c).
 */
#include <stdio.h>
#include <string.h>

#include "ampi/object/error.h"
#include "ampi/object/info.h"
#include "ampi/object/rank.h"

static int raise_null(const char *argument)
{
    return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", argument);
}

AMPI_EXPORT(Abi_get_version);
int PMPI_Abi_get_version(int *abi_major, int *abi_minor)
{
    ampi_enter_any_time("MPI_Abi_get_version");
    if (!abi_major || !abi_minor)
        return raise_null(abi_major ? "abi_minor" : "abi_major");
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

static void set_size(struct ampi_info *info, const char *key, size_t size_bytes)
{
    char number[16];

    snprintf(number, sizeof number, "%zu", size_bytes);
    ampi_info_set(info, key, number);
}

AMPI_EXPORT(Abi_get_info);
int PMPI_Abi_get_info(MPI_Info *info)
{
    struct ampi_info *object;

    ampi_enter_any_time("MPI_Abi_get_info");
    if (!info)
        return raise_null("info");
    object = ampi_info_create();
    set_size(object, "mpi_aint_size", sizeof(MPI_Aint));
    set_size(object, "mpi_count_size", sizeof(MPI_Count));
    set_size(object, "mpi_offset_size", sizeof(MPI_Offset));
    *info = (MPI_Info)object;
    return MPI_SUCCESS;
}

/* ---- Fortran's types ---- */

#ifdef __FLT16_MANT_DIG__
#define HAS_REAL2 "true"
#else
#define HAS_REAL2 "false"
#endif
#ifdef __SIZEOF_FLOAT128__
#define HAS_REAL16 "true"
#else
#define HAS_REAL16 "false"
#endif
#ifdef __SIZEOF_INT128__
#define HAS_INTEGER16 "true"
#else
#define HAS_INTEGER16 "false"
#endif

static const struct {
    const char *key;
    const char *value;
} fortran_facts[] = {
    {"mpi_logical_size", "4"},
    {"mpi_integer_size", "4"},
    {"mpi_real_size", "4"},
    {"mpi_double_precision_size", "8"},
    {"mpi_logical1_supported", "true"},
    {"mpi_logical2_supported", "true"},
    {"mpi_logical4_supported", "true"},
    {"mpi_logical8_supported", "true"},
    {"mpi_logical16_supported", HAS_INTEGER16},
    {"mpi_integer1_supported", "true"},
    {"mpi_integer2_supported", "true"},
    {"mpi_integer4_supported", "true"},
    {"mpi_integer8_supported", "true"},
    {"mpi_integer16_supported", HAS_INTEGER16},
    {"mpi_real2_supported", HAS_REAL2},
    {"mpi_real4_supported", "true"},
    {"mpi_real8_supported", "true"},
    {"mpi_real16_supported", HAS_REAL16},
    {"mpi_complex4_supported", HAS_REAL2},
    {"mpi_complex8_supported", "true"},
    {"mpi_complex16_supported", "true"},
    {"mpi_complex32_supported", HAS_REAL16},
    {"mpi_double_complex_supported", "true"},
};

AMPI_EXPORT(Abi_get_fortran_info);
int PMPI_Abi_get_fortran_info(MPI_Info *info)
{
    struct ampi_info *object;

    ampi_enter_any_time("MPI_Abi_get_fortran_info");
    if (!info)
        return raise_null("info");
    object = ampi_info_create();
    for (size_t i = 0; i < BASE_COUNT(fortran_facts); i++)
        ampi_info_set(object, fortran_facts[i].key, fortran_facts[i].value);
    *info = (MPI_Info)object;
    return MPI_SUCCESS;
}

/* Accepts values that are equal to the present ones. */
AMPI_EXPORT(Abi_set_fortran_info);
int PMPI_Abi_set_fortran_info(MPI_Info info)
{
    struct ampi_info *object = ampi_info_of(ampi_enter_any_time("MPI_Abi_set_fortran_info"), info);

    if (!object)
        return ampi_info_raise_invalid(info);
    for (size_t i = 0; i < BASE_COUNT(fortran_facts); i++) {
        const char *value = ampi_info_get(object, fortran_facts[i].key);
        if (value && strcmp(value, fortran_facts[i].value) != 0)
            return ampi_raise_self(MPI_ERR_ABI, "%s is %s here and cannot be set to %s", fortran_facts[i].key,
                                   fortran_facts[i].value, value);
    }
    return MPI_SUCCESS;
}

/* ---- .TRUE. and .FALSE.: kept as hexadecimal strings in an info object of the rank, "true4" and "false4"
 * ---- */

static bool is_logical_size(int size_bytes)
{
    return size_bytes == 1 || size_bytes == 2 || size_bytes == 4 || size_bytes == 8 || size_bytes == 16;
}

static void to_hex(const void *bytes, int n_bytes, char *hex)
{
    for (int i = 0; i < n_bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

static void from_hex(const char *hex, int n_bytes, void *bytes)
{
    for (int i = 0; i < n_bytes; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        ((unsigned char *)bytes)[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
}

/* Checks the arguments of the two functions below; raises errors. */
static int check_booleans(struct ampi_rank *self, int logical_size, const void *logical_true,
                          const void *logical_false)
{
    if (!self)
        return ampi_raise_self(MPI_ERR_OTHER, "called on a thread that does not run a rank");
    if (!is_logical_size(logical_size))
        return ampi_raise_self(MPI_ERR_ARG, "logical_size is %d, not 1, 2, 4, 8 or 16", logical_size);
    if (!logical_true || !logical_false)
        return raise_null(logical_true ? "logical_false" : "logical_true");
    return MPI_SUCCESS;
}

AMPI_EXPORT(Abi_set_fortran_booleans);
int PMPI_Abi_set_fortran_booleans(int logical_size, void *logical_true, void *logical_false)
{
    struct ampi_rank *self = ampi_enter_any_time("MPI_Abi_set_fortran_booleans");
    int error = check_booleans(self, logical_size, logical_true, logical_false);
    char key[24], hex[33];

    if (error)
        return error;
    snprintf(key, sizeof key, "true%d", logical_size);
    if (ampi_info_get(self->fortran_booleans, key))
        return ampi_raise_self(MPI_ERR_ABI, "the values of logicals of %d bytes are set already",
                               logical_size);
    if (!self->fortran_booleans)
        self->fortran_booleans = ampi_info_create();
    to_hex(logical_true, logical_size, hex);
    ampi_info_set(self->fortran_booleans, key, hex);
    snprintf(key, sizeof key, "false%d", logical_size);
    to_hex(logical_false, logical_size, hex);
    ampi_info_set(self->fortran_booleans, key, hex);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Abi_get_fortran_booleans);
int PMPI_Abi_get_fortran_booleans(int logical_size, void *logical_true, void *logical_false, int *is_set)
{
    struct ampi_rank *self = ampi_enter_any_time("MPI_Abi_get_fortran_booleans");
    int error = check_booleans(self, logical_size, logical_true, logical_false);
    const char *hex;
    char key[24];

    if (error)
        return error;
    if (!is_set)
        return raise_null("is_set");
    snprintf(key, sizeof key, "true%d", logical_size);
    hex = ampi_info_get(self->fortran_booleans, key);
    *is_set = hex != NULL;
    if (!hex)
        return MPI_SUCCESS;
    from_hex(hex, logical_size, logical_true);
    snprintf(key, sizeof key, "false%d", logical_size);
    from_hex(ampi_info_get(self->fortran_booleans, key), logical_size, logical_false);
    return MPI_SUCCESS;
}
