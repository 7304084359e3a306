/* SPDX-License-Identifier: BSD-3-Clause
 *
 * asan.c: informs AddressSanitizer of ULTs.
 *
 * It keeps the bounds of each thread's stack: without the ULT's bounds, a C++ exception leaves the frames
 * that it skipped poisoned, which causes false reports. A switch is announced before it happens, start and
 * end at once; both sides are code of this library, for which the bounds do not matter.
 *
 * The sanitizer is found at run time, in every build, because a program may have it while the library has
 * not. A thread keeps the signal stack that it has: at the thread's end the sanitizer unmaps the one that
 * it finds.
 */
#include "ult/asan.h"

#include <dlfcn.h>
#include <pthread.h>

#include "ult/tls.h"

static struct {
    void (*start_switch)(void **fake_stack_save, const void *stack_lo, size_t size_bytes);
    void (*finish_switch)(void *fake_stack_save, const void **stack_lo_old, size_t *size_bytes_old);
    void (*unpoison)(const volatile void *addr, size_t size_bytes);
} asan; /* its functions; NULL: absent */

void ult_asan_init(void)
{
    if (!dlsym(RTLD_DEFAULT, "__asan_init"))
        return;
    *(void **)&asan.start_switch = dlsym(RTLD_DEFAULT, "__sanitizer_start_switch_fiber");
    *(void **)&asan.finish_switch = dlsym(RTLD_DEFAULT, "__sanitizer_finish_switch_fiber");
    *(void **)&asan.unpoison = dlsym(RTLD_DEFAULT, "__asan_unpoison_memory_region");
    if (asan.start_switch && asan.finish_switch)
        ult_switch_extras |= ULT_EXTRA_ASAN;
}

void ult_asan_create(struct ult *u)
{
    u->asan_fake_stack = NULL;
    if (asan.unpoison)
        asan.unpoison(u->stack_lo, (size_t)(u->stack_hi - u->stack_lo));
}

void ult_asan_adopt(struct ult *u)
{
    pthread_attr_t attributes;
    void *lo = NULL;
    size_t size_bytes = 0;

    if (!(ult_switch_extras & ULT_EXTRA_ASAN) || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    pthread_attr_getstack(&attributes, &lo, &size_bytes);
    pthread_attr_destroy(&attributes);
    u->stack_lo = lo;
    u->stack_hi = (char *)lo + size_bytes;
}

void ult_asan_switch(struct ult *from, const struct ult *to)
{
    asan.start_switch(from->state == ULT_ENDED ? NULL : &from->asan_fake_stack, to->stack_lo,
                      (size_t)(to->stack_hi - to->stack_lo));
    asan.finish_switch(to->asan_fake_stack, NULL, NULL);
}
