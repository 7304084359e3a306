/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl_library.c: finds NCCL, and keeps its last error. See nccl_library.h.
 */
#include "gpu/nccl/nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/loader_lock.h"
#include "base/log.h"

#define LIBRARY_NAME "libnccl.so.2"
#define OFF "off"

struct gpu_nccl_functions gpu_nccl;
const char *gpu_nccl_library;

/* The library. Written under the loader lock, before `state` says OPEN. */
static struct {
    enum { UNKNOWN, OPEN, MISSING, UNUSABLE } state;
    int version;
    char path[256];
} library;

bool gpu_nccl_is_possible(void)
{
    if (gpu_nccl_library)
        return strcmp(gpu_nccl_library, OFF) != 0;
    return access("/dev/nvidiactl", F_OK) == 0;
}

/* ---- Opening ---- */

/* Position of each function in the table, and its name in the library. */
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(type, name, parameters) {#name, offsetof(struct gpu_nccl_functions, name)},
    GPU_NCCL_SYMBOLS(SYMBOL)
#undef SYMBOL
};

/* Formats a version in its usual form. */
static void print_version(int version, char *text, size_t text_bytes)
{
    int base = version >= 10000 ? 10000 : 1000; /* since 2.9 the second number has two digits */

    snprintf(text, text_bytes, "%d.%d.%d", version / base, version % base / 100, version % 100);
}

static bool fill(void *handle)
{
    struct gpu_nccl_functions found;
    char version[32];
    Dl_info file;

    for (size_t i = 0; i < BASE_COUNT(symbols); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            base_log("NCCL is not used: %s has no %s", gpu_nccl_library ? gpu_nccl_library : LIBRARY_NAME,
                     symbols[i].name);
            return false;
        }
        *(void **)((char *)&found + symbols[i].offset) = address;
    }
    snprintf(library.path, sizeof library.path, "%s",
             dladdr((void *)(uintptr_t)found.ncclGetVersion, &file) ? file.dli_fname : LIBRARY_NAME);
    if (found.ncclGetVersion(&library.version) != GPU_NCCL_SUCCESS || library.version < GPU_NCCL_OLDEST ||
        library.version >= 30000) {
        print_version(library.version, version, sizeof version);
        base_log("NCCL is not used: %s is version %s, but this library works with 2.13 and later 2.x",
                 library.path, version);
        return false;
    }
    gpu_nccl = found;
    return true;
}

int gpu_nccl_open(void)
{
    const char *name = gpu_nccl_library ? gpu_nccl_library : LIBRARY_NAME;
    void *handle;
    int error;

    base_loader_lock();
    if (library.state == UNKNOWN) {
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* never closed: it stays in the process */
        library.state = !handle ? MISSING : fill(handle) ? OPEN : UNUSABLE;
        if (!handle && gpu_nccl_library)
            base_log("NCCL is not used: %s", dlerror());
        else if (!handle)
            base_log_verbose(1, "NCCL is not used: %s", dlerror());
    }
    error = library.state == OPEN ? 0 : library.state == MISSING ? GPU_NCCL_NOT_THERE : GPU_NCCL_UNUSABLE;
    base_loader_unlock();
    return error;
}

int gpu_nccl_version(void)
{
    return library.version;
}

void gpu_nccl_describe(char *text, size_t text_bytes)
{
    char version[32];

    print_version(library.version, version, sizeof version);
    snprintf(text, text_bytes, "%s, %s", version, library.path);
}

/* ---- Errors ---- */

#define RESULTS_MAX 16

/* The last message for each result. */
static struct {
    pthread_mutex_t lock;
    char texts[RESULTS_MAX][256];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

int gpu_nccl_record(int result, const char *function)
{
    const char *more = gpu_nccl.ncclGetLastError(NULL);

    if (result < 0 || result >= RESULTS_MAX)
        result = 0;
    pthread_mutex_lock(&said.lock);
    snprintf(said.texts[result], sizeof said.texts[result], "%s: %s%s%.*s%s", function,
             gpu_nccl.ncclGetErrorString(result), more && *more ? " (" : "",
             more ? (int)strcspn(more, "\n") : 0, more ? more : "", more && *more ? ")" : "");
    pthread_mutex_unlock(&said.lock);
    return GPU_NCCL_ERRORS + result;
}

bool gpu_nccl_may_be_loss(int error)
{
    return error == GPU_NCCL_ELSEWHERE || error == GPU_NCCL_ERRORS + GPU_NCCL_SYSTEM_ERROR ||
           error == GPU_NCCL_ERRORS + GPU_NCCL_REMOTE_ERROR;
}

bool gpu_nccl_error_text(int error, char *text, size_t text_bytes)
{
    int result = error - GPU_NCCL_ERRORS;

    if (error < GPU_NCCL_ERRORS)
        return false;
    switch (error) {
    case GPU_NCCL_NOT_THERE:
        snprintf(text, text_bytes, "NCCL: there is no %s",
                 gpu_nccl_library ? gpu_nccl_library : LIBRARY_NAME);
        return true;
    case GPU_NCCL_UNUSABLE:
        snprintf(text, text_bytes, "NCCL: the library cannot be used");
        return true;
    case GPU_NCCL_CANCELLED:
        snprintf(text, text_bytes, "NCCL: given up, because another process cannot take part");
        return true;
    case GPU_NCCL_ELSEWHERE:
        snprintf(text, text_bytes, "NCCL has failed in another process");
        return true;
    default:
        break;
    }
    pthread_mutex_lock(&said.lock);
    if (result >= 0 && result < RESULTS_MAX && said.texts[result][0])
        snprintf(text, text_bytes, "NCCL: %s", said.texts[result]);
    else
        snprintf(text, text_bytes, "NCCL: error %d", result);
    pthread_mutex_unlock(&said.lock);
    return true;
}
