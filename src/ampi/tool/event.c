/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.c: events and their sources (MPI 5.0, section 15.3.8). The library has none: their number is 0, and
 * every index, name and handle is invalid.
 */
#include "ampi/tool/tool.h"

/* The result of a call about an event, a source or a handle that cannot exist. */
static int refuse(int refusal)
{
    int error = ampi_tool_check();

    return error ? error : refusal;
}

static int put_none(int *number)
{
    int error = ampi_tool_check();

    if (error || !number)
        return error ? error : MPI_T_ERR_INVALID;
    *number = 0;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_get_num);
int PMPI_T_event_get_num(int *num_events)
{
    return put_none(num_events);
}

AMPI_EXPORT(T_source_get_num);
int PMPI_T_source_get_num(int *num_sources)
{
    return put_none(num_sources);
}

AMPI_EXPORT(T_event_get_info);
int PMPI_T_event_get_info(int event_index, char *name, int *name_len, int *verbosity,
                          MPI_Datatype array_of_datatypes[], MPI_Aint array_of_displacements[],
                          int *num_elements, MPI_T_enum *enumtype, MPI_Info *info, char *desc, int *desc_len,
                          int *bind)
{
    return refuse(MPI_T_ERR_INVALID_INDEX);
}

AMPI_EXPORT(T_event_get_index);
int PMPI_T_event_get_index(const char *name, int *event_index)
{
    return refuse(MPI_T_ERR_INVALID_NAME);
}

AMPI_EXPORT(T_event_handle_alloc);
int PMPI_T_event_handle_alloc(int event_index, void *obj_handle, MPI_Info info,
                              MPI_T_event_registration *event_registration)
{
    return refuse(MPI_T_ERR_INVALID_INDEX);
}

AMPI_EXPORT(T_source_get_info);
int PMPI_T_source_get_info(int source_index, char *name, int *name_len, char *desc, int *desc_len,
                           MPI_T_source_order *ordering, MPI_Count *ticks_per_second, MPI_Count *max_ticks,
                           MPI_Info *info)
{
    return refuse(MPI_T_ERR_INVALID_INDEX);
}

AMPI_EXPORT(T_source_get_timestamp);
int PMPI_T_source_get_timestamp(int source_index, MPI_Count *timestamp)
{
    return refuse(MPI_T_ERR_INVALID_INDEX);
}

AMPI_EXPORT(T_event_handle_free);
int PMPI_T_event_handle_free(MPI_T_event_registration event_registration, void *user_data,
                             MPI_T_event_free_cb_function free_cb_function)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_handle_get_info);
int PMPI_T_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info *info_used)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_handle_set_info);
int PMPI_T_event_handle_set_info(MPI_T_event_registration event_registration, MPI_Info info)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_register_callback);
int PMPI_T_event_register_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info info, void *user_data, MPI_T_event_cb_function event_cb_function)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_callback_get_info);
int PMPI_T_event_callback_get_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info *info_used)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_callback_set_info);
int PMPI_T_event_callback_set_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                   MPI_Info info)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_set_dropped_handler);
int PMPI_T_event_set_dropped_handler(MPI_T_event_registration event_registration,
                                     MPI_T_event_dropped_cb_function dropped_cb_function)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_read);
int PMPI_T_event_read(MPI_T_event_instance event_instance, int element_index, void *buffer)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_copy);
int PMPI_T_event_copy(MPI_T_event_instance event_instance, void *buffer)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_get_source);
int PMPI_T_event_get_source(MPI_T_event_instance event_instance, int *source_index)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}

AMPI_EXPORT(T_event_get_timestamp);
int PMPI_T_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count *event_timestamp)
{
    return refuse(MPI_T_ERR_INVALID_HANDLE);
}
