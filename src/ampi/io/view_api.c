/* SPDX-License-Identifier: BSD-3-Clause
 *
 * view_api.c: MPI_File_set_view, MPI_File_get_view and MPI_File_get_byte_offset (MPI 5.0, sections 14.3 and 14.4.3).
 */
#include <stdio.h>

#include "ampi/datatype/recipe.h"
#include "ampi/io/datarep.h"
#include "ampi/io/file.h"

/* The program's arguments. */
struct arguments {
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    const char *datarep;
    MPI_Info info;
};

/* Sets the displacement in bytes. All members have arrived if the file is sequential. */
static int find_disp(struct ampi_file *file, MPI_Offset *disp)
{
    MPI_Offset pointer;
    int error;

    if (ampi_file_is_sequential(file) && *disp != MPI_DISPLACEMENT_CURRENT)
        return ampi_file_raise(file, MPI_ERR_ARG, "MPI_MODE_SEQUENTIAL needs MPI_DISPLACEMENT_CURRENT");
    if (*disp >= 0)
        return *disp <= AMPI_VIEW_BYTES_MAX
                   ? MPI_SUCCESS
                   : ampi_file_raise(file, MPI_ERR_ARG, "the displacement %lld is too large",
                                     (long long)*disp);
    if (*disp != MPI_DISPLACEMENT_CURRENT)
        return ampi_file_raise(file, MPI_ERR_ARG, "the displacement %lld is negative", (long long)*disp);
    if (!ampi_file_is_sequential(file))
        return ampi_file_raise(file, MPI_ERR_ARG, "MPI_DISPLACEMENT_CURRENT needs MPI_MODE_SEQUENTIAL");
    error = ampi_file_pointer_add(file, 0, &pointer);
    if (error)
        return ampi_file_raise(file, error, "the process with the shared file pointer has failed");
    *disp = ampi_view_place(file->view, pointer * file->view->etype_bytes);
    return MPI_SUCCESS;
}

/* Checks the arguments and creates the view; raises errors. */
static int create(struct ampi_rank *self, struct ampi_file *file, struct arguments *arguments,
                  struct ampi_view **view_out)
{
    struct ampi_type *etype = ampi_type_of(arguments->etype);
    struct ampi_type *filetype = ampi_type_of(arguments->filetype);
    bool may_write = !(file->shared->amode & MPI_MODE_RDONLY);
    const struct ampi_datarep *rep;
    const char *text;
    int error;

    if ((error = ampi_file_check_no_split(file)) || (error = find_disp(file, &arguments->disp)))
        return error;
    if (!etype || !filetype)
        return ampi_file_raise(file, MPI_ERR_TYPE, "the %s is not a valid datatype",
                               etype ? "filetype" : "etype");
    if (!filetype->is_committed)
        return ampi_file_raise(file, MPI_ERR_TYPE,
                               "the filetype is not committed: call MPI_Type_commit first");
    if (!arguments->datarep)
        return ampi_file_raise(file, MPI_ERR_ARG, "datarep is NULL");
    rep = ampi_datarep_find(self, arguments->datarep);
    if (!rep)
        return ampi_file_raise(file, MPI_ERR_UNSUPPORTED_DATAREP, "there is no data representation \"%.*s\"",
                               MPI_MAX_DATAREP_STRING, arguments->datarep);
    if (arguments->info != MPI_INFO_NULL && !ampi_info_of(self, arguments->info))
        return ampi_file_raise(file, MPI_ERR_INFO, "%p is not a valid info object", (void *)arguments->info);
    error = ampi_view_create(arguments->disp, etype, filetype, rep, may_write, view_out, &text);
    return error ? ampi_file_raise(file, error, "%s", text) : MPI_SUCCESS;
}

/* A number that differs if the data representations do, nearly always, or the extents of the etypes. */
static MPI_Offset fingerprint(const struct ampi_view *view)
{
    uint64_t hash = (uint64_t)view->etype->extent_bytes;

    for (const char *c = view->rep->name; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    return (MPI_Offset)(hash & INT64_MAX);
}

AMPI_EXPORT(File_set_view);
int PMPI_File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                       const char *datarep, MPI_Info info)
{
    struct ampi_rank *self = ampi_enter("MPI_File_set_view");
    struct arguments arguments = {disp, etype, filetype, datarep, info};
    struct ampi_view *view = NULL;
    struct ampi_file *file;
    int error = ampi_file_enter(fh, &file);

    if (error)
        return error;
    /* The shared file pointer is behind the accesses of members that come later. */
    if (ampi_file_is_sequential(file) && (error = ampi_file_agree_or_raise(file, MPI_SUCCESS, 0, "")))
        return error;
    error = create(self, file, &arguments, &view);
    error = ampi_file_agree_or_raise(file, error, view ? fingerprint(view) : 0,
                                     "the data representation or the extent of the etype");
    if (error) {
        if (view)
            ampi_view_unref(view);
        return error;
    }
    ampi_view_unref(file->view);
    file->view = view;
    file->pointer = 0;
    if (file->rank == 0)
        ampi_file_pointer_set(file, 0);
    return ampi_file_change_hints(file, MPI_SUCCESS, ampi_info_of(self, info));
}

/* A handle that the program frees, unless the type is predefined. It is committed, also if the program has freed its own. */
static MPI_Datatype hand_out(struct ampi_type *type)
{
    ampi_type_ref(type);
    if (!type->is_predefined)
        atomic_fetch_add_explicit(&type->handles, 1, memory_order_relaxed);
    if (!type->is_committed)
        ampi_type_commit(type);
    return ampi_type_handle(type);
}

AMPI_EXPORT(File_get_view);
int PMPI_File_get_view(MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype,
                       char *datarep)
{
    struct ampi_file *file;
    int error;

    ampi_enter("MPI_File_get_view");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!disp || !etype || !filetype || !datarep)
        return ampi_file_raise(file, MPI_ERR_ARG, "the address for a result is NULL");
    *disp = file->view->disp;
    *etype = hand_out(file->view->etype);
    *filetype = hand_out(file->view->filetype);
    snprintf(datarep, MPI_MAX_DATAREP_STRING, "%s", file->view->rep->name);
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_get_byte_offset);
int PMPI_File_get_byte_offset(MPI_File fh, MPI_Offset offset, MPI_Offset *disp)
{
    struct ampi_file *file;
    MPI_Offset byte;
    int error;

    ampi_enter("MPI_File_get_byte_offset");
    if ((error = ampi_file_enter(fh, &file)) || (error = ampi_file_check_random(file)))
        return error;
    if (offset < 0)
        return ampi_file_raise(file, MPI_ERR_ARG, "the offset %lld is negative", (long long)offset);
    if (!disp)
        return ampi_file_raise(file, MPI_ERR_ARG, "disp is NULL");
    if (!ampi_view_find(file->view, offset, file->view->layout->size_bytes > 0, &byte))
        return ampi_file_raise(file, MPI_ERR_ARG, "the offset %lld is too large", (long long)offset);
    *disp = ampi_view_place(file->view, byte);
    return MPI_SUCCESS;
}
