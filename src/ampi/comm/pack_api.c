/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack_api.c: MPI_Pack and MPI_Unpack (MPI 5.0, section 5.2). The packed form is the data itself, without a
 * header, so packed data can also be received with the original type.
 */
#include <limits.h>

#include "ampi/comm/comm.h"
#include "ampi/datatype/buffer.h"
#include "ampi/datatype/type_pack.h"

/* For buffers in GPU memory. May switch. */
static BASE_COLD int move_on_gpu(const struct ampi_pack_args *args, char *packed, size_t n_bytes,
                                 bool is_pack)
{
    struct gpu_data data = ampi_type_gpu_data(args->data, args->count, args->type);
    struct gpu_data flat = ampi_bytes_gpu_data(packed, n_bytes);
    int error = is_pack ? gpu_move_wait(&flat, &data, n_bytes) : gpu_move_wait(&data, &flat, n_bytes);

    return error ? ampi_pack_raise_gpu(args, error) : MPI_SUCCESS;
}

/* Both directions: checks the arguments, moves the data, and advances *position. */
static int move(struct ampi_pack_args *args, MPI_Comm comm, MPI_Count *position, bool is_pack)
{
    struct ampi_rank *self = ampi_self();
    const struct ampi_type *bytes = ampi_type_of(MPI_BYTE);
    MPI_Count n_bytes;
    int rc;

    args->comm = ampi_comm_of(self, comm);
    if (!args->comm)
        return ampi_comm_raise_invalid(comm);
    if (!position)
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the position is NULL");
    rc = ampi_pack_check(args, *position);
    if (rc == MPI_SUCCESS)
        rc = ampi_pack_check_room(args, args->type->size_bytes, *position);
    if (rc != MPI_SUCCESS)
        return rc;
    n_bytes = args->count * args->type->size_bytes;
    if (BASE_UNLIKELY(ampi_device_has(args->data, args->count, args->type) ||
                      ampi_device_has(args->packed + *position, n_bytes, bytes)))
        rc = move_on_gpu(args, args->packed + *position, (size_t)n_bytes, is_pack);
    else if (is_pack)
        ampi_type_copy(args->packed + *position, n_bytes, bytes, args->data, args->count, args->type);
    else
        ampi_type_copy(args->data, args->count, args->type, args->packed + *position, n_bytes, bytes);
    if (rc == MPI_SUCCESS)
        *position += n_bytes;
    return rc;
}

AMPI_EXPORT(Pack);
int PMPI_Pack(const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf, int outsize, int *position,
              MPI_Comm comm)
{
    struct ampi_pack_args args = {.data = (void *)(uintptr_t)inbuf,
                                  .count = incount,
                                  .datatype = datatype,
                                  .packed = outbuf,
                                  .packed_bytes = outsize};
    MPI_Count wide = position ? *position : 0;
    int rc;

    ampi_enter("MPI_Pack");
    rc = move(&args, comm, position ? &wide : NULL, true);
    if (rc == MPI_SUCCESS)
        *position = (int)wide;
    return rc;
}

AMPI_EXPORT(Pack_c);
int PMPI_Pack_c(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
                MPI_Count *position, MPI_Comm comm)
{
    struct ampi_pack_args args = {.data = (void *)(uintptr_t)inbuf,
                                  .count = incount,
                                  .datatype = datatype,
                                  .packed = outbuf,
                                  .packed_bytes = outsize};

    ampi_enter("MPI_Pack_c");
    return move(&args, comm, position, true);
}

AMPI_EXPORT(Unpack);
int PMPI_Unpack(const void *inbuf, int insize, int *position, void *outbuf, int outcount,
                MPI_Datatype datatype, MPI_Comm comm)
{
    struct ampi_pack_args args = {.data = outbuf,
                                  .count = outcount,
                                  .datatype = datatype,
                                  .packed = (char *)(uintptr_t)inbuf,
                                  .packed_bytes = insize};
    MPI_Count wide = position ? *position : 0;
    int rc;

    ampi_enter("MPI_Unpack");
    rc = move(&args, comm, position ? &wide : NULL, false);
    if (rc == MPI_SUCCESS)
        *position = (int)wide;
    return rc;
}

AMPI_EXPORT(Unpack_c);
int PMPI_Unpack_c(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
                  MPI_Datatype datatype, MPI_Comm comm)
{
    struct ampi_pack_args args = {.data = outbuf,
                                  .count = outcount,
                                  .datatype = datatype,
                                  .packed = (char *)(uintptr_t)inbuf,
                                  .packed_bytes = insize};

    ampi_enter("MPI_Unpack_c");
    return move(&args, comm, position, false);
}

static int pack_size(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count limit,
                     MPI_Count *size)
{
    struct ampi_pack_args args = {.count = incount, .datatype = datatype};
    MPI_Count n_bytes;
    int rc;

    args.comm = ampi_comm_of(ampi_self(), comm);
    if (!args.comm)
        return ampi_comm_raise_invalid(comm);
    if (!size)
        return ampi_raise(args.comm, MPI_ERR_ARG, "the address for the size is NULL");
    rc = ampi_pack_check(&args, 0);
    if (rc != MPI_SUCCESS)
        return rc;
    if (__builtin_mul_overflow(incount, args.type->size_bytes, &n_bytes) || n_bytes > limit)
        return ampi_raise(args.comm, MPI_ERR_VALUE_TOO_LARGE,
                          "%lld elements of %lld bytes are too many for the result", (long long)incount,
                          (long long)args.type->size_bytes);
    *size = n_bytes;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Pack_size);
int PMPI_Pack_size(int incount, MPI_Datatype datatype, MPI_Comm comm, int *size)
{
    MPI_Count wide;
    int rc;

    ampi_enter("MPI_Pack_size");
    rc = pack_size(incount, datatype, comm, INT_MAX, size ? &wide : NULL);
    if (rc == MPI_SUCCESS)
        *size = (int)wide;
    return rc;
}

AMPI_EXPORT(Pack_size_c);
int PMPI_Pack_size_c(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count *size)
{
    ampi_enter("MPI_Pack_size_c");
    return pack_size(incount, datatype, comm, INT64_MAX, size);
}
