/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hints.c: hints on files (MPI 5.0, section 14.2.8): those of the standard and ROMIO's. Known hints are kept and returned, with
 * the value in use; wrong values are ignored, and those of
 * collective buffering if they differ between ranks. Those with a field in struct ampi_disk_hints change how data moves.
 */
#include <limits.h>
#include <string.h>

#include "ampi/datatype/program_memory.h"
#include "ampi/io/file.h"

/* The form of a hint's value. */
enum form { NUMBER, BOOLEAN, CHOICE, KINDS, TEXT };

/* Known hints and their defaults; NULL: not returned by default. ds_...: the offset of a field of struct ampi_disk_hints. */
#define NO_FIELD SIZE_MAX
#define N_CB 4
#define FIELD(name) offsetof(struct ampi_disk_hints, name)
static const struct hint {
    const char *key;
    const char *usual;
    enum form form;
    size_t field; /* an enum ampi_disk_choice for CHOICE, else a size_t; NO_FIELD: none */
} hints[] = {
    {"cb_buffer_size", "16777216", NUMBER, FIELD(cb_buffer_bytes)}, /* collective buffering: the first N_CB */
    {"romio_cb_read", "automatic", CHOICE, FIELD(cb_read)},
    {"romio_cb_write", "automatic", CHOICE, FIELD(cb_write)},
    {"cb_nodes", NULL, NUMBER, FIELD(cb_nodes)},
    {"romio_ds_read", "automatic", CHOICE, FIELD(ds_read)},
    {"romio_ds_write", "automatic", CHOICE, FIELD(ds_write)},
    {"ind_rd_buffer_size", "4194304", NUMBER, FIELD(ind_rd_buffer_bytes)},
    {"ind_wr_buffer_size", "524288", NUMBER, FIELD(ind_wr_buffer_bytes)},
    {"romio_no_indep_rw", "false", BOOLEAN, NO_FIELD},
    {"collective_buffering", NULL, BOOLEAN, NO_FIELD},
    {"cb_block_size", NULL, NUMBER, NO_FIELD},
    {"cb_config_list", NULL, TEXT, NO_FIELD},
    {"chunked", NULL, TEXT, NO_FIELD},
    {"chunked_item", NULL, TEXT, NO_FIELD},
    {"chunked_size", NULL, TEXT, NO_FIELD},
    {"access_style", NULL, TEXT, NO_FIELD},
    {"mpi_assert_memory_alloc_kinds", NULL, KINDS, NO_FIELD},
    {"file_perm", NULL, TEXT, NO_FIELD},
    {"io_node_list", NULL, TEXT, NO_FIELD},
    {"nb_proc", NULL, NUMBER, NO_FIELD},
    {"num_io_nodes", NULL, NUMBER, NO_FIELD},
    {"striping_factor", NULL, NUMBER, NO_FIELD},
    {"striping_unit", NULL, NUMBER, NO_FIELD},
    {"start_iodevice", NULL, NUMBER, NO_FIELD},
    {"direct_read", NULL, BOOLEAN, NO_FIELD},
    {"direct_write", NULL, BOOLEAN, NO_FIELD},
};

static bool is_number(const char *value)
{
    return value[0] && value[strspn(value, "0123456789")] == '\0' && strlen(value) <= 18;
}

static bool is_valid(const struct hint *hint, const char *value)
{
    switch (hint->form) {
    case NUMBER:
        return is_number(value) && (hint->field == NO_FIELD || strtoll(value, NULL, 10) > 0);
    case BOOLEAN:
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    case CHOICE:
        return strcmp(value, "enable") == 0 || strcmp(value, "disable") == 0 ||
               strcmp(value, "automatic") == 0;
    case KINDS:
        return ampi_program_memory_are_kinds(value);
    case TEXT:
        return true;
    }
    return false;
}

/* Stores a hint's value in its field. */
static void apply(const struct hint *hint, const char *value, struct ampi_disk_hints *parsed)
{
    char *field = (char *)parsed + hint->field;

    if (hint->form == NUMBER)
        *(size_t *)(void *)field = (size_t)strtoll(value, NULL, 10);
    else
        *(enum ampi_disk_choice *)(void *)field = strcmp(value, "enable") == 0    ? AMPI_DISK_ENABLE
                                                  : strcmp(value, "disable") == 0 ? AMPI_DISK_DISABLE
                                                                                  : AMPI_DISK_AUTOMATIC;
}

/* Takes valid hints into `parsed`, and into `kept` unless that is NULL. */
static void take(const struct ampi_info *info, struct ampi_info *kept, struct ampi_disk_hints *parsed)
{
    for (size_t i = 0; i < BASE_COUNT(hints); i++) {
        const char *value = ampi_info_get(info, hints[i].key);
        if (!value || !is_valid(&hints[i], value))
            continue;
        if (kept)
            ampi_info_set(kept, hints[i].key, value);
        if (hints[i].field != NO_FIELD)
            apply(&hints[i], value, parsed);
    }
}

void ampi_file_set_hints(struct ampi_file *file, const struct ampi_info *info)
{
    if (!info)
        return;
    if (!file->info)
        file->info = ampi_info_create();
    take(info, file->info, &file->hints);
}

MPI_Offset ampi_file_hints_fingerprint(const struct ampi_file *file, const struct ampi_info *info)
{
    struct ampi_disk_hints used = AMPI_DISK_HINTS_DEFAULT;

    if (file)
        used = file->hints;
    if (info)
        take(info, NULL, &used);
    return (MPI_Offset)(((used.cb_buffer_bytes * 1000003 + used.cb_nodes) * 9 + used.cb_read * 3 +
                         used.cb_write) &
                        INT64_MAX);
}

void ampi_file_drop_hints(struct ampi_file *file)
{
    static const struct ampi_disk_hints usual = AMPI_DISK_HINTS_DEFAULT;

    for (size_t i = 0; i < N_CB; i++)
        ampi_info_delete(file->info, hints[i].key);
    file->hints.cb_buffer_bytes = usual.cb_buffer_bytes;
    file->hints.cb_nodes = usual.cb_nodes;
    file->hints.cb_read = usual.cb_read;
    file->hints.cb_write = usual.cb_write;
}

int ampi_file_change_hints(struct ampi_file *file, int own_error, const struct ampi_info *info)
{
    int error = ampi_file_agree(file, own_error, ampi_file_hints_fingerprint(file, info));

    if (own_error)
        return own_error;
    if (error && error != MPI_ERR_NOT_SAME)
        return ampi_file_raise(file, error, "the call failed at another rank");
    ampi_file_set_hints(file, info);
    if (error)
        ampi_file_drop_hints(file);
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_set_info);
int PMPI_File_set_info(MPI_File fh, MPI_Info info)
{
    struct ampi_rank *self = ampi_enter("MPI_File_set_info");
    struct ampi_file *file;
    int error = ampi_file_enter(fh, &file);

    if (error)
        return error;
    error = ampi_file_check_no_split(file);
    if (!error && !ampi_info_of(self, info))
        error = ampi_file_raise(file, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    return ampi_file_change_hints(file, error, ampi_info_of(self, info));
}

AMPI_EXPORT(File_get_info);
int PMPI_File_get_info(MPI_File fh, MPI_Info *info_used)
{
    struct ampi_file *file;
    struct ampi_info *used;
    int error;

    ampi_enter("MPI_File_get_info");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!info_used)
        return ampi_file_raise(file, MPI_ERR_ARG, "info_used is NULL");
    used = ampi_info_dup(file->info);
    for (size_t i = 0; i < BASE_COUNT(hints); i++)
        if (hints[i].usual && !ampi_info_get(used, hints[i].key))
            ampi_info_set(used, hints[i].key, hints[i].usual);
    if (strlen(file->shared->name) < MPI_MAX_INFO_VAL)
        ampi_info_set(used, "filename", file->shared->name);
    ampi_program_memory_add_kinds(used);
    *info_used = (MPI_Info)used;
    return MPI_SUCCESS;
}
