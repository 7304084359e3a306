/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pvar.c: performance variables (MPI 5.0, section 15.3.7).
 *
 * pvar_table.c lists the variables, which always count. A handle on a counter has its own zero, which writing
 * and resetting change, so that sessions are independent. Levels cannot be written. A handle on a
 * communicator keeps the communicator's memory until the handle is freed.
 */
#include <string.h>

#include "ampi/comm/comm.h"
#include "ampi/tool/tool.h"
#include "base/log.h"

struct MPI_ABI_T_pvar_handle {
    uint32_t magic; /* AMPI_MAGIC_TOOL_PVAR */
    const struct ampi_tool_pvar *pvar;
    struct ampi_comm *comm; /* NULL: not bound */
    uint64_t zero;          /* counters: the value that reads as 0 */
    struct MPI_ABI_T_pvar_session *session;
    struct MPI_ABI_T_pvar_handle *next; /* next in the session's list */
};

struct MPI_ABI_T_pvar_session {
    uint32_t magic; /* AMPI_MAGIC_TOOL_SESSION */
    struct MPI_ABI_T_pvar_handle *handles;
};

static bool is_index(int pvar_index)
{
    return pvar_index >= 0 && pvar_index < ampi_tool_pvar_count();
}

static bool is_counter(const struct ampi_tool_pvar *pvar)
{
    return pvar->class == MPI_T_PVAR_CLASS_COUNTER;
}

/* ---- Inquiry ---- */

AMPI_EXPORT(T_pvar_get_num);
int PMPI_T_pvar_get_num(int *num_pvar)
{
    int error = ampi_tool_check();

    if (error || !num_pvar)
        return error ? error : MPI_T_ERR_INVALID;
    *num_pvar = ampi_tool_pvar_count();
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_get_info);
int PMPI_T_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity, int *var_class,
                         MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind,
                         int *readonly, int *continuous, int *atomic)
{
    int error = ampi_tool_check();
    const struct ampi_tool_pvar *pvar;

    if (error || !is_index(pvar_index))
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    pvar = ampi_tool_pvar_get(pvar_index);
    ampi_tool_put_string(pvar->name, name, name_len);
    ampi_tool_put_string(pvar->description, desc, desc_len);
    ampi_tool_put_int(MPI_T_VERBOSITY_TUNER_BASIC, verbosity);
    ampi_tool_put_int(pvar->class, var_class);
    ampi_tool_put_int(pvar->bind, bind);
    ampi_tool_put_int(!is_counter(pvar), readonly);
    ampi_tool_put_int(1, continuous);
    ampi_tool_put_int(is_counter(pvar), atomic);
    if (datatype)
        *datatype = MPI_UNSIGNED_LONG;
    if (enumtype)
        *enumtype = MPI_T_ENUM_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_get_index);
int PMPI_T_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
    int error = ampi_tool_check();

    if (error || !name || !pvar_index)
        return error ? error : MPI_T_ERR_INVALID;
    for (int i = 0; i < ampi_tool_pvar_count(); i++) {
        const struct ampi_tool_pvar *pvar = ampi_tool_pvar_get(i);
        if (strcmp(pvar->name, name) == 0 && pvar->class == var_class) {
            *pvar_index = i;
            return MPI_SUCCESS;
        }
    }
    return MPI_T_ERR_INVALID_NAME;
}

/* ---- Sessions and handles ---- */

AMPI_EXPORT(T_pvar_session_create);
int PMPI_T_pvar_session_create(MPI_T_pvar_session *session)
{
    int error = ampi_tool_check();

    if (error || !session)
        return error ? error : MPI_T_ERR_INVALID;
    *session = base_calloc(1, sizeof **session, "a session of the tool interface");
    (*session)->magic = AMPI_MAGIC_TOOL_SESSION;
    return MPI_SUCCESS;
}

/* The error of a session's handle. */
static int check_session(MPI_T_pvar_session session)
{
    int error = ampi_tool_check();

    if (error || !ampi_handle_has_magic(session, AMPI_MAGIC_TOOL_SESSION))
        return error ? error : MPI_T_ERR_INVALID_SESSION;
    return MPI_SUCCESS;
}

static void free_handle(struct MPI_ABI_T_pvar_handle *handle)
{
    if (handle->comm)
        ampi_comm_shared_unref(handle->comm->shared);
    handle->magic = AMPI_MAGIC_DEAD;
    free(handle);
}

AMPI_EXPORT(T_pvar_session_free);
int PMPI_T_pvar_session_free(MPI_T_pvar_session *session)
{
    int error = check_session(session ? *session : MPI_T_PVAR_SESSION_NULL);

    if (error)
        return error;
    while ((*session)->handles) {
        struct MPI_ABI_T_pvar_handle *handle = (*session)->handles;
        (*session)->handles = handle->next;
        free_handle(handle);
    }
    (*session)->magic = AMPI_MAGIC_DEAD;
    free(*session);
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_handle_alloc);
int PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle,
                             MPI_T_pvar_handle *handle, int *count)
{
    int error = check_session(session);
    struct MPI_ABI_T_pvar_handle *object;
    struct ampi_comm *comm = NULL;

    if (error || !is_index(pvar_index))
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    if (ampi_tool_pvar_get(pvar_index)->bind == MPI_T_BIND_MPI_COMM) {
        if (obj_handle && ampi_self()->state == AMPI_RANK_INITIALIZED)
            comm = ampi_comm_of(ampi_self(), *(MPI_Comm *)obj_handle);
        if (!comm)
            return MPI_T_ERR_INVALID_HANDLE;
        ampi_comm_shared_ref(comm->shared);
    }
    object = base_calloc(1, sizeof *object, "a handle of the tool interface");
    object->magic = AMPI_MAGIC_TOOL_PVAR;
    object->pvar = ampi_tool_pvar_get(pvar_index);
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
    int error = check_session(session);

    if (error)
        return error;
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        return may_be_all ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
    return ampi_handle_has_magic(handle, AMPI_MAGIC_TOOL_PVAR) && handle->session == session
               ? MPI_SUCCESS
               : MPI_T_ERR_INVALID_HANDLE;
}

AMPI_EXPORT(T_pvar_handle_free);
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

static uint64_t now(const struct MPI_ABI_T_pvar_handle *handle)
{
    return handle->pvar->get(ampi_self(), handle->comm);
}

AMPI_EXPORT(T_pvar_read);
int PMPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int error = check_handle(session, handle, false);

    if (error || !buf)
        return error ? error : MPI_T_ERR_INVALID;
    *(unsigned long *)buf = (unsigned long)(now(handle) - handle->zero);
    return MPI_SUCCESS;
}

/* With MPI_T_PVAR_ALL_HANDLES, variables that cannot be started and stopped are skipped; that is all of
 * them. */
static int refuse_startstop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int error = check_handle(session, handle, true);

    if (error)
        return error;
    return handle == MPI_T_PVAR_ALL_HANDLES ? MPI_SUCCESS : MPI_T_ERR_PVAR_NO_STARTSTOP;
}

AMPI_EXPORT(T_pvar_start);
int PMPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return refuse_startstop(session, handle);
}

AMPI_EXPORT(T_pvar_stop);
int PMPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return refuse_startstop(session, handle);
}

AMPI_EXPORT(T_pvar_reset);
int PMPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int error = check_handle(session, handle, true);

    if (error)
        return error;
    if (handle != MPI_T_PVAR_ALL_HANDLES) {
        if (!is_counter(handle->pvar))
            return MPI_T_ERR_PVAR_NO_WRITE;
        handle->zero = now(handle);
        return MPI_SUCCESS;
    }
    for (handle = session->handles; handle; handle = handle->next)
        if (is_counter(handle->pvar))
            handle->zero = now(handle);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_write);
int PMPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
    int error = check_handle(session, handle, false);

    if (error)
        return error;
    if (!is_counter(handle->pvar))
        return MPI_T_ERR_PVAR_NO_WRITE;
    if (!buf)
        return MPI_T_ERR_INVALID;
    handle->zero = now(handle) - *(const unsigned long *)buf;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_pvar_readreset);
int PMPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    int error = check_handle(session, handle, false);
    uint64_t value;

    if (error)
        return error;
    if (!is_counter(handle->pvar))
        return MPI_T_ERR_PVAR_NO_ATOMIC;
    if (!buf)
        return MPI_T_ERR_INVALID;
    value = now(handle);
    *(unsigned long *)buf = (unsigned long)(value - handle->zero);
    handle->zero = value;
    return MPI_SUCCESS;
}
