/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_object.c: group, name, attributes and error handler of windows (MPI 5.0, sections 7.7, 7.8, 9.3 and
 * 12.2). Keys are created in comm/attr_api.c.
 */
#include <stdio.h>
#include <string.h>

#include "ampi/object/attr.h"
#include "ampi/object/errhandler.h"
#include "ampi/rma/win.h"

AMPI_EXPORT(Win_get_group);
int PMPI_Win_get_group(MPI_Win win, MPI_Group *group)
{
    struct ampi_win *object;
    struct ampi_group *members;

    ampi_enter("MPI_Win_get_group");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    if (!group)
        return ampi_win_raise(object, MPI_ERR_ARG, "group is NULL");
    members = object->comm->local->layout->group;
    ampi_group_ref(members);
    *group = ampi_group_handle_create(members, NULL);
    return MPI_SUCCESS;
}

/* ---- Names ---- */

AMPI_EXPORT(Win_set_name);
int PMPI_Win_set_name(MPI_Win win, const char *win_name)
{
    struct ampi_win *object;
    char *copy;

    ampi_enter("MPI_Win_set_name");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    if (!win_name)
        return ampi_win_raise(object, MPI_ERR_ARG, "win_name is NULL");
    copy = strndup(win_name, MPI_MAX_OBJECT_NAME - 1);
    if (!copy)
        return ampi_win_raise(object, MPI_ERR_NO_MEM, "out of memory: cannot store the name");
    free(object->name);
    object->name = copy;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_get_name);
int PMPI_Win_get_name(MPI_Win win, char *win_name, int *resultlen)
{
    struct ampi_win *object;
    const char *name = "MPI_WIN_NULL";

    ampi_enter("MPI_Win_get_name");
    object = ampi_win_of(win);
    if (!object && win != MPI_WIN_NULL)
        return ampi_win_raise_invalid(win);
    if (!win_name || !resultlen) {
        const char *which = win_name ? "resultlen" : "win_name";
        return object ? ampi_win_raise(object, MPI_ERR_ARG, "%s is NULL", which)
                      : ampi_raise_self(MPI_ERR_ARG, "%s is NULL", which);
    }
    if (object)
        name = object->name ? object->name : "";
    *resultlen = snprintf(win_name, MPI_MAX_OBJECT_NAME, "%s", name);
    return MPI_SUCCESS;
}

/* ---- Attributes ---- */

/* The value of a predefined attribute; false: the key is not predefined. */
static bool predefined_value(struct ampi_win *win, int keyval, void **value_out)
{
    struct ampi_win_target *own = &win->shared->targets[win->rank];

    switch (keyval) {
    case MPI_WIN_BASE:
        *value_out = own->base;
        return true;
    case MPI_WIN_SIZE:
        *value_out = &own->size_bytes;
        return true;
    case MPI_WIN_DISP_UNIT:
        *value_out = &win->disp_unit;
        return true;
    case MPI_WIN_CREATE_FLAVOR:
        *value_out = &win->shared->flavor;
        return true;
    case MPI_WIN_MODEL:
        *value_out = &win->model;
        return true;
    default:
        return false;
    }
}

struct ampi_attr_owner ampi_win_attr_owner(struct ampi_win *win)
{
    return (struct ampi_attr_owner){
        .kind = AMPI_ATTR_ON_WIN, .handle = win, .attrs = &win->attrs, .errhandler = &win->errhandler};
}

AMPI_EXPORT(Win_set_attr);
int PMPI_Win_set_attr(MPI_Win win, int win_keyval, void *attribute_val)
{
    struct ampi_win *object;
    struct ampi_attr_owner owner;

    ampi_enter("MPI_Win_set_attr");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    owner = ampi_win_attr_owner(object);
    return ampi_attr_set(&owner, win_keyval, attribute_val);
}

AMPI_EXPORT(Win_get_attr);
int PMPI_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag)
{
    struct ampi_win *object;
    struct ampi_attr_owner owner;

    ampi_enter("MPI_Win_get_attr");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    if (!attribute_val || !flag)
        return ampi_win_raise(object, MPI_ERR_ARG, "%s is NULL", attribute_val ? "flag" : "attribute_val");
    if (predefined_value(object, win_keyval, attribute_val)) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    owner = ampi_win_attr_owner(object);
    return ampi_attr_get(&owner, win_keyval, attribute_val, flag);
}

AMPI_EXPORT(Win_delete_attr);
int PMPI_Win_delete_attr(MPI_Win win, int win_keyval)
{
    struct ampi_win *object;
    struct ampi_attr_owner owner;

    ampi_enter("MPI_Win_delete_attr");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    owner = ampi_win_attr_owner(object);
    return ampi_attr_delete(&owner, win_keyval);
}

/* ---- Error handlers ---- */

AMPI_EXPORT(Win_set_errhandler);
int PMPI_Win_set_errhandler(MPI_Win win, MPI_Errhandler errhandler)
{
    struct ampi_win *object;
    const char *misfit;

    ampi_enter("MPI_Win_set_errhandler");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    misfit = ampi_errhandler_misfit(errhandler, AMPI_ERRHANDLER_WIN);
    return misfit ? ampi_win_raise(object, MPI_ERR_ERRHANDLER, "%s", misfit)
                  : ampi_errhandler_set(&object->errhandler, errhandler, AMPI_ERRHANDLER_WIN);
}

AMPI_EXPORT(Win_get_errhandler);
int PMPI_Win_get_errhandler(MPI_Win win, MPI_Errhandler *errhandler)
{
    struct ampi_win *object;

    ampi_enter("MPI_Win_get_errhandler");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    if (!errhandler)
        return ampi_win_raise(object, MPI_ERR_ARG, "errhandler is NULL");
    return ampi_errhandler_get(&object->errhandler, &ampi_errors_are_fatal, errhandler);
}

AMPI_EXPORT(Win_call_errhandler);
int PMPI_Win_call_errhandler(MPI_Win win, int errorcode)
{
    struct ampi_win *object;

    ampi_enter("MPI_Win_call_errhandler");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    ampi_win_raise(object, errorcode, "the program called its error handler with error code %d", errorcode);
    return MPI_SUCCESS;
}
