/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_query.c: inquiry functions of communicators (MPI 5.0, sections 7.4.1 and 7.6.1): groups, comparison,
 * the remote group.
 */
#include "ampi/comm/comm.h"

static int raise_null(struct ampi_comm *comm, const char *argument)
{
    return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL", argument);
}

static int raise_no_inter(struct ampi_comm *comm)
{
    return ampi_raise(comm, MPI_ERR_COMM, "the communicator is not an intercommunicator");
}

static MPI_Group group_of(const struct ampi_comm *comm, const struct ampi_comm_side *side)
{
    ampi_group_ref(side->layout->group);
    return ampi_group_handle_create(side->layout->group, comm->session);
}

AMPI_EXPORT(Comm_group);
int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_group"), comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!group)
        return raise_null(object, "group");
    *group = group_of(object, object->local);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_remote_group);
int PMPI_Comm_remote_group(MPI_Comm comm, MPI_Group *group)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_remote_group"), comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!object->shared->is_inter)
        return raise_no_inter(object);
    if (!group)
        return raise_null(object, "group");
    *group = group_of(object, object->peer);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_remote_size);
int PMPI_Comm_remote_size(MPI_Comm comm, int *size)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_remote_size"), comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!object->shared->is_inter)
        return raise_no_inter(object);
    if (!size)
        return raise_null(object, "size");
    *size = object->peer->n_ranks;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_test_inter);
int PMPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_test_inter"), comm);

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!flag)
        return raise_null(object, "flag");
    *flag = object->shared->is_inter;
    return MPI_SUCCESS;
}

/* Compares the members of two communicators: MPI_CONGRUENT, MPI_SIMILAR or MPI_UNEQUAL. */
static int compare_groups(const struct ampi_comm *a, const struct ampi_comm *b)
{
    int local, remote = MPI_IDENT;

    if (a->shared->is_inter != b->shared->is_inter)
        return MPI_UNEQUAL;
    local = ampi_group_compare(a->local->layout->group, b->local->layout->group);
    if (a->shared->is_inter)
        remote = ampi_group_compare(a->peer->layout->group, b->peer->layout->group);
    if (local == MPI_UNEQUAL || remote == MPI_UNEQUAL)
        return MPI_UNEQUAL;
    return local == MPI_IDENT && remote == MPI_IDENT ? MPI_CONGRUENT : MPI_SIMILAR;
}

AMPI_EXPORT(Comm_compare);
int PMPI_Comm_compare(MPI_Comm comm1, MPI_Comm comm2, int *result)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_compare");
    struct ampi_comm *a = ampi_comm_of(self, comm1);
    struct ampi_comm *b = ampi_comm_of(self, comm2);

    if (!a || !b)
        return ampi_comm_raise_invalid(a ? comm2 : comm1);
    if (!result)
        return raise_null(a, "result");
    *result = a == b ? MPI_IDENT : compare_groups(a, b);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_get_parent);
int PMPI_Comm_get_parent(MPI_Comm *parent)
{
    const struct ampi_rank *self = ampi_enter("MPI_Comm_get_parent");

    if (!parent)
        return ampi_raise_self(MPI_ERR_ARG, "parent is NULL");
    *parent = self->parent ? ampi_comm_handle(self->parent) : MPI_COMM_NULL;
    return MPI_SUCCESS;
}
