/* SPDX-License-Identifier: BSD-3-Clause
 *
 * place.c: finds the library's own files.
 */
#include "base/place.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void base_place_of(const char *name, char *path, size_t path_bytes)
{
    Dl_info info;
    const char *end;

    if (dladdr((void *)(uintptr_t)base_place_of, &info) && (end = strrchr(info.dli_fname, '/')))
        snprintf(path, path_bytes, "%.*s/heddle/%s", (int)(end - info.dli_fname), info.dli_fname, name);
    else
        snprintf(path, path_bytes, "%s", name);
}
