/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds the MPI library that a program will load. Like ldd, it runs the dynamic loader with
 * LD_TRACE_LOADED_OBJECTS=1, which lists the libraries and does not start the program. The list includes
 * libraries of libraries and respects LD_LIBRARY_PATH and RUNPATH. Called by target_program.c.
 */
#include "launch/launch.h"
#include "launch/libraries.h"

#include "base/other_mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool launch_own_path(char *path_out)
{
    ssize_t len = readlink("/proc/self/exe", path_out, PATH_MAX - 1);
    if (len <= 0)
        return false;
    path_out[len] = '\0';
    return true;
}

char *launch_own_file(const char *const places[2])
{
    char self[PATH_MAX];
    if (!launch_own_path(self))
        return NULL;
    *strrchr(self, '/') = '\0';
    for (int i = 0; i < 2; i++) {
        char file[2 * PATH_MAX];
        snprintf(file, sizeof file, "%s/%s", self, places[i]);
        if (access(file, R_OK) != 0)
            continue;
        char *name = strrchr(file, '/'), *path = NULL;
        *name = '\0';
        char *dir = realpath(file, NULL);
        if (dir == NULL || asprintf(&path, "%s/%s", dir, name + 1) < 0)
            path = NULL;
        free(dir);
        return path;
    }
    return NULL;
}

const char *launch_library_dir(void)
{
    static char *dir;
    /* The path in the build tree and in an installation. */
    static const char *const places[] = {"../lib/" BASE_OWN_MPI, HEDDLE_LIB_FROM_BIN "/" BASE_OWN_MPI};
    if (dir == NULL) {
        dir = launch_own_file(places);
        if (dir != NULL)
            *strrchr(dir, '/') = '\0';
    }
    return dir;
}

/* True if this file is our library, under any path. */
static bool is_our_library(const char *path)
{
    const char *own_dir = launch_library_dir();
    if (own_dir == NULL)
        return true; /* nothing to compare with: accept the file */
    char own_path[PATH_MAX + 64];
    snprintf(own_path, sizeof own_path, "%s/" BASE_OWN_MPI, own_dir);
    char *a = realpath(path, NULL), *b = realpath(own_path, NULL);
    bool is_same = a != NULL && b != NULL && strcmp(a, b) == 0;
    free(a);
    free(b);
    return is_same;
}

/* One line of the loader's list: "<tab>libmpi.so.40 => /usr/lib/libmpi.so.40 (0x...)". */
static void read_line(char *line, struct launch_libraries *libraries_out)
{
    char *name = line + strspn(line, " \t");
    char *arrow = strstr(name, " => ");
    char *path = arrow ? arrow + 4 : name;
    char *address = strstr(path, " (0x"); /* paths may contain blanks */
    if (address)
        *address = '\0';
    name[strcspn(name, " \n")] = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (strcmp(name, BASE_OWN_MPI) == 0) {
        libraries_out->has_ours = true;
        libraries_out->needs_library_path = !is_our_library(path);
        return;
    }
    if (base_is_other_mpi(name))
        snprintf(libraries_out->other_mpi, sizeof libraries_out->other_mpi, "%s", name);
}

/* Lists the libraries that the program loads, with or without those of LD_PRELOAD. */
static void list(const char *path, bool with_preloaded, struct launch_libraries *libraries_out)
{
    struct launch_output list;
    char *argv[] = {(char *)path, NULL}, *line = NULL;
    size_t capacity = 0;
    /* Its error messages about missing libraries do not concern the user. */
    if (!launch_output_open(path, argv, "LD_TRACE_LOADED_OBJECTS", with_preloaded ? NULL : "LD_PRELOAD",
                            &list))
        return;
    while (getline(&line, &capacity, list.lines) > 0)
        read_line(line, libraries_out);
    free(line);
    launch_output_close(&list);
}

void launch_libraries_list(const char *path, struct launch_libraries *libraries_out)
{
    struct launch_libraries without = {0};
    memset(libraries_out, 0, sizeof *libraries_out);
    list(path, true, libraries_out);
    if (!libraries_out->has_ours || getenv("LD_PRELOAD") == NULL)
        return;
    list(path, false, &without);
    libraries_out->is_only_preloaded = !without.has_ours;
}

bool launch_libraries_have_transport(const char *loader)
{
    static const char *const places[] = {"../lib/heddle/machine_ucx.so",
                                         HEDDLE_LIB_FROM_BIN "/heddle/machine_ucx.so"};
    struct launch_output list;
    char *argv[] = {(char *)loader, launch_own_file(places), NULL}, *line = NULL;
    size_t capacity = 0;
    bool has_libpmix = false, is_complete = true;
    if (argv[1] == NULL ||
        !launch_output_open(loader, argv, "LD_TRACE_LOADED_OBJECTS", "LD_PRELOAD", &list)) {
        free(argv[1]);
        return false;
    }
    while (getline(&line, &capacity, list.lines) > 0) {
        has_libpmix |= strstr(line, "libpmix.so") != NULL;
        is_complete &= strstr(line, " (0x") != NULL; /* errors have no address */
    }
    free(line);
    launch_output_close(&list);
    free(argv[1]);
    return has_libpmix && is_complete;
}
