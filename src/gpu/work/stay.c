/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stay.c: see stay.h.
 *
 * A kernel that has left with an order is launched again, also while it is held: it does what it finds and leaves.
 */
#include "gpu/work/stay.h"

#include <string.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"

#define STAY_NS 2000000 /* at most: for calls that are not seen (resident.c) */

struct gpu_stay {
    struct gpu_evictable evictable;
    CUstream stream;
    struct HEDDLE_Work_stay *shared;      /* pinned */
    uint32_t launches;                    /* the number of the last one */
    uint32_t numbers[HEDDLE_WORK_PLACES]; /* of the last orders */
};

static void set_leave(struct gpu_evictable *evictable, bool is_on)
{
    struct gpu_stay *stay = BASE_CONTAINER(evictable, struct gpu_stay, evictable);

    for (int i = 0; i < HEDDLE_WORK_PLACES; i++)
        __atomic_store_n(&stay->shared->orders[i].words[HEDDLE_WORK_LEAVE], is_on, __ATOMIC_SEQ_CST);
}

int gpu_stay_create(int device, uint64_t last_ns, struct gpu_stay **stay_out)
{
    struct gpu_stay *stay;
    void *shared = NULL;
    int least = 0, greatest = 0, error;

    *stay_out = NULL;
    if (gpu_resident_us == 0 || gpu_resident_obstacle())
        return 0;
    stay = base_calloc(1, sizeof *stay, "a kernel that stays");
    error = gpu_call(cuMemHostAlloc,
                     (&shared, sizeof *stay->shared, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (!error)
        error = gpu_call(cuCtxGetStreamPriorityRange, (&least, &greatest));
    if (!error)
        error = gpu_call(cuStreamCreateWithPriority, (&stay->stream, CU_STREAM_NON_BLOCKING, greatest));
    if (error) {
        if (shared)
            gpu_driver.cuMemFreeHost(shared);
        free(stay);
        return error;
    }
    memset(shared, 0, sizeof *stay->shared);
    stay->shared = shared;
    stay->shared->last_ns = last_ns;
    stay->shared->wait_ns = (uint32_t)gpu_resident_us * 1000;
    stay->shared->stay_ns = STAY_NS;
    stay->evictable.device = device;
    stay->evictable.set_leave = set_leave;
    gpu_evictable_add(&stay->evictable);
    *stay_out = stay;
    return 0;
}

int gpu_stay_launch(struct gpu_stay *stay, void *kernel, unsigned n_threads)
{
    struct HEDDLE_Work_launch parameter = {.table = (uintptr_t)stay->shared, .n_blocks = ++stay->launches};
    void *parameters[] = {&parameter};

    atomic_store(&stay->evictable.is_launched, true);
    return gpu_call(cuLaunchKernel,
                    (kernel, HEDDLE_WORK_PLACES, 1, 1, n_threads, 1, 1, 0, stay->stream, parameters, NULL));
}

static bool has_said(const struct gpu_stay *stay, int place, uint32_t state)
{
    return __atomic_load_n(&stay->shared->places[place].state, __ATOMIC_ACQUIRE) ==
           HEDDLE_WORK_SAYS(stay->launches, state);
}

bool gpu_stay_is_launched(struct gpu_stay *stay)
{
    int n_left = 0;

    if (!atomic_load_explicit(&stay->evictable.is_launched, memory_order_relaxed))
        return false;
    while (n_left < HEDDLE_WORK_PLACES && has_said(stay, n_left, HEDDLE_WORK_LEFT))
        n_left++;
    if (n_left < HEDDLE_WORK_PLACES)
        return true;
    atomic_store(&stay->evictable.is_launched, false);
    return false;
}

bool gpu_stay_is_held(const struct gpu_stay *stay)
{
    return gpu_evictable_is_held(&stay->evictable);
}

bool gpu_stay_is_here(const struct gpu_stay *stay, int place)
{
    return has_said(stay, place, HEDDLE_WORK_HERE);
}

void gpu_stay_order(struct gpu_stay *stay, int place, unsigned block, unsigned n_blocks, const void *args,
                    size_t args_bytes, const uint64_t *addresses, int n_addresses)
{
    uint32_t order[HEDDLE_WORK_WORDS] = {
        block, n_blocks, HEDDLE_WORK_ARGS + (uint32_t)(base_round_up(args_bytes, 8) / sizeof *order)};
    uint64_t number = (uint64_t)++stay->numbers[place] << 32;
    uint64_t *words = stay->shared->orders[place].words;

    if (args_bytes > 0)
        memcpy(&order[HEDDLE_WORK_ARGS], args, args_bytes);
    memcpy(&order[order[2]], addresses, (size_t)n_addresses * sizeof *addresses);
    for (int i = 0; i < HEDDLE_WORK_LEAVE; i++)
        __atomic_store_n(&words[i], number | order[i], __ATOMIC_RELEASE);
}

bool gpu_stay_is_done(const struct gpu_stay *stay, int place)
{
    return __atomic_load_n(&stay->shared->places[place].done, __ATOMIC_ACQUIRE) == stay->numbers[place];
}

bool gpu_stay_has_missed(const struct gpu_stay *stay, int place)
{
    return has_said(stay, place, HEDDLE_WORK_LEFT) && !gpu_stay_is_done(stay, place);
}

int gpu_stay_ask(const struct gpu_stay *stay)
{
    CUresult result = gpu_driver.cuStreamQuery(stay->stream);

    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY
               ? 0
               : gpu_driver_record((int)result, "cuStreamQuery");
}
