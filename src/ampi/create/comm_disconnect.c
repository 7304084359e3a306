/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_disconnect.c: MPI_Comm_disconnect (MPI 5.0, section 12.10.4): MPI_Comm_free as a collective.
 * Requests are complete when it is called; pending internal operations keep the communicator alive.
 */
#include "ampi/object/attr.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/comm/comm.h"

AMPI_EXPORT(Comm_disconnect);
int PMPI_Comm_disconnect(MPI_Comm *comm)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_disconnect");
    struct ampi_comm *object;
    int error;

    if (!comm)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the communicator is NULL");
    object = ampi_comm_of(self, *comm);
    if (!object || object->is_freed)
        return ampi_comm_raise_invalid(*comm);
    if (object == self->world || object == self->self)
        return ampi_raise(object, MPI_ERR_COMM, "%s must not be disconnected",
                          object == self->world ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
    error = ampi_comm_delete_attrs(object);
    if (error)
        return error;
    ult_self()->call = "MPI_Comm_disconnect";
    ampi_coll_barrier(object, AMPI_COLL_WITHIN_DISCONNECT);
    ampi_comm_release(object);
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}
