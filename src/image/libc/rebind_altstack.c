/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_altstack.c: sigaltstack per rank.
 *
 * The kernel has one alternate stack per OS thread, and ranks take turns on a PE's. That one is Heddle's, for
 * reports. A rank's is stored here; the handler of a rank's fault is called on it if the rank asked for that
 * (SA_ONSTACK). Handlers of other signals concern the process and run on Heddle's. A rank's other threads and
 * its children of vfork have the kernel's.
 */
#include "image/arch/image_arch.h"
#include "image/libc/rebind.h"

#include <errno.h>
#include <signal.h>

/* The smallest stack that the kernel accepts. */
enum { STACK_MIN_BYTES = 2048 };

static bool is_on(const stack_t *stack)
{
    const char *here = __builtin_frame_address(0);

    return (size_t)(here - (const char *)stack->ss_sp) < stack->ss_size;
}

static int image_libc_sigaltstack(const stack_t *wanted, stack_t *old_out)
{
    stack_t *own = image_is_on_rank() && !image_shares_memory() ? &image_libc_current()->signal_stack : NULL;
    stack_t old;

    if (!own)
        return sigaltstack(wanted, old_out);
    old = *own;
    old.ss_flags = !old.ss_size ? SS_DISABLE : is_on(own) ? SS_ONSTACK : 0;
    if (wanted) {
        if (is_on(own))
            return errno = EPERM, -1;
        if (wanted->ss_flags & ~(SS_DISABLE | SS_ONSTACK))
            return errno = EINVAL, -1;
        if (!(wanted->ss_flags & SS_DISABLE) && wanted->ss_size < STACK_MIN_BYTES)
            return errno = ENOMEM, -1;
        *own = wanted->ss_flags & SS_DISABLE ? (stack_t){.ss_size = 0} : *wanted;
    }
    if (old_out)
        *old_out = old;
    return 0;
}
IMAGE_REBINDS(image_libc_sigaltstack, "sigaltstack"); /* a fault's handler runs on the rank's own stack */

void image_altstack_call(void (*function)(void *), void *arg)
{
    const stack_t *own = image_is_on_rank() ? &image_libc_current()->signal_stack : NULL;

    if (own && own->ss_size && !is_on(own))
        image_arch_call_on_stack(function, arg, (char *)own->ss_sp + own->ss_size);
    else
        function(arg);
}
