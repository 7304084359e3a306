/* SPDX-License-Identifier: BSD-3-Clause
 *
 * private_libraries.c: which shared libraries each rank gets a copy of.
 *
 * In this order, the first rule that fits decides:
 *   1. never: the C and C++ runtime, sanitizers, GPU drivers, ld.so, the vdso, what defines malloc, libmpi
 * itself, our machine layer, what these two need, and UCX's plugins
 *   2. the list of image_set_private_libraries
 *   3. what was preloaded: private if it needs libmpi, for then it is a tool that stands between the program
 * and MPI (PMPI) and counts for one rank; else shared
 *   4. libgfortran: private (its units are per process as the Fortran standard sees it)
 *   5. libraries in the system's folders: shared; others: private
 */
#include "image/private_libraries.h"

#include "base/log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *user_list; /* of image_set_private_libraries */
static bool *is_private;      /* the decisions, by the order of dl_iterate_phdr */

void image_set_private_libraries(const char *list)
{
    user_list = list;
}

/* File names begin like this. */
static const char *const never[] = {
    "ld-linux",  "ld.so",    "linux-vdso",  "linux-gate",    "libc.so",   "libc-",        "libm.so",
    "libm-",     "libmvec",  "libpthread",  "libdl.so",      "libdl-",    "librt.so",     "librt-",
    "libresolv", "libnss_",  "libnsl",      "libutil",       "libanl",    "libthread_db", "libstdc++",
    "libc++",    "libgcc_s", "libunwind",   "libmpi_abi.so", "libmpi.so", "libasan",      "libtsan",
    "libubsan",  "liblsan",  "libmsan",     "libclang_rt",   "libcuda",   "libnv",        "libnccl",
    "libcublas", "libcufft", "libcusolver", "libcusparse",   "libcurand", "libcudnn",     "libgomp",
    "libomp",    "libiomp",  "vgpreload",   "libuct_",       "libucm_",   "libucx_",
};

static const char *const system_folders[] = {"/lib/",       "/lib32/",     "/lib64/",        "/usr/lib/",
                                             "/usr/lib32/", "/usr/lib64/", "/usr/local/cuda"};

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_never(const char *file)
{
    for (size_t i = 0; i < BASE_COUNT(never); i++)
        if (has_prefix(file, never[i]))
            return true;
    return false;
}

bool image_is_runtime_library(const char *path)
{
    return is_never(file_name(path));
}

/* Lies in the folder of this library or of a system's. */
static bool is_in_shared_folder(const char *path)
{
    Dl_info self;
    size_t folder_len;

    for (size_t i = 0; i < BASE_COUNT(system_folders); i++)
        if (has_prefix(path, system_folders[i]))
            return true;
    if (dladdr(&is_private, &self) == 0 || !self.dli_fname || !strrchr(self.dli_fname, '/'))
        return false;
    folder_len = (size_t)(strrchr(self.dli_fname, '/') + 1 - self.dli_fname);
    return strncmp(path, self.dli_fname, folder_len) == 0 && file_name(path) == path + folder_len;
}

/* Is the file named by an item: the same name up to ".so"? */
static bool item_fits(const char *item, size_t item_len, const char *file)
{
    return strncmp(file, item, item_len) == 0 &&
           (file[item_len] == '\0' || file[item_len] == '.' || strncmp(file + item_len, ".so", 3) == 0);
}

/* What the user's list says of a file: 1 private, -1 shared, 0 nothing. The last item that fits counts. */
static int list_says(const char *list, const char *file)
{
    int answer = 0;

    while (list && *list) {
        size_t len = strcspn(list, ", ");
        bool is_minus = len > 0 && list[0] == '-';

        if (len > (size_t)is_minus && item_fits(list + is_minus, len - is_minus, file))
            answer = is_minus ? -1 : 1;
        list += len;
        list += strspn(list, ", ");
    }
    return answer;
}

/* Marks a module and all that it needs. */
static void mark_needed(const struct image_module *modules, size_t count, size_t index, bool *is_marked)
{
    const struct image_module *module = &modules[index];

    if (is_marked[index])
        return;
    is_marked[index] = true;
    for (size_t i = 1; i < count; i++)
        if (image_module_needs(module, &modules[i]))
            mark_needed(modules, count, i, is_marked);
}

/* The module that an address of the prototype lies in; 0, the program, if in none. */
static size_t module_of(const struct image_module *modules, size_t count, const void *addr)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < modules[i].n_phdrs; j++) {
            const ElfW(Phdr) *phdr = &modules[i].phdr[j];

            if (phdr->p_type == PT_LOAD && (uintptr_t)addr - modules[i].bias - phdr->p_vaddr < phdr->p_memsz)
                return i;
        }
    return 0;
}

/* needs_us: libmpi is among what the module was linked with. */
static bool decide(const struct image_module *module, const char *preload, bool needs_us)
{
    const char *file = file_name(module->name);
    int says;

    if (!module->symtab || !module->name[0] || is_never(file))
        return false;
    says = list_says(user_list, file);
    if (says)
        return says > 0;
    if (list_says(preload, file) > 0)
        return needs_us;
    if (has_prefix(file, "libgfortran.so"))
        return true;
    return !is_in_shared_folder(module->name);
}

/* Items of LD_PRELOAD may be paths; keeps the file names only. Static storage. */
static const char *preloaded_files(void)
{
    static char files[4096];
    const char *list = getenv("LD_PRELOAD");
    size_t used = 0;

    files[0] = '\0';
    while (list && *list) {
        size_t len = strcspn(list, ": ");
        const char *name = list;

        for (size_t i = 0; i < len; i++)
            if (list[i] == '/')
                name = list + i + 1;
        if (used + len + 2 < sizeof files)
            used +=
                (size_t)snprintf(files + used, sizeof files - used, "%.*s,", (int)(list + len - name), name);
        list += len;
        list += strspn(list, ": ");
    }
    return files;
}

void image_private_libraries_mark(const struct image_module *modules, size_t count)
{
    const char *preload = preloaded_files();
    bool *is_ours = base_calloc(count, sizeof *is_ours, "the list of libraries");
    size_t own = module_of(modules, count, &is_private);

    is_private = base_calloc(count, sizeof *is_private, "the list of libraries");
    if (own != 0)
        mark_needed(modules, count, own, is_ours);
    for (size_t i = 1; i < count; i++)
        if (has_prefix(file_name(modules[i].name), "machine_ucx.so"))
            mark_needed(modules, count, i, is_ours);
    for (size_t i = 1; i < count; i++)
        is_private[i] = !is_ours[i] && decide(&modules[i], preload,
                                              own != 0 && image_module_needs(&modules[i], &modules[own]));
    /* Memory is allocated by one rank's library calls and freed by another module: one allocator for all. */
    is_private[module_of(modules, count, dlsym(RTLD_DEFAULT, "malloc"))] = false;
    free(is_ours);
}

bool image_private_libraries_has(size_t index)
{
    return is_private[index];
}
