/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm.c: the communicator calls that every program makes: rank, size, free (MPI 5.0, section 7.4).
 */
#include "ampi/comm/comm.h"

/* ---- Inquiry ---- */

AMPI_EXPORT(Comm_rank);
int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_rank"), comm);

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!rank))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the rank is NULL");
    *rank = object->rank;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_size);
int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_size"), comm);

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!size))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the size is NULL");
    *size = object->local->n_ranks;
    return MPI_SUCCESS;
}

/* ---- Freeing ---- */

AMPI_EXPORT(Comm_free);
int PMPI_Comm_free(MPI_Comm *comm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_free");
    struct ampi_comm *object;
    int error;

    if (BASE_UNLIKELY(!comm))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the communicator is NULL");
    object = ampi_comm_of(self, *comm);
    if (BASE_UNLIKELY(!object || object->is_freed)) /* freed: an error handler gets the handle again */
        return ampi_comm_raise_invalid(*comm);
    if (BASE_UNLIKELY(object == self->world || object == self->self))
        return ampi_raise(object, MPI_ERR_COMM, "%s must not be freed",
                          object == self->world ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
    if ((error = ampi_comm_delete_attrs(object)))
        return error;
    ampi_comm_release(object);
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}
