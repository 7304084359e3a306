/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_affinity.c: the CPU affinity of a rank's main thread.
 *
 * The ranks of a PE share its thread. If one of them pinned that thread, the others would be pinned too,
 * and would see one CPU where the first rank saw all: programs that count CPUs this way (PT-Scotch, OpenMP
 * runtimes) would start different numbers of threads in different ranks. So the affinity that a rank sets
 * for its main thread is stored and returned, but has no effect. Threads started by a rank and
 * its children are pinned as requested.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* True if the id, an argument of sched_setaffinity, denotes the rank's main thread. The id of a process is
 * that of its main thread. */
static bool is_caller(pid_t id)
{
    return id == 0 || image_pid_is_own(id) || id == (pid_t)syscall(SYS_gettid);
}

/* Stores the rank's affinity. Returns an error number. In a child the thread is its own, but of a child of vfork the memory is
 * not. */
static int keep(size_t bytes, const cpu_set_t *set)
{
    struct image_libc *libc = image_libc_current();
    cpu_set_t *kept;

    if (image_is_forked_child() && sched_setaffinity(0, bytes, set) != 0)
        return errno;
    if (image_shares_memory())
        return 0;
    if (CPU_COUNT_S(bytes, set) == 0)
        return EINVAL;
    kept = malloc(bytes);
    if (!kept)
        return ENOMEM;
    memcpy(kept, set, bytes);
    free(libc->affinity);
    libc->affinity = kept;
    libc->affinity_bytes = bytes;
    return 0;
}

/* Returns the rank's stored affinity in *set_out; false: it has stored none. */
static bool answer(size_t bytes, cpu_set_t *set_out)
{
    const struct image_libc *libc = image_libc_current();

    if (!libc->affinity || image_shares_memory())
        return false;
    memset(set_out, 0, bytes);
    memcpy(set_out, libc->affinity, bytes < libc->affinity_bytes ? bytes : libc->affinity_bytes);
    return true;
}

static int image_libc_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
    int error;

    if (!image_is_on_rank() || !is_caller(pid))
        return sched_setaffinity(pid, bytes, set);
    error = keep(bytes, set);
    if (!error)
        return 0;
    errno = error;
    return -1;
}
IMAGE_REBINDS(image_libc_sched_setaffinity, "sched_setaffinity"); /* the thread is the PE's, not the rank's */

static int image_libc_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set_out)
{
    if (image_is_on_rank() && is_caller(pid) && answer(bytes, set_out))
        return 0;
    return sched_getaffinity(pid, bytes, set_out);
}
/* Returns the affinity that the rank has asked for. */
IMAGE_REBINDS(image_libc_sched_getaffinity, "sched_getaffinity");

static int image_libc_pthread_setaffinity(pthread_t thread, size_t bytes, const cpu_set_t *set)
{
    if (!image_is_on_rank() || !pthread_equal(thread, pthread_self()))
        return pthread_setaffinity_np(thread, bytes, set);
    return keep(bytes, set);
}
IMAGE_REBINDS(image_libc_pthread_setaffinity, "pthread_setaffinity_np");

static int image_libc_pthread_getaffinity(pthread_t thread, size_t bytes, cpu_set_t *set_out)
{
    if (image_is_on_rank() && pthread_equal(thread, pthread_self()) && answer(bytes, set_out))
        return 0;
    return pthread_getaffinity_np(thread, bytes, set_out);
}
IMAGE_REBINDS(image_libc_pthread_getaffinity, "pthread_getaffinity_np");
