/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_symbols.c: decides which address of a driver function dlsym returns to a caller. See
 * driver_symbols.h.
 *
 * Called before this library's constructors, and before a sanitizer is initialised: the code that finds the
 * C library's dlsym calls nothing that a sanitizer replaces.
 */
#include "gpu/driver/driver_symbols.h"

#include <dlfcn.h>
#include <string.h>

#include "gpu/driver/arch/gpu_arch.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu/driver/gpu_upper.h"
#include "ult/ult.h"

typedef void *(*dlsym_fn)(void *library, const char *name);

dlsym_fn gpu_dlsym_next;

BASE_NO_SANITIZE dlsym_fn gpu_dlsym_find(void)
{
    /* This library's own dlsym has no version, so it is not found. RTLD_NEXT would find nothing if the C library comes
     * first in the order of look-up. */
    dlsym_fn found = (dlsym_fn)dlvsym(RTLD_DEFAULT, "dlsym", GPU_ARCH_DLSYM_VERSION);

    if (!found)
        __builtin_trap();
    __atomic_store_n(&gpu_dlsym_next, found, __ATOMIC_RELAXED);
    return found;
}

void *gpu_symbol(void *library, const char *name)
{
    dlsym_fn next = __atomic_load_n(&gpu_dlsym_next, __ATOMIC_RELAXED);

    return (next ? next : gpu_dlsym_find())(library, name);
}

void *gpu_symbol_found(const char *name, void *function)
{
    if (!function || strncmp(name, "cu", 2) != 0)
        return function;
    /* Every runtime looks up one of these before it calls the driver. */
    if (ult_self() && (strcmp(name, "cuInit") == 0 || strncmp(name, "cuGetProcAddress", 16) == 0))
        gpu_upper.begin_context();
    return gpu_upper.replacement(name, function);
}

bool gpu_symbol_is_for_driver(const char *path)
{
    static const char *const files[] = {"libcuda.so", "libnvidia-", "libcupti", "libnvperf",
                                        "libucm",     "libucs",     "libuct_",  "libmpi_abi"};
    const char *file = strrchr(path, '/');

    file = file ? file + 1 : path;
    for (size_t i = 0; i < BASE_COUNT(files); i++)
        if (strncmp(file, files[i], strlen(files[i])) == 0)
            return true;
    return false;
}

static bool wants_the_drivers(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname && gpu_symbol_is_for_driver(info.dli_fname);
}

void *gpu_dlsym(void *library, const char *name, const void *caller)
{
    void *function, *given;

    if (library == RTLD_NEXT || wants_the_drivers(caller))
        return NULL;
    function = gpu_symbol(library, name);
    given = gpu_symbol_found(name, function);
    /* The result for RTLD_DEFAULT depends on the caller: return the C library's, unless it is a replaced
     * function. */
    return library == RTLD_DEFAULT && given == function ? NULL : given;
}
