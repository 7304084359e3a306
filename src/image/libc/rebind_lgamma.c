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

typedef double (*lgamma_fn)(double x, int *sign);
typedef float (*lgammaf_fn)(float x, int *sign);
typedef long double (*lgammal_fn)(long double x, int *sign);

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

double image_libc_lgamma(double x)
{
    static _Atomic(lgamma_fn) found;
    lgamma_fn real = atomic_load_explicit(&found, memory_order_relaxed);

    if (!real) {
        real = (lgamma_fn)find_function("lgamma_r");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    return real(x, signgam_of(__builtin_return_address(0)));
}

float image_libc_lgammaf(float x)
{
    static _Atomic(lgammaf_fn) found;
    lgammaf_fn real = atomic_load_explicit(&found, memory_order_relaxed);

    if (!real) {
        real = (lgammaf_fn)find_function("lgammaf_r");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    return real(x, signgam_of(__builtin_return_address(0)));
}

long double image_libc_lgammal(long double x)
{
    static _Atomic(lgammal_fn) found;
    lgammal_fn real = atomic_load_explicit(&found, memory_order_relaxed);

    if (!real) {
        real = (lgammal_fn)find_function("lgammal_r");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    return real(x, signgam_of(__builtin_return_address(0)));
}
