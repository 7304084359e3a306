/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that counts its calls from a number that its constructor has set; WRAPPER: a library that is preloaded, counts
 * thousands and adds the count of the first one.
 */
#include <dlfcn.h>

static int n;

__attribute__((constructor)) static void construct(void)
{
    n = 100;
}

int counter_add(void)
{
#ifdef WRAPPER
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "counter_add");

    return ++n * 1000 + (next ? next() : 0);
#else
    return ++n;
#endif
}
