/* SPDX-License-Identifier: BSD-3-Clause
 *
 * load.c: loads the machine, and with it UCX: the version that it was built with, or another one that the
 * user names (+ucx), for example with CUDA support. See procs.h.
 *
 * UCX consists of four libraries that need each other by name. Those of the chosen folder are loaded first,
 * by path; later references to their names, also by the machine, resolve to them. UCX finds its own modules
 * next to them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "ampi/procs/procs.h"
#include "base/log.h"
#include "base/place.h"
#include "base/privilege.h"

/* Each needs those before it; but ucm also calls ucs, without a DT_NEEDED entry. */
static const char *const libraries[] = {"libucm.so.0", "libucs.so.0", "libuct.so.0", "libucp.so.0"};

/* Subfolders to search: the user may name a folder of libraries, a prefix, or the result of `pip install
 * --target` for the package libucx-cu12 or -cu13. */
static const char *const folders[] = {"", "/lib", "/lib64", "/libucx/lib"};

static bool find_folder(const char *given, char *folder, size_t folder_bytes)
{
    char path[4096];

    for (size_t i = 0; i < BASE_COUNT(folders); i++) {
        snprintf(folder, folder_bytes, "%s%s", given, folders[i]);
        snprintf(path, sizeof path, "%s/libucp.so.0", folder);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static void load_ucx(const char *given)
{
    char folder[4000], path[4096];

    if (!find_folder(given, folder, sizeof folder))
        base_fatal(
            2, "+ucx %s: there is no libucp.so.0 in this folder, nor in lib, lib64 or libucx/lib below it",
            given);
    for (size_t i = 0; i < BASE_COUNT(libraries); i++)
        if (dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD))
            base_fatal(2, "+ucx %s: %s is in this process already: the program is linked with its own UCX",
                       given, libraries[i]);
    for (size_t i = 0; i < BASE_COUNT(libraries); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, libraries[i]);
        /* Global and lazy: so ucm finds ucs, which is loaded later. */
        if (!dlopen(path, RTLD_LAZY | RTLD_GLOBAL))
            base_fatal(2, "+ucx %s: %s", given, dlerror());
    }
}

/* UCX reads these when it is loaded. By default it takes over parts of the program: its output, and signals
 * (including SIGSEGV, which reports stack overflows, and SIGHUP). */
static const char *const settings[][2] = {
    {"UCX_LOG_FILE", "stderr"},
    {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_DEBUG_SIGNO", "0"},
    {"UCX_VFS_ENABLE", "n"}, /* a thread that waits for a daemon in /tmp */
};

/* The machine's shared object is next to libmpi, in heddle/. */
const struct machine *ampi_procs_load(const char *ucx)
{
    const char *given = secure_getenv("HEDDLE_MACHINE");
    char path[4096];
    void *library;
    const struct machine *machine;

    if (given)
        snprintf(path, sizeof path, "%s", given);
    else
        base_place_of("machine_ucx.so", path, sizeof path);
    if (base_is_privileged())
        base_fatal(
            1, "this program has rights that its caller lacks (setuid, setgid or capabilities), so it cannot "
               "be one of several processes: UCX and PMIx load code that environment variables name");
    for (size_t i = 0; i < BASE_COUNT(settings); i++)
        setenv(settings[i][0], settings[i][1], 0);
    if (ucx)
        load_ucx(ucx);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        base_fatal(1, "this job has several processes, but the transport between them cannot be loaded: %s",
                   dlerror());
    machine = dlsym(library, MACHINE_SYMBOL);
    if (!machine)
        base_fatal(1, "%s is not a machine for this library: %s", path, dlerror());
    return machine;
}
