/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attr.c: attribute keys, and the lists of attributes (MPI 5.0, section 7.7).
 *
 * Invariants:
 *   1. keyval->n_uses is the number of attributes with that key, plus one until the program frees it; it is
 *      destroyed at 0.
 *   2. An attribute is in its list while its delete callback runs, and leaves it only if that returns
 *      MPI_SUCCESS.
 *   3. Callbacks may change the list that is being walked: only keys are remembered across a callback.
 *   4. Entries of a list are in the order of setting. A removed attribute leaves a gap, which goes when the list is full:
 *      then all entries move and the index is made again. So the index never has more entries than the list. A place
 *      in the index that leads to a gap is used again: a key that is set many times has one.
 *
 * Called by attr_api.c and, through ampi_*_copy_attrs and ampi_*_delete_attrs, by functions that duplicate
 * and free objects.
 */
#include "ampi/object/attr.h"

#include <stdarg.h>
#include <stdio.h>

#include "ampi/object/error.h"
#include "ampi/object/error_class.h"
#include "ampi/object/rank.h"
#include "base/log.h"

struct keyval {
    enum ampi_attr_on kind;
    int number;    /* the program's number for it */
    bool is_freed; /* by the program */
    int n_uses;    /* invariant 1 */
    union ampi_attr_copy_fn copy;
    union ampi_attr_delete_fn delete;
    void *extra_state;
};

/* A rank's keys. */
struct ampi_keyvals {
    struct keyval **keyvals; /* by number - FIRST_KEYVAL; NULL: free */
    int n_keyvals;           /* entries, including free ones */
    int n_used;              /* entries that are not free: at most half */
    int next;                /* start of the search for a free one, so that numbers are reused late */
    struct ampi_attrs **of_predefined; /* attributes of predefined datatypes; NULL: none yet */
    size_t n_predefined;               /* entries of it */
    struct shared *shared;             /* attributes of other objects that all ranks share */
};

struct shared {
    struct shared *next;
    const void *object;
    struct ampi_attrs *attrs;
};

/* The ABI's own keys have smaller numbers. */
#define FIRST_KEYVAL 10000

struct attr {
    struct keyval *keyval; /* NULL: a gap */
    void *value;
};

/* Up to this capacity a list is searched without an index. */
#define SMALL_CAPACITY 8

struct ampi_attrs {
    int n_attrs;        /* without gaps */
    int n_used;         /* entries, with gaps */
    int end;            /* no attribute is here or behind: moved down by find_last */
    int capacity;       /* entries there is room for, a power of two */
    struct attr *attrs; /* invariant 4 */
    int *index; /* 2 * capacity: 1 + the position of an entry, or 0; NULL: a small list. An entry is at the
                         * first free place from its key's number on */
};

static const char *const keyval_kinds[] = {"communicators", "datatypes", "windows"};

/* ---- Keys ---- */

static struct ampi_keyvals *keyvals_of(struct ampi_rank *self)
{
    if (!self->keyvals)
        self->keyvals = base_calloc(1, sizeof *self->keyvals, "attribute keys");
    return self->keyvals;
}

/* The key with this number; NULL: none of this kind. A freed key is found while attributes use it, which
 * may still be read and deleted. */
static struct keyval *find_keyval(enum ampi_attr_on kind, int number)
{
    const struct ampi_keyvals *table = ampi_self()->keyvals;
    int index = number - FIRST_KEYVAL;
    struct keyval *keyval;

    if (!table || number < FIRST_KEYVAL || index >= table->n_keyvals)
        return NULL;
    keyval = table->keyvals[index];
    return keyval && keyval->kind == kind ? keyval : NULL;
}

static void drop_use(struct keyval *keyval)
{
    if (--keyval->n_uses > 0)
        return;
    ampi_self()->keyvals->keyvals[keyval->number - FIRST_KEYVAL] = NULL;
    ampi_self()->keyvals->n_used--;
    free(keyval);
}

/* The index of a free entry. */
static int find_free(struct ampi_keyvals *table)
{
    if (2 * table->n_used >= table->n_keyvals) {
        int n_now = table->n_keyvals ? 2 * table->n_keyvals : 16;
        table->keyvals =
            base_realloc(table->keyvals, (size_t)n_now * sizeof *table->keyvals, "attribute keys");
        for (int i = table->n_keyvals; i < n_now; i++)
            table->keyvals[i] = NULL;
        table->next = table->n_keyvals;
        table->n_keyvals = n_now;
    }
    while (table->keyvals[table->next])
        table->next = (table->next + 1) % table->n_keyvals;
    return table->next;
}

int ampi_keyval_create(enum ampi_attr_on kind, union ampi_attr_copy_fn copy, union ampi_attr_delete_fn delete,
                       void *extra_state, int *keyval_out)
{
    struct ampi_keyvals *table = keyvals_of(ampi_self());
    struct keyval *keyval;
    int index;

    if (!keyval_out)
        return ampi_raise_self(MPI_ERR_ARG, "the keyval argument is NULL");
    keyval = base_calloc(1, sizeof *keyval, "an attribute key");
    index = find_free(table);
    keyval->kind = kind;
    keyval->number = FIRST_KEYVAL + index;
    keyval->n_uses = 1;
    keyval->copy = copy;
    keyval->delete = delete;
    keyval->extra_state = extra_state;
    table->keyvals[index] = keyval;
    table->n_used++;
    table->next = (index + 1) % table->n_keyvals;
    *keyval_out = keyval->number;
    return MPI_SUCCESS;
}

int ampi_keyval_free(enum ampi_attr_on kind, int *number)
{
    struct keyval *keyval;

    if (!number)
        return ampi_raise_self(MPI_ERR_ARG, "the keyval argument is NULL");
    keyval = find_keyval(kind, *number);
    if (!keyval)
        return ampi_raise_self(MPI_ERR_KEYVAL, "%d is not an attribute key for %s that can be freed", *number,
                               keyval_kinds[kind]);
    *number = MPI_KEYVAL_INVALID;
    if (keyval->is_freed)
        return MPI_SUCCESS; /* attributes keep it; programs free copies of the key, as MPICH allows */
    keyval->is_freed = true;
    drop_use(keyval);
    return MPI_SUCCESS;
}

/* ---- Callbacks ---- */

static int call_copy(const struct ampi_attr_owner *from, const struct attr *attr, void **value_out,
                     int *flag_out)
{
    const struct keyval *keyval = attr->keyval;
    MPI_Comm_copy_attr_function *fn = keyval->copy.comm; /* for comparison only */

    *flag_out = 0;
    if (fn == MPI_COMM_NULL_COPY_FN)
        return MPI_SUCCESS;
    if (fn == MPI_COMM_DUP_FN) {
        *value_out = attr->value;
        *flag_out = 1;
        return MPI_SUCCESS;
    }
    switch (from->kind) {
    case AMPI_ATTR_ON_COMM:
        return keyval->copy.comm(from->handle, keyval->number, keyval->extra_state, attr->value, value_out,
                                 flag_out);
    case AMPI_ATTR_ON_TYPE:
        return keyval->copy.type(from->handle, keyval->number, keyval->extra_state, attr->value, value_out,
                                 flag_out);
    case AMPI_ATTR_ON_WIN:
        return keyval->copy.win(from->handle, keyval->number, keyval->extra_state, attr->value, value_out,
                                flag_out);
    }
    return MPI_ERR_INTERN;
}

static int call_delete(const struct ampi_attr_owner *owner, const struct attr *attr)
{
    const struct keyval *keyval = attr->keyval;

    if (keyval->delete.comm == MPI_COMM_NULL_DELETE_FN)
        return MPI_SUCCESS;
    switch (owner->kind) {
    case AMPI_ATTR_ON_COMM:
        return keyval->delete.comm(owner->handle, keyval->number, attr->value, keyval->extra_state);
    case AMPI_ATTR_ON_TYPE:
        return keyval->delete.type(owner->handle, keyval->number, attr->value, keyval->extra_state);
    case AMPI_ATTR_ON_WIN:
        return keyval->delete.win(owner->handle, keyval->number, attr->value, keyval->extra_state);
    }
    return MPI_ERR_INTERN;
}

/* The error of a call whose callback returned this value: the value itself if it is an error code, else
 * MPI_ERR_OTHER. */
static int error_of_callback(int returned)
{
    return ampi_error_is_predefined(returned) || ampi_error_user_string(returned) ? returned : MPI_ERR_OTHER;
}

/* Calls the error handler of the object. */
BASE_PRINTF(3, 4) static int raise(const struct ampi_attr_owner *owner, int error, const char *fmt, ...)
{
    void *handle = owner->handle;
    char text[256];
    va_list args;
    int returned;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    returned = owner->errhandler ? ampi_raise_on(*owner->errhandler, &handle, error, "%s", text)
               : owner->comm     ? ampi_raise(owner->comm, error, "%s", text)
                                 : ampi_raise_self(error, "%s", text);
    return returned ? returned : error; /* a user's handler may have changed the code */
}

/* Raises a callback's error. */
static int raise_callback(const struct ampi_attr_owner *owner, const char *which, int returned)
{
    return raise(owner, error_of_callback(returned), "the %s callback of an attribute returned %d", which,
                 returned);
}

static int raise_keyval(const struct ampi_attr_owner *owner, int number)
{
    return raise(owner, MPI_ERR_KEYVAL, "%d is not an attribute key for %s that can be used here", number,
                 keyval_kinds[owner->kind]);
}

/* ---- Lists ---- */

/* The position of the attribute with this key; -1: there is none. */
static int find_attr(const struct ampi_attrs *attrs, const struct keyval *keyval)
{
    int mask, place;

    if (!attrs)
        return -1;
    if (!attrs->index) {
        for (int i = 0; i < attrs->end; i++)
            if (attrs->attrs[i].keyval == keyval)
                return i;
        return -1;
    }
    mask = 2 * attrs->capacity - 1;
    for (place = keyval->number & mask; attrs->index[place]; place = (place + 1) & mask)
        if (attrs->attrs[attrs->index[place] - 1].keyval == keyval)
            return attrs->index[place] - 1;
    return -1;
}

/* The position of the last attribute of a list that is not empty. */
static int find_last(struct ampi_attrs *attrs)
{
    while (!attrs->attrs[attrs->end - 1].keyval)
        attrs->end--;
    return attrs->end - 1;
}

static void add_to_index(struct ampi_attrs *attrs, int position)
{
    int mask = 2 * attrs->capacity - 1, place = attrs->attrs[position].keyval->number & mask;

    while (attrs->index[place] && attrs->attrs[attrs->index[place] - 1].keyval)
        place = (place + 1) & mask;
    attrs->index[place] = position + 1;
}

/* Closes the gaps; doubles the capacity if these are not half of the entries. */
static void make_room(struct ampi_attrs *attrs)
{
    int n = 0;

    for (int i = 0; i < attrs->end; i++)
        if (attrs->attrs[i].keyval)
            attrs->attrs[n++] = attrs->attrs[i];
    attrs->n_used = attrs->end = n;
    if (2 * n >= attrs->capacity) {
        attrs->capacity = attrs->capacity ? 2 * attrs->capacity : 4;
        attrs->attrs =
            base_realloc(attrs->attrs, (size_t)attrs->capacity * sizeof *attrs->attrs, "attributes");
    }
    if (attrs->capacity <= SMALL_CAPACITY)
        return;
    free(attrs->index);
    attrs->index = base_calloc(2 * (size_t)attrs->capacity, sizeof *attrs->index, "attributes");
    for (int i = 0; i < n; i++)
        add_to_index(attrs, i);
}

static void append(struct ampi_attrs **list, struct keyval *keyval, void *value)
{
    struct ampi_attrs *attrs = *list;

    if (!attrs)
        attrs = *list = base_calloc(1, sizeof *attrs, "attributes");
    if (attrs->n_used == attrs->capacity)
        make_room(attrs);
    attrs->attrs[attrs->n_used] = (struct attr){keyval, value};
    if (attrs->index)
        add_to_index(attrs, attrs->n_used);
    attrs->end = ++attrs->n_used;
    attrs->n_attrs++;
    keyval->n_uses++;
}

static void free_attrs(struct ampi_attrs *attrs)
{
    free(attrs->index);
    free(attrs->attrs);
    free(attrs);
}

/* Removes the attribute with this key from the list; frees an empty list. */
static void take_out(struct ampi_attrs **list, struct keyval *keyval)
{
    struct ampi_attrs *attrs = *list;
    int position = find_attr(attrs, keyval);

    if (position < 0)
        return; /* the callback removed it */
    attrs->attrs[position].keyval = NULL;
    drop_use(keyval);
    if (--attrs->n_attrs == 0) {
        free_attrs(attrs);
        *list = NULL;
    }
}

static int delete_at(const struct ampi_attr_owner *owner, int index)
{
    struct attr attr = (*owner->attrs)->attrs[index];
    int returned;

    attr.keyval->n_uses++; /* the callback may free the key */
    returned = call_delete(owner, &attr);
    if (returned == MPI_SUCCESS)
        take_out(owner->attrs, attr.keyval);
    drop_use(attr.keyval);
    return returned == MPI_SUCCESS ? MPI_SUCCESS : raise_callback(owner, "delete", returned);
}

int ampi_attr_set(const struct ampi_attr_owner *owner, int number, void *value)
{
    struct keyval *keyval = find_keyval(owner->kind, number);
    int index;
    int error = MPI_SUCCESS;

    if (!keyval || keyval->is_freed)
        return raise_keyval(owner, number);
    keyval->n_uses++; /* the callback may free the key */
    index = find_attr(*owner->attrs, keyval);
    if (index >= 0) /* a new value first deletes the old one */
        error = delete_at(owner, index);
    if (!error)
        append(owner->attrs, keyval, value);
    drop_use(keyval);
    return error;
}

int ampi_attr_get(const struct ampi_attr_owner *owner, int number, void *value_out, int *flag_out)
{
    const struct keyval *keyval = find_keyval(owner->kind, number);
    int index;

    if (!keyval)
        return raise_keyval(owner, number);
    index = find_attr(*owner->attrs, keyval);
    *flag_out = index >= 0;
    if (index >= 0)
        *(void **)value_out = (*owner->attrs)->attrs[index].value;
    return MPI_SUCCESS;
}

int ampi_attr_delete(const struct ampi_attr_owner *owner, int number)
{
    struct keyval *keyval = find_keyval(owner->kind, number);
    int index = keyval ? find_attr(*owner->attrs, keyval) : -1;

    if (index < 0)
        return raise_keyval(owner, number);
    return delete_at(owner, index);
}

/* Copies an attribute, if it is still there and the copy callback sets the flag; returns the callback's result. */
static int copy_one(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to,
                    struct keyval *keyval)
{
    int position = find_attr(*from->attrs, keyval), flag, returned;
    struct attr attr;
    void *value = NULL;

    if (position < 0)
        return MPI_SUCCESS;
    attr = (*from->attrs)->attrs[position];
    returned = call_copy(from, &attr, &value, &flag);
    if (returned == MPI_SUCCESS && flag)
        append(to->attrs, keyval, value);
    return returned;
}

/* Copies attributes up to the first one that fails; returns that callback's result. Callbacks may set them again, which
 * moves them to the end: so the keys are listed first, and each attribute is copied once. */
static int copy_all(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to)
{
    const struct ampi_attrs *attrs = *from->attrs;
    struct keyval **keyvals;
    int n = 0, returned = MPI_SUCCESS;

    if (!attrs)
        return MPI_SUCCESS;
    keyvals = base_malloc((size_t)attrs->n_attrs * sizeof *keyvals, "attributes");
    for (int i = 0; i < attrs->end; i++)
        if (attrs->attrs[i].keyval) {
            keyvals[n] = attrs->attrs[i].keyval;
            keyvals[n++]->n_uses++; /* a callback may free the key */
        }
    for (int i = 0; i < n; i++) {
        if (returned == MPI_SUCCESS)
            returned = copy_one(from, to, keyvals[i]);
        drop_use(keyvals[i]);
    }
    free(keyvals);
    return returned;
}

int ampi_attr_copy_quietly(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to)
{
    int returned = copy_all(from, to);

    return returned == MPI_SUCCESS ? MPI_SUCCESS : error_of_callback(returned);
}

int ampi_attr_copy_all(const struct ampi_attr_owner *from, const struct ampi_attr_owner *to)
{
    int returned = copy_all(from, to);

    if (returned == MPI_SUCCESS)
        return MPI_SUCCESS;
    returned = raise_callback(from, "copy", returned);
    ampi_attr_delete_all(to);
    return returned;
}

int ampi_attr_delete_all(const struct ampi_attr_owner *owner)
{
    while (*owner->attrs) {
        int error = delete_at(owner, find_last(*owner->attrs));
        if (error)
            return error;
    }
    return MPI_SUCCESS;
}

struct ampi_attrs **ampi_attr_of_predefined(struct ampi_rank *self, size_t index, size_t n_objects)
{
    struct ampi_keyvals *table = keyvals_of(self);

    if (!table->of_predefined) {
        table->of_predefined =
            base_calloc(n_objects, sizeof *table->of_predefined, "attributes of predefined objects");
        table->n_predefined = n_objects;
    }
    return &table->of_predefined[index];
}

struct ampi_attrs **ampi_attr_of_shared(struct ampi_rank *self, const void *object)
{
    struct ampi_keyvals *table = keyvals_of(self);
    struct shared *shared = table->shared;

    while (shared && shared->object != object)
        shared = shared->next;
    if (!shared) {
        shared = base_calloc(1, sizeof *shared, "attributes of predefined objects");
        shared->object = object;
        shared->next = table->shared;
        table->shared = shared;
    }
    return &shared->attrs;
}

void ampi_attr_fini(struct ampi_rank *rank)
{
    struct ampi_keyvals *table = rank->keyvals;
    struct shared *shared;

    if (!table)
        return;
    for (size_t i = 0; i < table->n_predefined; i++) {
        if (table->of_predefined[i])
            free_attrs(table->of_predefined[i]);
    }
    while ((shared = table->shared)) {
        table->shared = shared->next;
        if (shared->attrs)
            free_attrs(shared->attrs);
        free(shared);
    }
    for (int i = 0; i < table->n_keyvals; i++)
        free(table->keyvals[i]);
    free(table->of_predefined);
    free(table->keyvals);
    free(table);
    rank->keyvals = NULL;
}
