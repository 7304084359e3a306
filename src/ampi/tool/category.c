/* SPDX-License-Identifier: BSD-3-Clause
 *
 * category.c: categories of variables and events (MPI 5.0, section 15.3.9). They have no subcategories and never
 * change.
 */
#include <string.h>

#include "ampi/tool/event_queue.h"

static const struct {
    const char *name;
    const char *description;
} categories[AMPI_TOOL_CATEGORY_COUNT] = {
    [AMPI_TOOL_JOB] = {"heddle_job", "setup of the job"},
    [AMPI_TOOL_SCHEDULER] = {"heddle_scheduler", "scheduling of ranks on PEs"},
    [AMPI_TOOL_MESSAGES] = {"heddle_messages", "messages, requests and collectives"},
    [AMPI_TOOL_DEVICES] = {"heddle_devices", "detection of device buffers"},
};

/* The lists of a category. */
typedef int count_fn(void);
typedef enum ampi_tool_category category_fn(int index);

static bool is_index(int cat_index)
{
    return cat_index >= 0 && cat_index < AMPI_TOOL_CATEGORY_COUNT;
}

/* Writes the first len variables or events of a category; returns their total number. */
static int list(int cat_index, count_fn *count, category_fn *category_of, int len, int *indices)
{
    int n = 0;

    for (int i = 0; i < count(); i++) {
        if ((int)category_of(i) != cat_index)
            continue;
        if (n < len)
            indices[n] = i;
        n++;
    }
    return n;
}

static int get_list(int cat_index, count_fn *count, category_fn *category_of, int len, int *indices)
{
    int error = ampi_tool_check();

    if (error || !is_index(cat_index))
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    if (len < 0 || (len > 0 && !indices))
        return MPI_T_ERR_INVALID;
    if (count)
        list(cat_index, count, category_of, len, indices);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_category_get_num);
int PMPI_T_category_get_num(int *num_cat)
{
    int error = ampi_tool_check();

    if (error || !num_cat)
        return error ? error : MPI_T_ERR_INVALID;
    *num_cat = AMPI_TOOL_CATEGORY_COUNT;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_category_get_info);
int PMPI_T_category_get_info(int cat_index, char *name, int *name_len, char *desc, int *desc_len,
                             int *num_cvars, int *num_pvars, int *num_categories)
{
    int error = ampi_tool_check();

    if (error || !is_index(cat_index))
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    ampi_tool_put_string(categories[cat_index].name, name, name_len);
    ampi_tool_put_string(categories[cat_index].description, desc, desc_len);
    ampi_tool_put_int(list(cat_index, ampi_tool_cvar_count, ampi_tool_cvar_category, 0, NULL), num_cvars);
    ampi_tool_put_int(list(cat_index, ampi_tool_pvar_count, ampi_tool_pvar_category, 0, NULL), num_pvars);
    ampi_tool_put_int(0, num_categories);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_category_get_index);
int PMPI_T_category_get_index(const char *name, int *cat_index)
{
    int error = ampi_tool_check();

    if (error || !name || !cat_index)
        return error ? error : MPI_T_ERR_INVALID;
    for (int i = 0; i < AMPI_TOOL_CATEGORY_COUNT; i++) {
        if (strcmp(categories[i].name, name) == 0) {
            *cat_index = i;
            return MPI_SUCCESS;
        }
    }
    return MPI_T_ERR_INVALID_NAME;
}

AMPI_EXPORT(T_category_get_cvars);
int PMPI_T_category_get_cvars(int cat_index, int len, int indices[])
{
    return get_list(cat_index, ampi_tool_cvar_count, ampi_tool_cvar_category, len, indices);
}

AMPI_EXPORT(T_category_get_pvars);
int PMPI_T_category_get_pvars(int cat_index, int len, int indices[])
{
    return get_list(cat_index, ampi_tool_pvar_count, ampi_tool_pvar_category, len, indices);
}

AMPI_EXPORT(T_category_get_events);
int PMPI_T_category_get_events(int cat_index, int len, int indices[])
{
    return get_list(cat_index, ampi_tool_event_count, ampi_tool_event_category, len, indices);
}

AMPI_EXPORT(T_category_get_categories);
int PMPI_T_category_get_categories(int cat_index, int len, int indices[])
{
    return get_list(cat_index, NULL, NULL, len, indices);
}

AMPI_EXPORT(T_category_get_num_events);
int PMPI_T_category_get_num_events(int cat_index, int *num_events)
{
    int error = get_list(cat_index, NULL, NULL, 0, NULL);

    if (error || !num_events)
        return error ? error : MPI_T_ERR_INVALID;
    *num_events = list(cat_index, ampi_tool_event_count, ampi_tool_event_category, 0, NULL);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_category_changed);
int PMPI_T_category_changed(int *update_number)
{
    int error = ampi_tool_check();

    if (error || !update_number)
        return error ? error : MPI_T_ERR_INVALID;
    *update_number = 0;
    return MPI_SUCCESS;
}
