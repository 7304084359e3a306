/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_name.c: names of communicators (MPI 5.0, section 7.8). A rank's handle has its own name; predefined
 * names are not stored.
 */
#include <stdio.h>
#include <string.h>

#include "ampi/comm/comm.h"

static const char *name_of(const struct ampi_comm *comm)
{
    if (comm->name)
        return comm->name;
    if (comm == comm->owner->world)
        return "MPI_COMM_WORLD";
    if (comm == comm->owner->parent)
        return "MPI_COMM_PARENT";
    return comm == comm->owner->self ? "MPI_COMM_SELF" : "";
}

AMPI_EXPORT(Comm_set_name);
int PMPI_Comm_set_name(MPI_Comm comm, const char *comm_name)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_set_name");
    struct ampi_comm *object = ampi_comm_of(self, comm);
    char *copy;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!comm_name)
        return ampi_raise(object, MPI_ERR_ARG, "comm_name is NULL");
    copy = strndup(comm_name, MPI_MAX_OBJECT_NAME - 1);
    if (!copy)
        return ampi_raise(object, MPI_ERR_NO_MEM, "out of memory: cannot store the name");
    free(object->name);
    object->name = copy;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_get_name);
int PMPI_Comm_get_name(MPI_Comm comm, char *comm_name, int *resultlen)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_get_name");
    struct ampi_comm *object = ampi_comm_of(self, comm);

    if (!object && comm != MPI_COMM_NULL)
        return ampi_comm_raise_invalid(comm);
    if (!comm_name || !resultlen)
        return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", comm_name ? "resultlen" : "comm_name");
    *resultlen = snprintf(comm_name, MPI_MAX_OBJECT_NAME, "%s", object ? name_of(object) : "MPI_COMM_NULL");
    return MPI_SUCCESS;
}
