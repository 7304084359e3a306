/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_errors.c: error handlers of communicators (MPI 5.0, section 9.3), and raising errors on them.
 */
#include "ampi/comm/comm.h"
#include "ampi/object/errhandler.h"

/* Calls the handler of a communicator that was freed while operations were pending: inside the handler the
 * handle is valid again. */
static int handle_on_freed(struct ampi_comm *comm, MPI_Comm *handle_address, int error_code, const char *text)
{
    comm->n_pending++;
    comm->magic = AMPI_MAGIC_COMM;
    error_code = ampi_error_handle(comm->errhandler, handle_address, error_code, text);
    comm->magic = AMPI_MAGIC_DEAD;
    ampi_comm_drop_pending(comm);
    return error_code;
}

static BASE_COLD int raise_on_comm(struct ampi_comm *comm, int error_code, const char *text)
{
    MPI_Comm comm_handle = ampi_comm_handle(comm);

    if (comm->is_freed)
        return handle_on_freed(comm, &comm_handle, error_code, text);
    return ampi_error_handle(comm->errhandler, &comm_handle, error_code, text);
}

/* For errors without a communicator. */
static BASE_COLD int raise_on_self(int error_code, const char *text)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_errhandler *errhandler = NULL;
    MPI_Comm comm_handle = MPI_COMM_SELF;

    if (self && self->self && self->self->errhandler) {
        errhandler = self->self->errhandler;
    } else if (self && self->world) {
        errhandler = self->world->errhandler;
        comm_handle = MPI_COMM_WORLD;
    }
    return ampi_error_handle(errhandler, &comm_handle, error_code, text);
}

int ampi_comm_raise(struct ampi_comm *comm, int error_code, const char *text)
{
    return comm ? raise_on_comm(comm, error_code, text) : raise_on_self(error_code, text);
}

int ampi_comm_raise_invalid(MPI_Comm handle)
{
    if (handle == MPI_COMM_NULL)
        return ampi_raise_self(MPI_ERR_COMM, "the communicator is MPI_COMM_NULL");
    return ampi_raise_self(MPI_ERR_COMM, "%p is not a valid communicator, or has been freed", (void *)handle);
}

AMPI_EXPORT(Comm_set_errhandler);
int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_set_errhandler");
    struct ampi_comm *object = ampi_comm_of(self, comm);
    const char *misfit;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    misfit = ampi_errhandler_misfit(errhandler, AMPI_ERRHANDLER_COMM);
    return misfit ? ampi_raise(object, MPI_ERR_ERRHANDLER, "%s", misfit)
                  : ampi_errhandler_set(&object->errhandler, errhandler, AMPI_ERRHANDLER_COMM);
}

AMPI_EXPORT(Comm_get_errhandler);
int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_get_errhandler");
    struct ampi_comm *object = ampi_comm_of(self, comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!errhandler)
        return ampi_raise(object, MPI_ERR_ARG, "errhandler is NULL");
    return ampi_errhandler_get(&object->errhandler, &ampi_errors_are_fatal, errhandler);
}

AMPI_EXPORT(Comm_call_errhandler);
int PMPI_Comm_call_errhandler(MPI_Comm comm, int errorcode)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_call_errhandler");
    struct ampi_comm *object = ampi_comm_of(self, comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    ampi_raise(object, errorcode, "the program called its error handler with error code %d", errorcode);
    return MPI_SUCCESS;
}
