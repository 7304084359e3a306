/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver.c: finds CUDA's driver, and keeps its last error.
 */
#include "gpu/driver/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/loader_lock.h"
#include "base/log.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu_detect.h"

#define DRIVER_NAME "libcuda.so.1"
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

struct gpu_driver gpu_driver;

/* ---- Opening ---- */

/* Position of each function in the table, and its name in the library. */
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name) {AS_TEXT(name), offsetof(struct gpu_driver, name)},
    GPU_DRIVER_SYMBOLS(SYMBOL)
#undef SYMBOL
};

static bool fill(void *library)
{
    struct gpu_driver found;

    for (size_t i = 0; i < BASE_COUNT(symbols); i++) {
        void *address = gpu_symbol(library, symbols[i].name);
        if (!address) {
            base_log("device buffers cannot be used: " DRIVER_NAME
                     " has no %s; it is older than the CUDA %d.%d that this library was built with",
                     symbols[i].name, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
            return false;
        }
        *(void **)((char *)&found + symbols[i].offset) =
            gpu_upper.replacement_for_library(symbols[i].name, address);
    }
    gpu_driver_relax(&found, library);
    gpu_driver_guard_contexts(&found);
    gpu_driver = found;
    return true;
}

bool gpu_driver_open(const char *path)
{
    static enum { UNKNOWN, OPEN, UNUSABLE } state;
    bool is_open;

    base_loader_lock();
    if (state == UNKNOWN) {
        /* The handle is never closed: the driver stays in the process. */
        void *library = dlopen(path ? path : DRIVER_NAME, RTLD_NOW);
        if (library)
            state = fill(library) ? OPEN : UNUSABLE;
    }
    is_open = state == OPEN;
    base_loader_unlock();
    return is_open;
}

void *gpu_driver_find(const char *name)
{
    void *library = dlopen(DRIVER_NAME, RTLD_NOW | RTLD_NOLOAD);
    void *function = library ? gpu_symbol(library, name) : NULL;

    if (library)
        dlclose(library);
    return function;
}

bool gpu_driver_is_initialized(void)
{
    CUcontext context;

    return gpu_is_used() && gpu_driver.cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED;
}

/* ---- Errors ---- */

/* The last error of this thread, and the function that returned it. */
static __thread struct {
    int error;
    const char *function;
    uintptr_t addr; /* the address it concerns; 0: none */
} last __attribute__((tls_model("initial-exec")));

int gpu_driver_last(void)
{
    return last.error;
}

int gpu_driver_record(int error, const char *function)
{
    return gpu_driver_record_address(error, function, 0);
}

int gpu_driver_record_address(int error, const char *function, uintptr_t addr)
{
    last.error = error;
    last.function = function;
    last.addr = addr;
    return error;
}

bool gpu_driver_is_sticky(int error)
{
    switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

/* Appends information that helps to find the mistake and is missing in the driver's text. */
static void append_hint(char *text, size_t text_bytes, int error, uintptr_t addr)
{
    size_t length = strlen(text);

    if (addr)
        snprintf(text + length, text_bytes - length,
                 " (no memory at %p: freed, or on a GPU that is not visible to this process?)", (void *)addr);
    else if (gpu_driver_is_sticky(error))
        snprintf(
            text + length, text_bytes - length,
            " (a kernel has failed, most likely one of the program's, and its GPU is unusable from now on)");
}

const char *gpu_error_text(int error)
{
    static __thread char text[384] __attribute__((tls_model("initial-exec")));
    const char *name = NULL, *words = NULL;
    bool is_last = last.error == error;
    const char *function = is_last ? last.function : NULL;

    if (gpu_upper.other_error_text(error, text, sizeof text))
        return text;
    if (!gpu_driver.cuGetErrorName || gpu_driver.cuGetErrorName((CUresult)error, &name) != CUDA_SUCCESS)
        name = NULL;
    if (!name || gpu_driver.cuGetErrorString((CUresult)error, &words) != CUDA_SUCCESS)
        words = NULL;
    if (!name)
        snprintf(text, sizeof text, "%s%sCUDA error %d", function ? function : "", function ? ": " : "",
                 error);
    else
        snprintf(text, sizeof text, "%s%s%s: %s", function ? function : "", function ? ": " : "", name,
                 words ? words : "no text");
    append_hint(text, sizeof text, error, is_last ? last.addr : 0);
    return text;
}
