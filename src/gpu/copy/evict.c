/* SPDX-License-Identifier: BSD-3-Clause
 *
 * evict.c: keeps the kernels that stay on GPUs away while calls wait for all work there. See resident.h.
 */
#include <pthread.h>

#include "gpu/copy/resident.h"

static struct {
    pthread_mutex_t lock;
    struct gpu_evictable *first;
    int n_holds[GPU_DEVICES_MAX + 1]; /* by device; last: all devices */
    atomic_bool is_any;
    atomic_uint_fast64_t n_sent_away;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t gpu_resident_times_sent_away(void)
{
    return atomic_load_explicit(&all.n_sent_away, memory_order_relaxed);
}

void gpu_evictable_add(struct gpu_evictable *evictable)
{
    pthread_mutex_lock(&all.lock);
    evictable->n_holds = all.n_holds[evictable->device] + all.n_holds[GPU_DEVICES_MAX];
    evictable->set_leave(evictable, evictable->n_holds > 0);
    evictable->next = all.first;
    all.first = evictable;
    atomic_store(&all.is_any, true);
    pthread_mutex_unlock(&all.lock);
}

bool gpu_evictable_is_held(const struct gpu_evictable *evictable)
{
    return atomic_load_explicit(&evictable->n_holds, memory_order_relaxed) > 0;
}

static void change_holds(int device, int by)
{
    if (device == GPU_RESIDENT_NONE)
        return;
    pthread_mutex_lock(&all.lock);
    all.n_holds[device == GPU_RESIDENT_ALL ? GPU_DEVICES_MAX : device] += by;
    for (struct gpu_evictable *i = all.first; i; i = i->next) {
        int before;
        if (device != GPU_RESIDENT_ALL && device != i->device)
            continue;
        before = atomic_fetch_add(&i->n_holds, by);
        if (before == 0 || before + by == 0)
            i->set_leave(i, by > 0);
        if (before == 0 && atomic_load(&i->is_launched))
            atomic_fetch_add_explicit(&all.n_sent_away, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&all.lock);
}

static int current_device(void)
{
    CUdevice device;

    return gpu_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : GPU_RESIDENT_ALL;
}

int gpu_resident_hold(int device)
{
    if (!atomic_load_explicit(&all.is_any, memory_order_acquire))
        return GPU_RESIDENT_NONE;
    if (device == GPU_RESIDENT_CURRENT)
        device = current_device();
    change_holds(device, 1);
    return device;
}

void gpu_resident_release(int device)
{
    change_holds(device, -1);
}
