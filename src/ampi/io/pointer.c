/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pointer.c: positions of the individual and of the shared file pointer (MPI 5.0, sections 14.4.3 and 14.4.4).
 */
#include "ampi/io/file.h"

/* The target of a seek; negative: not valid. */
static int find_target(struct ampi_file *file, MPI_Offset offset, int whence, MPI_Offset current,
                       MPI_Offset *target_out)
{
    MPI_Offset base = 0, size;

    switch (whence) {
    case MPI_SEEK_SET:
        break;
    case MPI_SEEK_CUR:
        base = current;
        break;
    case MPI_SEEK_END:
        size = ampi_file_size(file);
        if (size < 0)
            return ampi_file_raise_errno(file, (int)-size, "looking up the size");
        base = ampi_view_etypes_before(file->view, size);
        break;
    default:
        return ampi_file_raise(file, MPI_ERR_ARG, "whence is %d", whence);
    }
    if (__builtin_add_overflow(base, offset, target_out) || *target_out < 0)
        return ampi_file_raise(file, MPI_ERR_ARG, "the offset %lld leads before the beginning of the view",
                               (long long)offset);
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_seek);
int PMPI_File_seek(MPI_File fh, MPI_Offset offset, int whence)
{
    struct ampi_file *file;
    MPI_Offset target;
    int error;

    ampi_enter("MPI_File_seek");
    if ((error = ampi_file_enter(fh, &file)) || (error = ampi_file_check_random(file)) ||
        (error = find_target(file, offset, whence, file->pointer, &target)))
        return error;
    file->pointer = target;
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_get_position);
int PMPI_File_get_position(MPI_File fh, MPI_Offset *offset)
{
    struct ampi_file *file;
    int error;

    ampi_enter("MPI_File_get_position");
    if ((error = ampi_file_enter(fh, &file)) || (error = ampi_file_check_random(file)))
        return error;
    if (!offset)
        return ampi_file_raise(file, MPI_ERR_ARG, "offset is NULL");
    *offset = file->pointer;
    return MPI_SUCCESS;
}

/* ---- The shared file pointer ---- */

static int raise_lost(struct ampi_file *file, int error)
{
    return ampi_file_raise(file, error, "the process with the shared file pointer has failed");
}

AMPI_EXPORT(File_seek_shared);
int PMPI_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence)
{
    struct ampi_file *file;
    MPI_Offset current = 0, target = 0;
    int error;

    ampi_enter("MPI_File_seek_shared");
    if ((error = ampi_file_enter(fh, &file)))
        return error;
    if (!(error = ampi_file_check_random(file)))
        error = ampi_file_check_no_split(file);
    if ((error = ampi_file_agree_or_raise(file, error, offset, "the offset")) ||
        (error = ampi_file_agree_or_raise(file, MPI_SUCCESS, whence, "whence")))
        return error;
    if (file->rank == 0) { /* all have arrived: their writes are in the size and in the pointer */
        ampi_file_pointer_add(file, 0, &current);
        if (!(error = find_target(file, offset, whence, current, &target)))
            ampi_file_pointer_set(file, target);
    }
    return ampi_file_agree_or_raise(file, error, 0, "");
}

AMPI_EXPORT(File_get_position_shared);
int PMPI_File_get_position_shared(MPI_File fh, MPI_Offset *offset)
{
    struct ampi_file *file;
    int error;

    ampi_enter("MPI_File_get_position_shared");
    if ((error = ampi_file_enter(fh, &file)) || (error = ampi_file_check_random(file)))
        return error;
    if (!offset)
        return ampi_file_raise(file, MPI_ERR_ARG, "offset is NULL");
    error = ampi_file_pointer_add(file, 0, offset);
    return error ? raise_lost(file, error) : MPI_SUCCESS;
}
