/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_lgamma.c: lgamma, gamma and their forms for other types store the sign of the result in the rank's signgam.
 *
 * libm is not linked: a program that calls these functions has loaded it.
 */
#include "image/libc/rebind.h"

#include "base/loader_lock.h"
#include "base/log.h"

#include <dlfcn.h>

static void *find_function(const char *name)
{
    void *library, *function;

    base_loader_lock();
    library = dlopen("libm.so.6", RTLD_LAZY);
    function = library ? dlsym(library, name) : NULL;
    base_loader_unlock();
    if (!function)
        base_fatal(1, "the C library has no %s; is this glibc?", name);
    return function;
}

/* Where the sign belongs: the signgam of the rank whose code calls. */
static int *signgam_of(const void *caller)
{
    static int unused; /* a thread of no rank, in code of none */
    struct image_libc *libc = image_libc_at(caller);

    return libc ? libc->variables[IMAGE_SIGNGAM] : &unused;
}

#define STORES_SIGN(type, function, ...)                                                      \
    static type image_libc_##function(type x)                                                 \
    {                                                                                         \
        static type (*_Atomic found)(type x, int *sign);                                      \
        type (*real)(type x, int *sign) = atomic_load_explicit(&found, memory_order_relaxed); \
                                                                                              \
        if (!real) {                                                                          \
            *(void **)&real = find_function(#function "_r");                                  \
            atomic_store_explicit(&found, real, memory_order_relaxed);                        \
        }                                                                                     \
        return real(x, signgam_of(__builtin_return_address(0)));                              \
    }                                                                                         \
    IMAGE_REBINDS(image_libc_##function, #function, __VA_ARGS__)

STORES_SIGN(double, lgamma, "gamma");
STORES_SIGN(float, lgammaf, "gammaf");
STORES_SIGN(long double, lgammal, "gammal");
IMAGE_REBINDS_VARIABLE(IMAGE_SIGNGAM, "signgam", "__signgam");
