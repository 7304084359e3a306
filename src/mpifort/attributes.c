/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attributes.c: attributes of communicators, datatypes and windows, and their callbacks (MPI 5.0, sections
 * 7.7 and 19.3.7).
 *
 * An attribute that Fortran sets is an integer in a box: C gets the box's address. An attribute that C sets
 * is an address, which Fortran gets as an integer. Boxes are found by address, to distinguish them from C's
 * values. Boxes never change and are never freed; each value has one box.
 */
#include "fort.h"

#include <pthread.h>

/* ---- Boxes ---- */

struct box {
    MPI_Aint value;      /* the attribute; first, because C reads it here */
    struct box *next;    /* next in the slot of its value */
    struct box *next_at; /* next in the slot of its address */
};

enum { N_SLOTS = 256 };
static struct box *by_value[N_SLOTS];   /* guarded by lock */
static struct box *by_address[N_SLOTS]; /* guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned slot_of(uint64_t number)
{
    return (unsigned)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Fortran's value in C's form. */
static void *to_box(MPI_Aint value)
{
    struct box **slot = &by_value[slot_of((uint64_t)value)], *box;

    pthread_mutex_lock(&lock);
    for (box = *slot; box && box->value != value; box = box->next)
        ;
    if (!box) {
        struct box **at;
        box = fort_alloc(sizeof *box);
        at = &by_address[slot_of((uintptr_t)box)];
        *box = (struct box){.value = value, .next = *slot, .next_at = *at};
        *slot = *at = box;
    }
    pthread_mutex_unlock(&lock);
    return box;
}

/* C's value in Fortran's form. */
static MPI_Aint from_box(void *attribute)
{
    struct box *box;

    pthread_mutex_lock(&lock);
    for (box = by_address[slot_of((uintptr_t)attribute)]; box && box != attribute; box = box->next_at)
        ;
    pthread_mutex_unlock(&lock);
    return box ? box->value : (MPI_Aint)attribute;
}

/* ---- Predefined attributes: C gets the address of most of them, Fortran the value ---- */

static MPI_Aint comm_value(int keyval, void *attribute)
{
    switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
        return *(int *)attribute;
    default:
        return from_box(attribute);
    }
}

static MPI_Aint win_value(int keyval, void *attribute)
{
    switch (keyval) {
    case MPI_WIN_BASE:
        return (MPI_Aint)attribute;
    case MPI_WIN_SIZE:
        return *(MPI_Aint *)attribute;
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL:
        return *(int *)attribute;
    default:
        return from_box(attribute);
    }
}

/* ---- Set and get ---- */

static void fort_Comm_set_attr(const MPI_Fint *comm, const MPI_Fint *comm_keyval,
                               const MPI_Aint *attribute_val, MPI_Fint *ierror)
{
    fort_return(ierror, MPI_Comm_set_attr(fort_comm(*comm), *comm_keyval, to_box(*attribute_val)));
}
FORT_EXPORT(Comm_set_attr, comm_set_attr, COMM_SET_ATTR);

static void fort_Type_set_attr(const MPI_Fint *datatype, const MPI_Fint *type_keyval,
                               const MPI_Aint *attribute_val, MPI_Fint *ierror)
{
    fort_return(ierror, MPI_Type_set_attr(fort_datatype(*datatype), *type_keyval, to_box(*attribute_val)));
}
FORT_EXPORT(Type_set_attr, type_set_attr, TYPE_SET_ATTR);

static void fort_Win_set_attr(const MPI_Fint *win, const MPI_Fint *win_keyval, const MPI_Aint *attribute_val,
                              MPI_Fint *ierror)
{
    fort_return(ierror, MPI_Win_set_attr(fort_win(*win), *win_keyval, to_box(*attribute_val)));
}
FORT_EXPORT(Win_set_attr, win_set_attr, WIN_SET_ATTR);

static void fort_Attr_put(const MPI_Fint *comm, const MPI_Fint *keyval, const MPI_Fint *attribute_val,
                          MPI_Fint *ierror)
{
    fort_return(ierror, MPI_Attr_put(fort_comm(*comm), *keyval, to_box(*attribute_val)));
}
FORT_EXPORT_F90(Attr_put, attr_put, ATTR_PUT);

static void fort_Comm_get_attr(const MPI_Fint *comm, const MPI_Fint *comm_keyval, MPI_Aint *attribute_val,
                               MPI_Fint *flag, MPI_Fint *ierror)
{
    void *attribute = NULL;
    int is_set = 0, error = MPI_Comm_get_attr(fort_comm(*comm), *comm_keyval, &attribute, &is_set);

    if (error == MPI_SUCCESS && is_set)
        *attribute_val = comm_value(*comm_keyval, attribute);
    *flag = fort_logical(is_set);
    fort_return(ierror, error);
}
FORT_EXPORT(Comm_get_attr, comm_get_attr, COMM_GET_ATTR);

static void fort_Type_get_attr(const MPI_Fint *datatype, const MPI_Fint *type_keyval, MPI_Aint *attribute_val,
                               MPI_Fint *flag, MPI_Fint *ierror)
{
    void *attribute = NULL;
    int is_set = 0, error = MPI_Type_get_attr(fort_datatype(*datatype), *type_keyval, &attribute, &is_set);

    if (error == MPI_SUCCESS && is_set)
        *attribute_val = from_box(attribute);
    *flag = fort_logical(is_set);
    fort_return(ierror, error);
}
FORT_EXPORT(Type_get_attr, type_get_attr, TYPE_GET_ATTR);

static void fort_Win_get_attr(const MPI_Fint *win, const MPI_Fint *win_keyval, MPI_Aint *attribute_val,
                              MPI_Fint *flag, MPI_Fint *ierror)
{
    void *attribute = NULL;
    int is_set = 0, error = MPI_Win_get_attr(fort_win(*win), *win_keyval, &attribute, &is_set);

    if (error == MPI_SUCCESS && is_set)
        *attribute_val = win_value(*win_keyval, attribute);
    *flag = fort_logical(is_set);
    fort_return(ierror, error);
}
FORT_EXPORT(Win_get_attr, win_get_attr, WIN_GET_ATTR);

static void fort_Attr_get(const MPI_Fint *comm, const MPI_Fint *keyval, MPI_Fint *attribute_val,
                          MPI_Fint *flag, MPI_Fint *ierror)
{
    void *attribute = NULL;
    int is_set = 0, error = MPI_Attr_get(fort_comm(*comm), *keyval, &attribute, &is_set);

    if (error == MPI_SUCCESS && is_set)
        *attribute_val = (MPI_Fint)comm_value(*keyval, attribute);
    *flag = fort_logical(is_set);
    fort_return(ierror, error);
}
FORT_EXPORT_F90(Attr_get, attr_get, ATTR_GET);

/* ---- Callbacks of keys ---- */

typedef void copy_procedure(MPI_Fint *object, MPI_Fint *keyval, MPI_Aint *extra_state, MPI_Aint *value_in,
                            MPI_Aint *value_out, MPI_Fint *flag, MPI_Fint *ierror);
typedef void delete_procedure(MPI_Fint *object, MPI_Fint *keyval, MPI_Aint *value, MPI_Aint *extra_state,
                              MPI_Fint *ierror);
/* The same in MPI-1: INTEGER. */
typedef void old_copy_procedure(MPI_Fint *object, MPI_Fint *keyval, MPI_Fint *extra_state, MPI_Fint *value_in,
                                MPI_Fint *value_out, MPI_Fint *flag, MPI_Fint *ierror);
typedef void old_delete_procedure(MPI_Fint *object, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *extra_state,
                                  MPI_Fint *ierror);

/* C's state of a key's callbacks. It lives as long as the program: attributes can outlive their key. */
struct key {
    fort_procedure *copy;   /* Fortran's */
    fort_procedure *delete; /* Fortran's */
    MPI_Aint extra_state;   /* for both */
};

static int copy(MPI_Fint object, int keyval, struct key *key, void *in, void **out, int *flag)
{
    MPI_Aint value_in = from_box(in), value_out = 0;
    MPI_Fint f_keyval = keyval, f_flag = 0, ierror = MPI_SUCCESS;

    ((copy_procedure *)key->copy)(&object, &f_keyval, &key->extra_state, &value_in, &value_out, &f_flag,
                                  &ierror);
    *flag = f_flag != 0;
    if (ierror == MPI_SUCCESS && *flag)
        *out = to_box(value_out);
    return ierror;
}

static int delete (MPI_Fint object, int keyval, void *attribute, struct key *key)
{
    MPI_Aint value = from_box(attribute);
    MPI_Fint f_keyval = keyval, ierror = MPI_SUCCESS;

    ((delete_procedure *)key->delete)(&object, &f_keyval, &value, &key->extra_state, &ierror);
    return ierror;
}

static int comm_copy(MPI_Comm comm, int keyval, void *key, void *in, void *out, int *flag)
{
    return copy(fort_comm_int(comm), keyval, key, in, out, flag);
}
static int comm_delete(MPI_Comm comm, int keyval, void *attribute, void *key)
{
    return delete (fort_comm_int(comm), keyval, attribute, key);
}
static int type_copy(MPI_Datatype datatype, int keyval, void *key, void *in, void *out, int *flag)
{
    return copy(fort_datatype_int(datatype), keyval, key, in, out, flag);
}
static int type_delete(MPI_Datatype datatype, int keyval, void *attribute, void *key)
{
    return delete (fort_datatype_int(datatype), keyval, attribute, key);
}
static int win_copy(MPI_Win win, int keyval, void *key, void *in, void *out, int *flag)
{
    return copy(fort_win_int(win), keyval, key, in, out, flag);
}
static int win_delete(MPI_Win win, int keyval, void *attribute, void *key)
{
    return delete (fort_win_int(win), keyval, attribute, key);
}

static int old_copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    struct key *key = state;
    MPI_Fint object = fort_comm_int(comm), f_keyval = keyval, extra_state = (MPI_Fint)key->extra_state;
    MPI_Fint value_in = (MPI_Fint)from_box(in), value_out = 0, f_flag = 0, ierror = MPI_SUCCESS;

    ((old_copy_procedure *)key->copy)(&object, &f_keyval, &extra_state, &value_in, &value_out, &f_flag,
                                      &ierror);
    *flag = f_flag != 0;
    if (ierror == MPI_SUCCESS && *flag)
        *(void **)out = to_box(value_out);
    return ierror;
}

static int old_delete(MPI_Comm comm, int keyval, void *attribute, void *state)
{
    struct key *key = state;
    MPI_Fint object = fort_comm_int(comm), f_keyval = keyval, extra_state = (MPI_Fint)key->extra_state;
    MPI_Fint value = (MPI_Fint)from_box(attribute), ierror = MPI_SUCCESS;

    ((old_delete_procedure *)key->delete)(&object, &f_keyval, &value, &extra_state, &ierror);
    return ierror;
}

/* ---- Predefined callbacks: procedures that a program may call or pass on ---- */

static void null_copy(const MPI_Fint *object, const MPI_Fint *keyval, const void *extra_state, const void *in,
                      void *out, MPI_Fint *flag, MPI_Fint *ierror)
{
    *flag = 0;
    *ierror = MPI_SUCCESS;
}

static void dup_copy(const MPI_Fint *object, const MPI_Fint *keyval, const void *extra_state,
                     const MPI_Aint *in, MPI_Aint *out, MPI_Fint *flag, MPI_Fint *ierror)
{
    *out = *in;
    *flag = fort_logical(1);
    *ierror = MPI_SUCCESS;
}

static void old_dup_copy(const MPI_Fint *object, const MPI_Fint *keyval, const void *extra_state,
                         const MPI_Fint *in, MPI_Fint *out, MPI_Fint *flag, MPI_Fint *ierror)
{
    *out = *in;
    *flag = fort_logical(1);
    *ierror = MPI_SUCCESS;
}

static void null_delete(const MPI_Fint *object, const MPI_Fint *keyval, const void *value,
                        const void *extra_state, MPI_Fint *ierror)
{
    *ierror = MPI_SUCCESS;
}

#define EXPORT_NULL_FUNCTION(lower, body) \
    FORT_NAME(mpi_##lower##_, body);      \
    FORT_NAME(mpi_##lower##__, body);     \
    FORT_NAME(mpi_##lower, body)
EXPORT_NULL_FUNCTION(null_copy_fn, null_copy);
EXPORT_NULL_FUNCTION(dup_fn, old_dup_copy);
EXPORT_NULL_FUNCTION(null_delete_fn, null_delete);
EXPORT_NULL_FUNCTION(comm_null_copy_fn, null_copy);
EXPORT_NULL_FUNCTION(comm_dup_fn, dup_copy);
EXPORT_NULL_FUNCTION(comm_null_delete_fn, null_delete);
EXPORT_NULL_FUNCTION(type_null_copy_fn, null_copy);
EXPORT_NULL_FUNCTION(type_dup_fn, dup_copy);
EXPORT_NULL_FUNCTION(type_null_delete_fn, null_delete);
EXPORT_NULL_FUNCTION(win_null_copy_fn, null_copy);
EXPORT_NULL_FUNCTION(win_dup_fn, dup_copy);
EXPORT_NULL_FUNCTION(win_null_delete_fn, null_delete);

/* ---- Keys ---- */

static struct key *new_key(fort_procedure *copy_fn, fort_procedure *delete_fn, MPI_Aint extra_state)
{
    struct key *key = fort_alloc(sizeof *key);

    *key = (struct key){.copy = copy_fn, .delete = delete_fn, .extra_state = extra_state};
    return key;
}

static void fort_Comm_create_keyval(fort_procedure *copy_fn, fort_procedure *delete_fn, MPI_Fint *keyval,
                                    const MPI_Aint *extra_state, MPI_Fint *ierror)
{
    struct key *key = new_key(copy_fn, delete_fn, *extra_state);

    fort_return(ierror, MPI_Comm_create_keyval(comm_copy, comm_delete, keyval, key));
}
FORT_EXPORT(Comm_create_keyval, comm_create_keyval, COMM_CREATE_KEYVAL);

static void fort_Type_create_keyval(fort_procedure *copy_fn, fort_procedure *delete_fn, MPI_Fint *keyval,
                                    const MPI_Aint *extra_state, MPI_Fint *ierror)
{
    struct key *key = new_key(copy_fn, delete_fn, *extra_state);

    fort_return(ierror, MPI_Type_create_keyval(type_copy, type_delete, keyval, key));
}
FORT_EXPORT(Type_create_keyval, type_create_keyval, TYPE_CREATE_KEYVAL);

static void fort_Win_create_keyval(fort_procedure *copy_fn, fort_procedure *delete_fn, MPI_Fint *keyval,
                                   const MPI_Aint *extra_state, MPI_Fint *ierror)
{
    struct key *key = new_key(copy_fn, delete_fn, *extra_state);

    fort_return(ierror, MPI_Win_create_keyval(win_copy, win_delete, keyval, key));
}
FORT_EXPORT(Win_create_keyval, win_create_keyval, WIN_CREATE_KEYVAL);

static void fort_Keyval_create(fort_procedure *copy_fn, fort_procedure *delete_fn, MPI_Fint *keyval,
                               const MPI_Fint *extra_state, MPI_Fint *ierror)
{
    struct key *key = new_key(copy_fn, delete_fn, *extra_state);

    fort_return(ierror, MPI_Keyval_create(old_copy, old_delete, keyval, key));
}
FORT_EXPORT_F90(Keyval_create, keyval_create, KEYVAL_CREATE);
