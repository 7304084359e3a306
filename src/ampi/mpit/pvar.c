/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pvar.c: performance variables (MPI 5.0, section 15.3.7).
 *
 * All are numbers that the library keeps anyway, so they run continuously and cannot be reset; a handle is a
 * pointer to where to look. A handle on a communicator keeps that communicator's memory until it is freed.
 */
#include <string.h>

#include "ampi/comm.h"
#include "ampi/mpit/tool.h"
#include "base/log.h"

static uint64_t get_switches(const struct ampi_comm *comm)
{
    return ult_pe_switches(ampi_self()->ult.pe);
}

static uint64_t get_posted(const struct ampi_comm *comm)
{
    return comm->match.posted.n_nodes;
}

static uint64_t get_unexpected(const struct ampi_comm *comm)
{
    return comm->match.unexpected.n_nodes;
}

static uint64_t get_pending(const struct ampi_comm *comm)
{
    return comm->n_pending;
}

static uint64_t get_collectives(const struct ampi_comm *comm)
{
    return comm->coll_seq;
}

/* All values are MPI_UNSIGNED_LONG. */
static const struct pvar {
    const char *name;
    enum ampi_tool_category category;
    int class;
    int bind;
    uint64_t (*get)(const struct ampi_comm *comm); /* comm: the object, if bound to one */
    const char *description;
} pvars[] = {
    {"heddle_switches", AMPI_TOOL_SCHEDULER, MPI_T_PVAR_CLASS_COUNTER, MPI_T_BIND_NO_OBJECT, get_switches,
     "switches between ranks on the calling rank's PE"},
    {"heddle_posted_receives", AMPI_TOOL_MESSAGES, MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_MPI_COMM, get_posted,
     "receives of this rank that have met no message yet"},
    {"heddle_unexpected_messages", AMPI_TOOL_MESSAGES, MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_MPI_COMM,
     get_unexpected, "messages to this rank that have met no receive yet"},
    {"heddle_pending_requests", AMPI_TOOL_MESSAGES, MPI_T_PVAR_CLASS_LEVEL, MPI_T_BIND_MPI_COMM, get_pending,
     "requests of this rank on the communicator"},
    {"heddle_collectives", AMPI_TOOL_MESSAGES, MPI_T_PVAR_CLASS_COUNTER, MPI_T_BIND_MPI_COMM, get_collectives,
     "collectives that this rank started on the communicator"},
};

#define N_PVARS ((int)BASE_COUNT(pvars))

struct MPI_ABI_T_pvar_handle {
    const struct pvar *pvar;
    struct ampi_comm *comm; /* NULL: not bound */
    struct MPI_ABI_T_pvar_session *session;
    struct MPI_ABI_T_pvar_handle *next; /* link of the session's list */
};

struct MPI_ABI_T_pvar_session {
    struct MPI_ABI_T_pvar_handle *handles;
};

int ampi_tool_pvar_count(void)
{
    return N_PVARS;
}

enum ampi_tool_category ampi_tool_pvar_category(int index)
{
    return pvars[index].category;
}

/* ---- Inquiry ---- */

AMPI_EXPORT(T_pvar_get_num)
int PMPI_T_pvar_get_num(int *num_pvar)
{
    int error = ampi_tool_check();

    if (error || !num_pvar)
        return error ? error : MPI_T_ERR_INVALID;
    *num_pvar = N_PVARS;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_get_info)
int PMPI_T_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity, int *var_class,
                         MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind,
                         int *readonly, int *continuous, int *atomic)
{
    int error = ampi_tool_check();
    const struct pvar *pvar;

    if (error || pvar_index < 0 || pvar_index >= N_PVARS)
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    pvar = &pvars[pvar_index];
    ampi_tool_put_string(pvar->name, name, name_len);
    ampi_tool_put_string(pvar->description, desc, desc_len);
    ampi_tool_put_int(MPI_T_VERBOSITY_TUNER_BASIC, verbosity);
    ampi_tool_put_int(pvar->class, var_class);
    ampi_tool_put_int(pvar->bind, bind);
    ampi_tool_put_int(1, readonly);
    ampi_tool_put_int(1, continuous);
    ampi_tool_put_int(0, atomic);
    if (datatype)
        *datatype = MPI_UNSIGNED_LONG;
    if (enumtype)
        *enumtype = MPI_T_ENUM_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_get_index)
int PMPI_T_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
    int error = ampi_tool_check();

    if (error || !name || !pvar_index)
        return error ? error : MPI_T_ERR_INVALID;
    for (int i = 0; i < N_PVARS; i++) {
        if (strcmp(pvars[i].name, name) == 0 && pvars[i].class == var_class) {
            *pvar_index = i;
            return MPI_SUCCESS;
        }
    }
    return MPI_T_ERR_INVALID_NAME;
}

/* ---- Sessions and handles ---- */

AMPI_EXPORT(T_pvar_session_create)
int PMPI_T_pvar_session_create(MPI_T_pvar_session *session)
{
    int error = ampi_tool_check();

    if (error || !session)
        return error ? error : MPI_T_ERR_INVALID;
    *session = base_calloc(1, sizeof **session, "a session of the tool interface");
    return MPI_SUCCESS;
}

static void free_handle(struct MPI_ABI_T_pvar_handle *handle)
{
    if (handle->comm)
        ampi_comm_shared_unref(handle->comm->shared);
    free(handle);
}

AMPI_EXPORT(T_pvar_session_free)
int PMPI_T_pvar_session_free(MPI_T_pvar_session *session)
{
    int error = ampi_tool_check();

    if (error || !session || !*session)
        return error ? error : MPI_T_ERR_INVALID_SESSION;
    while ((*session)->handles) {
        struct MPI_ABI_T_pvar_handle *handle = (*session)->handles;
        (*session)->handles = handle->next;
        free_handle(handle);
    }
    free(*session);
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_handle_alloc)
int PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle,
                             MPI_T_pvar_handle *handle, int *count)
{
    int error = ampi_tool_check();
    struct MPI_ABI_T_pvar_handle *object;
    struct ampi_comm *comm = NULL;

    if (error || !session)
        return error ? error : MPI_T_ERR_INVALID_SESSION;
    if (pvar_index < 0 || pvar_index >= N_PVARS)
        return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    if (pvars[pvar_index].bind == MPI_T_BIND_MPI_COMM) {
        if (obj_handle && ampi_self()->state == AMPI_RANK_INITIALIZED)
            comm = ampi_comm_of(ampi_self(), *(MPI_Comm *)obj_handle);
        if (!comm)
            return MPI_T_ERR_INVALID_HANDLE;
        ampi_comm_shared_ref(comm->shared);
    }
    object = base_calloc(1, sizeof *object, "a handle of the tool interface");
    object->pvar = &pvars[pvar_index];
    object->comm = comm;
    object->session = session;
    object->next = session->handles;
    session->handles = object;
    *handle = object;
    *count = 1;
    return MPI_SUCCESS;
}

/* The error of a session and one of its handles, or of MPI_T_PVAR_ALL_HANDLES where that is allowed. */
static int check_handle(MPI_T_pvar_session session, MPI_T_pvar_handle handle, bool may_be_all)
{
    int error = ampi_tool_check();

    if (error || !session)
        return error ? error : MPI_T_ERR_INVALID_SESSION;
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        return may_be_all ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
    return handle && handle->session == session ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

AMPI_EXPORT(T_pvar_handle_free)
int PMPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    int error = handle ? check_handle(session, *handle, false) : MPI_T_ERR_INVALID_HANDLE;
    struct MPI_ABI_T_pvar_handle **link;

    if (error)
        return error;
    for (link = &session->handles; *link != *handle; link = &(*link)->next)
        ;
    *link = (*handle)->next;
    free_handle(*handle);
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

/* ---- Values ---- */

AMPI_EXPORT(T_pvar_read)
int PMPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int error = check_handle(session, handle, false);

    if (error || !buf)
        return error ? error : MPI_T_ERR_INVALID;
    *(unsigned long *)buf = (unsigned long)handle->pvar->get(handle->comm);
    return MPI_SUCCESS;
}

/* With MPI_T_PVAR_ALL_HANDLES variables that cannot do it are passed over, which are all. */
static int refuse(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int refusal)
{
    int error = check_handle(session, handle, true);

    if (error)
        return error;
    return handle == MPI_T_PVAR_ALL_HANDLES ? MPI_SUCCESS : refusal;
}

AMPI_EXPORT(T_pvar_start)
int PMPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP);
}

AMPI_EXPORT(T_pvar_stop)
int PMPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP);
}

AMPI_EXPORT(T_pvar_reset)
int PMPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return refuse(session, handle, MPI_T_ERR_PVAR_NO_WRITE);
}

AMPI_EXPORT(T_pvar_write)
int PMPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
    int error = check_handle(session, handle, false);

    return error ? error : MPI_T_ERR_PVAR_NO_WRITE;
}

AMPI_EXPORT(T_pvar_readreset)
int PMPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int error = check_handle(session, handle, false);

    return error ? error : MPI_T_ERR_PVAR_NO_ATOMIC;
}
