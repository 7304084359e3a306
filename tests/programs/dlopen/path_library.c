/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library of the program that opens a plugin by name. */
#include <dlfcn.h>

void *library_open(const char *name)
{
    return dlopen(name, RTLD_NOW);
}
