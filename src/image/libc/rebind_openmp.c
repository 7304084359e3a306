/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_openmp.c: the lock of OpenMP's critical sections without a name.
 *
 * GCC's runtime has one such lock, so ranks that share it would exclude each other: a rank that waits for a
 * message in a critical section would keep the sender out of its own section. Here it is per rank. (Sections
 * with a name have their lock in the program, as LLVM's runtime has it for all: these are the rank's
 * already.) Only threads of the rank wait for it, so it is an ordinary mutex.
 */
#include "image/libc/rebind.h"

#include <dlfcn.h>

#include "base/log.h"

/* Outside of ranks. */
static void call_real(const char *name)
{
    void (*real)(void);

    *(void **)&real = dlsym(RTLD_DEFAULT, name);
    if (!real)
        base_fatal(1, "%s is not in any library", name);
    real();
}

void image_libc_gomp_critical_start(void)
{
    struct image_libc *libc = image_libc_current();

    if (libc)
        pthread_mutex_lock(&libc->critical);
    else
        call_real("GOMP_critical_start");
}

void image_libc_gomp_critical_end(void)
{
    struct image_libc *libc = image_libc_current();

    if (libc)
        pthread_mutex_unlock(&libc->critical);
    else
        call_real("GOMP_critical_end");
}
