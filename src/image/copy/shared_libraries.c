/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shared_libraries.c: the list of libraries that all ranks of a process share, by name, each with a reason.
 * Every other library is the rank's own (private_libraries.c).
 *
 * A library belongs here if ranks may call it at the same time (it locks its state), and if one instance
 * per rank would be wrong or expensive: libmpi or other parts of the process use its objects as well, or it
 * owns something that exists once per process (the heap, ld.so's lists, a driver's connection). A library that is
 * not thread-safe, whose variables the program sets (an error handler, a current device), that keeps state per
 * thread, or that calls the program back on threads of its own (TBB) does not belong here.
 *
 * Names are file names up to ".so", exactly; a '*' at the end matches any suffix.
 */
#include "image/copy/private_libraries.h"

#include <string.h>

/* Before glibc 2.34 the file names begin with "libc-2" etc. */
static const struct image_shared_library table[] = {
    {"libc libc-2* libm libm-2* libmvec libmvec-2* libpthread libpthread-2* libdl libdl-2* librt librt-2* "
     "libresolv libresolv-2* libutil libutil-2* libanl libanl-2* libnsl libnsl-2* libnss_* libthread_db "
     "libBrokenLocale libc_malloc_debug libmemusage ld-linux* ld ld64 ld-2* linux-vdso linux-gate",
     IMAGE_SHARED_ALWAYS, "a process has one C library"},
    {"libstdc++ libc++ libc++abi", IMAGE_SHARED_ALWAYS,
     "the C++ runtime: it locks its state, and libraries exchange its objects"},
    {"libgcc_s libunwind libunwind-*", IMAGE_SHARED_ALWAYS, "unwinds the stack through all modules"},
    {"libatomic", IMAGE_SHARED_ALWAYS, "its locks guard memory that ranks may share"},
    {"libmpi_abi libmpi machine_ucx", IMAGE_SHARED_ALWAYS | IMAGE_SHARED_ALONE, "it is MPI"},
    {"libasan libtsan libubsan liblsan libmsan libhwasan libclang_rt* vgpreload_* liblttng-ust*",
     IMAGE_SHARED_ALWAYS, "instruments the whole process"},
    {"libucp libuct libucs libucm libuct_* libucm_* libucs_* libucx_*", IMAGE_SHARED_ALONE,
     "libmpi sends through it; it locks its state"},
    {"libpmix libpmi libpmi2", IMAGE_SHARED_ALONE, "a process is one client of the launcher"},
    {"libibverbs librdmacm libibumad libibmad libmlx4 libmlx5 libefa libmana libnl-3 libnl-route-3 libfabric "
     "libpsm2 libpsm_infinipath libxpmem libcxi",
     0, "belongs to the network's driver, and is thread-safe"},
    /* OpenMP's libraries and TBB are not here: a rank has threads and settings of its own in any case, and
     * these libraries keep some of them for the process. */
    /* libcudart is not here: its current device and last error are per rank. */
    {"libcuda libcudadebugger libnvidia-* libOpenCL libamdhip64 libhsa-runtime64 libze_loader",
     IMAGE_SHARED_ALWAYS, "belongs to the GPU's driver, of which a process has one"},
    {"libcublas libcublasLt libnvblas libcufft libcufftw libcurand libcusolver libcusolverMg libcusparse "
     "libcusparseLt libcutensor libcutensorMg libcudnn libcudnn_* libcufile libcufile_rdma libnccl "
     "libnvshmem* "
     "libnvrtc libnvrtc-builtins libnvJitLink libnvjpeg libnvToolsExt libnpp* libcupti libcheckpoint "
     "libnvperf_host libnvperf_target",
     0, "large and thread-safe; its handles hold the caller's state"},
    /* libOSMesa is not here, because it keeps the current context per thread. GL's other libraries do so,
     * too, but their context is the driver's. */
    {"libX11 libX11-xcb libxcb libxcb-* libXau libXdmcp libXext libXrender libXrandr libXi libXt libXmu "
     "libXpm libXft libXfixes libXcursor libXinerama libXxf86vm libSM libICE libwayland-client libGL libGLX "
     "libGLX_* libEGL libEGL_* libGLdispatch libOpenGL libGLESv1_CM libGLESv2 libgbm "
     "libdrm "
     "libdrm_* libvulkan",
     0, "belongs to the display's connection or the graphics driver"},
};

/* Private although a shared library may need them: that library then uses the prototype, and ranks pass it
 * only the driver's handles, none of their own objects. */
static const char private_for_all[] = "libcudart";

/* Dependencies of libraries that libmpi opens: their prototypes have to be constructed before ranks exist. */
static const char used_by_shared[] =
    "libz libzstd liblzma libnuma libhwloc libevent* libmunge libudev libltdl libcap "
    "libpciaccess libxml2 libcudart";

/* True at the end of a library's name. A library of a Python wheel has a hash in its file name: "-0123abcd.so". */
static bool is_name_end(const char *at)
{
    while (at[0] == '-' && strspn(at + 1, "0123456789abcdef") == 8)
        at += 9;
    return *at == '\0' || strncmp(at, ".so", 3) == 0;
}

/* True if one of the names, separated by spaces, matches the file. */
static bool names_fit(const char *names, const char *file)
{
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");

        if (at[len - 1] == '*' ? strncmp(file, at, len - 1) == 0
                               : strncmp(file, at, len) == 0 && is_name_end(file + len))
            return true;
        at += len;
    }
    return false;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const struct image_shared_library *image_shared_library_find(const char *path)
{
    for (size_t i = 0; i < BASE_COUNT(table); i++)
        if (names_fit(table[i].names, file_name(path)))
            return &table[i];
    return NULL;
}

bool image_is_private_for_all(const char *path)
{
    return names_fit(private_for_all, file_name(path));
}

bool image_is_used_by_shared(const char *path)
{
    return names_fit(used_by_shared, file_name(path));
}

bool image_is_runtime_library(const char *path)
{
    const struct image_shared_library *found = image_shared_library_find(path);

    return found && (found->flags & IMAGE_SHARED_ALWAYS);
}
