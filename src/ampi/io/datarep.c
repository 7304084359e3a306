/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datarep.c: the data representations by name, and conversions of data (MPI 5.0, section 14.5). datarep_layout.c has the
 * layouts of types in files.
 *
 * A conversion function of the program gets all elements of an access at once, with the file's data in one buffer.
 */
#include "ampi/io/datarep.h"

#include <limits.h>

#include "ampi/datatype/recipe.h"
#include "ampi/datatype/type_pack.h"
#include "ampi/io/file.h"
#include "base/log.h"

static const struct ampi_datarep native = {.name = "native"};
static const struct ampi_datarep internal = {.name = "internal"};
static const struct ampi_datarep external32 = {.name = "external32", .is_external = true};

const struct ampi_datarep *ampi_datarep_native(void)
{
    return &native;
}

const struct ampi_datarep *ampi_datarep_find(const struct ampi_rank *self, const char *name)
{
    static const struct ampi_datarep *const predefined[] = {&native, &internal, &external32};

    for (size_t i = 0; i < BASE_COUNT(predefined); i++)
        if (strcmp(predefined[i]->name, name) == 0)
            return predefined[i];
    for (const struct ampi_datarep *rep = self->datareps; rep; rep = rep->next)
        if (strcmp(rep->name, name) == 0)
            return rep;
    return NULL;
}

void ampi_datarep_fini(struct ampi_rank *rank)
{
    while (rank->datareps) {
        struct ampi_datarep *rep = rank->datareps;
        rank->datareps = rep->next;
        free((char *)(uintptr_t)rep->name);
        free(rep);
    }
}

/* ---- Registration: errors are those of no file ---- */

static int add(struct ampi_rank *self, const char *name, const struct ampi_datarep *described)
{
    struct ampi_datarep *rep;

    if (!name || !name[0] || strnlen(name, MPI_MAX_DATAREP_STRING) == MPI_MAX_DATAREP_STRING)
        return ampi_file_raise_null(NULL, MPI_ERR_ARG, "the name of the data representation is %s",
                                    !name     ? "NULL"
                                    : name[0] ? "too long"
                                              : "empty");
    if (!described->extent_fn)
        return ampi_file_raise_null(NULL, MPI_ERR_ARG, "dtype_file_extent_fn is NULL");
    if (ampi_datarep_find(self, name))
        return ampi_file_raise_null(NULL, MPI_ERR_DUP_DATAREP, "the data representation \"%s\" exists", name);
    rep = base_malloc(sizeof *rep, "a data representation");
    *rep = *described;
    rep->name = ampi_io_copy_text(name);
    rep->next = self->datareps;
    self->datareps = rep;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Register_datarep);
int PMPI_Register_datarep(const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,
                          MPI_Datarep_conversion_function *write_conversion_fn,
                          MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
    struct ampi_rank *self = ampi_enter("MPI_Register_datarep");

    return add(self, datarep,
               &(struct ampi_datarep){.read_fn.small = read_conversion_fn,
                                      .write_fn.small = write_conversion_fn,
                                      .extent_fn = dtype_file_extent_fn,
                                      .extra_state = extra_state});
}

AMPI_EXPORT(Register_datarep_c);
int PMPI_Register_datarep_c(const char *datarep, MPI_Datarep_conversion_function_c *read_conversion_fn,
                            MPI_Datarep_conversion_function_c *write_conversion_fn,
                            MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
    struct ampi_rank *self = ampi_enter("MPI_Register_datarep_c");

    return add(self, datarep,
               &(struct ampi_datarep){.is_large = true,
                                      .read_fn.large = read_conversion_fn,
                                      .write_fn.large = write_conversion_fn,
                                      .extent_fn = dtype_file_extent_fn,
                                      .extra_state = extra_state});
}

/* ---- Conversion ---- */

bool ampi_datarep_converts(const struct ampi_datarep *rep, bool is_write)
{
    return rep->is_external || (rep->extent_fn && (is_write ? rep->write_fn.small : rep->read_fn.small));
}

int ampi_datarep_convert(const struct ampi_datarep *rep, bool is_write, void *buf, MPI_Count count,
                         struct ampi_type *type, void *external, size_t n_bytes, MPI_Count *moved_out)
{
    MPI_Datatype handle = ampi_type_handle(type);
    MPI_Count each_bytes;
    int error;

    if (rep->is_external)
        return ampi_external32_convert(buf, count, type, external, n_bytes, is_write, moved_out);
    error = ampi_datarep_size(rep, type, &each_bytes);
    if (error)
        return error;
    if (each_bytes > 0 && count > (MPI_Count)n_bytes / each_bytes)
        count = (MPI_Count)n_bytes / each_bytes;
    *moved_out = count * type->size_bytes;
    if (count == 0)
        return MPI_SUCCESS;
    for (MPI_Count done = 0, n; done < count && !error; done += n) {
        void *memory = ampi_type_address(buf, done * type->extent_bytes),
             *data = (char *)external + done * each_bytes;
        n = count - done;
        if (rep->is_large) {
            error = (is_write ? rep->write_fn.large : rep->read_fn.large)(memory, handle, n, data, 0,
                                                                          rep->extra_state);
            continue;
        }
        n = n < INT_MAX ? n : INT_MAX; /* portions whose count is an int */
        error = (is_write ? rep->write_fn.small : rep->read_fn.small)(memory, handle, (int)n, data, 0,
                                                                      rep->extra_state);
    }
    /* Whatever the program's function returns (MPI 5.0, section 14.5.3). */
    return error ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

/* ---- MPI_File_get_type_extent ---- */

static int get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Count *extent_out)
{
    struct ampi_file *file;
    struct ampi_type *type, *layout;
    int error = ampi_file_enter(fh, &file);

    if (error)
        return error;
    type = ampi_type_of(datatype);
    if (!type)
        return ampi_file_raise(file, MPI_ERR_TYPE, "%p is not a valid datatype", (void *)datatype);
    if (!extent_out)
        return ampi_file_raise(file, MPI_ERR_ARG, "the address of the extent is NULL");
    error = ampi_datarep_layout(file->view->rep, type, &layout);
    if (error)
        return ampi_file_raise(file, error, "the data representation has no extent for the datatype");
    *extent_out = layout->extent_bytes;
    ampi_type_unref(layout);
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_get_type_extent);
int PMPI_File_get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Count wide = 0;
    int error;

    ampi_enter("MPI_File_get_type_extent");
    error = get_type_extent(fh, datatype, extent ? &wide : NULL);
    if (!error)
        *extent = (MPI_Aint)wide;
    return error;
}

AMPI_EXPORT(File_get_type_extent_c);
int PMPI_File_get_type_extent_c(MPI_File fh, MPI_Datatype datatype, MPI_Count *extent)
{
    ampi_enter("MPI_File_get_type_extent_c");
    return get_type_extent(fh, datatype, extent);
}
