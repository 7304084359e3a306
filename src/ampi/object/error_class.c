/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error_class.c: error classes, codes and strings that the program adds (MPI 5.0, section 9.5).
 *
 * Owns a rank's table: entry i is error code MPI_ERR_LASTCODE + 1 + i. Removing clears an entry; cleared
 * entries at the end are dropped, so MPI_LASTUSEDCODE follows. Numbers of cleared entries in the middle are
 * not reused. All functions here may be called before MPI_Init and after MPI_Finalize.
 */
#include "ampi/object/error_class.h"

#include <stdio.h>
#include <string.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

enum entry_kind { CLEARED, CLASS, CODE };

struct entry {
    enum entry_kind kind;
    int error_class; /* of a code; a class has its own number */
    char *string;    /* NULL: none */
};

struct ampi_error_classes {
    struct entry *entries;
    int n_entries;
};

#define FIRST_CODE (MPI_ERR_LASTCODE + 1)

static struct entry *find_in(const struct ampi_rank *rank, int error_code)
{
    const struct ampi_error_classes *table = rank ? rank->error_classes : NULL;
    int index = error_code - FIRST_CODE;

    if (!table || error_code < FIRST_CODE || index >= table->n_entries ||
        table->entries[index].kind == CLEARED)
        return NULL;
    return &table->entries[index];
}

static struct entry *find(int error_code)
{
    return find_in(ampi_self(), error_code);
}

const char *ampi_error_user_string(int error_code)
{
    const struct entry *entry = find(error_code);

    if (!entry)
        return NULL;
    return entry->string ? entry->string : "";
}

int ampi_error_user_class(int error_code)
{
    const struct entry *entry = find(error_code);

    return entry ? entry->error_class : MPI_ERR_UNKNOWN;
}

int ampi_error_last_used(const struct ampi_rank *rank)
{
    return MPI_ERR_LASTCODE + (rank->error_classes ? rank->error_classes->n_entries : 0);
}

void ampi_error_classes_fini(struct ampi_rank *rank)
{
    struct ampi_error_classes *table = rank->error_classes;

    if (!table)
        return;
    for (int i = 0; i < table->n_entries; i++)
        free(table->entries[i].string);
    free(table->entries);
    free(table);
    rank->error_classes = NULL;
}

/* Appends an entry to the running rank's table; error_class 0: a class of its own. */
static int add(enum entry_kind kind, int error_class, int *code_out)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_error_classes *table;
    int code;

    if (!self)
        return ampi_raise_self(MPI_ERR_OTHER, "called on a thread that does not run a rank");
    if (!self->error_classes)
        self->error_classes = base_calloc(1, sizeof *self->error_classes, "error classes");
    table = self->error_classes;
    table->entries = base_realloc(table->entries, (size_t)(table->n_entries + 1) * sizeof *table->entries,
                                  "error classes");
    code = FIRST_CODE + table->n_entries;
    table->entries[table->n_entries++] =
        (struct entry){.kind = kind, .error_class = kind == CLASS ? code : error_class};
    self->last_used_code = code;
    *code_out = code;
    return MPI_SUCCESS;
}

/* Clears an entry, and drops cleared entries at the end of the table. */
static void clear(struct entry *entry)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_error_classes *table = self->error_classes;

    entry->kind = CLEARED;
    while (table->n_entries > 0 && table->entries[table->n_entries - 1].kind == CLEARED)
        table->n_entries--;
    self->last_used_code = ampi_error_last_used(self);
}

AMPI_EXPORT(Add_error_class);
int PMPI_Add_error_class(int *errorclass)
{
    ampi_enter_any_time("MPI_Add_error_class");
    if (!errorclass)
        return ampi_raise_self(MPI_ERR_ARG, "errorclass is NULL");
    return add(CLASS, 0, errorclass);
}

AMPI_EXPORT(Add_error_code);
int PMPI_Add_error_code(int errorclass, int *errorcode)
{
    const struct entry *entry;

    ampi_enter_any_time("MPI_Add_error_code");
    if (!errorcode)
        return ampi_raise_self(MPI_ERR_ARG, "errorcode is NULL");
    entry = find(errorclass);
    if (!ampi_error_is_predefined(errorclass) && !(entry && entry->kind == CLASS))
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error class", errorclass);
    return add(CODE, errorclass, errorcode);
}

AMPI_EXPORT(Add_error_string);
int PMPI_Add_error_string(int errorcode, const char *string)
{
    struct entry *entry;
    char *copy;

    ampi_enter_any_time("MPI_Add_error_string");
    entry = find(errorcode);
    if (!entry)
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error class or code that this process added",
                               errorcode);
    if (!string || strlen(string) >= MPI_MAX_ERROR_STRING)
        return ampi_raise_self(MPI_ERR_ARG, "the string is %s", string ? "too long" : "NULL");
    copy = strdup(string);
    if (!copy)
        return ampi_raise_self(MPI_ERR_NO_MEM, "out of memory: cannot store the string");
    free(entry->string);
    entry->string = copy;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Remove_error_string);
int PMPI_Remove_error_string(int errorcode)
{
    struct entry *entry;

    ampi_enter_any_time("MPI_Remove_error_string");
    entry = find(errorcode);
    if (!entry || !entry->string)
        return ampi_raise_self(MPI_ERR_ARG, "this process added no string for %d", errorcode);
    free(entry->string);
    entry->string = NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Remove_error_code);
int PMPI_Remove_error_code(int errorcode)
{
    struct entry *entry;

    ampi_enter_any_time("MPI_Remove_error_code");
    entry = find(errorcode);
    if (!entry || entry->kind != CODE)
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error code that this process added", errorcode);
    if (entry->string)
        return ampi_raise_self(MPI_ERR_OTHER, "error code %d still has a string", errorcode);
    clear(entry);
    return MPI_SUCCESS;
}

static bool has_codes(int error_class)
{
    const struct ampi_error_classes *table = ampi_self()->error_classes;

    for (int i = 0; i < table->n_entries; i++) {
        if (table->entries[i].kind == CODE && table->entries[i].error_class == error_class)
            return true;
    }
    return false;
}

AMPI_EXPORT(Remove_error_class);
int PMPI_Remove_error_class(int errorclass)
{
    struct entry *entry;

    ampi_enter_any_time("MPI_Remove_error_class");
    entry = find(errorclass);
    if (!entry || entry->kind != CLASS)
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error class that this process added", errorclass);
    if (entry->string || has_codes(errorclass))
        return ampi_raise_self(MPI_ERR_OTHER, "error class %d still has %s", errorclass,
                               entry->string ? "a string" : "error codes");
    clear(entry);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Error_class);
int PMPI_Error_class(int errorcode, int *errorclass)
{
    ampi_enter_any_time("MPI_Error_class");
    if (!errorclass)
        return ampi_raise_self(MPI_ERR_ARG, "errorclass is NULL");
    if (!ampi_error_is_predefined(errorcode) && !find(errorcode))
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error code", errorcode);
    *errorclass = ampi_error_class(errorcode);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Error_string);
int PMPI_Error_string(int errorcode, char *string, int *resultlen)
{
    char detail[MPI_MAX_ERROR_STRING - 64]; /* behind the name of the class */
    const char *user;

    ampi_enter_any_time("MPI_Error_string");
    if (!string || !resultlen)
        return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", string ? "resultlen" : "string");
    user = ampi_error_user_string(errorcode);
    if (!user && !ampi_error_is_predefined(errorcode))
        return ampi_raise_self(MPI_ERR_ARG, "%d is not an error code", errorcode);
    if (user)
        snprintf(string, MPI_MAX_ERROR_STRING, "%s", user);
    else
        snprintf(string, MPI_MAX_ERROR_STRING, "%s: %s", ampi_error_name(errorcode),
                 ampi_error_detail_get(ampi_self(), errorcode, detail, sizeof detail)
                     ? detail
                     : ampi_error_text(errorcode));
    *resultlen = (int)strlen(string);
    return MPI_SUCCESS;
}
