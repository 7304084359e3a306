/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info.c: info objects and the MPI functions on them (MPI 5.0, chapter 10). All may be called before
 * MPI_Init and after MPI_Finalize. info_env.c creates the contents of MPI_INFO_ENV.
 */
#include "ampi/object/info.h"

#include <stdio.h>
#include <string.h>

#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/object/rank.h"
#include "base/log.h"

/* ---- Objects ---- */

struct ampi_info *ampi_info_create(void)
{
    struct ampi_info *info = base_calloc(1, sizeof *info, "an info object");

    info->magic = AMPI_MAGIC_INFO;
    return info;
}

struct ampi_info *ampi_info_dup(const struct ampi_info *info)
{
    struct ampi_info *copy = ampi_info_create();

    for (int i = 0; info && i < info->n_pairs; i++)
        ampi_info_set(copy, info->pairs[i].key, info->pairs[i].value);
    return copy;
}

void ampi_info_destroy(struct ampi_info *info)
{
    if (!info)
        return;
    for (int i = 0; i < info->n_pairs; i++) {
        free(info->pairs[i].key);
        free(info->pairs[i].value);
    }
    info->magic = AMPI_MAGIC_DEAD;
    free(info->pairs);
    free(info);
}

static int find(const struct ampi_info *info, const char *key)
{
    for (int i = 0; info && i < info->n_pairs; i++) {
        if (strcmp(info->pairs[i].key, key) == 0)
            return i;
    }
    return -1;
}

const char *ampi_info_get(const struct ampi_info *info, const char *key)
{
    int index = find(info, key);

    return index >= 0 ? info->pairs[index].value : NULL;
}

static char *copy_string(const char *string)
{
    size_t size_bytes = strlen(string) + 1;

    return memcpy(base_malloc(size_bytes, "an info object"), string, size_bytes);
}

void ampi_info_set(struct ampi_info *info, const char *key, const char *value)
{
    int index = find(info, key);
    char *copy = copy_string(value);

    if (index >= 0) {
        free(info->pairs[index].value);
        info->pairs[index].value = copy;
        return;
    }
    info->pairs =
        base_realloc(info->pairs, (size_t)(info->n_pairs + 1) * sizeof *info->pairs, "an info object");
    info->pairs[info->n_pairs++] = (struct ampi_info_pair){copy_string(key), copy};
}

bool ampi_info_delete(struct ampi_info *info, const char *key)
{
    int index = find(info, key);

    if (index < 0)
        return false;
    free(info->pairs[index].key);
    free(info->pairs[index].value);
    for (int i = index + 1; i < info->n_pairs; i++)
        info->pairs[i - 1] = info->pairs[i];
    info->n_pairs--;
    return true;
}

bool ampi_info_is_true(const struct ampi_info *info, const char *key)
{
    const char *value = ampi_info_get(info, key);

    return value && strcmp(value, "true") == 0;
}

struct ampi_info *ampi_info_of(struct ampi_rank *self, MPI_Info handle)
{
    if (handle == MPI_INFO_ENV && self) {
        if (!self->info_env)
            self->info_env = ampi_upper.create_info_env(self);
        return self->info_env;
    }
    return ampi_handle_has_magic(handle, AMPI_MAGIC_INFO) ? (struct ampi_info *)handle : NULL;
}

void ampi_info_fini(struct ampi_rank *rank)
{
    ampi_info_destroy(rank->info_env);
    rank->info_env = NULL;
}

/* ---- MPI functions: checks ---- */

int ampi_info_raise_invalid(MPI_Info handle)
{
    return ampi_raise_self(MPI_ERR_INFO, "%p is not a valid info object%s", (void *)handle,
                           handle == MPI_INFO_NULL ? " (MPI_INFO_NULL)" : "");
}

/* Finds the object and checks the key; raises errors. */
static int look_up(struct ampi_rank *self, MPI_Info handle, const char *key, struct ampi_info **info_out)
{
    struct ampi_info *info = ampi_info_of(self, handle);

    if (!info)
        return ampi_info_raise_invalid(handle);
    if (!key || !*key || strlen(key) >= MPI_MAX_INFO_KEY)
        return ampi_raise_self(MPI_ERR_INFO_KEY, "the key is %s",
                               !key   ? "NULL"
                               : *key ? "too long"
                                      : "empty");
    *info_out = info;
    return MPI_SUCCESS;
}

/* The same for calls that modify the object. */
static int look_up_to_change(struct ampi_rank *self, MPI_Info handle, const char *key,
                             struct ampi_info **info_out)
{
    if (handle == MPI_INFO_ENV)
        return ampi_raise_self(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
    return look_up(self, handle, key, info_out);
}

static int raise_null(const char *argument)
{
    return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", argument);
}

/* ---- MPI functions ---- */

AMPI_EXPORT(Info_create);
int PMPI_Info_create(MPI_Info *info)
{
    ampi_enter_any_time("MPI_Info_create");
    if (!info)
        return raise_null("info");
    *info = (MPI_Info)ampi_info_create();
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_dup);
int PMPI_Info_dup(MPI_Info info, MPI_Info *newinfo)
{
    struct ampi_info *object = ampi_info_of(ampi_enter_any_time("MPI_Info_dup"), info);

    if (!object)
        return ampi_info_raise_invalid(info);
    if (!newinfo)
        return raise_null("newinfo");
    *newinfo = (MPI_Info)ampi_info_dup(object);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_free);
int PMPI_Info_free(MPI_Info *info)
{
    struct ampi_info *object;

    ampi_enter_any_time("MPI_Info_free");
    if (!info)
        return raise_null("info");
    object = *info == MPI_INFO_ENV ? NULL : ampi_info_of(NULL, *info);
    if (!object)
        return ampi_info_raise_invalid(*info);
    ampi_info_destroy(object);
    *info = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_set);
int PMPI_Info_set(MPI_Info info, const char *key, const char *value)
{
    struct ampi_info *object;
    int error = look_up_to_change(ampi_enter_any_time("MPI_Info_set"), info, key, &object);

    if (error)
        return error;
    if (!value || strlen(value) >= MPI_MAX_INFO_VAL)
        return ampi_raise_self(MPI_ERR_INFO_VALUE, "the value is %s", value ? "too long" : "NULL");
    ampi_info_set(object, key, value);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_delete);
int PMPI_Info_delete(MPI_Info info, const char *key)
{
    struct ampi_info *object;
    int error = look_up_to_change(ampi_enter_any_time("MPI_Info_delete"), info, key, &object);

    if (error)
        return error;
    if (!ampi_info_delete(object, key))
        return ampi_raise_self(MPI_ERR_INFO_NOKEY, "the key \"%s\" is not set", key);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_get);
int PMPI_Info_get(MPI_Info info, const char *key, int valuelen, char *value, int *flag)
{
    struct ampi_info *object;
    int error = look_up(ampi_enter_any_time("MPI_Info_get"), info, key, &object);
    const char *found;

    if (error)
        return error;
    if (!flag || !value)
        return raise_null(flag ? "value" : "flag");
    if (valuelen < 0)
        return ampi_raise_self(MPI_ERR_ARG, "valuelen is %d", valuelen);
    found = ampi_info_get(object, key);
    *flag = found != NULL;
    if (found)
        snprintf(value, (size_t)valuelen + 1, "%s", found); /* valuelen does not count the terminator */
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_get_string);
int PMPI_Info_get_string(MPI_Info info, const char *key, int *buflen, char *value, int *flag)
{
    struct ampi_info *object;
    int error = look_up(ampi_enter_any_time("MPI_Info_get_string"), info, key, &object);
    const char *found;

    if (error)
        return error;
    if (!flag || !buflen || (*buflen > 0 && !value))
        return raise_null(!flag ? "flag" : buflen ? "value" : "buflen");
    if (*buflen < 0)
        return ampi_raise_self(MPI_ERR_ARG, "*buflen is %d", *buflen);
    found = ampi_info_get(object, key);
    *flag = found != NULL;
    if (!found)
        return MPI_SUCCESS;
    if (*buflen > 0)
        snprintf(value, (size_t)*buflen, "%s", found);
    *buflen = (int)strlen(found) + 1;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_get_valuelen);
int PMPI_Info_get_valuelen(MPI_Info info, const char *key, int *valuelen, int *flag)
{
    struct ampi_info *object;
    int error = look_up(ampi_enter_any_time("MPI_Info_get_valuelen"), info, key, &object);
    const char *found;

    if (error)
        return error;
    if (!flag || !valuelen)
        return raise_null(flag ? "valuelen" : "flag");
    found = ampi_info_get(object, key);
    *flag = found != NULL;
    if (found)
        *valuelen = (int)strlen(found);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_get_nkeys);
int PMPI_Info_get_nkeys(MPI_Info info, int *nkeys)
{
    const struct ampi_info *object = ampi_info_of(ampi_enter_any_time("MPI_Info_get_nkeys"), info);

    if (!object)
        return ampi_info_raise_invalid(info);
    if (!nkeys)
        return raise_null("nkeys");
    *nkeys = object->n_pairs;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Info_get_nthkey);
int PMPI_Info_get_nthkey(MPI_Info info, int n, char *key)
{
    const struct ampi_info *object = ampi_info_of(ampi_enter_any_time("MPI_Info_get_nthkey"), info);

    if (!object)
        return ampi_info_raise_invalid(info);
    if (!key)
        return raise_null("key");
    if (n < 0 || n >= object->n_pairs)
        return ampi_raise_self(MPI_ERR_ARG, "n is %d, but %d keys are set", n, object->n_pairs);
    memcpy(key, object->pairs[n].key, strlen(object->pairs[n].key) + 1);
    return MPI_SUCCESS;
}

/* ---- MPICH's extension (heddle_mpi_stream.h) ---- */

static int set_hex(struct ampi_rank *self, MPI_Info info, const char *key, const void *value, int value_size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = value;
    char text[MPI_MAX_INFO_VAL];
    struct ampi_info *object;
    int error = look_up_to_change(self, info, key, &object);

    if (error)
        return error;
    if (!value)
        return raise_null("value");
    if (value_size < 1 || value_size > (MPI_MAX_INFO_VAL - 1) / 2)
        return ampi_raise_self(MPI_ERR_INFO_VALUE, "the value has %d bytes; 1 to %d are allowed", value_size,
                               (MPI_MAX_INFO_VAL - 1) / 2);
    for (int i = 0; i < value_size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * value_size] = '\0';
    ampi_info_set(object, key, text);
    return MPI_SUCCESS;
}

int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size)
{
    struct ult *gate = ampi_gate_pass("MPIX_Info_set_hex", __builtin_return_address(0));
    int error = set_hex(ampi_enter_any_time("MPIX_Info_set_hex"), info, key, value, value_size);

    ampi_gate_leave(gate);
    return error;
}
