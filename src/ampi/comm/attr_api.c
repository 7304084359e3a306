/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attr_api.c: the MPI functions on attributes (MPI 5.0, section 7.7), the deprecated ones included, and the
 * predefined attributes of communicators (section 9.1.2). Those for windows are in rma/.
 */
#include <limits.h>

#include "ampi/object/attr.h"
#include "ampi/comm/comm.h"
#include "ampi/object/error.h"
#include "ampi/object/error_class.h"
#include "ampi/object/rank.h"
#include "ampi/datatype/type.h"
#include "ampi/procs/procs.h"

/* ---- Predefined attributes. The program gets pointers to these; one value holds for all ranks. ---- */

static const int tag_ub = INT_MAX;
static const int io = MPI_ANY_SOURCE; /* every rank can do input and output */
static const int host = MPI_PROC_NULL;
static const int wtime_is_global = 1; /* ranks of one node read the same clock */

/* Not all launchers say it. */
static const int *app_num_of(struct ampi_rank *self)
{
    bool is_of_start = self->spawned == ampi_job.spawned;
    int found = is_of_start && ampi_machine && ampi_machine->app_num ? ampi_machine->app_num() : -1;

    if (found >= 0)
        self->app_num = found;
    return &self->app_num;
}

/* The address of a predefined attribute's value; NULL: the key has none. */
static const int *predefined_value(struct ampi_rank *self, int keyval)
{
    switch (keyval) {
    case MPI_TAG_UB:
        return &tag_ub;
    case MPI_IO:
        return &io;
    case MPI_HOST:
        return &host;
    case MPI_WTIME_IS_GLOBAL:
        return &wtime_is_global;
    case MPI_APPNUM:
        return app_num_of(self);
    case MPI_UNIVERSE_SIZE:
        return &ampi_job.universe_size;
    case MPI_LASTUSEDCODE:
        self->last_used_code = ampi_error_last_used(self);
        return &self->last_used_code;
    default:
        return NULL;
    }
}

/* ---- Communicators ---- */

static struct ampi_attr_owner comm_owner(struct ampi_comm *comm)
{
    return (struct ampi_attr_owner){
        .kind = AMPI_ATTR_ON_COMM, .handle = ampi_comm_handle(comm), .attrs = &comm->attrs, .comm = comm};
}

int ampi_comm_copy_attrs(struct ampi_comm *old, struct ampi_comm *dup)
{
    struct ampi_attr_owner from = comm_owner(old);
    struct ampi_attr_owner to = comm_owner(dup);

    return ampi_attr_copy_all(&from, &to);
}

int ampi_comm_copy_attrs_early(struct ampi_comm *old, struct ampi_attrs **copies)
{
    struct ampi_attr_owner from = comm_owner(old);
    struct ampi_attr_owner to = {.kind = AMPI_ATTR_ON_COMM, .handle = MPI_COMM_NULL, .attrs = copies};

    return ampi_attr_copy_quietly(&from, &to);
}

void ampi_comm_drop_attr_copies(struct ampi_attrs **copies)
{
    struct ampi_attr_owner owner = {.kind = AMPI_ATTR_ON_COMM, .handle = MPI_COMM_NULL, .attrs = copies};

    ampi_attr_delete_all(&owner);
}

int ampi_comm_delete_attrs(struct ampi_comm *comm)
{
    struct ampi_attr_owner owner = comm_owner(comm);

    return ampi_attr_delete_all(&owner);
}

static int comm_set(struct ampi_rank *self, MPI_Comm handle, int keyval, void *value)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    return ampi_attr_set(
        &(struct ampi_attr_owner){
            .kind = AMPI_ATTR_ON_COMM, .handle = handle, .attrs = &comm->attrs, .comm = comm},
        keyval, value);
}

static int comm_get(struct ampi_rank *self, MPI_Comm handle, int keyval, void *value, int *flag)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);
    const int *predefined;

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    if (!value || !flag)
        return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL", value ? "flag" : "attribute_val");
    predefined = predefined_value(self, keyval);
    if (predefined) {
        *(const int **)value = predefined;
        *flag = 1;
        return MPI_SUCCESS;
    }
    return ampi_attr_get(
        &(struct ampi_attr_owner){
            .kind = AMPI_ATTR_ON_COMM, .handle = handle, .attrs = &comm->attrs, .comm = comm},
        keyval, value, flag);
}

static int comm_delete(struct ampi_rank *self, MPI_Comm handle, int keyval)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    return ampi_attr_delete(
        &(struct ampi_attr_owner){
            .kind = AMPI_ATTR_ON_COMM, .handle = handle, .attrs = &comm->attrs, .comm = comm},
        keyval);
}

AMPI_EXPORT(Comm_create_keyval);
int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *comm_copy_attr_fn,
                            MPI_Comm_delete_attr_function *comm_delete_attr_fn, int *comm_keyval,
                            void *extra_state)
{
    ampi_enter("MPI_Comm_create_keyval");
    return ampi_keyval_create(AMPI_ATTR_ON_COMM, (union ampi_attr_copy_fn){.comm = comm_copy_attr_fn},
                              (union ampi_attr_delete_fn){.comm = comm_delete_attr_fn}, extra_state,
                              comm_keyval);
}

AMPI_EXPORT(Comm_free_keyval);
int PMPI_Comm_free_keyval(int *comm_keyval)
{
    ampi_enter("MPI_Comm_free_keyval");
    return ampi_keyval_free(AMPI_ATTR_ON_COMM, comm_keyval);
}

AMPI_EXPORT(Comm_set_attr);
int PMPI_Comm_set_attr(MPI_Comm comm, int comm_keyval, void *attribute_val)
{
    return comm_set(ampi_enter("MPI_Comm_set_attr"), comm, comm_keyval, attribute_val);
}

AMPI_EXPORT(Comm_get_attr);
int PMPI_Comm_get_attr(MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag)
{
    return comm_get(ampi_enter("MPI_Comm_get_attr"), comm, comm_keyval, attribute_val, flag);
}

AMPI_EXPORT(Comm_delete_attr);
int PMPI_Comm_delete_attr(MPI_Comm comm, int comm_keyval)
{
    return comm_delete(ampi_enter("MPI_Comm_delete_attr"), comm, comm_keyval);
}

/* ---- The deprecated names (MPI 5.0, section 17.1) ---- */

AMPI_EXPORT(Keyval_create);
int PMPI_Keyval_create(MPI_Copy_function *copy_fn, MPI_Delete_function *delete_fn, int *keyval,
                       void *extra_state)
{
    ampi_enter("MPI_Keyval_create");
    return ampi_keyval_create(AMPI_ATTR_ON_COMM, (union ampi_attr_copy_fn){.comm = copy_fn},
                              (union ampi_attr_delete_fn){.comm = delete_fn}, extra_state, keyval);
}

AMPI_EXPORT(Keyval_free);
int PMPI_Keyval_free(int *keyval)
{
    ampi_enter("MPI_Keyval_free");
    return ampi_keyval_free(AMPI_ATTR_ON_COMM, keyval);
}

AMPI_EXPORT(Attr_put);
int PMPI_Attr_put(MPI_Comm comm, int keyval, void *attribute_val)
{
    return comm_set(ampi_enter("MPI_Attr_put"), comm, keyval, attribute_val);
}

AMPI_EXPORT(Attr_get);
int PMPI_Attr_get(MPI_Comm comm, int keyval, void *attribute_val, int *flag)
{
    return comm_get(ampi_enter("MPI_Attr_get"), comm, keyval, attribute_val, flag);
}

AMPI_EXPORT(Attr_delete);
int PMPI_Attr_delete(MPI_Comm comm, int keyval)
{
    return comm_delete(ampi_enter("MPI_Attr_delete"), comm, keyval);
}

/* ---- Datatypes ---- */

/* Fills *owner in; raises MPI_ERR_TYPE if the handle is not a valid datatype. */
static int type_owner(struct ampi_rank *self, MPI_Datatype handle, struct ampi_attr_owner *owner)
{
    struct ampi_type *type = ampi_type_of(handle);

    if (!type)
        return ampi_raise_self(MPI_ERR_TYPE, "%p is not a valid datatype", (void *)handle);
    *owner = (struct ampi_attr_owner){
        .kind = AMPI_ATTR_ON_TYPE, .handle = handle, .attrs = ampi_attr_of_type(self, type)};
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_create_keyval);
int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *type_copy_attr_fn,
                            MPI_Type_delete_attr_function *type_delete_attr_fn, int *type_keyval,
                            void *extra_state)
{
    ampi_enter("MPI_Type_create_keyval");
    return ampi_keyval_create(AMPI_ATTR_ON_TYPE, (union ampi_attr_copy_fn){.type = type_copy_attr_fn},
                              (union ampi_attr_delete_fn){.type = type_delete_attr_fn}, extra_state,
                              type_keyval);
}

AMPI_EXPORT(Type_free_keyval);
int PMPI_Type_free_keyval(int *type_keyval)
{
    ampi_enter("MPI_Type_free_keyval");
    return ampi_keyval_free(AMPI_ATTR_ON_TYPE, type_keyval);
}

AMPI_EXPORT(Type_set_attr);
int PMPI_Type_set_attr(MPI_Datatype datatype, int type_keyval, void *attribute_val)
{
    struct ampi_attr_owner owner;
    int error = type_owner(ampi_enter("MPI_Type_set_attr"), datatype, &owner);

    return error ? error : ampi_attr_set(&owner, type_keyval, attribute_val);
}

AMPI_EXPORT(Type_get_attr);
int PMPI_Type_get_attr(MPI_Datatype datatype, int type_keyval, void *attribute_val, int *flag)
{
    struct ampi_attr_owner owner;
    int error = type_owner(ampi_enter("MPI_Type_get_attr"), datatype, &owner);

    if (error)
        return error;
    if (!attribute_val || !flag)
        return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", attribute_val ? "flag" : "attribute_val");
    return ampi_attr_get(&owner, type_keyval, attribute_val, flag);
}

AMPI_EXPORT(Type_delete_attr);
int PMPI_Type_delete_attr(MPI_Datatype datatype, int type_keyval)
{
    struct ampi_attr_owner owner;
    int error = type_owner(ampi_enter("MPI_Type_delete_attr"), datatype, &owner);

    return error ? error : ampi_attr_delete(&owner, type_keyval);
}

/* ---- Keys for windows ---- */

AMPI_EXPORT(Win_create_keyval);
int PMPI_Win_create_keyval(MPI_Win_copy_attr_function *win_copy_attr_fn,
                           MPI_Win_delete_attr_function *win_delete_attr_fn, int *win_keyval,
                           void *extra_state)
{
    ampi_enter("MPI_Win_create_keyval");
    return ampi_keyval_create(AMPI_ATTR_ON_WIN, (union ampi_attr_copy_fn){.win = win_copy_attr_fn},
                              (union ampi_attr_delete_fn){.win = win_delete_attr_fn}, extra_state,
                              win_keyval);
}

AMPI_EXPORT(Win_free_keyval);
int PMPI_Win_free_keyval(int *win_keyval)
{
    ampi_enter("MPI_Win_free_keyval");
    return ampi_keyval_free(AMPI_ATTR_ON_WIN, win_keyval);
}
