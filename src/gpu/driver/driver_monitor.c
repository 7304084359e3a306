/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_monitor.c: detects the driver and its mappings. See gpu/driver/driver_monitor.h.
 */
#include "gpu/driver/driver_monitor.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/loader_lock.h"
#include "base/log.h"
#include "base/place.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/driver/imports.h"
#include "gpu/driver/query.h"
#include "gpu_detect.h"
#include "ult/ult.h"

/* Targets of gpu_hint: nothing to look for; always look. */
static void *const nothing = NULL;
static void *const something = (void *)&nothing;

static void set_hint(void *const *hint)
{
    atomic_store(&gpu_hint, hint);
    ult_hook_switches(hint, gpu_upper.swap_context);
}

static bool is_sound;

bool gpu_monitor_is_sound(void)
{
    return is_sound;
}

/* ---- Memory owned by the driver although nothing may be allocated there now ---- */

/* Mappings of the driver that the CPU can read: managed memory is allocated from them without another
 * mmap. */
#define READABLE_MAX 4096
static struct {
    atomic_flag lock;
    int n;
    struct {
        uintptr_t from, to;
    } mappings[READABLE_MAX];
} readable = {.lock = ATOMIC_FLAG_INIT};

static void lock_readable(void)
{
    while (atomic_flag_test_and_set_explicit(&readable.lock, memory_order_acquire))
        sched_yield();
}

static void unlock_readable(void)
{
    atomic_flag_clear_explicit(&readable.lock, memory_order_release);
}

/* Mappings that are partly unmapped are kept: that only costs queries. */
static void forget_readable(uintptr_t from, uintptr_t to)
{
    lock_readable();
    for (int i = readable.n - 1; i >= 0; i--)
        if (from <= readable.mappings[i].from && readable.mappings[i].to <= to)
            readable.mappings[i] = readable.mappings[--readable.n];
    unlock_readable();
}

static void note_readable(uintptr_t from, uintptr_t to)
{
    forget_readable(from, to);
    lock_readable();
    if (readable.n < READABLE_MAX) {
        readable.mappings[readable.n].from = from;
        readable.mappings[readable.n++].to = to;
    } else {
        is_sound = false;
    }
    unlock_readable();
}

/* Records mappings that the driver made before it was monitored: shared ones of its devices. */
static void note_what_is_there(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], *end;

    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
        if (strstr(line, "/dev/nvidia"))
            note_readable(from, to);
    }
    if (maps)
        fclose(maps);
    else
        is_sound = false;
}

/* An invalid system call that reads the 8 bytes before it is rejected: no signal, no side effect. NULL
 * would mean that there is nothing to read. */
static bool is_readable(uintptr_t addr)
{
    return addr >= 8 &&
           (syscall(SYS_rt_sigprocmask, ~0, addr & ~(uintptr_t)7, NULL, 8) != -1 || errno != EFAULT);
}

enum gpu_owner gpu_monitor_owner(uintptr_t addr)
{
    bool is_drivers = !is_sound;

    if (!is_readable(addr))
        return GPU_OWNER_NOBODY;
    lock_readable();
    for (int i = 0; i < readable.n && !is_drivers; i++)
        is_drivers = addr >= readable.mappings[i].from && addr < readable.mappings[i].to;
    unlock_readable();
    return is_drivers ? GPU_OWNER_DRIVER : GPU_OWNER_HOST;
}

/* ---- Replacements of the C library's functions for the driver ---- */

/* Called before and after a mapping call: unmapped memory may be the host's at once, and mapped memory is
 * the device's when the call returns. */
static inline void count_change(void)
{
    atomic_fetch_add_explicit(&gpu_map_count, 1, memory_order_seq_cst);
    gpu_count_change();
}

static void *watched_mmap(void *addr, size_t n_bytes, int prot, int flags, int fd, off_t offset)
{
    void *mapped;

    count_change();
    mapped = mmap(addr, n_bytes, prot, flags, fd, offset);
    if (mapped != MAP_FAILED && prot != PROT_NONE)
        note_readable((uintptr_t)mapped, (uintptr_t)mapped + n_bytes);
    count_change();
    return mapped;
}

static int watched_munmap(void *addr, size_t n_bytes)
{
    count_change();
    forget_readable((uintptr_t)addr, (uintptr_t)addr + n_bytes);
    return munmap(addr, n_bytes);
}

static void *watched_mremap(void *addr, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    va_list args;
    void *mapped, *wanted;

    va_start(args, flags);
    wanted = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
    va_end(args);
    count_change();
    mapped = mremap(addr, old_bytes, new_bytes, flags, wanted);
    count_change();
    return mapped;
}

/* The driver uses this for gettid and similar calls; it could also map memory with it. */
static long watched_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long result;

    if (number != SYS_mmap && number != SYS_munmap && number != SYS_mremap)
        return syscall(number, a, b, c, d, e, f);
    count_change();
    result = syscall(number, a, b, c, d, e, f);
    count_change();
    return result;
}

enum { MMAP, MMAP64, MUNMAP, N_WATCHED = 5 };
static const struct gpu_import watched[N_WATCHED] = {
    [MMAP] = {"mmap", (void (*)(void))watched_mmap},
    [MMAP64] = {"mmap64", (void (*)(void))watched_mmap},
    [MUNMAP] = {"munmap", (void (*)(void))watched_munmap},
    {"mremap", (void (*)(void))watched_mremap},
    {"syscall", (void (*)(void))watched_syscall},
};

/* ---- The driver's imports ---- */

/* Returns false if the library maps memory in another way. */
static bool watch_mappings(const struct link_map *map)
{
    bool is_found[N_WATCHED] = {false};

    gpu_imports_redirect(map, watched, N_WATCHED, is_found);
    return (is_found[MMAP] || is_found[MMAP64]) && is_found[MUNMAP];
}

/* ---- The loader's list ---- */

/* The driver in the loader's list; NULL: absent. */
static const struct link_map *find_driver(void)
{
    const struct link_map *map = gpu_imports_first_library();

    while (map && !gpu_imports_is_library(map->l_name, "libcuda.so"))
        map = map->l_next;
    return map;
}

/* Loads one of the two sentinels, after unloading it if necessary, so that it is the last in the list.
 * NULL: failed. */
static const struct link_map *place_sentinel(void)
{
    static void *handles[2];
    static int turn;
    char name[32], *path;
    struct link_map *map = NULL;

    turn = !turn;
    if (handles[turn])
        dlclose(handles[turn]);
    snprintf(name, sizeof name, "sentinel_%d.so", turn);
    path = base_place_of(name);
    handles[turn] = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    free(path);
    if (!handles[turn] || dlinfo(handles[turn], RTLD_DI_LINKMAP, &map) != 0) {
        base_log_verbose(1, "device buffers are not recognized if CUDA is loaded later: %s", dlerror());
        return NULL;
    }
    return map;
}

/* ---- Looking for the driver ---- */

static void use_driver(const struct link_map *driver)
{
    if (!gpu_driver_open(driver->l_name)) {
        set_hint(&nothing);
        return;
    }
    is_sound = watch_mappings(driver);
    note_what_is_there();
    if (!is_sound)
        base_log_verbose(1, "%s maps memory in a way that cannot be monitored: every address needs a query",
                         driver->l_name);
    atomic_store(&gpu_is_active, true);
    set_hint(&something);
}

bool gpu_monitor_watch(void)
{
    const struct link_map *here, *driver;

    base_loader_lock();
    if (!atomic_load(&gpu_is_active)) {
        /* Other PEs wait here meanwhile: their ranks may use the driver. This order matters: a library that
         * is loaded in between comes after the sentinel, and is examined next time. */
        set_hint(&something);
        here = place_sentinel();
        driver = find_driver();
        if (driver)
            use_driver(driver);
        else
            set_hint(here ? (void *const *)&here->l_next : &nothing);
    }
    base_loader_unlock();
    return atomic_load(&gpu_is_active);
}

/* ---- The module that loaded the driver ---- */

static bool is_late;

bool gpu_monitor_is_late(void)
{
    return is_late;
}

/* True if the program is linked with CUDA's shared runtime. */
static bool has_shared_runtime(void)
{
    const struct link_map *map = gpu_imports_first_library();

    while (map && !gpu_imports_is_library(map->l_name, "libcudart.so"))
        map = map->l_next;
    return map != NULL;
}

void gpu_monitor_begin(void)
{
    is_late = gpu_driver_is_initialized();
    /* A runtime shared by all ranks would load the driver for one of them while those on other PEs run, so
     * it is loaded now. */
    if (ult_pe_count() > 1 && has_shared_runtime() && dlopen("libcuda.so.1", RTLD_NOW) && gpu_monitor_watch())
        gpu_upper.prepare_context();
}
