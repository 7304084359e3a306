/* SPDX-License-Identifier: BSD-3-Clause
 *
 * type_pack.c: checks the arguments of packing. See type_pack.h.
 */
#include "ampi/datatype/type_pack.h"
#include "ampi/datatype/buffer.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

/* Raises an error about a wrong number: "<what> is <value>". Returns the code. */
static int raise_number(const struct ampi_pack_args *args, int error_code, const char *what, long long value)
{
    return ampi_raise_on_comm(args->comm, error_code, "%s is %lld", what, value);
}

int ampi_pack_check(struct ampi_pack_args *args, MPI_Count position)
{
    if (args->count < 0)
        return raise_number(args, MPI_ERR_COUNT, "the count must not be negative, but", args->count);
    args->type = ampi_type_arg_committed(args->datatype, "datatype");
    if (!args->type)
        return MPI_ERR_TYPE;
    if (args->packed_bytes < 0)
        return raise_number(args, MPI_ERR_ARG, "the size of the packed buffer must not be negative, but",
                            args->packed_bytes);
    if (position < 0 || position > args->packed_bytes)
        return raise_number(args, MPI_ERR_ARG, "the position must be in the packed buffer, but", position);
    return MPI_SUCCESS;
}

int ampi_pack_check_room(const struct ampi_pack_args *args, MPI_Count each_bytes, MPI_Count position)
{
    MPI_Count room = args->packed_bytes - position;

    if (each_bytes > 0 && args->count > room / each_bytes)
        return raise_number(args, MPI_ERR_TRUNCATE,
                            "the packed buffer is too small for the data: the number of bytes left in it",
                            room);
    if ((!args->packed || args->packed == MPI_IN_PLACE) && each_bytes > 0 && args->count > 0)
        return raise_number(
            args, MPI_ERR_BUFFER,
            "the packed buffer is NULL or MPI_IN_PLACE; the bytes for it:", each_bytes * args->count);
    if (!ampi_type_is_address(args->type, args->data) && args->count > 0 && args->type->size_bytes > 0)
        return raise_number(args, MPI_ERR_BUFFER,
                            "the buffer of the data is NULL or MPI_IN_PLACE, but the count", args->count);
    return MPI_SUCCESS;
}

int ampi_pack_raise_gpu(const struct ampi_pack_args *args, int error)
{
    return ampi_raise_on_comm(args->comm, ampi_device_class(error), AMPI_DEVICE_FAILED,
                              gpu_error_text(error));
}
