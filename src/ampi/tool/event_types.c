/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_types.c: types of events, their source, and the enumerations that name their elements (MPI 5.0, sections 15.3.5 and
 * 15.3.8). The table is in object/event.h.
 *
 * All elements have 8 bytes, in the order of the table, and are of type MPI_COUNT, or MPI_AINT if they are addresses.
 */
#include "ampi/object/info.h"
#include "ampi/tool/event_queue.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 64

/* The elements of a kind of events; the handle is the address. */
struct MPI_ABI_T_enum {
    uint32_t magic; /* AMPI_MAGIC_TOOL_ENUM */
    const struct ampi_event_type *type;
} __attribute__((aligned(8)));

#define ENUM(kind, scope, name, values, text) \
    [AMPI_EVENT_##kind] = {AMPI_MAGIC_TOOL_ENUM, &ampi_event_types[AMPI_EVENT_##kind]},

static struct MPI_ABI_T_enum enums[AMPI_EVENT_KIND_COUNT] = {AMPI_EVENTS(ENUM)};

static int count_values(const struct ampi_event_type *type)
{
    int n = 0;

    while (type->values[n])
        n++;
    return n;
}

static bool is_address(const char *value)
{
    return strcmp(value, "call_name") == 0 || strcmp(value, "operation") == 0;
}

/* ---- Types: one of each kind, then those that are bound to a communicator, which are the first kinds ---- */

int ampi_tool_event_count(void)
{
    int n = AMPI_EVENT_KIND_COUNT;

    for (int i = 0; i < AMPI_EVENT_KIND_COUNT; i++)
        n += ampi_event_types[i].scope == AMPI_EVENT_OF_COMM;
    return n;
}

static bool is_bound(int index)
{
    return index >= AMPI_EVENT_KIND_COUNT;
}

static enum ampi_event_kind kind_of(int index)
{
    return (enum ampi_event_kind)(index % AMPI_EVENT_KIND_COUNT);
}

enum ampi_tool_category ampi_tool_event_category(int index)
{
    enum ampi_event_kind kind = kind_of(index);

    if (ampi_event_types[kind].scope <= AMPI_EVENT_OF_WIN)
        return AMPI_TOOL_MESSAGES;
    return kind == AMPI_EVENT_COPY_BEGIN || kind == AMPI_EVENT_COPY_END ? AMPI_TOOL_DEVICES
                                                                        : AMPI_TOOL_SCHEDULER;
}

static void name_of(int index, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "heddle_%s%s", is_bound(index) ? "comm_" : "",
             ampi_event_types[kind_of(index)].name);
}

static bool is_index(int index)
{
    return index >= 0 && index < ampi_tool_event_count();
}

AMPI_EXPORT(T_event_get_num);
int PMPI_T_event_get_num(int *num_events)
{
    int error = ampi_tool_check();

    if (error || !num_events)
        return error ? error : MPI_T_ERR_INVALID;
    *num_events = ampi_tool_event_count();
    return MPI_SUCCESS;
}

/* Fills at most *num_elements entries of the arrays; it becomes the number of elements. */
static void put_elements(const struct ampi_event_type *type, MPI_Datatype types[], MPI_Aint displacements[],
                         int *num_elements)
{
    int n = count_values(type);

    for (int i = 0; i < n && i < *num_elements; i++) {
        if (types)
            types[i] = is_address(type->values[i]) ? MPI_AINT : MPI_COUNT;
        if (displacements)
            displacements[i] = (MPI_Aint)(i * (int)sizeof(int64_t));
    }
    *num_elements = n;
}

AMPI_EXPORT(T_event_get_info);
int PMPI_T_event_get_info(int event_index, char *name, int *name_len, int *verbosity,
                          MPI_Datatype array_of_datatypes[], MPI_Aint array_of_displacements[],
                          int *num_elements, MPI_T_enum *enumtype, MPI_Info *info, char *desc, int *desc_len,
                          int *bind)
{
    int error = ampi_tool_check();
    const struct ampi_event_type *type;
    char full_name[NAME_BYTES];

    if (error || !is_index(event_index))
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    type = &ampi_event_types[kind_of(event_index)];
    name_of(event_index, full_name);
    ampi_tool_put_string(full_name, name, name_len);
    ampi_tool_put_string(type->text, desc, desc_len);
    ampi_tool_put_int(type->scope <= AMPI_EVENT_OF_WIN ? MPI_T_VERBOSITY_USER_BASIC
                                                       : MPI_T_VERBOSITY_TUNER_BASIC,
                      verbosity);
    ampi_tool_put_int(is_bound(event_index) ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT, bind);
    if (num_elements)
        put_elements(type, array_of_datatypes, array_of_displacements, num_elements);
    if (enumtype)
        *enumtype = &enums[kind_of(event_index)];
    if (info)
        *info = (MPI_Info)ampi_info_create();
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_get_index);
int PMPI_T_event_get_index(const char *name, int *event_index)
{
    int error = ampi_tool_check();
    char full_name[NAME_BYTES];

    if (error || !name || !event_index)
        return error ? error : MPI_T_ERR_INVALID;
    for (int i = 0; i < ampi_tool_event_count(); i++) {
        name_of(i, full_name);
        if (strcmp(full_name, name) == 0) {
            *event_index = i;
            return MPI_SUCCESS;
        }
    }
    return MPI_T_ERR_INVALID_NAME;
}

/* ---- Enumerations: item i is the name of element i ---- */

static int check_enum(MPI_T_enum enumtype)
{
    int error = ampi_tool_check();

    if (error)
        return error;
    return ampi_handle_has_magic(enumtype, AMPI_MAGIC_TOOL_ENUM) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

AMPI_EXPORT(T_enum_get_info);
int PMPI_T_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
    int error = check_enum(enumtype);

    if (error)
        return error;
    ampi_tool_put_int(count_values(enumtype->type), num);
    ampi_tool_put_string(enumtype->type->name, name, name_len);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_enum_get_item);
int PMPI_T_enum_get_item(MPI_T_enum enumtype, int indx, int *value, char *name, int *name_len)
{
    int error = check_enum(enumtype);

    if (error)
        return error;
    if (indx < 0 || indx >= count_values(enumtype->type))
        return MPI_T_ERR_INVALID_ITEM;
    ampi_tool_put_int(indx, value);
    ampi_tool_put_string(enumtype->type->values[indx], name, name_len);
    return MPI_SUCCESS;
}

/* ---- The source ---- */

AMPI_EXPORT(T_source_get_num);
int PMPI_T_source_get_num(int *num_sources)
{
    int error = ampi_tool_check();

    if (error || !num_sources)
        return error ? error : MPI_T_ERR_INVALID;
    *num_sources = 1;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_source_get_info);
int PMPI_T_source_get_info(int source_index, char *name, int *name_len, char *desc, int *desc_len,
                           MPI_T_source_order *ordering, MPI_Count *ticks_per_second, MPI_Count *max_ticks,
                           MPI_Info *info)
{
    int error = ampi_tool_check();

    if (error || source_index != 0)
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    ampi_tool_put_string("heddle_rank", name, name_len);
    ampi_tool_put_string("the calling rank; times are CLOCK_MONOTONIC of its node, in ns", desc, desc_len);
    if (ordering)
        *ordering = MPI_T_SOURCE_ORDERED;
    if (ticks_per_second)
        *ticks_per_second = 1000000000;
    if (max_ticks)
        *max_ticks = LLONG_MAX;
    if (info)
        *info = (MPI_Info)ampi_info_create();
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_source_get_timestamp);
int PMPI_T_source_get_timestamp(int source_index, MPI_Count *timestamp)
{
    int error = ampi_tool_check();

    if (error || source_index != 0)
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    if (!timestamp)
        return MPI_T_ERR_INVALID;
    *timestamp = (MPI_Count)ult_now_ns();
    return MPI_SUCCESS;
}

/* ---- Instances, in a callback ---- */

static int check_instance(MPI_T_event_instance instance)
{
    int error = ampi_tool_check();

    if (error)
        return error;
    return ampi_handle_has_magic(instance, AMPI_MAGIC_TOOL_EVENT) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

AMPI_EXPORT(T_event_read);
int PMPI_T_event_read(MPI_T_event_instance event_instance, int element_index, void *buffer)
{
    int error = check_instance(event_instance);

    if (error)
        return error;
    if (element_index < 0 || element_index >= count_values(&ampi_event_types[event_instance->kind]))
        return MPI_T_ERR_INVALID_INDEX;
    if (!buffer)
        return MPI_T_ERR_INVALID;
    memcpy(buffer, &event_instance->values[element_index], sizeof event_instance->values[0]);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_copy);
int PMPI_T_event_copy(MPI_T_event_instance event_instance, void *buffer)
{
    int error = check_instance(event_instance);

    if (error || !buffer)
        return error ? error : MPI_T_ERR_INVALID;
    memcpy(buffer, event_instance->values,
           (size_t)count_values(&ampi_event_types[event_instance->kind]) * sizeof event_instance->values[0]);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_get_source);
int PMPI_T_event_get_source(MPI_T_event_instance event_instance, int *source_index)
{
    int error = check_instance(event_instance);

    if (error || !source_index)
        return error ? error : MPI_T_ERR_INVALID;
    *source_index = 0;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_event_get_timestamp);
int PMPI_T_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count *event_timestamp)
{
    int error = check_instance(event_instance);

    if (error || !event_timestamp)
        return error ? error : MPI_T_ERR_INVALID;
    *event_timestamp = (MPI_Count)event_instance->time_ns;
    return MPI_SUCCESS;
}
