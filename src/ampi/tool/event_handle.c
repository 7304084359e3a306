/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_handle.c: registrations for events and their callbacks (MPI 5.0, section 15.3.8). They have no hints: every info
 * object is accepted, and those returned are empty.
 */
#include "ampi/object/info.h"
#include "ampi/tool/event_queue.h"
#include "base/log.h"

static bool is_info(MPI_Info info)
{
    return info == MPI_INFO_NULL || ampi_info_of(ampi_self(), info);
}

/* A registration of the calling rank. */
static int check(MPI_T_event_registration registration)
{
    int error = ampi_tool_check();

    if (error)
        return error;
    return ampi_handle_has_magic(registration, AMPI_MAGIC_TOOL_REGISTRATION) && !registration->is_freed &&
                   registration->events == ampi_self()->events
               ? MPI_SUCCESS
               : MPI_T_ERR_INVALID_HANDLE;
}

/* The index of a level; -1: it is not valid. */
static int level_of(MPI_T_cb_safety safety)
{
    switch (safety) {
    case MPI_T_CB_REQUIRE_NONE:
        return 0;
    case MPI_T_CB_REQUIRE_MPI_RESTRICTED:
        return 1;
    case MPI_T_CB_REQUIRE_THREAD_SAFE:
        return 2;
    case MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE:
        return 3;
    default:
        return -1;
    }
}

AMPI_EXPORT(T_event_handle_alloc);
int PMPI_T_event_handle_alloc(int event_index, void *obj_handle, MPI_Info info,
                              MPI_T_event_registration *event_registration)
{
    int error = ampi_tool_check();
    struct MPI_ABI_T_event_registration *made;
    struct ampi_comm *comm = NULL;

    if (error || event_index < 0 || event_index >= ampi_tool_event_count())
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    if (!event_registration || !is_info(info))
        return MPI_T_ERR_INVALID;
    if (event_index >= AMPI_EVENT_KIND_COUNT) {
        if (obj_handle && ampi_self()->state == AMPI_RANK_INITIALIZED)
            comm = ampi_comm_of(ampi_self(), *(MPI_Comm *)obj_handle);
        if (!comm)
            return MPI_T_ERR_INVALID_HANDLE;
        ampi_comm_shared_ref(comm->shared);
    }
    made = base_calloc(1, sizeof *made, "a registration of the tool interface");
    made->magic = AMPI_MAGIC_TOOL_REGISTRATION;
    made->kind = (enum ampi_event_kind)(event_index % AMPI_EVENT_KIND_COUNT);
    made->comm = comm;
    made->events = ampi_events_of(ampi_self());
    made->next = made->events->registrations;
    made->events->registrations = made;
    *event_registration = made;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_register_callback);
int PMPI_T_event_register_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info info, void *user_data, MPI_T_event_cb_function event_cb_function)
{
    int error = check(event_registration);

    if (error)
        return error;
    if (level_of(cb_safety) < 0 || !is_info(info))
        return MPI_T_ERR_INVALID;
    if (!ampi_event_find_callback(event_registration, AMPI_EVENT_IN_CALL))
        event_registration->since_ns = ult_now_ns();
    event_registration->callbacks[level_of(cb_safety)] =
        (struct ampi_event_callback){event_cb_function, user_data};
    ampi_events_update(event_registration->events);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_set_dropped_handler);
int PMPI_T_event_set_dropped_handler(MPI_T_event_registration event_registration,
                                     MPI_T_event_dropped_cb_function dropped_cb_function)
{
    int error = check(event_registration);

    if (!error)
        event_registration->dropped = dropped_cb_function;
    return error;
}

/* Events that happened before are handed out first. */
AMPI_EXPORT(T_event_handle_free);
int PMPI_T_event_handle_free(MPI_T_event_registration event_registration, void *user_data,
                             MPI_T_event_free_cb_function free_cb_function)
{
    int error = check(event_registration);

    if (error)
        return error;
    event_registration->n_holders++;
    ampi_events_hand_out(ampi_self());
    event_registration->n_holders--;
    if (!event_registration->is_freed) { /* else: by a callback */
        event_registration->is_freed = true;
        event_registration->freed = free_cb_function;
        event_registration->freed_data = user_data;
    }
    ampi_events_update(event_registration->events);
    return MPI_SUCCESS;
}

/* ---- Hints ---- */

static int put_info(int error, MPI_Info *info)
{
    if (error || !info)
        return error ? error : MPI_T_ERR_INVALID;
    *info = (MPI_Info)ampi_info_create();
    return MPI_SUCCESS;
}

static int take_info(int error, MPI_Info info)
{
    return error || is_info(info) ? error : MPI_T_ERR_INVALID;
}

/* A registration with a callback of this level. */
static int check_callback(MPI_T_event_registration registration, MPI_T_cb_safety safety)
{
    int error = check(registration);

    if (error)
        return error;
    return level_of(safety) >= 0 && registration->callbacks[level_of(safety)].function ? MPI_SUCCESS
                                                                                       : MPI_T_ERR_INVALID;
}

AMPI_EXPORT(T_event_handle_get_info);
int PMPI_T_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info *info_used)
{
    return put_info(check(event_registration), info_used);
}

AMPI_EXPORT(T_event_handle_set_info);
int PMPI_T_event_handle_set_info(MPI_T_event_registration event_registration, MPI_Info info)
{
    return take_info(check(event_registration), info);
}

AMPI_EXPORT(T_event_callback_get_info);
int PMPI_T_event_callback_get_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info *info_used)
{
    return put_info(check_callback(event_registration, cb_safety), info_used);
}

AMPI_EXPORT(T_event_callback_set_info);
int PMPI_T_event_callback_set_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info info)
{
    return take_info(check_callback(event_registration, cb_safety), info);
}
