/* SPDX-License-Identifier: BSD-3-Clause
 *
 * find.c: look-up of the fake driver's functions by name: cuGetProcAddress in all its forms.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>

/* Functions that this driver has in several versions, and from which version of CUDA on a name means which.
 * Of the others there is one, whatever version is asked for. */
static const struct {
    const char *name;
    int from;
    const char *suffix;
} versions[] = {
    {"cuCtxSynchronize", 13000, "_v2"},
    {"cuCtxSynchronize", 0, ""},
    {"cuDevicePrimaryCtxRelease", 11000, "_v2"},
    {"cuDevicePrimaryCtxRelease", 0, ""},
    {"cuDevicePrimaryCtxReset", 11000, "_v2"},
    {"cuDevicePrimaryCtxReset", 0, ""},
    {"cuGetProcAddress", 12000, "_v2"},
    {"cuGetProcAddress", 0, ""},
    {"cuGraphExecUpdate", 12000, "_v2"},
    {"cuGraphNodeGetDependencies", 12030, "_v2"},
    {"cuStreamBeginCapture", 10010, "_v2"},
    {"cuStreamBeginCapture", 0, ""},
    {"cuStreamGetCaptureInfo", 12030, "_v3"},
    {"cuStreamGetCaptureInfo", 11030, "_v2"},
    {"cuStreamGetCaptureInfo", 0, ""},
    {"cuStreamGetCtx", 12050, "_v2"},
    {"cuStreamGetCtx", 0, ""},
};

/* A function of a later version of CUDA. */
FAKE_EXPORT CUresult cuFutureAsync(CUstream stream)
{
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_EXPORT CUresult cuFutureAsync_ptsz(CUstream stream)
{
    (void)stream;
    return CUDA_ERROR_NOT_PERMITTED;
}

static void *symbol(const char *name, const char *suffix, const char *twin)
{
    char full[128];
    Dl_info self;
    void *library, *found = NULL;

    snprintf(full, sizeof full, "%s%s%s", name, suffix, twin);
    if (dladdr(&fake, &self) && (library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD))) {
        found = dlsym(library, full);
        dlclose(library);
    }
    return found;
}

/* A function's twin for the stream of a thread, or the function itself if it has none. */
static void *with_suffix(const char *name, const char *suffix, bool is_per_thread)
{
    void *found = NULL;

    if (is_per_thread)
        found = symbol(name, suffix, "_ptsz");
    if (is_per_thread && !found)
        found = symbol(name, suffix, "_ptds");
    return found ? found : symbol(name, suffix, "");
}

static void *find(const char *name, int version, bool is_per_thread)
{
    static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
    void *found = NULL;

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(name, versions[i].name) == 0 && version >= versions[i].from)
            return with_suffix(name, versions[i].suffix, is_per_thread);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !found; i++)
        found = with_suffix(name, suffixes[i], is_per_thread);
    return found;
}

static CUresult get(const char *name, void **function, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
    *function = find(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

FAKE_EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult *status)
{
    return get(name, function, version, flags, status);
}

/* Its flags say the legacy stream only if they say so. */
CUresult CUDAAPI cuGetProcAddress_v2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                          CUdriverProcAddressQueryResult *status);
FAKE_EXPORT CUresult cuGetProcAddress_v2_ptsz(const char *name, void **function, int version,
                                              cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (!(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM))
        flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return get(name, function, version, flags, status);
}

#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags);
FAKE_EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return get(name, function, version, flags, NULL);
}
