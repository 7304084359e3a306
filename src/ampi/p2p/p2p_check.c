/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_check.c: checks the arguments of point-to-point calls, once for all of them.
 */
#include "ampi/p2p/p2p.h"

#include <limits.h>

#include "ampi/datatype/work_hook.h"

/* The error of a send or receive; out of line because it is rare. */
static BASE_COLD int raise_type(struct ampi_comm *comm, MPI_Datatype handle, const struct ampi_type *type)
{
    if (handle == MPI_DATATYPE_NULL)
        return ampi_raise(comm, MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    if (!type)
        return ampi_raise(comm, MPI_ERR_TYPE, "the datatype %p is not a valid datatype, or has been freed",
                          (void *)handle);
    return ampi_raise(comm, MPI_ERR_TYPE,
                      "the datatype has been freed, or not been committed (MPI_Type_commit)");
}

static BASE_COLD int raise_rank(struct ampi_comm *comm, const char *what, int rank)
{
    return ampi_raise(comm, MPI_ERR_RANK, "the %s is %d, but the %s's size is %d", what, rank,
                      comm->shared->is_inter ? "remote group" : "communicator", comm->peer->n_ranks);
}

static int check_buffer(struct ampi_comm *comm, MPI_Count count, MPI_Datatype handle, struct ampi_type *type)
{
    if (BASE_UNLIKELY(count < 0))
        return ampi_raise(comm, MPI_ERR_COUNT, "the count %lld is negative", (long long)count);
    if (BASE_UNLIKELY(!type || !type->is_committed))
        return raise_type(comm, handle, type);
    if (ampi_type_is_too_much(type, count))
        return ampi_raise(comm, MPI_ERR_COUNT, AMPI_TYPE_TOO_MUCH, (long long)count,
                          (long long)type->size_bytes);
    return MPI_SUCCESS;
}

int ampi_check_address(struct ampi_comm *comm, const void *buf, MPI_Count count, const struct ampi_type *type)
{
    if (BASE_UNLIKELY(!ampi_type_is_address(type, buf) && count > 0 && type->size_bytes > 0))
        return ampi_raise(comm, MPI_ERR_BUFFER, "the buffer is %s, but the count is %lld",
                          buf ? "MPI_IN_PLACE" : "NULL", (long long)count);
    return MPI_SUCCESS;
}

int ampi_check_send(struct ampi_rank *self, MPI_Datatype type, MPI_Comm comm_handle,
                    struct ampi_send_args *args)
{
    struct ampi_comm *comm = ampi_comm_of(self, comm_handle);
    int error;

    if (BASE_UNLIKELY(!comm))
        return ampi_comm_raise_invalid(comm_handle);
    args->comm = comm;
    args->type = ampi_type_of(type);
    if ((error = check_buffer(comm, args->count, type, args->type)))
        return error;
    if (BASE_UNLIKELY(args->tag < 0))
        return ampi_raise(comm, MPI_ERR_TAG, "the tag %d is negative; tags go from 0 to %d", args->tag,
                          INT_MAX);
    if (BASE_UNLIKELY((unsigned)args->dest >= (unsigned)comm->peer->n_ranks && args->dest != MPI_PROC_NULL))
        return raise_rank(comm, "destination", args->dest);
    if ((error = ampi_check_address(comm, args->buf, args->count, args->type)))
        return error;
    ampi_work_before(args->buf, args->count, args->type, false);
    return MPI_SUCCESS;
}

int ampi_check_recv(struct ampi_rank *self, MPI_Datatype type, MPI_Comm comm_handle,
                    struct ampi_recv_args *args)
{
    struct ampi_comm *comm = NULL;
    int error = ampi_check_probe(self, comm_handle, args->source, args->tag, &comm);

    if (error)
        return error;
    args->comm = comm;
    args->type = ampi_type_of(type);
    if ((error = check_buffer(comm, args->count, type, args->type)))
        return error;
    if ((error = ampi_check_address(comm, args->buf, args->count, args->type)))
        return error;
    ampi_work_before(args->buf, args->count, args->type, true);
    return MPI_SUCCESS;
}

int ampi_check_probe(struct ampi_rank *self, MPI_Comm comm_handle, int source, int tag,
                     struct ampi_comm **comm_out)
{
    struct ampi_comm *comm = ampi_comm_of(self, comm_handle);

    if (BASE_UNLIKELY(!comm))
        return ampi_comm_raise_invalid(comm_handle);
    if (BASE_UNLIKELY(tag < 0 && tag != MPI_ANY_TAG))
        return ampi_raise(comm, MPI_ERR_TAG, "the tag %d is negative; tags go from 0 to %d", tag, INT_MAX);
    if (BASE_UNLIKELY((unsigned)source >= (unsigned)comm->peer->n_ranks && source != MPI_ANY_SOURCE &&
                      source != MPI_PROC_NULL))
        return raise_rank(comm, "source", source);
    *comm_out = comm;
    return MPI_SUCCESS;
}
