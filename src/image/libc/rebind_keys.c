/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_keys.c: pthread_key_create and related functions, and C11's tss_create, with keys per rank.
 *
 * glibc has PTHREAD_KEYS_MAX keys for a process; here each rank has that many. A key is an index into the
 * rank's table, and each of its threads has a table of values. Both grow in blocks on demand. A key's turn
 * is odd while the key is in use; creation and deletion increment it. A value is valid only if it was set
 * in the current turn.
 */
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include "image/copy/instantiate.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define KEYS_PER_BLOCK 32
#define BLOCKS (PTHREAD_KEYS_MAX / KEYS_PER_BLOCK)

struct image_key {
    atomic_uint turn;
    _Atomic(void (*)(void *)) destructor;
};

struct image_keys {
    pthread_mutex_t lock; /* serialises creation and deletion of keys */
    _Atomic(struct image_key *) blocks[BLOCKS];
};

struct image_key_value {
    unsigned turn;
    void *value;
};

/* The rank's keys; NULL: memory is exhausted. */
static struct image_keys *keys_of(struct image_libc *libc)
{
    struct image_keys *keys = atomic_load(&libc->keys), *none = NULL;

    if (keys)
        return keys;
    keys = calloc(1, sizeof *keys);
    if (!keys)
        return NULL;
    pthread_mutex_init(&keys->lock, NULL);
    if (atomic_compare_exchange_strong(&libc->keys, &none, keys))
        return keys;
    free(keys);
    return none;
}

/* The key's entry; NULL: it was never in use. */
static struct image_key *find_key(struct image_thread *thread, unsigned key)
{
    struct image_keys *keys = thread ? atomic_load(&image_libc_of(thread->image)->keys) : NULL;
    struct image_key *block =
        keys && key < PTHREAD_KEYS_MAX ? atomic_load(&keys->blocks[key / KEYS_PER_BLOCK]) : NULL;

    return block ? &block[key % KEYS_PER_BLOCK] : NULL;
}

static bool is_used(unsigned turn)
{
    return turn & 1;
}

/* Allocates a free key; the caller holds the lock. NULL: *error_out says why. */
static struct image_key *take_free(struct image_keys *keys, unsigned *index_out, int *error_out)
{
    for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
        struct image_key *block = atomic_load(&keys->blocks[i / KEYS_PER_BLOCK]);

        *index_out = i;
        if (block && is_used(atomic_load(&block[i % KEYS_PER_BLOCK].turn)))
            continue;
        if (!block) {
            block = calloc(KEYS_PER_BLOCK, sizeof *block);
            *error_out = ENOMEM;
            if (!block)
                return NULL;
            atomic_store(&keys->blocks[i / KEYS_PER_BLOCK], block);
        }
        return &block[i % KEYS_PER_BLOCK];
    }
    *error_out = EAGAIN;
    return NULL;
}

/* Creates a key of a thread of no rank, for a call from `caller`. */
static int create_key(unsigned *key_out, void (*destructor)(void *), const void *caller)
{
    struct image_thread *thread = image_thread_of(caller);
    struct image_keys *keys = thread ? keys_of(image_libc_of(thread->image)) : NULL;
    struct image_key *key;
    int error = 0;

    if (!thread)
        return pthread_key_create(key_out, destructor);
    if (!keys)
        return ENOMEM;
    pthread_mutex_lock(&keys->lock);
    key = take_free(keys, key_out, &error);
    if (key) {
        atomic_store(&key->destructor, destructor);
        atomic_fetch_add(&key->turn, 1);
    }
    pthread_mutex_unlock(&keys->lock);
    return key ? 0 : error;
}

static int image_libc_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    return create_key(key, destructor, __builtin_return_address(0));
}
/* Each rank has as many keys as a process. */
IMAGE_REBINDS(image_libc_key_create, "pthread_key_create", "__pthread_key_create");

static int delete_key(unsigned index, const void *caller)
{
    struct image_key *key = find_key(image_thread_of(caller), index);
    unsigned turn = key ? atomic_load(&key->turn) : 0;

    return is_used(turn) && atomic_compare_exchange_strong(&key->turn, &turn, turn + 1) ? 0 : EINVAL;
}

static int image_libc_key_delete(pthread_key_t key)
{
    return delete_key(key, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_key_delete, "pthread_key_delete");

static void *image_libc_getspecific(pthread_key_t index)
{
    struct image_thread *thread = image_thread_of(__builtin_return_address(0));
    struct image_key *key = find_key(thread, index);
    const struct image_key_value *block =
        key && thread->values ? thread->values[index / KEYS_PER_BLOCK] : NULL;
    const struct image_key_value *value = block ? &block[index % KEYS_PER_BLOCK] : NULL;

    return value && value->turn == atomic_load(&key->turn) ? value->value : NULL;
}
IMAGE_REBINDS(image_libc_getspecific, "pthread_getspecific", "tss_get");

/* The storage of a thread's value; NULL: memory is exhausted. */
static struct image_key_value *place_of(struct image_thread *thread, unsigned index)
{
    struct image_key_value **block;

    if (!thread->values)
        thread->values = calloc(BLOCKS, sizeof(struct image_key_value *));
    if (!thread->values)
        return NULL;
    block = &thread->values[index / KEYS_PER_BLOCK];
    if (!*block)
        *block = calloc(KEYS_PER_BLOCK, sizeof **block);
    return *block ? &(*block)[index % KEYS_PER_BLOCK] : NULL;
}

static int set_value(unsigned index, const void *value, const void *caller)
{
    struct image_thread *thread = image_thread_of(caller);
    struct image_key *key = find_key(thread, index);
    unsigned turn = key ? atomic_load(&key->turn) : 0;
    struct image_key_value *place;

    if (!is_used(turn))
        return EINVAL;
    place = place_of(thread, index);
    if (!place)
        return ENOMEM;
    *place = (struct image_key_value){turn, (void *)value};
    return 0;
}

static int image_libc_setspecific(pthread_key_t key, const void *value)
{
    return set_value(key, value, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_setspecific, "pthread_setspecific");

/* ---- C11 ---- */

static int image_libc_tss_create(tss_t *key, tss_dtor_t destructor)
{
    return create_key(key, destructor, __builtin_return_address(0)) == 0 ? thrd_success : thrd_error;
}
IMAGE_REBINDS(image_libc_tss_create, "tss_create");

static void image_libc_tss_delete(tss_t key)
{
    delete_key(key, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_tss_delete, "tss_delete");

static int image_libc_tss_set(tss_t key, void *value)
{
    return set_value(key, value, __builtin_return_address(0)) == 0 ? thrd_success : thrd_error;
}
IMAGE_REBINDS(image_libc_tss_set, "tss_set");

/* ---- The end ---- */

bool image_keys_destroy_values(struct image_thread *thread)
{
    bool found = false;

    for (unsigned i = 0; thread->values && i < PTHREAD_KEYS_MAX; i++) {
        struct image_key_value *block = thread->values[i / KEYS_PER_BLOCK];
        struct image_key *key = block ? find_key(thread, i) : NULL;
        struct image_key_value value = key ? block[i % KEYS_PER_BLOCK] : (struct image_key_value){0};
        void (*destructor)(void *) = key ? atomic_load(&key->destructor) : NULL;

        if (!value.value || value.turn != atomic_load(&key->turn) || !destructor)
            continue;
        block[i % KEYS_PER_BLOCK].value = NULL;
        found = true;
        destructor(value.value);
    }
    return found;
}

void image_keys_free_values(struct image_thread *thread)
{
    for (int i = 0; thread->values && i < BLOCKS; i++)
        free(thread->values[i]);
    free(thread->values);
    thread->values = NULL;
}

void image_keys_free(struct image_libc *libc)
{
    struct image_keys *keys = atomic_exchange(&libc->keys, NULL);

    for (int i = 0; keys && i < BLOCKS; i++)
        free(atomic_load(&keys->blocks[i]));
    free(keys);
}
