/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interpreter.c: see interpreter.h.
 */
#include "launch/python/interpreter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool python_is_interpreter(const char *path)
{
    const char *name = file_name(path);
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.dt")] == '\0';
}

char *python_library_find(const char *path)
{
    static const char *const folders[] = {"lib", "lib/" HEDDLE_MULTIARCH, "lib64"};
    const char *name = file_name(path);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char *library;
        if (asprintf(&library, "%.*s../%s/lib%s.so.1.0", (int)(name - path), path, folders[i], name) < 0)
            return NULL;
        char *real = access(library, R_OK) == 0 ? realpath(library, NULL) : NULL;
        free(library);
        if (real)
            return real;
    }
    return NULL;
}
