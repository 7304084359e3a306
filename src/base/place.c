/* SPDX-License-Identifier: BSD-3-Clause
 *
 * place.c: finds the library's own files.
 */
#include "base/place.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

char *base_place_of(const char *name)
{
    Dl_info info;
    const char *end;
    char *path;
    int length;

    if (dladdr((void *)(uintptr_t)base_place_of, &info) && (end = strrchr(info.dli_fname, '/')))
        length = asprintf(&path, "%.*s/heddle/%s", (int)(end - info.dli_fname), info.dli_fname, name);
    else
        length = asprintf(&path, "%s", name);
    return length >= 0 ? path : NULL;
}
