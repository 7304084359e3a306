/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the loading of CUDA's driver is noticed at any time, and that a program which loads other
 * libraries, or forks, is not affected; and that the program and CUDA's runtime get Heddle's functions in
 * place of the driver's that wait for a GPU. The fake driver is loaded by dlopen here.
 */
#include <check.h>
#include <cuda.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/rank/guard.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu_detect.h"
#include "gpu/driver/driver_monitor.h"

/* A library that is not loaded yet. */
#define OTHER_LIBRARY "libresolv.so.2"

static void *load_driver(void)
{
    void *driver = dlopen(FAKE_DRIVER, RTLD_NOW);

    ck_assert_msg(driver != NULL, "%s", dlerror());
    return driver;
}

#define FUNCTION(driver, name) ((__typeof__(&name))(uintptr_t)dlsym(driver, FUNCTION_NAME(name)))
#define FUNCTION_NAME(name) FUNCTION_NAME_2(name)
#define FUNCTION_NAME_2(name) #name

/* Initializes the driver and allocates. */
static void *device_memory(void *driver)
{
    CUcontext context;
    CUdeviceptr address;

    ck_assert_int_eq(FUNCTION(driver, cuInit)(0), 0);
    ck_assert_int_eq(FUNCTION(driver, cuDevicePrimaryCtxRetain)(&context, 1), 0);
    ck_assert_int_eq(FUNCTION(driver, cuCtxSetCurrent)(context), 0);
    ck_assert_int_eq(FUNCTION(driver, cuMemAlloc)(&address, 100), 0);
    return (void *)address;
}

START_TEST(the_driver_is_noticed_when_it_is_loaded)
{
    void *device;

    gpu_detect_init();
    ck_assert(!gpu_is_used());
    ck_assert_ptr_null(*gpu_hint);
    device = device_memory(load_driver());
    ck_assert_ptr_nonnull(*gpu_hint);
    ck_assert(!gpu_is_active);
    ck_assert(gpu_is_device(device));
    ck_assert(gpu_is_active);
    ck_assert(gpu_monitor_is_sound());
    ck_assert(!gpu_is_device(&device));
    ck_assert_int_eq(gpu_resolve(device)->device, 1);
}
END_TEST

START_TEST(other_libraries_cost_one_look_each)
{
    void *other;

    gpu_detect_init();
    for (int round = 0; round < 5; round++) {
        other = dlopen(OTHER_LIBRARY, RTLD_NOW);
        ck_assert_ptr_nonnull(other);
        ck_assert_ptr_nonnull(*gpu_hint);
        ck_assert(!gpu_is_used());
        ck_assert_ptr_null(*gpu_hint);
        ck_assert_int_eq(dlclose(other), 0);
        ck_assert_ptr_null(dlopen(OTHER_LIBRARY, RTLD_NOW | RTLD_NOLOAD)); /* it could go */
        ck_assert(!gpu_is_used());
    }
    ck_assert(gpu_is_device(device_memory(load_driver())));
}
END_TEST

START_TEST(libraries_that_come_and_go_before_a_look)
{
    gpu_detect_init();
    dlclose(dlopen(OTHER_LIBRARY, RTLD_NOW));
    ck_assert(!gpu_is_used());
    dlclose(dlopen(OTHER_LIBRARY, RTLD_NOW));
    ck_assert(gpu_is_device(device_memory(load_driver())));
}
END_TEST

START_TEST(the_driver_may_be_there_before_us)
{
    void *device = device_memory(load_driver());

    gpu_detect_init();
    ck_assert(gpu_is_active);
    ck_assert(gpu_is_device(device));
}
END_TEST

START_TEST(a_driver_that_is_there_is_found_without_sentinels)
{
    struct rlimit files, none = {0};
    void *device = device_memory(load_driver());

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    none.rlim_max = files.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0); /* nothing can be loaded */
    gpu_detect_init();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    ck_assert(gpu_is_device(device));
}
END_TEST

START_TEST(a_driver_that_the_program_closes_stays)
{
    void *driver, *device;

    gpu_detect_init();
    driver = load_driver();
    device = device_memory(driver);
    ck_assert(gpu_is_device(device));
    ck_assert_int_eq(dlclose(driver), 0);
    ck_assert_int_eq(gpu_resolve(device)->memory, GPU_MEMORY_DEVICE);
}
END_TEST

/* What dlsym and cuGetProcAddress give for the functions that wait for the GPU are ours (gpu/rank/guard.h). */
static void check_guarded(void *(*find)(void *driver, const char *name))
{
    void *driver = load_driver(), *function = NULL;
    __typeof__(&cuGetProcAddress) get =
        (__typeof__(&cuGetProcAddress))(uintptr_t)find(driver, FUNCTION_NAME(cuGetProcAddress));

    for (size_t i = 0; i < gpu_guarded_count(); i++) {
        const struct gpu_guarded *guarded = gpu_guarded_at(i);
        void *real = gpu_symbol(driver, guarded->name), *found = find(driver, guarded->name);
        ck_assert_msg(real ? found == guarded->function : !found, "%s", guarded->name);
    }
    ck_assert_int_eq(get("cuMemFree", &function, CUDA_VERSION, 0, NULL), 0);
    ck_assert_ptr_eq(function, find(driver, FUNCTION_NAME(cuMemFree)));
    /* The driver keeps two versions of this one, and CUDA's runtime asks for the first. */
    ck_assert_int_eq(get("cuDevicePrimaryCtxReset", &function, 7000, 0, NULL), 0);
    ck_assert(gpu_symbol(driver, "cuDevicePrimaryCtxReset") !=
              gpu_symbol(driver, "cuDevicePrimaryCtxReset_v2"));
    ck_assert_ptr_eq(function, find(driver, "cuDevicePrimaryCtxReset_v2"));
    ck_assert_int_eq(get("cuGetProcAddress", &function, CUDA_VERSION, 0, NULL), 0);
    ck_assert_ptr_eq(function, get);
    ck_assert_int_eq(get("cuMemGetInfo", &function, CUDA_VERSION, 0, NULL), 0);
    ck_assert_ptr_eq(function, gpu_symbol(driver, FUNCTION_NAME(cuMemGetInfo)));
    ck_assert_ptr_eq(find(driver, "cuDriverGetVersion"), gpu_symbol(driver, "cuDriverGetVersion"));
}

static void *find_as_program(void *driver, const char *name)
{
    return dlsym(driver, name);
}

START_TEST(the_program_is_given_ours_for_what_waits)
{
    gpu_detect_init();
    check_guarded(find_as_program);
    ck_assert(!gpu_monitor_is_late());
}
END_TEST

static void *(*runtime_find)(const char *driver, const char *name);

static void *find_as_runtime(void *driver, const char *name)
{
    (void)driver;
    return runtime_find(FAKE_DRIVER, name);
}

START_TEST(a_runtime_that_comes_later_is_given_ours_for_what_waits)
{
    void *runtime;

    gpu_detect_init();
    runtime = dlopen(FAKE_RUNTIME, RTLD_NOW);
    ck_assert_msg(runtime != NULL, "%s", dlerror());
    *(void **)&runtime_find = dlsym(runtime, "fakecudart_find");
    check_guarded(find_as_runtime);
}
END_TEST

START_TEST(a_runtime_that_was_there_is_given_ours_for_what_waits)
{
    void *runtime = dlopen(FAKE_RUNTIME, RTLD_NOW);

    ck_assert_msg(runtime != NULL, "%s", dlerror());
    *(void **)&runtime_find = dlsym(runtime, "fakecudart_find");
    gpu_detect_init();
    check_guarded(find_as_runtime);
    ck_assert(!gpu_monitor_is_late());
}
END_TEST

START_TEST(any_library_with_a_runtime_is_given_ours_for_what_waits)
{
    void *library;

    gpu_detect_init();
    library = dlopen(FAKE_LIBRARY, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&runtime_find = dlsym(library, "fakecudart_find");
    check_guarded(find_as_runtime);
}
END_TEST

START_TEST(who_has_used_the_driver_before_us_is_known)
{
    device_memory(load_driver());
    gpu_detect_init();
    ck_assert(gpu_monitor_is_late());
}
END_TEST

/* Parent and child load the driver each for itself, and know only their own devices' memory. */
START_TEST(forked_processes)
{
    int status;
    pid_t child;

    gpu_detect_init();
    child = fork();
    if (child == 0)
        _exit(gpu_is_used() ? 1 : gpu_is_device(device_memory(load_driver())) ? 0 : 2);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!gpu_is_used());
    ck_assert(gpu_is_device(device_memory(load_driver())));
    child = fork();
    if (child == 0) /* has no driver any more: all is the host's */
        _exit(gpu_is_device(&status) ? 1 : 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_monitor_watch");
    TCase *tests = tcase_create("watch");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tests, the_driver_is_noticed_when_it_is_loaded);
    tcase_add_test(tests, other_libraries_cost_one_look_each);
    tcase_add_test(tests, libraries_that_come_and_go_before_a_look);
    tcase_add_test(tests, the_driver_may_be_there_before_us);
    tcase_add_test(tests, a_driver_that_is_there_is_found_without_sentinels);
    tcase_add_test(tests, a_driver_that_the_program_closes_stays);
    tcase_add_test(tests, forked_processes);
    tcase_add_test(tests, the_program_is_given_ours_for_what_waits);
    tcase_add_test(tests, a_runtime_that_comes_later_is_given_ours_for_what_waits);
    tcase_add_test(tests, a_runtime_that_was_there_is_given_ours_for_what_waits);
    tcase_add_test(tests, any_library_with_a_runtime_is_given_ours_for_what_waits);
    tcase_add_test(tests, who_has_used_the_driver_before_us_is_known);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
