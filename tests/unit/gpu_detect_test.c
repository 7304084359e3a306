/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a cache distinguishes device from host addresses, and that every way in which a cached answer
 * becomes invalid is noticed. On the fake CUDA driver, which reuses addresses as the real one does.
 */
#include <check.h>
#include <cuda.h>
#include <string.h>
#include <sys/mman.h>

#include "fakecuda.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu_detect.h"

#define MIB ((size_t)1 << 20)

static CUcontext context;

static void begin(void)
{
    gpu_detect_init();
    ck_assert_int_eq(cuInit(0), 0);
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ck_assert_int_eq(cuCtxSetCurrent(context), 0);
    ck_assert(gpu_is_active);
    ck_assert(gpu_monitor_is_sound());
}

static CUdeviceptr allocate(size_t n_bytes)
{
    CUdeviceptr address;

    ck_assert_int_eq(cuMemAlloc(&address, n_bytes), 0);
    return address;
}

static void check_kind(CUdeviceptr address, enum gpu_memory memory)
{
    ck_assert_int_eq(gpu_find((void *)address)->memory, memory);
    ck_assert_int_eq(gpu_is_device((void *)address), memory >= GPU_MEMORY_MANAGED);
}

static void check_range(CUdeviceptr address, CUdeviceptr from, size_t n_bytes, int device)
{
    const struct gpu_range *range = gpu_resolve((void *)address);

    ck_assert_uint_eq(range->from, from);
    ck_assert_uint_eq(range->to, from + n_bytes);
    ck_assert_int_eq(range->device, device);
}

/* Memory of the host at an address where nothing is; what malloc does when it gets the address from the
 * kernel. */
static void map_host(CUdeviceptr address, size_t n_bytes)
{
    ck_assert_ptr_eq(mmap((void *)address, n_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     (void *)address);
}

/* A multiple of 2 MiB where nothing is mapped now, and memory of the host was known to be. */
static CUdeviceptr former_host_memory(void)
{
    char *mapped = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr address = ((CUdeviceptr)mapped + 2 * MIB) & ~(2 * MIB - 1);

    check_kind(address, GPU_MEMORY_HOST);
    check_kind(address + 5000, GPU_MEMORY_HOST);
    ck_assert_int_eq(munmap(mapped, 8 * MIB), 0);
    fakecuda_place_next(address);
    return address;
}

/* ---- What the driver says ---- */

START_TEST(kinds_of_memory)
{
    CUdeviceptr device, managed;
    void *pinned, *pageable = malloc(100);

    begin();
    device = allocate(1000);
    ck_assert_int_eq(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL), 0);
    ck_assert_int_eq(cuMemHostAlloc(&pinned, 1000, 0), 0);
    check_kind(device, GPU_MEMORY_DEVICE);
    check_kind(device + 999, GPU_MEMORY_DEVICE);
    check_kind(managed + 10, GPU_MEMORY_MANAGED);
    check_kind((CUdeviceptr)pinned + 10, GPU_MEMORY_PINNED);
    check_kind((CUdeviceptr)pageable, GPU_MEMORY_HOST);
    check_kind((CUdeviceptr)&device, GPU_MEMORY_HOST);
    check_kind(0, GPU_MEMORY_NOWHERE);
    check_range(device + 100, device, 1000, 0);
    free(pageable);
}
END_TEST

START_TEST(nothing_is_a_device_before_the_driver_is_initialized)
{
    int here;

    gpu_detect_init();
    check_kind((CUdeviceptr)&here, GPU_MEMORY_HOST);
    begin();
    check_kind(allocate(1), GPU_MEMORY_DEVICE);
}
END_TEST

START_TEST(hits_ask_nobody)
{
    static char pages[64 * 4096] __attribute__((aligned(2 << 20))); /* two runs of pages fit for sure */
    CUdeviceptr device;
    struct gpu_counts before, after;
    int n_calls;

    begin();
    device = allocate(MIB / 2);
    for (int round = 0; round < 2; round++) {
        n_calls = fakecuda_calls("cuPointerGetAttributes");
        gpu_detect_counts(&before);
        for (size_t i = 0; i < 64; i++) {
            check_kind((CUdeviceptr)pages + 4096 * i, GPU_MEMORY_HOST);
            check_kind(device + 4096 * i, GPU_MEMORY_DEVICE);
        }
        gpu_detect_counts(&after);
    }
    ck_assert_int_eq(fakecuda_calls("cuPointerGetAttributes"), n_calls);
    ck_assert_uint_eq(after.queries, before.queries);
    ck_assert_uint_eq(after.misses, before.misses);
    ck_assert_uint_eq(after.hits, before.hits + 256);
}
END_TEST

START_TEST(more_memory_than_the_cache_remembers)
{
    static CUdeviceptr device[3000];
    static char *pageable[3000];

    begin();
    for (int i = 0; i < 3000; i++) {
        device[i] = allocate(3000);
        pageable[i] = malloc(3000);
    }
    for (int i = 0, at = 0; i < 20000; i++, at = (at * 7 + 11 + i) % 3000) {
        check_kind(device[at] + (CUdeviceptr)i % 3000, GPU_MEMORY_DEVICE);
        ck_assert_uint_eq(gpu_find((void *)(device[at] + 1))->from, device[at]);
        check_kind((CUdeviceptr)pageable[at], GPU_MEMORY_HOST);
    }
    for (int i = 0; i < 3000; i++)
        free(pageable[i]);
}
END_TEST

START_TEST(small_buffers_of_a_page_ask_nobody)
{
    CUdeviceptr device[64];
    int n_calls = 0;

    begin();
    for (int i = 0; i < 64; i++)
        device[i] = allocate(i % 3 ? 512 : 1000);
    for (int round = 0; round < 2; round++) {
        n_calls = fakecuda_calls("cuPointerGetAttributes");
        for (int i = 0; i < 64; i++) {
            check_kind(device[i], GPU_MEMORY_DEVICE);
            ck_assert_uint_eq(gpu_find((void *)(device[i] + 511))->from, device[i]);
        }
    }
    ck_assert_int_eq(fakecuda_calls("cuPointerGetAttributes"), n_calls);
}
END_TEST

/* The small ones come where the large one was, so its page was known as a whole. */
START_TEST(small_buffers_where_a_large_one_was)
{
    CUdeviceptr large, device[64];
    int n_calls, n_inside = 0;

    begin();
    large = allocate(64 * 512);
    for (int i = 0; i < 64; i++)
        check_range(large + 512 * (CUdeviceptr)i, large, 64 * 512, 0);
    ck_assert_int_eq(cuMemFree(large), 0);
    for (int i = 0; i < 64; i++) {
        device[i] = allocate(500);
        n_inside += device[i] >= large && device[i] < large + 64 * 512;
        check_range(device[i], device[i], 500, 0);
    }
    ck_assert_int_gt(n_inside, 0);
    n_calls = fakecuda_calls("cuPointerGetAttributes");
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(gpu_find((void *)device[i])->from, device[i]);
    ck_assert_int_eq(fakecuda_calls("cuPointerGetAttributes"), n_calls);
}
END_TEST

static bool notices(void)
{
    return true;
}

/* With several ranks the frees of all count. */
START_TEST(the_driver_confirms_a_buffer_once_until_memory_is_freed)
{
    static struct gpu_detect_source source;
    CUdeviceptr device, other;
    int n_calls;

    begin();
    source = *gpu_detect_source;
    source.notices_frees = notices;
    gpu_detect_source = &source;
    device = allocate(1000);
    check_range(device, device, 1000, 0);
    n_calls = fakecuda_calls("cuPointerGetAttributes");
    check_range(device + 100, device, 1000, 0);
    ck_assert_int_eq(fakecuda_calls("cuPointerGetAttributes"), n_calls);
    gpu_count_change();
    for (int i = 0; i < 3; i++)
        check_range(device, device, 1000, 0);
    ck_assert_int_eq(fakecuda_calls("cuPointerGetAttributes"), n_calls + 1);
    ck_assert_int_eq(cuMemFree(device), 0);
    gpu_count_change();
    other = allocate(900);
    ck_assert_uint_eq(other, device);
    check_range(other, other, 900, 0);
}
END_TEST

/* ---- Addresses without memory ---- */

START_TEST(memory_that_nobody_has_is_not_taken_for_the_hosts)
{
    char *mapped = mmap(NULL, 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr small, large;

    begin();
    small = allocate(4096);
    large = allocate(2 * MIB);
    check_kind(small, GPU_MEMORY_DEVICE);
    check_kind(large, GPU_MEMORY_DEVICE);
    check_kind((CUdeviceptr)mapped, GPU_MEMORY_NOWHERE);
    ck_assert_int_eq(cuMemFree(small), 0);
    ck_assert_int_eq(cuMemFree(large), 0);
    ck_assert_int_eq(gpu_resolve((void *)small)->memory, GPU_MEMORY_NOWHERE);
    check_kind(large, GPU_MEMORY_NOWHERE);
    ck_assert_int_eq(mprotect(mapped, 2 * MIB, PROT_READ), 0); /* not announced, and not in the cache */
    check_kind((CUdeviceptr)mapped, GPU_MEMORY_HOST);
    munmap(mapped, 2 * MIB);
}
END_TEST

/* ---- The host's becomes a device's ---- */

START_TEST(device_memory_where_host_memory_was)
{
    CUdeviceptr address;

    begin();
    address = former_host_memory();
    ck_assert_uint_eq(allocate(2 * MIB), address);
    check_kind(address, GPU_MEMORY_DEVICE);
    check_kind(address + 5000, GPU_MEMORY_DEVICE);
}
END_TEST

START_TEST(managed_memory_where_host_memory_was)
{
    CUdeviceptr address, managed;

    begin();
    address = former_host_memory();
    ck_assert_int_eq(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL), 0);
    ck_assert_uint_eq(managed, address);
    check_kind(address + 5000, GPU_MEMORY_MANAGED);
}
END_TEST

START_TEST(a_reservation_where_host_memory_was)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address, reserved;

    begin();
    address = former_host_memory();
    ck_assert_int_eq(cuMemAddressReserve(&reserved, 2 * MIB, 0, 0, 0), 0);
    ck_assert_uint_eq(reserved, address);
    ck_assert_int_eq(cuMemCreate(&handle, 2 * MIB, &property, 0), 0);
    ck_assert_int_eq(cuMemMap(address, 2 * MIB, 0, handle, 0), 0);
    ck_assert_int_eq(cuMemRelease(handle), 0); /* the mapping keeps it */
    check_kind(address + 5000, GPU_MEMORY_DEVICE);
}
END_TEST

/* ---- A device's becomes the host's ---- */

START_TEST(host_memory_where_cuMemFree_freed)
{
    CUdeviceptr address;

    begin();
    address = allocate(2 * MIB);
    check_kind(address, GPU_MEMORY_DEVICE);
    ck_assert_int_eq(cuMemFree(address), 0);
    map_host(address, 2 * MIB);
    check_kind(address, GPU_MEMORY_HOST);
}
END_TEST

START_TEST(host_memory_where_managed_memory_was)
{
    CUdeviceptr address;

    begin();
    ck_assert_int_eq(cuMemAllocManaged(&address, 2 * MIB, CU_MEM_ATTACH_GLOBAL), 0);
    check_kind(address, GPU_MEMORY_MANAGED);
    ck_assert_int_eq(cuMemFree(address), 0);
    map_host(address, 2 * MIB);
    check_kind(address, GPU_MEMORY_HOST);
}
END_TEST

START_TEST(host_memory_where_a_pool_was)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr address;

    begin();
    ck_assert_int_eq(cuMemPoolCreate(&pool, &properties), 0);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&address, MIB, pool, NULL), 0);
    check_kind(address, GPU_MEMORY_DEVICE);
    ck_assert_int_eq(cuMemFreeAsync(address, NULL), 0);
    ck_assert_int_eq(cuStreamSynchronize(NULL), 0);
    ck_assert_int_eq(cuMemPoolDestroy(pool), 0);
    map_host(address, MIB);
    check_kind(address, GPU_MEMORY_HOST);
}
END_TEST

START_TEST(host_memory_where_a_reservation_was)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;

    begin();
    ck_assert_int_eq(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0), 0);
    ck_assert_int_eq(cuMemCreate(&handle, 2 * MIB, &property, 0), 0);
    ck_assert_int_eq(cuMemMap(address, 2 * MIB, 0, handle, 0), 0);
    ck_assert_int_eq(cuMemRelease(handle), 0); /* the mapping keeps it */
    check_kind(address, GPU_MEMORY_DEVICE);
    ck_assert_int_eq(cuMemUnmap(address, 2 * MIB), 0);
    ck_assert_int_eq(cuMemAddressFree(address, 2 * MIB), 0);
    map_host(address, 2 * MIB);
    check_kind(address, GPU_MEMORY_HOST);
}
END_TEST

START_TEST(host_memory_where_pinned_memory_was)
{
    void *pinned;

    begin();
    ck_assert_int_eq(cuMemHostAlloc(&pinned, 2 * MIB, 0), 0);
    check_kind((CUdeviceptr)pinned, GPU_MEMORY_PINNED);
    ck_assert_int_eq(cuMemFreeHost(pinned), 0);
    map_host((CUdeviceptr)pinned, 2 * MIB);
    check_kind((CUdeviceptr)pinned, GPU_MEMORY_HOST);
}
END_TEST

/* ---- Another buffer at the same address ---- */

START_TEST(another_buffer_after_cuMemFree)
{
    CUdeviceptr first, second;

    begin();
    first = allocate(4096);
    second = allocate(4096);
    check_range(first, first, 4096, 0);
    ck_assert_int_eq(cuMemFree(first), 0);
    ck_assert_int_eq(cuMemFree(second), 0);
    ck_assert_uint_eq(allocate(8192), first);
    check_range(first, first, 8192, 0);
}
END_TEST

START_TEST(another_buffer_after_cuMemFreeAsync)
{
    CUdeviceptr first, second;

    begin();
    ck_assert_int_eq(cuMemAllocAsync(&first, 4096, NULL), 0);
    check_range(first, first, 4096, 0);
    ck_assert_int_eq(cuMemFreeAsync(first, NULL), 0);
    ck_assert_int_eq(cuStreamSynchronize(NULL), 0);
    ck_assert_int_eq(cuMemAllocAsync(&second, 8192, NULL), 0);
    ck_assert_uint_eq(first, second);
    check_range(first, first, 8192, 0);
}
END_TEST

START_TEST(another_device_after_cuMemUnmap)
{
    CUdeviceptr address;

    begin();
    ck_assert_int_eq(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0), 0);
    for (int device = 0; device < 2; device++) {
        CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
        CUmemGenericAllocationHandle handle;
        ck_assert_int_eq(cuMemCreate(&handle, 2 * MIB, &property, 0), 0);
        ck_assert_int_eq(cuMemMap(address, 2 * MIB, 0, handle, 0), 0);
        ck_assert_int_eq(cuMemRelease(handle), 0); /* the mapping keeps it */
        check_range(address, address, 2 * MIB, device);
        ck_assert_int_eq(cuMemUnmap(address, 2 * MIB), 0);
        ck_assert_int_eq(gpu_resolve((void *)address)->memory, GPU_MEMORY_NOWHERE);
    }
}
END_TEST

START_TEST(registered_and_unregistered_host_memory)
{
    char *memory = aligned_alloc(4096, 8192);

    begin();
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(gpu_resolve(memory)->memory, GPU_MEMORY_HOST);
        ck_assert_int_eq(cuMemHostRegister(memory, 8192, 0), 0);
        ck_assert_int_eq(gpu_resolve(memory)->memory, GPU_MEMORY_PINNED);
        ck_assert(!gpu_is_device(memory));
        ck_assert_int_eq(cuMemHostUnregister(memory), 0);
        ck_assert(!gpu_is_device(memory));
    }
    free(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_detect");
    TCase *tests = tcase_create("detect");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tests, kinds_of_memory);
    tcase_add_test(tests, nothing_is_a_device_before_the_driver_is_initialized);
    tcase_add_test(tests, hits_ask_nobody);
    tcase_add_test(tests, more_memory_than_the_cache_remembers);
    tcase_add_test(tests, small_buffers_of_a_page_ask_nobody);
    tcase_add_test(tests, small_buffers_where_a_large_one_was);
    tcase_add_test(tests, the_driver_confirms_a_buffer_once_until_memory_is_freed);
    tcase_add_test(tests, memory_that_nobody_has_is_not_taken_for_the_hosts);
    tcase_add_test(tests, device_memory_where_host_memory_was);
    tcase_add_test(tests, managed_memory_where_host_memory_was);
    tcase_add_test(tests, a_reservation_where_host_memory_was);
    tcase_add_test(tests, host_memory_where_cuMemFree_freed);
    tcase_add_test(tests, host_memory_where_managed_memory_was);
    tcase_add_test(tests, host_memory_where_a_pool_was);
    tcase_add_test(tests, host_memory_where_a_reservation_was);
    tcase_add_test(tests, host_memory_where_pinned_memory_was);
    tcase_add_test(tests, another_buffer_after_cuMemFree);
    tcase_add_test(tests, another_buffer_after_cuMemFreeAsync);
    tcase_add_test(tests, another_device_after_cuMemUnmap);
    tcase_add_test(tests, registered_and_unregistered_host_memory);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
