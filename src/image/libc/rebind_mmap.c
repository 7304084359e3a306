/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_mmap.c: mappings at addresses that ranks choose.
 *
 * A process has its addresses alone, the ranks of a process share them. If two ranks map memory at the same fixed
 * address, the second mapping replaces the first, and both ranks use the same bytes. That cannot be cured, so it is
 * reported. Only ranges mapped with MAP_FIXED are recorded; they are few.
 */
#include "image/libc/rebind.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* More ranges are not recorded. */
#define RANGES_MAX 1000

/* Addresses that a rank has mapped with MAP_FIXED. */
struct range {
    uintptr_t from, to; /* to: the first address behind it */
    const struct image_libc *owner;
};

static struct {
    pthread_mutex_t lock;
    struct range ranges[RANGES_MAX];
    atomic_size_t n; /* read without the lock: usually 0 */
} noted = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Records a range. Returns true if part of it is another rank's. */
static bool note(struct range range)
{
    bool is_merged = false, is_others = false;

    for (size_t i = 0; i < noted.n; i++) {
        struct range *old = &noted.ranges[i];

        if (old->owner != range.owner) {
            is_others |= old->from < range.to && range.from < old->to;
        } else if (!is_merged && old->from <= range.to && range.from <= old->to) {
            old->from = old->from < range.from ? old->from : range.from;
            old->to = old->to > range.to ? old->to : range.to;
            is_merged = true;
        }
    }
    if (!is_merged && noted.n < RANGES_MAX)
        noted.ranges[noted.n++] = range;
    return is_others;
}

/* The middle of a recorded range stays recorded. */
static void forget(uintptr_t from, uintptr_t to)
{
    for (size_t i = noted.n; i-- > 0;) {
        struct range *old = &noted.ranges[i];

        if (from <= old->from && old->to <= to)
            *old = noted.ranges[--noted.n];
        else if (from <= old->from && old->from < to)
            old->from = to;
        else if (from < old->to && old->to <= to)
            old->to = from;
    }
}

/* Once per process. */
static void report(const void *address)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;
    char text[200];

    if (atomic_flag_test_and_set(&has_said) || !image_rebind_client.report)
        return;
    snprintf(text, sizeof text,
             "maps memory with MAP_FIXED at %p, where another rank of this process has memory: both use the "
             "same bytes; give each rank a process (--procs)",
             address);
    image_rebind_client.report(text);
}

/* True if the address is in the stack of the calling thread, where Java's threads put guards. The C library gives the stack of a
 * thread that has ended to another one, maybe of another rank. */
static bool is_in_stack(const void *address)
{
    pthread_attr_t attributes;
    void *lo = NULL;
    size_t n_bytes = 0;

    if (image_is_on_rank() || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    pthread_attr_getstack(&attributes, &lo, &n_bytes);
    pthread_attr_destroy(&attributes);
    return (size_t)((const char *)address - (const char *)lo) < n_bytes;
}

static void *image_libc_mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
    void *mapped = mmap(address, n_bytes, protection, flags, fd, offset);
    const struct image_libc *owner;
    bool is_others;

    if (!(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) || mapped == MAP_FAILED || image_is_forked_child() ||
        !(owner = image_libc_at(__builtin_return_address(0))) || is_in_stack(mapped))
        return mapped;
    if (pthread_mutex_trylock(&noted.lock) != 0) /* a handler of a signal, or another rank's thread */
        return mapped;
    is_others = note((struct range){(uintptr_t)mapped, (uintptr_t)mapped + n_bytes, owner});
    pthread_mutex_unlock(&noted.lock);
    if (is_others)
        report(mapped);
    return mapped;
}
IMAGE_REBINDS(image_libc_mmap, "mmap", "mmap64");

static int image_libc_munmap(void *address, size_t n_bytes)
{
    if (noted.n > 0 && pthread_mutex_trylock(&noted.lock) == 0) {
        forget((uintptr_t)address, (uintptr_t)address + n_bytes);
        pthread_mutex_unlock(&noted.lock);
    }
    return munmap(address, n_bytes);
}
IMAGE_REBINDS(image_libc_munmap, "munmap");
