/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_env.c: an environment per rank.
 *
 * A rank begins with the environment of the process, in an array that all ranks share until they change
 * theirs. Then the rank has its own. Where its `environ` is, is told by libc->variables: the program may set
 * it to an array of its own. Shared libraries and this library see the environment of the process, which
 * ranks leave as it is: libc's getenv, which takes no lock, never meets an array that a rank has freed.
 *
 * Threads of a rank may call getenv while another one calls setenv: an array is published when it is
 * complete, and no array or string is ever freed. (glibc keeps strings, too.)
 */
#include "image/instantiate.h"
#include "image/rebind.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef char *_Atomic entry;

static char **first_environ; /* what every rank begins with */

static size_t count_entries(char **array)
{
    size_t n = 0;

    while (array && array[n])
        n++;
    return n;
}

void image_env_open(void)
{
    size_t n = count_entries(environ);

    first_environ = base_calloc(n + 1, sizeof *first_environ, "the environment");
    memcpy(first_environ, environ, n * sizeof *first_environ);
}

void image_env_init(struct image_libc *libc)
{
    *(char ***)libc->variables[IMAGE_ENVIRON] = first_environ;
}

/* Where the rank's environ is. */
static entry *_Atomic *place_of(struct image_libc *libc)
{
    return libc->variables[IMAGE_ENVIRON];
}

char **image_env_of(struct image_libc *libc)
{
    return (char **)atomic_load_explicit(place_of(libc), memory_order_acquire);
}

/* ---- Reading ---- */

/* The entry of a name that is len bytes long; NULL: none. */
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

char *image_libc_getenv(const char *name)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    return libc ? image_env_get(libc, name) : getenv(name);
}

char *image_libc_secure_getenv(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : image_libc_getenv(name);
}

/* ---- Writing: by one thread of the rank at a time ---- */

/* Adds an entry behind the others, in a larger array if there is no room. Returns false if there is no
 * memory. */
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

/* Room for what image_env_preset adds, and some more. */
enum { ROOM = 24 };

/* Has the rank own its array. */
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

/* Puts text, which is "NAME=VALUE", in the place of the entry with that name, or behind the others. */
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
    size_t len = strlen(name), value_len = strlen(value);
    const char *old = image_env_get(libc, name);
    char *text;

    if (old && (!is_replacing || strcmp(old, value) == 0))
        return 0;
    text = malloc(len + value_len + 2);
    if (!text)
        return -1;
    memcpy(text, name, len);
    text[len] = '=';
    memcpy(text + len + 1, value, value_len + 1);
    if (put(libc, text, len))
        return 0;
    free(text);
    return -1;
}

bool image_env_preset(struct image *image, const char *name, const char *value, bool is_added)
{
    if (!is_added && !image_env_get(&image->libc, name))
        return true;
    return set(&image->libc, name, value, true) == 0;
}

int image_libc_setenv(const char *name, const char *value, int is_replacing)
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

int image_libc_unsetenv(const char *name)
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

int image_libc_putenv(char *assignment)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));
    const char *equals = strchr(assignment, '=');
    bool is_done;

    if (!libc)
        return putenv(assignment);
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

int image_libc_clearenv(void)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    if (!libc)
        return clearenv();
    atomic_store(place_of(libc), NULL);
    return 0;
}
