/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ports.c: ports, published names, and connections of two groups of ranks (MPI 5.0, section 12.4).
 *
 * The two roots find each other at the port (registry.h); then they create the intercommunicator as
 * MPI_Intercomm_create does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/create/comm_create.h"
#include "ampi/dynamic/registry.h"
#include "ampi/object/info.h"

/* Time limit of a call that waits for others to publish or unpublish a name in a universe. They need microseconds. */
#define LOCK_S 10

static int raise_null(const char *argument)
{
    return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", argument);
}

/* MPI_SUCCESS, or raises that info is not valid. */
static int check_info(struct ampi_rank *self, MPI_Info info)
{
    return info == MPI_INFO_NULL || ampi_info_of(self, info) ? MPI_SUCCESS : ampi_info_raise_invalid(info);
}

/* The longest wait, in seconds, from the info key "timeout". */
static double timeout_of(const struct ampi_info *info, double usual_s)
{
    const char *text = ampi_info_get(info, "timeout");
    char *end;
    double value_s = text ? strtod(text, &end) : -1;

    return text && end != text && value_s >= 0 && value_s < 1e9 ? value_s : usual_s;
}

/* ---- Ports ---- */

AMPI_EXPORT(Open_port);
int PMPI_Open_port(MPI_Info info, char *port_name)
{
    struct ampi_rank *self = ampi_enter("MPI_Open_port");
    int error = check_info(self, info);

    if (error)
        return error;
    if (!port_name)
        return raise_null("port_name");
    if (!ampi_registry_open_port(port_name))
        return ampi_raise_self(MPI_ERR_OTHER, "the kernel gives no random number for the port's name: %s",
                               strerror(errno));
    return MPI_SUCCESS;
}

static int raise_port(int error, const char *port_name)
{
    char text[2 * MPI_MAX_PORT_NAME];

    if (error == MPI_ERR_PROC_ABORTED)
        return ampi_raise_self(error, "the process of the port has ended");
    ampi_registry_explain(port_name, text, sizeof text);
    return ampi_raise_self(error, "%s", text);
}

AMPI_EXPORT(Close_port);
int PMPI_Close_port(const char *port_name)
{
    struct ampi_registry_call call = {.op = AMPI_REGISTRY_CLOSE, .port = port_name};
    int error;

    ampi_enter("MPI_Close_port");
    if (!port_name)
        return raise_null("port_name");
    error = ampi_registry_run(&call);
    return error ? raise_port(error, port_name) : MPI_SUCCESS;
}

/* ---- Published names ---- */

static int raise_name(int error, const char *service, const char *text)
{
    if (error == MPI_ERR_PROC_ABORTED)
        return ampi_raise_self(error, "process 0, which keeps the published names, has ended");
    if (error == MPI_ERR_NO_SPACE)
        return ampi_raise_self(MPI_ERR_SERVICE,
                               "the name \"%.200s\" cannot be written to the universe's folder", service);
    if (error == MPI_ERR_PENDING)
        return ampi_raise_self(MPI_ERR_SERVICE, "another process keeps the universe's names locked");
    return ampi_raise_self(error, "the name \"%.200s\" %s", service, text);
}

static int run_named(enum ampi_registry_op op, const char *service, MPI_Info info, const char *port,
                     const char *wrong)
{
    struct ampi_rank *self = ampi_entered();
    struct ampi_registry_call call = {.op = op,
                                      .port = port,
                                      .service = service,
                                      .timeout_s = timeout_of(ampi_info_of(self, info), LOCK_S)};
    int error = check_info(self, info);

    if (error)
        return error;
    if (!service || !port)
        return raise_null(service ? "port_name" : "service_name");
    if (op == AMPI_REGISTRY_PUBLISH && strlen(port) >= MPI_MAX_PORT_NAME)
        return ampi_raise_self(MPI_ERR_PORT, "port_name has more than %d characters", MPI_MAX_PORT_NAME - 1);
    error = ampi_registry_run(&call);
    return error ? raise_name(error, service, wrong) : MPI_SUCCESS;
}

AMPI_EXPORT(Publish_name);
int PMPI_Publish_name(const char *service_name, MPI_Info info, const char *port_name)
{
    ampi_enter("MPI_Publish_name");
    return run_named(AMPI_REGISTRY_PUBLISH, service_name, info, port_name, "is published already");
}

AMPI_EXPORT(Unpublish_name);
int PMPI_Unpublish_name(const char *service_name, MPI_Info info, const char *port_name)
{
    ampi_enter("MPI_Unpublish_name");
    return run_named(AMPI_REGISTRY_UNPUBLISH, service_name, info, port_name,
                     "is not published with this port");
}

AMPI_EXPORT(Lookup_name);
int PMPI_Lookup_name(const char *service_name, MPI_Info info, char *port_name)
{
    struct ampi_rank *self = ampi_enter("MPI_Lookup_name");
    struct ampi_registry_call call = {.op = AMPI_REGISTRY_LOOKUP, .service = service_name};
    int error = check_info(self, info);

    if (error)
        return error;
    if (!service_name || !port_name)
        return raise_null(service_name ? "port_name" : "service_name");
    error = ampi_registry_run(&call);
    if (error)
        return raise_name(error, service_name,
                          ampi_job.own_end
                              ? "is not published"
                              : "is not published in this job. Names of other jobs are known if mpirun "
                                "--universe starts both programs (one rank: -n 1)");
    snprintf(port_name, MPI_MAX_PORT_NAME, "%s", call.answer);
    return MPI_SUCCESS;
}

/* ---- Connections ---- */

/* The root's part: finds the other root. The key refers to *call. */
static int meet_at_port(struct ampi_registry_call *call, struct ampi_comm_leader *leader)
{
    int error = ampi_registry_run(call);

    leader->key = (struct ampi_meet){.function = "comm_connect", .stringtag = call->answer};
    leader->remote_world_rank = call->peer_world_rank;
    return error;
}

static int raise_connection(struct ampi_comm *comm, int error, const char *port_name)
{
    char text[2 * MPI_MAX_PORT_NAME];

    switch (error) {
    case MPI_ERR_PORT:
        if (!port_name)
            return ampi_raise(comm, error, "the root's port_name is not an open port");
        ampi_registry_explain(port_name, text, sizeof text);
        return ampi_raise(comm, error, "%s", text);
    case MPI_ERR_PENDING:
        return ampi_raise(comm, MPI_ERR_PORT, "no rank came to the port within the root's time-out");
    case MPI_ERR_GROUP:
        return ampi_raise(comm, MPI_ERR_COMM, "the two groups have a rank in common");
    case MPI_ERR_INFO:
        return ampi_raise(comm, error, "the root's info is not a valid info object");
    case MPI_ERR_ARG:
        return ampi_raise(comm, error, "the root's port_name is NULL");
    default:
        return ampi_raise(comm, error, "%s", ampi_comm_creation_text(error, NULL, text));
    }
}

/* MPI_Comm_accept and MPI_Comm_connect. The arguments of the root are checked there, and all ranks get its error. */
static int connect_groups(enum ampi_registry_op op, const char *port_name, MPI_Info info, int root,
                          MPI_Comm comm_handle, MPI_Comm *newcomm)
{
    struct ampi_rank *self = ampi_entered();
    struct ampi_comm *comm = ampi_comm_of(self, comm_handle);
    struct ampi_info *hints = ampi_info_of(self, info);
    struct ampi_registry_call call = {.op = op, .port = port_name};
    struct ampi_comm_leader leader = {.rank = root};
    struct ampi_comm *made;
    bool is_waiting = false;
    int error;

    if (!comm)
        return ampi_comm_raise_invalid(comm_handle);
    if (comm->shared->is_inter)
        return ampi_raise(comm, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (root < 0 || root >= comm->local->n_ranks)
        return ampi_raise(comm, MPI_ERR_ROOT, "root is %d, but the communicator has %d ranks", root,
                          comm->local->n_ranks);
    if (!newcomm)
        return ampi_raise(comm, MPI_ERR_ARG, "newcomm is NULL");
    if (comm->rank == root) {
        is_waiting = ampi_registry_begin_wait(op, port_name);
        call.timeout_s = timeout_of(hints, -1); /* no limit */
        leader.error = !port_name                        ? MPI_ERR_ARG
                       : !hints && info != MPI_INFO_NULL ? MPI_ERR_INFO
                                                         : meet_at_port(&call, &leader);
    }
    error = ampi_comm_create_inter(comm, &leader, &made);
    ampi_registry_end_wait(is_waiting);
    if (error)
        return raise_connection(comm, error, comm->rank == root ? port_name : NULL);
    return ampi_comm_adopt(comm, made, false, newcomm);
}

AMPI_EXPORT(Comm_accept);
int PMPI_Comm_accept(const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
{
    ampi_enter("MPI_Comm_accept");
    return connect_groups(AMPI_REGISTRY_ACCEPT, port_name, info, root, comm, newcomm);
}

AMPI_EXPORT(Comm_connect);
int PMPI_Comm_connect(const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
{
    ampi_enter("MPI_Comm_connect");
    return connect_groups(AMPI_REGISTRY_CONNECT, port_name, info, root, comm, newcomm);
}
