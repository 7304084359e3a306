/* SPDX-License-Identifier: BSD-3-Clause
 *
 * status_count.c: reading and writing statuses (MPI 5.0, sections 3.2.5, 5.1.11 and 13.3).
 *
 * A status has the number of bytes. The number of basic elements is found by descending the type's recipe:
 * whole elements are counted at once, and only the last, partial one is descended into.
 */
#include "ampi/object/status.h"

#include "ampi/datatype/recipe.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

#include <limits.h>

/* Basic elements in the first *bytes of len copies of the child, as far as these are whole; subtracts the
 * counted bytes from *bytes. *partial_out: the child, if a part of another copy follows; else unchanged. */
static MPI_Count elements_in_part(struct ampi_recipe_piece part, MPI_Count *bytes,
                                  const struct ampi_type **partial_out)
{
    MPI_Count size = part.child->size_bytes;
    MPI_Count whole = size ? *bytes / size : 0;

    if (whole > part.len)
        whole = part.len;
    *bytes -= whole * size;
    if (whole<part.len && * bytes> 0 && size > 0)
        *partial_out = part.child;
    return whole * part.child->n_basics;
}

/* The same for one element of which only *bytes exist, fewer than its size; the caller handles its last,
 * partial child. */
static MPI_Count elements_in_level(const struct ampi_type *type, MPI_Count *bytes,
                                   const struct ampi_type **partial_out)
{
    struct ampi_recipe_piece pair[2];
    bool is_pair = ampi_type_pair_parts(type, pair);
    MPI_Count n = 0, n_parts;

    if (!is_pair && !type->recipe)
        return 0;
    n_parts = is_pair ? 2 : ampi_recipe_pieces(type);
    if (!is_pair && ampi_recipe_is_strided(type)) {
        struct ampi_recipe_piece part = ampi_recipe_piece_of(type, 0);
        part.len *= n_parts;
        return elements_in_part(part, bytes, partial_out);
    }
    for (MPI_Count i = 0; i<n_parts && * bytes> 0; i++) {
        struct ampi_recipe_piece part = is_pair ? pair[i] : ampi_recipe_piece_of(type, i);
        MPI_Count before = *bytes;
        n += elements_in_part(part, bytes, partial_out);
        if (*partial_out || before - *bytes < part.len * part.child->size_bytes)
            break; /* it ends in this piece */
    }
    return n;
}

/* Basic elements in the first *bytes of one element, fewer than its size. The remaining *bytes are a part
 * of a basic element. */
static MPI_Count elements_in(const struct ampi_type *type, MPI_Count *bytes)
{
    MPI_Count n = 0;

    while (type) {
        const struct ampi_type *partial = NULL;

        n += elements_in_level(type, bytes, &partial);
        type = partial;
    }
    return n;
}

/* The type for MPI_Get_count and similar functions, after checking all arguments; else NULL and an error
 * code in *rc_out. */
static const struct ampi_type *check_get(const MPI_Status *status, MPI_Datatype datatype, const void *count,
                                         int *rc_out)
{
    const struct ampi_type *type;

    *rc_out = MPI_ERR_ARG;
    if (!status) {
        ampi_raise_self(MPI_ERR_ARG, "status is MPI_STATUS_IGNORE");
        return NULL;
    }
    if (!count) {
        ampi_raise_self(MPI_ERR_ARG, "the address for the count is NULL");
        return NULL;
    }
    type = ampi_type_arg_committed(datatype, "datatype");
    *rc_out = type ? MPI_SUCCESS : MPI_ERR_TYPE;
    return type;
}

static int get_count(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
    int rc;
    const struct ampi_type *type = check_get(status, datatype, count, &rc);
    MPI_Count bytes;

    if (!type)
        return rc;
    bytes = ampi_status_bytes(status);
    if (type->size_bytes == 0)
        *count = bytes == 0 ? 0 : MPI_UNDEFINED;
    else
        *count = bytes % type->size_bytes == 0 ? bytes / type->size_bytes : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int get_elements(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
    int rc;
    const struct ampi_type *type = check_get(status, datatype, count, &rc);
    MPI_Count bytes;

    if (!type)
        return rc;
    bytes = ampi_status_bytes(status);
    if (type->size_bytes == 0) {
        *count = bytes == 0 ? 0 : MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    *count = bytes / type->size_bytes * type->n_basics;
    bytes %= type->size_bytes;
    *count += elements_in(type, &bytes);
    if (bytes > 0)
        *count = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

/* A count as returned by the int forms. */
static int narrow(MPI_Count count)
{
    return count > INT_MAX ? MPI_UNDEFINED : (int)count;
}

AMPI_EXPORT(Get_count);
int PMPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
    MPI_Count wide;
    int rc;

    ampi_enter("MPI_Get_count");
    rc = get_count(status, datatype, count ? &wide : NULL);
    if (rc == MPI_SUCCESS)
        *count = narrow(wide);
    return rc;
}

AMPI_EXPORT(Get_count_c);
int PMPI_Get_count_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
    ampi_enter("MPI_Get_count_c");
    return get_count(status, datatype, count);
}

AMPI_EXPORT(Get_elements);
int PMPI_Get_elements(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
    MPI_Count wide;
    int rc;

    ampi_enter("MPI_Get_elements");
    rc = get_elements(status, datatype, count ? &wide : NULL);
    if (rc == MPI_SUCCESS)
        *count = narrow(wide);
    return rc;
}

AMPI_EXPORT(Get_elements_c);
int PMPI_Get_elements_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
    ampi_enter("MPI_Get_elements_c");
    return get_elements(status, datatype, count);
}

AMPI_EXPORT(Get_elements_x);
int PMPI_Get_elements_x(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
    ampi_enter("MPI_Get_elements_x");
    return get_elements(status, datatype, count);
}

/* ---- Writing ---- */

/* Checks a status argument; raises the error. */
static int check_status(const void *status, const void *out)
{
    if (!status)
        return ampi_raise_self(MPI_ERR_ARG, "status is MPI_STATUS_IGNORE");
    return out ? MPI_SUCCESS : ampi_raise_self(MPI_ERR_ARG, "the address for the result is NULL");
}

/* Bytes of the first *rest (fewer than n_basics) basic elements of a type, as far as its children are
 * whole; outputs the child in which they end and the remaining *rest there, or NULL. */
static MPI_Count bytes_of_level(const struct ampi_type *type, MPI_Count *rest,
                                const struct ampi_type **partial_out)
{
    struct ampi_recipe_piece parts[2];
    MPI_Count n_parts, bytes = 0;
    bool is_pair = ampi_type_pair_parts(type, parts);

    *partial_out = NULL;
    n_parts = is_pair ? 2 : type->recipe ? ampi_recipe_pieces(type) : 0;
    for (MPI_Count i = 0; i<n_parts && * rest> 0; i++) {
        struct ampi_recipe_piece part = is_pair ? parts[i] : ampi_recipe_piece_of(type, i);
        MPI_Count each = part.child->n_basics, whole;
        if (each == 0)
            continue;
        whole = *rest / each < part.len ? *rest / each : part.len;
        bytes += whole * part.child->size_bytes;
        *rest -= whole * each;
        if (whole < part.len) {
            *partial_out = part.child;
            break;
        }
    }
    return bytes;
}

static MPI_Count bytes_of(const struct ampi_type *type, MPI_Count rest)
{
    MPI_Count bytes = 0;

    while (type)
        bytes += bytes_of_level(type, &rest, &type);
    return bytes;
}

static int set_elements(MPI_Status *status, MPI_Datatype datatype, MPI_Count count)
{
    const struct ampi_type *type;
    MPI_Count bytes = 0;
    int rc = check_status(status, status);

    if (rc != MPI_SUCCESS)
        return rc;
    type = ampi_type_arg(datatype, "datatype");
    if (!type)
        return MPI_ERR_TYPE;
    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "count is %lld, which is negative", (long long)count);
    if (type->n_basics > 0) {
        if (__builtin_mul_overflow(count / type->n_basics, type->size_bytes, &bytes) ||
            __builtin_add_overflow(bytes, bytes_of(type, count % type->n_basics), &bytes))
            return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE, "%lld elements have too many bytes",
                                   (long long)count);
    }
    ampi_status_set_bytes(status, bytes);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Status_set_elements);
int PMPI_Status_set_elements(MPI_Status *status, MPI_Datatype datatype, int count)
{
    ampi_enter("MPI_Status_set_elements");
    return set_elements(status, datatype, count);
}

AMPI_EXPORT(Status_set_elements_c);
int PMPI_Status_set_elements_c(MPI_Status *status, MPI_Datatype datatype, MPI_Count count)
{
    ampi_enter("MPI_Status_set_elements_c");
    return set_elements(status, datatype, count);
}

AMPI_EXPORT(Status_set_elements_x);
int PMPI_Status_set_elements_x(MPI_Status *status, MPI_Datatype datatype, MPI_Count count)
{
    ampi_enter("MPI_Status_set_elements_x");
    return set_elements(status, datatype, count);
}

AMPI_EXPORT(Status_set_cancelled);
int PMPI_Status_set_cancelled(MPI_Status *status, int flag)
{
    int rc;

    ampi_enter("MPI_Status_set_cancelled");
    rc = check_status(status, status);
    if (rc == MPI_SUCCESS)
        ampi_status_set_cancelled(status, flag);
    return rc;
}

AMPI_EXPORT(Status_set_source);
int PMPI_Status_set_source(MPI_Status *status, int source)
{
    int rc;

    ampi_enter("MPI_Status_set_source");
    rc = check_status(status, status);
    if (rc == MPI_SUCCESS)
        status->MPI_SOURCE = source;
    return rc;
}

AMPI_EXPORT(Status_set_tag);
int PMPI_Status_set_tag(MPI_Status *status, int tag)
{
    int rc;

    ampi_enter("MPI_Status_set_tag");
    rc = check_status(status, status);
    if (rc == MPI_SUCCESS)
        status->MPI_TAG = tag;
    return rc;
}

AMPI_EXPORT(Status_set_error);
int PMPI_Status_set_error(MPI_Status *status, int error)
{
    int rc;

    ampi_enter("MPI_Status_set_error");
    rc = check_status(status, status);
    if (rc == MPI_SUCCESS)
        status->MPI_ERROR = error;
    return rc;
}

AMPI_EXPORT(Status_get_source);
int PMPI_Status_get_source(const MPI_Status *status, int *source)
{
    int rc;

    ampi_enter("MPI_Status_get_source");
    rc = check_status(status, source);
    if (rc == MPI_SUCCESS)
        *source = status->MPI_SOURCE;
    return rc;
}

AMPI_EXPORT(Status_get_tag);
int PMPI_Status_get_tag(const MPI_Status *status, int *tag)
{
    int rc;

    ampi_enter("MPI_Status_get_tag");
    rc = check_status(status, tag);
    if (rc == MPI_SUCCESS)
        *tag = status->MPI_TAG;
    return rc;
}

AMPI_EXPORT(Status_get_error);
int PMPI_Status_get_error(const MPI_Status *status, int *error)
{
    int rc;

    ampi_enter("MPI_Status_get_error");
    rc = check_status(status, error);
    if (rc == MPI_SUCCESS)
        *error = status->MPI_ERROR;
    return rc;
}
