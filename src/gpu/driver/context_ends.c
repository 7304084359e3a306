/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context_ends.c: contexts that the program has destroyed. The driver does not check the handles that it gets: cuCtxSetCurrent
 * of a destroyed context can corrupt memory. So the library asks here first.
 *
 * A new context may get the same handle. So destructions are counted, and whoever keeps a handle also keeps the count at that
 * time. Entries are never removed: there is one for each handle, and readers need no lock.
 */
#include <pthread.h>

#include "base/log.h"
#include "gpu/driver/driver.h"

struct entry {
    struct entry *next;
    CUcontext context;
    _Atomic uint64_t ended; /* the count at its last destruction; 0: none */
    _Atomic bool is_gone;   /* no context has the handle now */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken to add entries */
static struct entry *_Atomic entries;
static _Atomic uint64_t n_ends;
static __typeof__(&cuCtxSetCurrent) real_set_current;

static struct entry *find(CUcontext context)
{
    struct entry *entry = atomic_load_explicit(&entries, memory_order_acquire);

    while (entry && entry->context != context)
        entry = entry->next;
    return entry;
}

void gpu_context_ends(CUcontext context)
{
    struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(context);
    if (!entry) {
        entry = base_calloc(1, sizeof *entry, "a destroyed CUDA context");
        entry->context = context;
        entry->next = atomic_load(&entries);
        atomic_store_explicit(&entries, entry, memory_order_release);
    }
    atomic_store(&entry->is_gone, true);
    atomic_store(&entry->ended, atomic_load(&n_ends) + 1);
    atomic_fetch_add(&n_ends, 1);
    pthread_mutex_unlock(&lock);
}

void gpu_context_begins(CUcontext context, bool is_same)
{
    struct entry *entry = find(context);

    if (!entry)
        return;
    if (is_same)
        atomic_store(&entry->ended, 0);
    atomic_store(&entry->is_gone, false);
}

uint64_t gpu_context_count_ends(void)
{
    return atomic_load_explicit(&n_ends, memory_order_acquire);
}

bool gpu_context_is_lost(CUcontext context, uint64_t since)
{
    const struct entry *entry = gpu_context_count_ends() > since ? find(context) : NULL;

    return entry && atomic_load(&entry->ended) > since;
}

bool gpu_context_is_gone(CUcontext context)
{
    const struct entry *entry = context && BASE_UNLIKELY(gpu_context_count_ends() > 0) ? find(context) : NULL;

    return entry && atomic_load(&entry->is_gone);
}

static CUresult CUDAAPI set_current(CUcontext context)
{
    return gpu_context_is_gone(context) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : real_set_current(context);
}

void gpu_driver_guard_contexts(struct gpu_driver *driver)
{
    real_set_current = driver->cuCtxSetCurrent;
    driver->cuCtxSetCurrent = set_current;
}
