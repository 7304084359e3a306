/* SPDX-License-Identifier: BSD-3-Clause */
/* Hundreds of attributes on communicators and datatypes, set, changed, deleted, copied and freed in random order, with keys
 * that are freed while attributes use them and callbacks that change the list, are those of a model: an array per object.
 *
 * usage: comm_attr_random [seed [steps [keys]]]
 */
#include "mtest.h"

#include <stdbool.h>

enum { N_OBJECTS = 4, MOST_KEYS = 2000 };

/* Objects 0 and 1 are communicators, 2 and 3 datatypes. Keys 0, 2, 4, ... are for communicators. */
static MPI_Comm comms[2];
static MPI_Datatype types[2];
static int keys[MOST_KEYS], n_keys;
static bool is_freed[MOST_KEYS];          /* by the program */
static long values[N_OBJECTS][MOST_KEYS]; /* 0: no attribute */
static long n_uses[MOST_KEYS], n_deleted, n_expected;
static int current = -1; /* the object whose attributes are deleted by a call */
static int also = -1;    /* a key whose attribute the next delete callback deletes, too */
static int source, n_copies;
static uint64_t state;

static int next(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static bool is_comm(int object)
{
    return object < 2;
}

static int set_attr(int object, int key, long value)
{
    return is_comm(object) ? MPI_Comm_set_attr(comms[object], keys[key], (void *)value)
                           : MPI_Type_set_attr(types[object - 2], keys[key], (void *)value);
}

static int delete_attr(int object, int key)
{
    return is_comm(object) ? MPI_Comm_delete_attr(comms[object], keys[key])
                           : MPI_Type_delete_attr(types[object - 2], keys[key]);
}

static int get_attr(int object, int key, void *value, int *flag)
{
    return is_comm(object) ? MPI_Comm_get_attr(comms[object], keys[key], value, flag)
                           : MPI_Type_get_attr(types[object - 2], keys[key], value, flag);
}

/* The model of a deletion. */
static void forget(int object, int key)
{
    if (!values[object][key])
        return;
    values[object][key] = 0;
    n_uses[key]--;
    n_expected++;
}

static int delete_any(long value)
{
    int other = also;

    n_deleted++;
    also = -1;
    if (other >= 0 && value != values[current][other] && values[current][other]) {
        forget(current, other);
        MTEST_OK(delete_attr(current, other));
    }
    return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    return delete_any((long)value);
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    return delete_any((long)value);
}

static bool is_copied(int key)
{
    return key % 3 > 0;
}

static void set(int object, int key)
{
    long value = 1 + next(1 << 30);

    current = object;
    if (is_freed[key])
        return;
    forget(object, key);
    values[object][key] = value;
    n_uses[key]++;
    MTEST_OK(set_attr(object, key, value));
}

/* Copies an attribute as the negative value, and sometimes sets this or another one of the old object again. */
static int copy_any(const int *key_of, long in, void *out, int *flag)
{
    int key = (int)(key_of - keys), other = next(4) ? (key + 2 * next(n_keys / 2)) % n_keys : key;

    n_copies++;
    MTEST_CHECK(in == values[source][key], "key %d: %ld is copied, expected %ld", key, in,
                values[source][key]);
    *flag = is_copied(key);
    *(void **)out = (void *)-in;
    if (*flag) {
        values[source ^ 1][key] = -in;
        n_uses[key]++;
    }
    if (next(3) == 0 && values[source][other])
        set(source, other);
    return MPI_SUCCESS;
}

static int copy_comm(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key;
    return copy_any(extra, (long)in, out, flag);
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type, (void)key;
    return copy_any(extra, (long)in, out, flag);
}

static void create_key(int key)
{
    if (key % 2 == 0)
        MTEST_OK(MPI_Comm_create_keyval(copy_comm, delete_comm, &keys[key], &keys[key]));
    else
        MTEST_OK(MPI_Type_create_keyval(copy_type, delete_type, &keys[key], &keys[key]));
    is_freed[key] = false;
}

/* The key's number stays known, because its attributes can be read and deleted. */
static void free_key(int key)
{
    int number = keys[key];

    MTEST_OK(key % 2 == 0 ? MPI_Comm_free_keyval(&number) : MPI_Type_free_keyval(&number));
    MTEST_CHECK(number == MPI_KEYVAL_INVALID, "the freed key is %d", number);
    is_freed[key] = true;
}

/* Replaces the object with a duplicate of the other one of its kind. */
static void replace(int object)
{
    int other = object ^ 1, n_attrs = 0;

    current = object;
    for (int key = 0; key < n_keys; key++) {
        forget(object, key);
        n_attrs += values[other][key] != 0;
    }
    source = other;
    n_copies = 0;
    if (is_comm(object)) {
        MTEST_OK(MPI_Comm_free(&comms[object]));
        MTEST_OK(MPI_Comm_dup(comms[other], &comms[object]));
    } else {
        MTEST_OK(MPI_Type_free(&types[object - 2]));
        MTEST_OK(MPI_Type_dup(types[other - 2], &types[object - 2]));
    }
    MTEST_CHECK(n_copies == n_attrs, "%d attributes have been copied, expected %d", n_copies, n_attrs);
}

static void check(int object, int key)
{
    long value = 0;
    int flag;

    if (is_freed[key] && n_uses[key] == 0) /* nobody knows the key */
        return;
    MTEST_OK(get_attr(object, key, &value, &flag));
    MTEST_CHECK(flag ? value == values[object][key] : !values[object][key],
                "object %d, key %d: %ld, expected %ld", object, key, flag ? value : 0, values[object][key]);
}

static void delete (int object, int key)
{
    if (!values[object][key])
        return;
    current = object;
    if (next(4) == 0)
        also = (key + 2 * next(n_keys / 2)) % n_keys;
    if (also == key)
        also = -1;
    forget(object, key);
    MTEST_OK(delete_attr(object, key));
    also = -1;
}

static void step(void)
{
    int object = next(N_OBJECTS), key = next(n_keys / 2) * 2 + !is_comm(object), what = next(1000);

    if (what < 600) {
        set(object, key);
    } else if (what < 900) {
        delete (object, key);
    } else if (what < 950 && !is_freed[key]) {
        free_key(key);
    } else if (what < 995 && is_freed[key] && n_uses[key] == 0) {
        create_key(key);
    } else if (what >= 997) {
        replace(object);
    }
    check(object, key);
    MTEST_CHECK(n_deleted == n_expected, "%ld attributes have been deleted, expected %ld", n_deleted,
                n_expected);
}

int main(int argc, char **argv)
{
    int steps;

    mtest_init(&argc, &argv, 1);
    state = (argc > 1 ? (uint64_t)atol(argv[1]) : 1) * 1000 + (uint64_t)mtest_rank;
    steps = argc > 2 ? atoi(argv[2]) : 20000;
    n_keys = argc > 3 ? atoi(argv[3]) : 200;
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &comms[i]));
        MTEST_OK(MPI_Type_contiguous(3, MPI_INT, &types[i]));
    }
    for (int key = 0; key < n_keys; key++)
        create_key(key);
    for (int i = 0; i < steps; i++) {
        step();
        for (int k = 0; i % 500 == 0 && k < N_OBJECTS * n_keys; k++)
            if ((k % n_keys) % 2 == !is_comm(k / n_keys))
                check(k / n_keys, k % n_keys);
    }
    for (int object = 0; object < N_OBJECTS; object++) {
        current = object;
        for (int key = 0; key < n_keys; key++)
            forget(object, key);
        MTEST_OK(is_comm(object) ? MPI_Comm_free(&comms[object]) : MPI_Type_free(&types[object - 2]));
        MTEST_CHECK(n_deleted == n_expected, "%ld attributes have been deleted, expected %ld", n_deleted,
                    n_expected);
    }
    return mtest_end();
}
