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
#include <string.h>
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

/* The path of a library in a subfolder of the given folder. */
static char *path_in(const char *given, const char *folder, const char *library)
{
    char *path;

    if (asprintf(&path, "%s%s/%s", given, folder, library) < 0)
        base_fatal(1, "+ucx %s: out of memory", given);
    return path;
}

/* The subfolder with the libraries; NULL: none. */
static const char *find_folder(const char *given)
{
    for (size_t i = 0; i < BASE_COUNT(folders); i++) {
        char *path = path_in(given, folders[i], "libucp.so.0");
        bool is_there = access(path, F_OK) == 0;

        free(path);
        if (is_there)
            return folders[i];
    }
    return NULL;
}

static void load_ucx(const char *given)
{
    const char *folder = find_folder(given);

    if (!folder)
        base_fatal(
            2, "+ucx %s: there is no libucp.so.0 in this folder, nor in lib, lib64 or libucx/lib below it",
            given);
    for (size_t i = 0; i < BASE_COUNT(libraries); i++)
        if (dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD))
            base_fatal(2, "+ucx %s: %s is in this process already: the program is linked with its own UCX",
                       given, libraries[i]);
    for (size_t i = 0; i < BASE_COUNT(libraries); i++) {
        char *path = path_in(given, folder, libraries[i]);

        /* Global and lazy: so ucm finds ucs, which is loaded later. */
        if (!dlopen(path, RTLD_LAZY | RTLD_GLOBAL))
            base_fatal(2, "+ucx %s: %s", given, dlerror());
        free(path);
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
    char *path;
    void *library;
    const struct machine *machine;

    if (base_is_privileged())
        base_fatal(
            1, "this program has rights that its caller lacks (setuid, setgid or capabilities), so it cannot "
               "be one of several processes: UCX and PMIx load code that environment variables name");
    for (size_t i = 0; i < BASE_COUNT(settings); i++)
        setenv(settings[i][0], settings[i][1], 0);
    if (ucx)
        load_ucx(ucx);
    path = given ? strdup(given) : base_place_of("machine_ucx.so");
    library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        base_fatal(1, "this job has several processes, but the transport between them cannot be loaded: %s",
                   dlerror());
    machine = dlsym(library, MACHINE_SYMBOL);
    if (!machine)
        base_fatal(1, "%s is not a machine for this library: %s", path, dlerror());
    free(path);
    return machine;
}
