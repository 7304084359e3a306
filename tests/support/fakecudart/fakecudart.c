/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fakecudart.c: a test double of CUDA's shared runtime: a library with its name that looks up the driver's
 * functions itself, and reports the addresses that it got.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *fakecudart_find(const char *driver, const char *name)
{
    void *library = dlopen(driver, RTLD_NOW);

    return library ? dlsym(library, name) : 0;
}
