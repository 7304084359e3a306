/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unsupported.c: see unsupported.h.
 */
#include "ampi/comm/unsupported.h"

#include "ampi/comm/comm.h"

int ampi_unsupported(const char *function, MPI_Comm comm_handle)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_comm *comm = NULL;

    if (self && self->state == AMPI_RANK_INITIALIZED) {
        ult_self()->call = function;
        comm = comm_handle == MPI_COMM_NULL ? NULL : ampi_comm_of(self, comm_handle);
    }
    if (comm)
        return ampi_raise(comm, MPI_ERR_UNSUPPORTED_OPERATION, "%s is not implemented yet", function);
    return ampi_raise_self(MPI_ERR_UNSUPPORTED_OPERATION, "%s is not implemented yet", function);
}
