/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attr.h: caching attributes on communicators, windows and datatypes (MPI 5.0, section 7.7).
 *
 * Each rank has its own keys. An object has a list of (key, value) in the order of setting; they are
 * deleted in reverse order. A freed key exists until no attribute uses it.
 */
#ifndef AMPI_ATTR_H
#define AMPI_ATTR_H

#include "ampi/object/handle.h"

struct ampi_attrs;
struct ampi_comm;
struct ampi_errhandler;
struct ampi_rank;

enum ampi_attr_on { AMPI_ATTR_ON_COMM, AMPI_ATTR_ON_TYPE, AMPI_ATTR_ON_WIN };

/* An object with attributes, as an argument of the functions below. */
struct ampi_attr_owner {
    enum ampi_attr_on kind;
    void *handle;              /* passed to the callbacks: MPI_Comm, MPI_Datatype or MPI_Win */
    struct ampi_attrs **attrs; /* the object's list */
    struct ampi_comm *comm;    /* COMM: its error handler is called; NULL, and TYPE: like ampi_raise_self */
    struct ampi_errhandler **errhandler; /* WIN: the window's, which is called */
};

/* All of these raise the errors that they return, including callbacks', and may switch: callbacks are the
 * program's code. */

int ampi_attr_set(const struct ampi_attr_owner *owner, int keyval, void *value);
int ampi_attr_get(const struct ampi_attr_owner *owner, int keyval, void *value_out, int *flag_out);
int ampi_attr_delete(const struct ampi_attr_owner *owner, int keyval);

/* Copies the attributes whose copy callbacks set the flag. After an error `to` has no attributes. */
int ampi_attr_copy_all(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to);

/* The same without raising: returns the error code of the failed callback, and keeps earlier copies. */
int ampi_attr_copy_quietly(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to);

/* Deletes all, the last set first. After an error the remaining ones stay. */
int ampi_attr_delete_all(const struct ampi_attr_owner *owner);

/* Frees the rank's keys, and the attributes of predefined datatypes without calling callbacks; at its end. */
void ampi_attr_fini(struct ampi_rank *rank);

/* ---- Keys; used by attr_api.c ---- */

/* The callbacks of a key, by kind of object. NULL and (fn *)1 are the constants MPI_*_NULL_COPY_FN and
 * MPI_*_DUP_FN. */
union ampi_attr_copy_fn {
    MPI_Comm_copy_attr_function *comm;
    MPI_Type_copy_attr_function *type;
    MPI_Win_copy_attr_function *win;
};
union ampi_attr_delete_fn {
    MPI_Comm_delete_attr_function *comm;
    MPI_Type_delete_attr_function *type;
    MPI_Win_delete_attr_function *win;
};
int ampi_keyval_create(enum ampi_attr_on kind, union ampi_attr_copy_fn copy, union ampi_attr_delete_fn delete,
                       void *extra_state, int *keyval_out);
int ampi_keyval_free(enum ampi_attr_on kind, int *keyval);

/* The rank's attributes of a predefined object, which all ranks share: by its index among n_objects, which
 * must be the same at each call. */
struct ampi_attrs **ampi_attr_of_predefined(struct ampi_rank *self, size_t index, size_t n_objects);

/* The same of another object that is never freed. */
struct ampi_attrs **ampi_attr_of_shared(struct ampi_rank *self, const void *object);

#endif
