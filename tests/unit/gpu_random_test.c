/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the address cache always agrees with the driver, whatever is allocated and freed on either side
 * in between. It uses no functions of the fake driver, so the same program runs on real GPUs.
 */
#include <check.h>
#include <cuda.h>
#include <stdio.h>
#include <sys/mman.h>

#include "gpu/driver/query.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu_detect.h"

#define THINGS 48
#define PLACES 512

enum kind { NOTHING, HOST, DEVICE, MANAGED, PINNED, REGISTERED, ASYNC, MAPPED, KINDS };

/* What is allocated. */
static struct thing {
    enum kind kind;
    CUdeviceptr at;
    size_t n_bytes;
    CUmemGenericAllocationHandle handle;
} things[THINGS];

/* Addresses that were something once: where old answers would be wrong. */
static CUdeviceptr places[PLACES];
static unsigned n_places;

static uint64_t state = 88172645463325252u;
static size_t random_below(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % n);
}

static const size_t sizes[] = {1, 100, 4096, 70000, (size_t)1 << 20, (size_t)2 << 20, (size_t)7 << 20};

static CUresult map_physical(struct thing *thing)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult error;

    thing->n_bytes = (size_t)2 << 20;
    error = cuMemAddressReserve(&thing->at, thing->n_bytes, 0, 0, 0);
    if (!error)
        error = cuMemCreate(&thing->handle, thing->n_bytes, &property, 0);
    if (!error)
        error = cuMemMap(thing->at, thing->n_bytes, 0, thing->handle, 0);
    return error;
}

static void allocate(struct thing *thing)
{
    void *memory = NULL;
    CUresult error = CUDA_SUCCESS;

    thing->kind = (enum kind)(1 + random_below(KINDS - 1));
    thing->n_bytes = sizes[random_below(BASE_COUNT(sizes))];
    switch (thing->kind) {
    case HOST:
    case REGISTERED:
        thing->n_bytes = (thing->n_bytes + 4095) / 4096 * 4096;
        memory = mmap(NULL, thing->n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (thing->kind == REGISTERED)
            error = cuMemHostRegister(memory, thing->n_bytes, 0);
        thing->at = (CUdeviceptr)memory;
        break;
    case PINNED:
        error = cuMemHostAlloc(&memory, thing->n_bytes, 0);
        thing->at = (CUdeviceptr)memory;
        break;
    case DEVICE:
        error = cuMemAlloc(&thing->at, thing->n_bytes);
        break;
    case MANAGED:
        error = cuMemAllocManaged(&thing->at, thing->n_bytes, CU_MEM_ATTACH_GLOBAL);
        break;
    case ASYNC:
        error = cuMemAllocAsync(&thing->at, thing->n_bytes, NULL);
        break;
    default:
        error = map_physical(thing);
        break;
    }
    ck_assert_msg(error == CUDA_SUCCESS, "allocation of kind %d: CUDA error %d", (int)thing->kind,
                  (int)error);
    places[n_places++ % PLACES] = thing->at + random_below(thing->n_bytes);
}

static void release(struct thing *thing)
{
    CUresult error = CUDA_SUCCESS;

    switch (thing->kind) {
    case REGISTERED:
        error = cuMemHostUnregister((void *)thing->at);
        munmap((void *)thing->at, thing->n_bytes);
        break;
    case HOST:
        munmap((void *)thing->at, thing->n_bytes);
        break;
    case PINNED:
        error = cuMemFreeHost((void *)thing->at);
        break;
    case DEVICE:
    case MANAGED:
        error = cuMemFree(thing->at);
        break;
    case ASYNC:
        error = cuMemFreeAsync(thing->at, NULL);
        if (!error)
            error = cuStreamSynchronize(NULL); /* so that the answers do not change between two questions */
        break;
    default:
        error = cuMemUnmap(thing->at, thing->n_bytes);
        cuMemRelease(thing->handle);
        cuMemAddressFree(thing->at, thing->n_bytes);
        break;
    }
    ck_assert_msg(error == CUDA_SUCCESS, "release of kind %d: CUDA error %d", (int)thing->kind, (int)error);
    thing->kind = NOTHING;
}

/* is_live: something is allocated there. Freed memory may keep its kind: no rank may use it. */
static void compare(CUdeviceptr at, bool is_live)
{
    struct gpu_range told;
    const struct gpu_range *exact;
    bool is_device, is_same;

    gpu_query(at, &told);
    is_device = told.memory >= GPU_MEMORY_MANAGED;
    if (is_live)
        ck_assert_msg(gpu_is_device((void *)at) == is_device, "%llx: device %d", (unsigned long long)at,
                      is_device);
    exact = gpu_resolve((void *)at);
    is_same = exact->memory == told.memory || (!told.buffer && exact->memory == GPU_MEMORY_NOWHERE);
    ck_assert_msg(is_same && exact->buffer == told.buffer, "%llx: kind %d, buffer %llu, not %d, %llu",
                  (unsigned long long)at, exact->memory, (unsigned long long)exact->buffer, told.memory,
                  (unsigned long long)told.buffer);
    if (told.buffer)
        ck_assert(exact->from == told.from && exact->to == told.to && exact->device == told.device);
}

START_TEST(answers_are_the_drivers)
{
    CUcontext context;
    struct gpu_counts counts;
    bool is_host;

    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ck_assert_int_eq(cuCtxSetCurrent(context), 0);
    ck_assert(gpu_is_used() && gpu_monitor_is_sound());
    for (int step = 0; step < 3000; step++) {
        struct thing *thing = &things[random_below(THINGS)];
        if (thing->kind == NOTHING)
            allocate(thing);
        else
            release(thing);
        for (int i = 0; i < THINGS; i++)
            if (things[i].kind != NOTHING) {
                CUdeviceptr at = things[i].at + random_below(things[i].n_bytes);
                is_host = things[i].kind == HOST || things[i].kind == REGISTERED || things[i].kind == PINNED;
                ck_assert_int_eq(gpu_is_device((void *)at), !is_host);
                compare(at, true);
            }
        compare(places[random_below(n_places < PLACES ? n_places : PLACES)], false);
    }
    gpu_detect_counts(&counts);
    printf("hits %llu, misses %llu, queries %llu\n", (unsigned long long)counts.hits,
           (unsigned long long)counts.misses, (unsigned long long)counts.queries);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_random");
    TCase *tests = tcase_create("random");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, answers_are_the_drivers);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
