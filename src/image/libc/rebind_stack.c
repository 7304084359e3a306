/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_stack.c: the stack of a rank's main thread, for code that looks for it: garbage collectors, interpreters that limit
 * their recursion. It is that of a ULT, not of the PE's thread.
 */
#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

/* A variable of ld.so: a process's stack pointer at its start. A program that has a copy of it (COPY relocation) keeps the
 * process's value: that copy is read-only. */
extern void *__libc_stack_end;

void image_stack_init(struct image_libc *libc)
{
    libc->stack_end = __libc_stack_end;
}

void image_stack_begin(struct image_libc *libc)
{
    const struct ult *u = ult_self();

    if (!u || !u->stack_hi)
        return;
    libc->stack_lo = u->stack_lo;
    libc->stack_hi = u->stack_hi;
    libc->stack_end = u->stack_hi;
}

static int image_libc_getattr(pthread_t thread, pthread_attr_t *attr_out)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    int error = pthread_getattr_np(thread, attr_out);
    bool is_main = libc && (pthread_equal(thread, libc->main_id) ||
                            (image_is_on_rank() && pthread_equal(thread, pthread_self())));

    if (error || !is_main || !libc->stack_hi)
        return error;
    error = pthread_attr_setstack(attr_out, libc->stack_lo, (size_t)(libc->stack_hi - libc->stack_lo));
    if (error)
        pthread_attr_destroy(attr_out);
    return error;
}
IMAGE_REBINDS(image_libc_getattr, "pthread_getattr_np");

IMAGE_REBINDS_VARIABLE(IMAGE_STACK_END, "__libc_stack_end");
