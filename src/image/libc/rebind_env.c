/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_env.c: an environment per rank.
 *
 * A rank starts with the environment of the process, in an array that it shares with all ranks until it
 * changes its environment. libc->variables has the address of its `environ`, which the program may set to
 * another array. Shared libraries and this library see the environment of the process, which ranks never
 * change: libc's getenv, which takes no lock, never reads an array that a rank has freed.
 *
 * Threads of a rank may call getenv while another one calls setenv: arrays are published complete, and once
 * the rank runs, no array or string is freed. (glibc keeps strings, too.)
 */
#include "image/copy/instantiate.h"
#include "image/copy/precedence.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef char *_Atomic entry;

/* The initial environment of ranks. It may change before the first rank. */
static struct {
    char **array;
    size_t n;         /* entries */
    size_t n_own;     /* the last ones, "NAME=" without a value: each rank has its own value */
    size_t own_bytes; /* total size of these names, with terminators */
} first;

static size_t count_entries(char **array)
{
    size_t n = 0;

    while (array && array[n])
        n++;
    return n;
}

void image_env_open(void)
{
    first.n = count_entries(environ);
    first.array = base_calloc(first.n + 1, sizeof *first.array, "the environment");
    memcpy(first.array, environ, first.n * sizeof *first.array);
    image_precedence_unload(first.array);
    first.n = count_entries(first.array);
}

void image_env_init(struct image_libc *libc)
{
    *(char ***)libc->variables[IMAGE_ENVIRON] = first.array;
}

/* The entry of a name in the initial environment; NULL: none. */
static char **find_first(const char *name)
{
    size_t len = strlen(name);

    for (char **at = first.array; *at; at++)
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
            return at;
    return NULL;
}

bool image_env_has(const char *name)
{
    return find_first(name) != NULL;
}

/* "NAME=VALUE", malloc'ed; NULL: memory is exhausted. */
static char *make_entry(const char *name, const char *value)
{
    size_t len = strlen(name), value_len = strlen(value);
    char *text = malloc(len + value_len + 2);

    if (!text)
        return NULL;
    memcpy(text, name, len);
    text[len] = '=';
    memcpy(text + len + 1, value, value_len + 1);
    return text;
}

/* Adds an entry at the end, in place of an older one of that name. */
static bool add_first(const char *name, const char *value)
{
    char *text = make_entry(name, value), **longer, **old;

    longer = text ? realloc(first.array, (first.n + 2) * sizeof *longer) : NULL;
    if (!longer) {
        free(text);
        return false;
    }
    first.array = longer;
    old = find_first(name);
    if (old)
        memmove(old, old + 1, (size_t)(first.array + first.n-- - old) * sizeof *old);
    first.array[first.n++] = text;
    first.array[first.n] = NULL;
    return true;
}

bool image_env_set_all(const char *name, const char *value)
{
    char **old = find_first(name), *text;

    if (!old) { /* before those with per-rank values */
        BASE_ASSERT(first.n_own == 0);
        return add_first(name, value);
    }
    text = make_entry(name, value);
    if (text)
        *old = text;
    return text != NULL;
}

bool image_env_add_own(const char *name)
{
    if (!add_first(name, ""))
        return false;
    first.n_own++;
    first.own_bytes += strlen(name) + 2;
    return true;
}

/* Copies a text to memory that is large enough; returns the address of its terminator. */
static char *put_text(char *to, const char *text)
{
    size_t len = strlen(text);

    memcpy(to, text, len + 1);
    return to + len;
}

bool image_env_init_own(struct image *image, const char *const *values)
{
    size_t n_shared = first.n - first.n_own, n_bytes = first.own_bytes;
    char **array = malloc((first.n + 1) * sizeof *array), *text, *text_lo;

    for (size_t i = 0; i < first.n_own; i++)
        n_bytes += strlen(values[i]);
    text = text_lo = malloc(n_bytes);
    if (!array || !text) {
        free(array);
        free(text);
        return false;
    }
    memcpy(array, first.array, n_shared * sizeof *array);
    for (size_t i = 0; i < first.n_own; i++) {
        array[n_shared + i] = text;
        text = put_text(text, first.array[n_shared + i]);
        text = put_text(text, values[i]) + 1;
    }
    array[first.n] = NULL;
    image->libc.environ_text = text_lo;
    image->libc.environ_array = array;
    image->libc.environ_room = first.n + 1;
    *(char ***)image->libc.variables[IMAGE_ENVIRON] = array;
    return true;
}

void image_env_move(struct image_libc *libc, char **array, size_t n)
{
    free((void *)libc->environ_array);
    libc->environ_array = array;
    libc->environ_room = n + 1;
    *(char ***)libc->variables[IMAGE_ENVIRON] = array;
}

void image_env_free(struct image *image)
{
    const struct image_libc *libc = &image->libc;

    if (image->argv && libc->environ_array != image->argv + image->argc + 1) /* where image_env_move had it */
        free((void *)(uintptr_t)libc->environ_array);
    free(libc->environ_text);
}

/* The location of the rank's environ. */
static entry *_Atomic *place_of(struct image_libc *libc)
{
    return libc->variables[IMAGE_ENVIRON];
}

char **image_env_of(struct image_libc *libc)
{
    return (char **)atomic_load_explicit(place_of(libc), memory_order_acquire);
}

/* ---- Reading ---- */

/* The entry whose name has len bytes; NULL: none. */
static entry *find(struct image_libc *libc, const char *name, size_t len)
{
    entry *array = atomic_load_explicit(place_of(libc), memory_order_acquire);

    for (; array; array++) {
        const char *text = atomic_load_explicit(array, memory_order_acquire);

        if (!text)
            break;
        if (strncmp(text, name, len) == 0 && text[len] == '=')
            return array;
    }
    return NULL;
}

char *image_env_get(struct image_libc *libc, const char *name)
{
    size_t len = strlen(name);
    entry *found = len ? find(libc, name, len) : NULL;
    char *text = found ? atomic_load_explicit(found, memory_order_acquire) : NULL;

    return text && strncmp(text, name, len) == 0 && text[len] == '=' ? text + len + 1 : NULL;
}

const char *image_env_value(struct image *image, const char *name)
{
    return image_env_get(&image->libc, name);
}

static char *image_libc_getenv(const char *name)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    return libc ? image_env_get(libc, name) : getenv(name);
}
IMAGE_REBINDS(image_libc_getenv, "getenv");

static char *image_libc_secure_getenv(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : image_libc_getenv(name);
}
IMAGE_REBINDS(image_libc_secure_getenv, "secure_getenv");

/* ---- Writing: by one thread of the rank at a time ---- */

/* Appends an entry, in a larger array if necessary. Returns false if memory is exhausted. */
static bool append(struct image_libc *libc, char *text)
{
    entry *array = atomic_load(place_of(libc));
    size_t n = count_entries((char **)array);

    if (array != libc->environ_array || n + 1 >= libc->environ_room) {
        size_t room = 2 * (n + 8);
        entry *larger = calloc(room, sizeof *larger);

        if (!larger)
            return false;
        for (size_t i = 0; i < n; i++)
            atomic_init(&larger[i], atomic_load(&array[i]));
        atomic_init(&larger[n], text);
        libc->environ_array = larger;
        libc->environ_room = room;
        atomic_store_explicit(place_of(libc), larger, memory_order_release);
        return true;
    }
    atomic_store(&array[n + 1], NULL);
    atomic_store_explicit(&array[n], text, memory_order_release);
    return true;
}

enum { ROOM = 8 };

/* Gives the rank its own array. */
static bool own_array(struct image_libc *libc)
{
    entry *array = atomic_load(place_of(libc));
    size_t n = count_entries((char **)array);
    entry *copy;

    if (array && array == libc->environ_array)
        return true;
    copy = calloc(n + ROOM, sizeof *copy);
    if (!copy)
        return false;
    for (size_t i = 0; i < n; i++)
        atomic_init(&copy[i], atomic_load(&array[i]));
    libc->environ_array = copy;
    libc->environ_room = n + ROOM;
    atomic_store_explicit(place_of(libc), copy, memory_order_release);
    return true;
}

/* Stores text, "NAME=VALUE", in place of the entry of that name, or appends it. */
static bool put(struct image_libc *libc, char *text, size_t len)
{
    entry *found;

    if (!own_array(libc))
        return false;
    found = find(libc, text, len);
    if (!found)
        return append(libc, text);
    atomic_store_explicit(found, text, memory_order_release);
    return true;
}

static void remove_all(struct image_libc *libc, const char *name, size_t len)
{
    entry *at;

    while ((at = find(libc, name, len)))
        for (; atomic_load(at); at++)
            atomic_store_explicit(at, atomic_load(at + 1), memory_order_release);
}

static bool is_name(const char *name)
{
    return name && *name && !strchr(name, '=');
}

static int set(struct image_libc *libc, const char *name, const char *value, bool is_replacing)
{
    const char *old = image_env_get(libc, name);
    char *text;

    if (old && (!is_replacing || strcmp(old, value) == 0))
        return 0;
    text = make_entry(name, value);
    if (!text)
        return -1;
    if (put(libc, text, strlen(name)))
        return 0;
    free(text);
    return -1;
}

static int image_libc_setenv(const char *name, const char *value, int is_replacing)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));
    int result;

    if (!libc)
        return setenv(name, value, is_replacing);
    if (!is_name(name)) {
        errno = EINVAL;
        return -1;
    }
    image_libc_lock(libc);
    result = set(libc, name, value, is_replacing);
    image_libc_unlock(libc);
    if (result != 0)
        errno = ENOMEM;
    return result;
}
IMAGE_REBINDS(image_libc_setenv, "setenv");

static int unset(struct image_libc *libc, const char *name)
{
    bool is_done;

    image_libc_lock(libc);
    is_done = !image_env_get(libc, name) || own_array(libc);
    if (is_done)
        remove_all(libc, name, strlen(name));
    image_libc_unlock(libc);
    if (is_done)
        return 0;
    errno = ENOMEM;
    return -1;
}

static int image_libc_unsetenv(const char *name)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    if (!libc)
        return unsetenv(name);
    if (!is_name(name)) {
        errno = EINVAL;
        return -1;
    }
    return unset(libc, name);
}
IMAGE_REBINDS(image_libc_unsetenv, "unsetenv");

/* putenv, for a copy. */
static int put_text_of(struct image_libc *libc, char *assignment)
{
    const char *equals = strchr(assignment, '=');
    bool is_done;

    if (!equals)
        return unset(libc, assignment);
    image_libc_lock(libc);
    is_done = put(libc, assignment, (size_t)(equals - assignment));
    image_libc_unlock(libc);
    if (is_done)
        return 0;
    errno = ENOMEM;
    return -1;
}

static int image_libc_putenv(char *assignment)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    return libc ? put_text_of(libc, assignment) : putenv(assignment);
}
IMAGE_REBINDS(image_libc_putenv, "putenv");

bool image_env_put(struct image *image, char *text)
{
    return put_text_of(&image->libc, text) == 0;
}

static int image_libc_clearenv(void)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    if (!libc)
        return clearenv();
    atomic_store(place_of(libc), NULL);
    return 0;
}
IMAGE_REBINDS(image_libc_clearenv, "clearenv");

IMAGE_REBINDS_VARIABLE(IMAGE_ENVIRON, "environ", "__environ", "_environ");
